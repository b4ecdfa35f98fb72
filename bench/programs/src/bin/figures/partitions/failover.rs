//! How long a shard of a cluster is away after its master was killed, and how much the other shards feel
//! of it, at one message every 2 ms.
//!
//! One of the masters has the lease, too. Its death may stop the whole fleet, so it has rows of its own.

use std::collections::HashSet;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, ensure};
use baton::{FleetName, Target};
use baton_bench::ServerProbe;
use baton_figures::{ServerProgram, TIMEOUT};
use baton_processes::{Fleet, Told};
use baton_protocol::Keys;
use baton_server::{ClusterGroup, PrivateServer};

use super::{MASTERS, NODES, PARTITIONS};
use crate::Rounds;
use crate::choice::Choice;
use crate::failover::Replica;
use crate::report::{Report, ms, percentile};

/// The pause between two questions to the replica.
const POLL: Duration = Duration::from_millis(1);
/// How long the publishes of the other shards are watched before and after.
const AROUND: Duration = Duration::from_millis(500);
const MAX_PUBLISH: Duration = Duration::from_millis(300);
const MAX_GAP: Duration = Duration::from_millis(50);
/// The fleet of `baton run` that names none.
const FLEET: &str = "default";

/// What one kill took.
struct Failover {
    /// Whether the killed master had the lease.
    has_lease: bool,
    /// From the kill until the replica said that it is the master.
    promotion: Duration,
    /// From then until a generator had published there.
    publish: Duration,
    /// The longest time without a publish to the other shards.
    gap: Duration,
    /// The same, in the time before the kill.
    quiet_gap: Duration,
}

/// The rows of each server.
pub(crate) fn of_a_shard(
    program: &Path,
    rounds: Rounds,
    choice: &Choice,
    report: &mut Report,
) -> Result<()> {
    for server in choice.servers()? {
        let kills = choice.runs.unwrap_or(rounds.shard_kills);
        let (version, failovers) = measure(program, &server, kills)?;
        let promotions: Vec<_> = failovers.iter().map(|kill| kill.promotion).collect();
        report.tell(
            &format!(
                "{version}, {MASTERS} + {MASTERS} servers, P = {PARTITIONS}, {NODES} nodes: kill -9 → promotion"
            ),
            &format!(
                "p50 {:.0} ms of {}",
                ms(percentile(&promotions, 50)),
                failovers.len()
            ),
        );
        let (lease, others): (Vec<_>, Vec<_>) =
            failovers.into_iter().partition(|kill| kill.has_lease);
        add_rows("a master without the lease", &others, report);
        add_rows("the master with the lease", &lease, report);
    }
    Ok(())
}

fn add_rows(what: &str, kills: &[Failover], report: &mut Report) {
    if kills.is_empty() {
        return;
    }
    let times = |part: fn(&Failover) -> Duration| kills.iter().map(part).collect::<Vec<_>>();
    let [publishes, gaps] = [times(|kill| kill.publish), times(|kill| kill.gap)];
    let publish = percentile(&publishes, 99);
    report.add(
        &format!("  {what}: promotion → first publish"),
        &in_words(&publishes),
        "p99 ≤ 300 ms",
        publish <= MAX_PUBLISH,
    );
    let quiet = percentile(&times(|kill| kill.quiet_gap), 100);
    let gap = percentile(&gaps, 100);
    report.add(
        "    longest gap between publishes to the others",
        &format!("{}; before {:.0} ms", in_words(&gaps), ms(quiet)),
        "≤ 50 ms",
        gap <= MAX_GAP,
    );
}

fn in_words(times: &[Duration]) -> String {
    let [p50, most] = [50, 100].map(|percent| ms(percentile(times, percent)));
    format!("p50 {p50:.0}, most {most:.0} ms of {}", times.len())
}

/// Returns the server's version, too.
fn measure(
    program: &Path,
    server: &ServerProgram,
    kills: usize,
) -> Result<(String, Vec<Failover>)> {
    let mut cluster = ClusterGroup::builder(server.builder())
        .masters(MASTERS)
        .replicas(1)
        .start()?;
    let first = Target::parse(&cluster.servers[0].url())?;
    let version = ServerProbe::open(&first)?.version()?;
    let (url, partitions) = (cluster.url(), PARTITIONS.to_string());
    let args = [
        "--redis",
        &url,
        "--interval",
        "2ms",
        "--partitions",
        &partitions,
    ];
    let mut fleet = Fleet::new(program, &args);
    fleet.start_many(NODES, TIMEOUT)?;
    let mut failovers = Vec::new();
    for kill in 0..kills {
        // The shards by turns.
        let slot = 16384 * (2 * (kill % MASTERS) + 1) / (2 * MASTERS);
        let victim = cluster.owner(u16::try_from(slot)?)?;
        let shard = shard(&cluster, victim)?;
        wait_for_all(&fleet)?;
        thread::sleep(AROUND);
        failovers.push(fail_over(&fleet, &mut cluster, victim, &shard)?);
        cluster.servers[victim].restart()?;
        wait_until_complete(&cluster)?;
    }
    Ok((version, failovers))
}

