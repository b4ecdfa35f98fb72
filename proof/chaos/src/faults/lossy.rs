//! A failover that forgets: the master acknowledges writes that no replica gets, and dies.
//!
//! To pause the replicas is not always enough: what the master sends them waits in their sockets, and a
//! replica of Valkey reads it when it goes on. So the master's connections to the paused replicas are
//! cut, too, as a broken network between the machines would do.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use baton::FleetName;
use baton_processes::Info;
use baton_protocol::Keys;

use super::failover::wait_for_another_master;
use super::member::AS_REPLICA;
use super::{Fault, Note};
use crate::arena::{Arena, FLEET};
use crate::group::{Member, Rejoin, Shard};
use crate::rng::Rng;

/// The master takes writes alone for at least this long, in ms: at least, and at most. A node's `WAIT`
/// blocks for 500 ms, so now and then it is answered, by too few replicas.
const ALONE_MS: (u64, u64) = (400, 1500);
/// Longest wait for a publish or a commit that only the master has.
const FIRST_ENTRY: Duration = Duration::from_secs(5);

pub(super) struct Lossy {
    with_generator: bool,
    rng: Rng,
    paused: Vec<usize>,
    dead: Option<Dead>,
}

/// The master that died.
struct Dead {
    shard: Shard,
    server: usize,
    /// How far its history went.
    offset: f64,
    /// How many entries its ledgers got that no replica has.
    entries: u64,
}

impl Lossy {
    pub(super) fn new(with_generator: bool, rng: Rng) -> Self {
        Self {
            with_generator,
            rng,
            paused: Vec::new(),
            dead: None,
        }
    }

    /// Pauses the replicas and lets the master of a shard take writes alone.
    fn leave_alone(&mut self, arena: &mut Arena, shard: Shard, server: usize) -> Result<Dead> {
        let ledgers = ledgers(arena, server)?;
        for replica in arena.group()?.replicas(server)? {
            arena.group()?.process(Member::Server(replica))?.pause()?;
            self.paused.push(replica);
        }
        let mut redis = arena.group()?.connect(server)?;
        let mut cut = redis::cmd("CLIENT");
        cut.arg("KILL").arg("TYPE").arg("replica");
        cut.exec(&mut redis)?;
        let alone = Duration::from_millis(self.rng.between(ALONE_MS.0, ALONE_MS.1));
        let (began, shared) = (Instant::now(), count_entries(&mut redis, &ledgers)?);
        loop {
            let entries = count_entries(&mut redis, &ledgers)?.saturating_sub(shared);
            if entries > 0 && began.elapsed() >= alone {
                let replication = Info::read(&mut redis, "replication")?;
                return Ok(Dead {
                    shard,
                    server,
                    offset: replication.number("master_repl_offset")?,
                    entries,
                });
            }
            ensure!(began.elapsed() < FIRST_ENTRY, "the fleet wrote nothing");
            arena.stop.pause_poll()?;
        }
    }

    fn resume(&mut self, arena: &mut Arena) -> Result<()> {
        for replica in self.paused.drain(..) {
            arena.group()?.process(Member::Server(replica))?.resume()?;
        }
        Ok(())
    }
}

impl Fault for Lossy {
    fn inject(&mut self, arena: &mut Arena, note: &mut Note) -> Result<()> {
        let generator = match self.with_generator {
            true => Some(arena.generator().context("no node generates")?),
            false => None,
        };
        let shard = arena.group()?.pick_shard(&mut self.rng)?;
        let master = arena.group()?.master(shard)?;
        arena.begin_failover(master)?;
        let dead = self.leave_alone(arena, shard, master)?;
        note.targets = arena.labels(generator.as_slice());
        arena.group()?.process(Member::Server(master))?.kill9();
        self.dead = Some(dead);
        if let Some(generator) = generator {
            arena.kill(generator)?;
        }
        self.resume(arena)
    }

    fn lift(&mut self, arena: &mut Arena, note: &mut Note) -> Result<()> {
        self.resume(arena)?;
        let Some(dead) = &self.dead else {
            return Ok(());
        };
        let how = match self.rng.chance(AS_REPLICA) {
            true => Rejoin::AsReplica,
            false => Rejoin::AsItWas,
        };
        let new = wait_for_another_master(arena, dead.shard, dead.server)?;
        let replication = Info::read(&mut arena.group()?.connect(new)?, "replication")?;
        let forgotten = dead.offset + 1.0 - replication.number("second_repl_offset")?;
        let server = Member::Server(dead.server);
        let how = arena.group()?.restart(server, how)?;
        note.text = match forgotten > 0.0 {
            true => format!(
                "{} lacks {forgotten} bytes, {} publishes and commits; {server} back {how}",
                Member::Server(new),
                dead.entries,
            ),
            false => "not done: nothing was forgotten".to_owned(),
        };
        Ok(())
    }
}

/// The ledgers that a master has.
fn ledgers(arena: &mut Arena, master: usize) -> Result<Vec<String>> {
    let (fleet, count) = (FleetName::new(FLEET)?, arena.settings.partitions);
    let partitions = arena.group()?.partitions_of(master)?.into_iter();
    let ledger = |index| Keys::of_partition(&fleet, index, count).ledger;
    Ok(partitions.map(ledger).collect())
}

/// How many publishes and commits are in these ledgers of a server.
fn count_entries(redis: &mut redis::Connection, ledgers: &[String]) -> Result<u64> {
    let length = |ledger| redis::cmd("LLEN").arg(ledger).query::<u64>(redis);
    let lengths: Result<Vec<u64>, _> = ledgers.iter().map(length).collect();
    Ok(lengths?.iter().sum())
}
