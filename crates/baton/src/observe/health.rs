//! Whether a fleet is well. Health means consumption: a fleet whose nodes all live and whose
//! backlog does not move is unhealthy.

use std::time::Duration;

use baton_protocol::bounds::MAX_TTL_MS;
use serde::Serialize;
use tokio::time::Instant;

use crate::node::config::{CLAIM_TTL, LEASE_TTL};
use crate::observe::snapshot::{NodeRole, NodeStatus, Snapshot};

/// A backlog may stand still for as long as this many claims live, one after the other.
const STALLED_CLAIMS: u32 = 3;

/// How long a fleet may go without a sign of life before it is unhealthy.
///
/// Give a watch the times to live that the nodes of its fleet have:
///
/// ```
/// # use std::time::Duration;
/// use baton::inspect::Limits;
///
/// let limits = Limits::new(Duration::from_secs(1), Duration::from_secs(5));
/// # let _ = limits;
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    lease_ttl: Duration,
    claim_ttl: Duration,
}

impl Limits {
    /// Allows `lease_ttl` without an answer from Redis, for any partition, or a renewal of the lease, `claim_ttl` without a
    /// worker whose handler can work, as long without confirmed writes or with a server that refuses the
    /// generator's messages, and three times `claim_ttl` without an end of any waiting
    /// message.
    pub fn new(lease_ttl: Duration, claim_ttl: Duration) -> Self {
        Self {
            lease_ttl,
            claim_ttl,
        }
    }
}

/// The limits of a fleet whose nodes have the default settings.
impl Default for Limits {
    fn default() -> Self {
        Self::new(LEASE_TTL, CLAIM_TTL)
    }
}

/// Whether a fleet is well, and if not, why.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Health {
    /// What is wrong, one sentence each, such as `no generator has renewed the lease for 4.0 s`.
    /// Empty if the fleet is well.
    pub troubles: Vec<String>,
}

impl Health {
    /// Whether nothing is wrong.
    pub fn is_well(&self) -> bool {
        self.troubles.is_empty()
    }
}

/// Remembers when a watch saw each sign of life last, and derives the health from that.
#[derive(Debug)]
pub(crate) struct HealthMonitor {
    limits: Limits,
    /// When the watch last read the fleet; at first, when the watch began.
    read_at: Instant,
    /// The signs of life at that time; none before the first snapshot.
    signs: Option<SignsOfLife>,
}

/// The signs of life in the latest snapshot, and since when they have been the same.
#[derive(Debug)]
struct SignsOfLife {
    /// Epoch and end of the lease, if a living node holds it.
    lease: Option<(u64, u64)>,
    /// How long leases of this fleet live; none before a snapshot had one.
    lease_ttl: Option<Duration>,
    renewed_at: Instant,
    /// How many messages had ended.
    ended: u64,
    /// When a message last ended, or none waited, or the workers were paused.
    moved_at: Instant,
    /// When a handler could last work, as far as the nodes say, or had not to.
    able_at: Instant,
    /// When the nodes could last confirm their writes, as far as they say.
    confirmed_at: Instant,
    /// When the server last took the generator's messages, as far as the generator says.
    taken_at: Instant,
    /// When the watch could last read all partitions.
    whole_at: Instant,
    /// Why it could not read all of them now.
    unread: Vec<String>,
    pending: u64,
    /// How many living nodes generate no more, because their sources cannot go on.
    gave_up: usize,
}

impl HealthMonitor {
    /// `every` is the time between two snapshots. A single failed read does not make a fleet
    /// unhealthy, even if its leases live for less than that time.
    pub(crate) fn new(limits: Limits, every: Duration) -> Self {
        Self {
            limits: Limits {
                lease_ttl: limits.lease_ttl.max(every.saturating_mul(3) / 2),
                ..limits
            },
            read_at: Instant::now(),
            signs: None,
        }
    }