/// What a master has.
struct Shard {
    partitions: HashSet<u32>,
    has_lease: bool,
}

fn shard(cluster: &ClusterGroup, master: usize) -> Result<Shard> {
    let fleet = FleetName::new(FLEET)?;
    let is_owner = |key: &str| anyhow::Ok(cluster.owner(cluster.slot(key)?)? == master);
    let mut partitions = HashSet::new();
    for index in 0..PARTITIONS {
        if is_owner(&Keys::of_partition(&fleet, index, PARTITIONS).fence)? {
            partitions.insert(index);
        }
    }
    Ok(Shard {
        partitions,
        has_lease: is_owner(&Keys::new(&fleet).generator)?,
    })
}

/// Waits until each partition has got a message.
fn wait_for_all(fleet: &Fleet) -> Result<()> {
    let mark = fleet.mark();
    for partition in 0..PARTITIONS {
        let what = format!("a publish in partition {partition}");
        fleet.wait_for(mark, TIMEOUT, &what, |told| {
            told.is_published() && told.line.partition == Some(partition)
        })?;
    }
    Ok(())
}

/// Kills a master and waits until the fleet publishes to its successor.
fn fail_over(
    fleet: &Fleet,
    cluster: &mut ClusterGroup,
    victim: usize,
    shard: &Shard,
) -> Result<Failover> {
    let replicas = cluster.replicas_of(victim)?;
    let replica = *replicas.first().context("the master has no replica")?;
    let (killed, killed_at) = (Instant::now(), SystemTime::now());
    cluster.servers[victim].kill9();
    let promoted_at = wait_for_promotion(&cluster.servers[replica])?;
    let promotion = killed.elapsed();
    let mark = fleet.mark();
    let is_there = |told: &Told| {
        let partition = told.line.partition;
        told.is_published()
            && partition.is_some_and(|partition| shard.partitions.contains(&partition))
    };
    // A line of before the kill may be read late.
    let first = fleet.wait_for(mark, TIMEOUT, "a publish in the shard", |told| {
        is_there(told) && told.line.at >= promoted_at
    })?;
    thread::sleep(AROUND);
    let told = fleet.told();
    let mut others: Vec<SystemTime> = told
        .iter()
        .filter(|told| told.is_published() && !is_there(told))
        .map(|told| told.line.at)
        .filter(|at| *at >= killed_at - AROUND)
        .collect();
    others.sort_unstable();
    let before = others.partition_point(|at| *at < killed_at);
    Ok(Failover {
        has_lease: shard.has_lease,
        promotion,
        publish: since(first.line.at, promoted_at),
        // The gap at the kill belongs to what is behind it.
        gap: longest_gap(&others[before.saturating_sub(1)..]),
        quiet_gap: longest_gap(&others[..before]),
    })
}

/// Waits until a replica says that it is a master. The log of a node has milliseconds, so this has, too.
fn wait_for_promotion(replica: &PrivateServer) -> Result<SystemTime> {
    let began = Instant::now();
    let mut replica = Replica::new(replica);
    while !replica.is_promoted() {
        ensure!(began.elapsed() < TIMEOUT, "the replica was not promoted");
        thread::sleep(POLL);
    }
    Ok(SystemTime::now() - Duration::from_millis(1))
}

fn longest_gap(times: &[SystemTime]) -> Duration {
    let gaps = times.windows(2).map(|pair| since(pair[1], pair[0]));
    gaps.max().unwrap_or_default()
}

fn since(later: SystemTime, earlier: SystemTime) -> Duration {
    later.duration_since(earlier).unwrap_or_default()
}

fn wait_until_complete(cluster: &ClusterGroup) -> Result<()> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        match cluster.check_complete() {
            Err(_) if Instant::now() < deadline => thread::sleep(POLL * 20),
            complete => return Ok(complete?),
        }
    }
}
