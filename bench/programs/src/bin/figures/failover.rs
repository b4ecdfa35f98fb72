//! How long a fleet needs after a failover: from the moment at which a replica is the master to the first
//! publish and the first commit there.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use baton_figures::{ServerProgram, TIMEOUT, fleet_at};
use baton_processes::{Fleet, Told};
use baton_server::{PrivateServer, SentinelGroup};
use redis::{Connection, Value};

use crate::Rounds;
use crate::choice::Choice;
use crate::report::{Report, ms, percentile};

/// The pause between two questions to each replica.
const POLL: Duration = Duration::from_millis(1);
/// How long a master may be silent until a Sentinel takes it for dead.
const DOWN_AFTER: Duration = Duration::from_secs(1);
const GOAL: Duration = Duration::from_millis(300);

/// What one failover took.
struct Failover {
    /// From the kill until a replica said that it is the master.
    promotion: Duration,
    /// From then until a generator had published there.
    publish: Duration,
    /// And until a worker had committed there.
    commit: Duration,
}

/// Two rows for each server.
pub(crate) fn of_a_master(
    program: &Path,
    rounds: Rounds,
    choice: &Choice,
    report: &mut Report,
) -> Result<()> {
    for server in choice.servers()? {
        let failovers = measure(program, &server, rounds.failovers)?;
        let times =
            |part: fn(&Failover) -> Duration| failovers.iter().map(part).collect::<Vec<_>>();
        let promotion = percentile(&times(|failover| failover.promotion), 50);
        report.tell(
            &format!("{}: kill -9 of the master → promotion", server.name),
            &format!("p50 {:.0} ms of {}", ms(promotion), failovers.len()),
        );
        report.times(
            "  promotion → first publish",
            &times(|failover| failover.publish),
            GOAL,
        );
        report.times(
            "  promotion → first commit",
            &times(|failover| failover.commit),
            GOAL,
        );
    }
    Ok(())
}

fn measure(program: &Path, server: &ServerProgram, rounds: usize) -> Result<Vec<Failover>> {
    let mut group = SentinelGroup::builder(server.builder())
        .down_after(DOWN_AFTER)
        .start()?;
    let fleet = fleet_at(program, &group.url(), 4, "--interval 5ms")?;
    let mut failovers = Vec::new();
    for _ in 0..rounds {
        fleet.wait_for(fleet.mark(), TIMEOUT, "a commit", Told::is_processed)?;
        let old = group.master().context("the Sentinels name no master")?;
        failovers.push(fail_over(&fleet, &mut group.servers, old)?);
        let new = wait_for_another_master(&group, old)?;
        follow(&mut group.servers, old, new)?;
    }
    Ok(failovers)
}

/// Kills the master and waits until the fleet works on its successor.
fn fail_over(fleet: &Fleet, servers: &mut [PrivateServer], old: usize) -> Result<Failover> {
    servers[old].kill9();
    let killed = Instant::now();
    let replicas = servers.iter().enumerate().filter(|(at, _)| *at != old);
    let mut replicas: Vec<_> = replicas.map(|(_, server)| Replica::new(server)).collect();
    while !replicas.iter_mut().any(Replica::is_promoted) {
        ensure!(killed.elapsed() < TIMEOUT, "no replica was promoted");
        thread::sleep(POLL);
    }
    let promoted = Instant::now();
    // Nothing was published since the kill, so the first line after the promotion is the one.
    let mark = fleet.mark();
    let publish = fleet.wait_for(mark, TIMEOUT, "a publish", Told::is_published)?;
    let commit = fleet.wait_for(mark, TIMEOUT, "a commit", Told::is_processed)?;
    Ok(Failover {
        promotion: promoted - killed,
        publish: publish.at - promoted,
        commit: commit.at - promoted,
    })
}

fn wait_for_another_master(group: &SentinelGroup, old: usize) -> Result<usize> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        match group.master() {
            Some(new) if new != old => return Ok(new),
            _ => ensure!(
                Instant::now() < deadline,
                "the Sentinels kept the old master"
            ),
        }
        thread::sleep(POLL);
    }
}

/// Starts the old master again, and waits until the new one has all others as replicas.
fn follow(servers: &mut [PrivateServer], old: usize, new: usize) -> Result<()> {
    servers[old].restart()?;
    let deadline = Instant::now() + TIMEOUT;
    // A Sentinel that makes a server a replica closes its connections.
    while !is_followed(servers, new).unwrap_or_default() {
        ensure!(Instant::now() < deadline, "a replica does not follow");
        thread::sleep(POLL * 20);
    }
    Ok(())
}

/// Makes all other servers replicas of this one, which Sentinels would do seconds later. Returns whether
/// they are.
fn is_followed(servers: &[PrivateServer], master: usize) -> Result<bool> {
    let port = servers[master].port();
    let replicas = servers.iter().filter(|server| server.port() != port);
    for replica in replicas {
        let mut command = redis::cmd("REPLICAOF");
        command.arg("127.0.0.1").arg(port);
        let () = command.query(&mut connect(replica)?)?;
    }
    let mut command = redis::cmd("INFO");
    command.arg("replication");
    let info: String = command.query(&mut connect(&servers[master])?)?;
    Ok(info.matches("state=online").count() + 1 == servers.len())
}

fn connect(server: &PrivateServer) -> Result<Connection> {
    Ok(redis::Client::open(server.url())?.get_connection()?)
}

/// A replica that is asked for its role.
pub(crate) struct Replica<'a> {
    server: &'a PrivateServer,
    /// A promotion closes it.
    connection: Option<Connection>,
}

impl<'a> Replica<'a> {
    pub(crate) fn new(server: &'a PrivateServer) -> Self {
        let connection = None;
        Self { server, connection }
    }

    pub(crate) fn is_promoted(&mut self) -> bool {
        self.role()
            .inspect_err(|_| self.connection = None)
            .is_ok_and(|role| role == Value::BulkString(b"master".to_vec()))
    }

    fn role(&mut self) -> Result<Value> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => none.insert(connect(self.server)?),
        };
        let role: Vec<Value> = redis::cmd("ROLE").query(connection)?;
        role.into_iter().next().context("a server without a role")
    }
}