    /// Takes the next snapshot.
    pub(crate) fn add(&mut self, snapshot: &Snapshot, now: Instant) {
        let generator = &snapshot.generator;
        let lease = generator.node.as_ref();
        let lease = lease.map(|_| (generator.epoch, generator.until_ms));
        let lease_ttl = lease_ttl(snapshot).or(self.signs.as_ref().and_then(|last| last.lease_ttl));
        let ended = snapshot.done + snapshot.failed;
        // The first snapshot does not tell how long the fleet has been like this.
        let (mut renewed_at, mut moved_at, mut able_at) = (now, now, now);
        let (mut confirmed_at, mut taken_at, mut whole_at) = (now, now, now);
        let unread = snapshot.partition_troubles();
        if let Some(last) = &self.signs {
            if lease.is_none() || lease == last.lease {
                renewed_at = last.renewed_at;
            }
            // Different, not more: a fleet that lost its data counts from 0 again.
            let may_move = snapshot.paused.workers_since_ms.is_none();
            if snapshot.pending > 0 && may_move && ended == last.ended {
                moved_at = last.moved_at;
            }
            if no_handler_can_work(snapshot) && may_move && ended == last.ended {
                able_at = last.able_at;
            }
            if writes_are_not_confirmed(snapshot) {
                confirmed_at = last.confirmed_at;
            }
            if messages_are_refused(snapshot) {
                taken_at = last.taken_at;
            }
            if !unread.is_empty() {
                whole_at = last.whole_at;
            }
        }
        self.read_at = now;
        self.signs = Some(SignsOfLife {
            lease,
            lease_ttl,
            renewed_at,
            ended,
            moved_at,
            able_at,
            confirmed_at,
            taken_at,
            whole_at,
            unread,
            pending: snapshot.pending,
            gave_up: gave_up(snapshot),
        });
    }

    /// The health now; `trouble` is why the latest read failed, if it did.
    pub(crate) fn health(&self, now: Instant, trouble: Option<&str>) -> Health {
        let Limits {
            lease_ttl,
            claim_ttl,
        } = self.limits;
        let unread = overdue(self.read_at, now, lease_ttl, "the fleet could not be read");
        let troubles = match (&self.signs, unread) {
            // The last snapshot is too old to tell what else is wrong.
            (_, Some(unread)) => vec![match trouble {
                Some(trouble) => format!("{unread}: {trouble}"),
                None => unread,
            }],
            (None, None) => Vec::new(),
            (Some(signs), None) => {
                let unheld = "no generator has renewed the lease";
                let gave_up = match signs.gave_up {
                    0 => String::new(),
                    1 => "; the source of 1 node gave up".to_owned(),
                    nodes => format!("; the sources of {nodes} nodes gave up"),
                };
                let unable = "no worker's handler could work";
                let unconfirmed = "writes were not confirmed";
                let refused = "the server took no messages of the generator";
                let unread = "not all partitions could be read";
                let stalled = format!("{} messages wait and none has ended", signs.pending);
                let max_unheld = lease_ttl.max(signs.lease_ttl.unwrap_or_default());
                let max_stalled = claim_ttl.saturating_mul(STALLED_CLAIMS);
                // The monitor knows nothing of the time since the last snapshot.
                let until = self.read_at;
                [
                    overdue(signs.renewed_at, until, max_unheld, unheld)
                        .map(|unheld| unheld + &gave_up),
                    overdue(signs.able_at, until, claim_ttl, unable),
                    overdue(signs.confirmed_at, until, claim_ttl, unconfirmed),
                    overdue(signs.taken_at, until, claim_ttl, refused),
                    overdue(signs.whole_at, until, lease_ttl, unread)
                        .map(|words| format!("{words}: {}", signs.unread.join("; "))),
                    overdue(signs.moved_at, until, max_stalled, &stalled),
                ]
                .into_iter()
                .flatten()
                .collect()
            }
        };
        Health { troubles }
    }
}

/// The trouble `words`, if it has lasted for longer than `max`.
fn overdue(since: Instant, until: Instant, max: Duration, words: &str) -> Option<String> {
    let lasted = until.saturating_duration_since(since);
    (lasted > max).then(|| format!("{words} for {:.1} s", lasted.as_secs_f64()))
}

/// Whether every worker says that its handler cannot work. A generator that works may say so, too.
pub(crate) fn no_handler_can_work(snapshot: &Snapshot) -> bool {
    let living = || {
        let nodes = snapshot.nodes.iter();
        nodes.filter(|node| node.role != NodeRole::Dead)
    };
    let cannot_work = |node: &NodeStatus| node.handler_trouble.is_some();
    living().any(cannot_work)
        && living().all(|node| node.role == NodeRole::Generator || cannot_work(node))
}

/// Whether the generator, or every worker, says that its writes are not confirmed: then no message is
/// published for good, or none ends for good. One node alone may wait for more replicas than there are.
pub(crate) fn writes_are_not_confirmed(snapshot: &Snapshot) -> bool {
    let nodes = |role| {
        let nodes = snapshot.nodes.iter();
        nodes.filter(move |node| node.role == role)
    };
    let is_unconfirmed = |node: &NodeStatus| node.durability_trouble.is_some();
    nodes(NodeRole::Generator).any(is_unconfirmed)
        || nodes(NodeRole::Worker).next().is_some() && nodes(NodeRole::Worker).all(is_unconfirmed)
}

/// Whether the generator says that the server refuses its messages.
pub(crate) fn messages_are_refused(snapshot: &Snapshot) -> bool {
    let mut nodes = snapshot.nodes.iter();
    nodes.any(|node| node.role == NodeRole::Generator && node.publish_trouble.is_some())
}

fn gave_up(snapshot: &Snapshot) -> usize {
    let living = snapshot.nodes.iter();
    let living = living.filter(|node| node.role != NodeRole::Dead);
    living.filter(|node| node.source_trouble.is_some()).count()
}

/// How long the lease lives: from its holder's last beat to its end. The nodes may have been
/// started with another time to live than the watch.
fn lease_ttl(snapshot: &Snapshot) -> Option<Duration> {
    let generator = snapshot.generator.node.as_ref()?;
    let mut nodes = snapshot.nodes.iter();
    let holder = nodes.find(|node| &node.node == generator)?;
    let ms = snapshot.generator.until_ms.checked_sub(holder.seen_ms)?;
    Some(Duration::from_millis(ms.min(MAX_TTL_MS)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::partitions::PartitionSnapshot;
    use crate::observe::snapshot::GeneratorStatus;

    const EVERY: Duration = Duration::from_secs(1);
    const LIMITS: Limits = Limits {
        lease_ttl: Duration::from_secs(3),
        claim_ttl: Duration::from_secs(5),
    };

    /// A fleet with this end of its lease, so many waiting messages and so many done ones.
    fn fleet(until_ms: Option<u64>, pending: u64, done: u64) -> Snapshot {
        Snapshot {
            generator: GeneratorStatus {
                node: until_ms.map(|_| "g".to_owned()),
                epoch: 1,
                until_ms: until_ms.unwrap_or_default(),
                ..GeneratorStatus::default()
            },
            pending,
            done,
            ..Snapshot::default()
        }
    }

    /// The troubles at second `now`, after snapshots at these seconds.
    fn troubles(limits: Limits, snapshots: &[(u64, Snapshot)], now: u64) -> Vec<String> {
        let mut monitor = HealthMonitor::new(limits, EVERY);
        let start = monitor.read_at;
        let at = |second| start + Duration::from_secs(second);
        for (second, snapshot) in snapshots {
            monitor.add(snapshot, at(*second));
        }
        monitor.health(at(now), None).troubles
    }

    #[test]
    fn a_fleet_that_renews_and_consumes_is_well() {
        let snapshots: Vec<_> = (0..60)
            .map(|second| (second, fleet(Some(second * 1000), 10, second)))
            .collect();
        assert_eq!(troubles(LIMITS, &snapshots, 60), [""; 0]);
    }

    #[test]
    fn a_watch_has_the_time_of_a_lease_to_read_a_fleet_for_the_first_time() {
        assert_eq!(troubles(LIMITS, &[], 3), [""; 0]);
        assert_eq!(
            troubles(LIMITS, &[], 4),
            ["the fleet could not be read for 4.0 s"]
        );
    }

    #[test]
    fn a_fleet_whose_sources_all_gave_up_has_that_in_its_trouble() {
        let gave_up = NodeStatus {
            role: NodeRole::Worker,
            source_trouble: Some("line 7: no JSON".to_owned()),
            ..NodeStatus::default()
        };
        let dead = NodeStatus {
            role: NodeRole::Dead,
            ..gave_up.clone()
        };
        let fleet = |nodes: &[&NodeStatus]| Snapshot {
            nodes: nodes.iter().map(|node| (*node).clone()).collect(),
            ..fleet(None, 0, 0)
        };
        let one = [0, 4].map(|at| (at, fleet(&[&gave_up, &dead])));
        assert_eq!(
            troubles(LIMITS, &one, 4),
            ["no generator has renewed the lease for 4.0 s; the source of 1 node gave up"]
        );
        let two = [0, 4].map(|at| (at, fleet(&[&gave_up, &gave_up])));
        assert_eq!(
            troubles(LIMITS, &two, 4),
            ["no generator has renewed the lease for 4.0 s; the sources of 2 nodes gave up"]
        );
    }

    #[test]
    fn a_fleet_whose_writes_are_not_confirmed_for_long_is_unhealthy() {
        let node = |role, is_confirmed: bool| NodeStatus {
            role,
            durability_trouble: (!is_confirmed).then(|| "1 of 2 replicas".to_owned()),
            ..NodeStatus::default()
        };
        let fleet = |second, generator, workers: [bool; 2]| {
            let mut nodes = vec![node(NodeRole::Generator, generator)];
            nodes.extend(workers.map(|worker| node(NodeRole::Worker, worker)));
            nodes.push(node(NodeRole::Dead, false));
            let mut fleet = fleet(Some(second), 0, second);
            fleet.nodes = nodes;
            (second, fleet)
        };
        let lasts = |generator, workers| [0, 3, 6].map(|at| fleet(at, generator, workers));
        let unhealthy = ["writes were not confirmed for 6.0 s"];
        assert_eq!(troubles(LIMITS, &lasts(false, [true; 2]), 6), unhealthy);
        assert_eq!(troubles(LIMITS, &lasts(true, [false; 2]), 6), unhealthy);
        // The fleet goes on without one worker.
        let one = lasts(true, [false, true]);
        assert_eq!(troubles(LIMITS, &one, 6), [""; 0]);
        // It may last for as long as a claim lives.
        let short = [0, 3, 5].map(|at| fleet(at, false, [false; 2]));
        assert_eq!(troubles(LIMITS, &short, 5), [""; 0]);
    }

    #[test]
    fn a_fleet_with_a_partition_that_cannot_be_read_for_long_is_unhealthy() {
        let fleet = |second, trouble: Option<&str>| {
            let mut fleet = fleet(Some(second), 0, second);
            fleet.partitions = [None, trouble]
                .map(|trouble| PartitionSnapshot {
                    trouble: trouble.map(str::to_owned),
                    ..PartitionSnapshot::default()
                })
                .to_vec();
            fleet.partitions[1].partition = 1;
            (second, fleet)
        };
        let lasts = [0, 2, 4].map(|at| fleet(at, Some("refused")));
        assert_eq!(
            troubles(LIMITS, &lasts, 4),
            ["not all partitions could be read for 4.0 s: partition 1 cannot be read: refused"]
        );
        assert_eq!(troubles(LIMITS, &lasts[..2], 3), [""; 0]);
        let mut at_times = lasts.to_vec();
        at_times[1] = fleet(2, None);
        assert_eq!(troubles(LIMITS, &at_times, 4), [""; 0]);
    }

    #[test]
    fn lost_messages_are_history_and_do_not_make_a_fleet_unhealthy() {
        let snapshots = [0, 3, 6, 9].map(|second| {
            let mut fleet = fleet(Some(second), 0, second);
            fleet.void = 12;
            (second, fleet)
        });
        assert_eq!(troubles(LIMITS, &snapshots, 9), [""; 0]);
    }

    #[test]
    fn a_fleet_whose_generator_cannot_publish_for_long_is_unhealthy() {
        let fleet = |second, role, trouble: Option<&str>| {
            let mut fleet = fleet(Some(second), 0, second);
            fleet.nodes = vec![NodeStatus {
                role,
                publish_trouble: trouble.map(str::to_owned),
                ..NodeStatus::default()
            }];
            (second, fleet)
        };
        let lasts = |role| [0, 3, 6].map(|at| fleet(at, role, Some("OOM")));
        let full = lasts(NodeRole::Generator);
        let unhealthy = ["the server took no messages of the generator for 6.0 s"];
        assert_eq!(troubles(LIMITS, &full, 6), unhealthy);
        assert_eq!(troubles(LIMITS, &full[..2], 3), [""; 0]);
        for role in [NodeRole::Worker, NodeRole::Dead] {
            assert_eq!(troubles(LIMITS, &lasts(role), 6), [""; 0]);
        }
        // A message in between shows that the server has room at times.
        let mut at_times = full.to_vec();
        at_times[1] = fleet(3, NodeRole::Generator, None);
        assert_eq!(troubles(LIMITS, &at_times, 6), [""; 0]);
    }

    #[test]
    fn a_fleet_that_cannot_be_read_has_the_reason_in_its_trouble() {
        let monitor = HealthMonitor::new(LIMITS, EVERY);
        let late = monitor.read_at + Duration::from_secs(4);
        assert_eq!(
            monitor.health(late, Some("WRONGPASS")).troubles,
            ["the fleet could not be read for 4.0 s: WRONGPASS"]
        );
    }

    #[test]
    fn a_fleet_that_cannot_be_read_has_that_trouble_alone() {
        // Its generator was gone and its backlog stood, too, but that may have changed.
        let snapshots = [(0, fleet(None, 10, 0)), (20, fleet(None, 10, 0))];
        assert_eq!(
            troubles(LIMITS, &snapshots, 24),
            ["the fleet could not be read for 4.0 s"]
        );
        assert_eq!(troubles(LIMITS, &snapshots, 23).len(), 2);
    }

    #[test]
    fn time_without_a_snapshot_does_not_count_as_time_without_a_renewal() {
        let snapshots = [(0, fleet(Some(1), 10, 0)), (3, fleet(Some(1), 10, 0))];
        assert_eq!(troubles(LIMITS, &snapshots, 6), [""; 0]);
    }

    #[test]
    fn one_failed_read_does_not_make_a_fleet_unhealthy_however_short_its_leases_are() {
        let limits = Limits {
            lease_ttl: Duration::from_millis(200),
            ..LIMITS
        };
        let snapshots = [(0, fleet(Some(1), 0, 0))];
        assert_eq!(troubles(limits, &snapshots, 1), [""; 0]);
        assert_eq!(troubles(limits, &snapshots, 2).len(), 1);
    }

    #[test]
    fn a_lease_without_a_renewal_is_unhealthy_whether_its_holder_lives_or_not() {
        for lease in [None, Some(1000)] {
            let snapshots: Vec<_> = (0..=4)
                .map(|second| (second, fleet(lease, 0, second)))
                .collect();
            assert_eq!(troubles(LIMITS, &snapshots[..4], 3), [""; 0]);
            assert_eq!(
                troubles(LIMITS, &snapshots, 4),
                ["no generator has renewed the lease for 4.0 s"]
            );
        }
        // The next generator makes the fleet healthy again.
        let renewed = [
            (0, fleet(Some(1000), 0, 0)),
            (10, fleet(None, 0, 0)),
            (11, fleet(Some(9000), 0, 0)),
        ];
        assert_eq!(troubles(LIMITS, &renewed, 11), [""; 0]);
        assert_eq!(troubles(LIMITS, &renewed[..2], 10).len(), 1);
    }

    #[test]
    fn a_lease_that_lives_longer_than_the_watch_expects_has_its_own_limit() {
        // Renewed in second 0, for ten seconds.
        let leased = || {
            let mut snapshot = fleet(Some(10_000), 0, 0);
            snapshot.nodes = vec![NodeStatus {
                node: "g".to_owned(),
                seen_ms: 0,
                ..NodeStatus::default()
            }];
            snapshot
        };
        let snapshots = [(0, leased()), (9, leased())];
        assert_eq!(troubles(LIMITS, &snapshots, 9), [""; 0]);
        // Its holder died then, and no node took the lease.
        let snapshots = [(0, leased()), (9, leased()), (11, fleet(None, 0, 0))];
        assert_eq!(
            troubles(LIMITS, &snapshots, 11),
            ["no generator has renewed the lease for 11.0 s"]
        );
    }

    #[test]
    fn a_backlog_that_stands_still_for_three_claims_is_unhealthy() {
        let stands = |pending, done: fn(u64) -> u64| -> Vec<_> {
            (0..=16)
                .map(|second| (second, fleet(Some(second), pending, done(second))))
                .collect()
        };
        let standing = stands(7, |_| 5);
        assert_eq!(troubles(LIMITS, &standing[..16], 15), [""; 0]);
        assert_eq!(
            troubles(LIMITS, &standing, 16),
            ["7 messages wait and none has ended for 16.0 s"]
        );
        // Nothing waits; or one message ends now and then; or the counters begin at 0 again.
        assert_eq!(troubles(LIMITS, &stands(0, |_| 5), 16), [""; 0]);
        assert_eq!(
            troubles(LIMITS, &stands(7, |second| second / 10), 16),
            [""; 0]
        );
        assert_eq!(
            troubles(LIMITS, &stands(7, |second| 9 - second / 10), 16),
            [""; 0]
        );
    }

    #[test]
    fn a_backlog_of_paused_workers_is_well_and_has_its_time_anew_when_they_go_on() {
        let paused_until = |resumed: u64, until: u64| -> Vec<_> {
            (0..=until)
                .map(|second| {
                    let mut snapshot = fleet(Some(second), 7, 5);
                    snapshot.paused.workers_since_ms = (second < resumed).then_some(1);
                    (second, snapshot)
                })
                .collect()
        };
        assert_eq!(troubles(LIMITS, &paused_until(60, 59), 59), [""; 0]);
        assert_eq!(troubles(LIMITS, &paused_until(60, 74), 74), [""; 0]);
        assert_eq!(
            troubles(LIMITS, &paused_until(60, 75), 75),
            ["7 messages wait and none has ended for 16.0 s"]
        );
    }

    #[test]
    fn a_failed_message_has_ended_too() {
        let snapshots: Vec<_> = (0..=16)
            .map(|second| {
                let mut snapshot = fleet(Some(second), 7, 0);
                snapshot.failed = second;
                (second, snapshot)
            })
            .collect();
        assert_eq!(troubles(LIMITS, &snapshots, 16), [""; 0]);
    }

    #[test]
    fn a_fleet_in_which_no_handler_works_is_unhealthy_after_a_claim() {
        let node = |role, trouble: Option<&str>| NodeStatus {
            role,
            handler_trouble: trouble.map(str::to_owned),
            ..NodeStatus::default()
        };
        let (worker, generator) = (NodeRole::Worker, NodeRole::Generator);
        let broken = Some("exit code 127");
        let after = |nodes: &[NodeStatus], done: fn(u64) -> u64, seconds| {
            let snapshots: Vec<_> = (0..=seconds)
                .map(|second| {
                    let mut snapshot = fleet(Some(second), 7, done(second));
                    snapshot.nodes = nodes.to_vec();
                    (second, snapshot)
                })
                .collect();
            troubles(LIMITS, &snapshots, seconds)
        };
        let all_broken = [
            node(generator, None),
            node(worker, broken),
            node(worker, broken),
        ];
        assert_eq!(after(&all_broken, |_| 5, 5), [""; 0]);
        let unhealthy = ["no worker's handler could work for 6.0 s"];
        assert_eq!(after(&all_broken, |_| 5, 6), unhealthy);
        assert_eq!(after(&[node(generator, broken)], |_| 5, 6), unhealthy);
        // Messages end: the generator works, too.
        assert_eq!(after(&all_broken, |second| second, 6), [""; 0]);
        // Another worker's handler can work; the broken one is dead; there is no worker.
        for nodes in [
            vec![node(worker, broken), node(worker, None)],
            vec![node(generator, None), node(NodeRole::Dead, broken)],
            vec![node(generator, None)],
        ] {
            assert_eq!(after(&nodes, |_| 5, 6), [""; 0]);
        }
    }

    #[test]
    fn the_time_before_the_first_snapshot_does_not_make_a_fleet_unhealthy() {
        // Redis was away for the first minute; now there is a backlog and no generator yet.
        let snapshots = [(60, fleet(None, 10, 0))];
        assert_eq!(troubles(LIMITS, &snapshots, 61), [""; 0]);
    }
}
