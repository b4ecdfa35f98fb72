//! Whether a fleet is well. Health means consumption: a fleet whose nodes all live and whose
//! backlog does not move is ill.

use std::time::Duration;

use baton_protocol::bounds::MAX_TTL_MS;
use serde::Serialize;
use tokio::time::Instant;

use crate::node::config::{CLAIM_TTL, LEASE_TTL};
use crate::observe::snapshot::Snapshot;

/// How many times a claim may run out before a backlog that does not move is an illness.
const STALLED_CLAIMS: u32 = 3;

/// How long a fleet may go without a sign of life before it is unhealthy: the times to live of its
/// leases and claims.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    lease_ttl: Duration,
    claim_ttl: Duration,
}

impl Limits {
    /// Redis may be gone, and the lease may stay without renewal, for `lease_ttl`. A backlog may
    /// stand still for three times `claim_ttl`.
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

/// How a fleet is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Health {
    /// What is wrong, in plain words; nothing if all is well.
    pub troubles: Vec<String>,
}

impl Health {
    /// Whether all is well.
    pub fn is_well(&self) -> bool {
        self.troubles.is_empty()
    }
}

/// Since when which sign of life is missing.
#[derive(Debug)]
pub(crate) struct Signs {
    limits: Limits,
    /// When the fleet could be read last.
    read: Instant,
    /// What that gave; none before the first time.
    last: Option<Life>,
}

/// Signs of life as they were read last, and when each one came last.
#[derive(Debug)]
struct Life {
    /// Epoch and end of a lease that somebody alive held.
    lease: Option<(u64, u64)>,
    /// How long leases of this fleet live, as far as anybody has seen one.
    lease_ttl: Option<Duration>,
    renewed: Instant,
    /// How many messages had ended, and when the last one did, or none waited.
    ended: u64,
    moved: Instant,
    pending: u64,
}

impl Signs {
    /// `every` is the time between two readings: one that went wrong is no illness yet, even if
    /// leases live for less.
    pub(crate) fn new(limits: Limits, every: Duration) -> Self {
        Self {
            limits: Limits {
                lease_ttl: limits.lease_ttl.max(every.saturating_mul(3) / 2),
                ..limits
            },
            read: Instant::now(),
            last: None,
        }
    }

    pub(crate) fn read(&mut self, snapshot: &Snapshot, now: Instant) {
        let generator = &snapshot.generator;
        let lease = generator.node.as_ref();
        let lease = lease.map(|_| (generator.epoch, generator.until_ms));
        let lease_ttl = ttl_of(snapshot).or(self.last.as_ref().and_then(|last| last.lease_ttl));
        let ended = snapshot.done + snapshot.failed;
        // How long it had been so before the first reading, nobody knows.
        let (mut renewed, mut moved) = (now, now);
        if let Some(last) = &self.last {
            if lease.is_none() || lease == last.lease {
                renewed = last.renewed;
            }
            // Different, not more: a fleet that lost its data begins anew.
            if snapshot.pending > 0 && ended == last.ended {
                moved = last.moved;
            }
        }
        self.read = now;
        self.last = Some(Life {
            lease,
            lease_ttl,
            renewed,
            ended,
            moved,
            pending: snapshot.pending,
        });
    }

    /// How the fleet is; `trouble` is why the latest reading went wrong, if it did.
    pub(crate) fn health(&self, now: Instant, trouble: Option<&str>) -> Health {
        let Limits {
            lease_ttl,
            claim_ttl,
        } = self.limits;
        let beyond = |since: Instant, until: Instant, most: Duration, words: &str| {
            let lasted = until.saturating_duration_since(since);
            (lasted > most).then(|| format!("{words} for {:.1} s", lasted.as_secs_f64()))
        };
        let unread = beyond(self.read, now, lease_ttl, "the fleet could not be read");
        let troubles = match (&self.last, unread) {
            // Whatever else is wrong cannot be known.
            (_, Some(unread)) => vec![match trouble {
                Some(trouble) => format!("{unread}: {trouble}"),
                None => unread,
            }],
            (None, None) => Vec::new(),
            (Some(last), None) => {
                let unheld = "no generator has renewed the lease";
                let stalled = format!("{} messages wait and none has ended", last.pending);
                let unheld_for = lease_ttl.max(last.lease_ttl.unwrap_or_default());
                let stalled_for = claim_ttl.saturating_mul(STALLED_CLAIMS);
                // What happened since the last reading, nobody knows.
                [
                    beyond(last.renewed, self.read, unheld_for, unheld),
                    beyond(last.moved, self.read, stalled_for, &stalled),
                ]
                .into_iter()
                .flatten()
                .collect()
            }
        };
        Health { troubles }
    }
}

/// How long the lease lives: from its holder's last beat to its end. Whoever watches a fleet
/// may have been told another time than its nodes.
fn ttl_of(snapshot: &Snapshot) -> Option<Duration> {
    let generator = snapshot.generator.node.as_ref()?;
    let mut nodes = snapshot.nodes.iter();
    let holder = nodes.find(|node| &node.node == generator)?;
    let ms = snapshot.generator.until_ms.checked_sub(holder.seen_ms)?;
    Some(Duration::from_millis(ms.min(MAX_TTL_MS)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::snapshot::{GeneratorStatus, NodeStatus};

    const EVERY: Duration = Duration::from_secs(1);
    const LIMITS: Limits = Limits {
        lease_ttl: Duration::from_secs(3),
        claim_ttl: Duration::from_secs(5),
    };

    /// A fleet whose lease holds until some time, and so many wait and have ended.
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

    /// The troubles after readings at these seconds, looked at in the last second.
    fn troubles(limits: Limits, readings: &[(u64, Snapshot)], look: u64) -> Vec<String> {
        let mut signs = Signs::new(limits, EVERY);
        let start = signs.read;
        let at = |second| start + Duration::from_secs(second);
        for (second, snapshot) in readings {
            signs.read(snapshot, at(*second));
        }
        signs.health(at(look), None).troubles
    }

    #[test]
    fn a_fleet_that_renews_and_consumes_is_well() {
        let readings: Vec<_> = (0..60)
            .map(|second| (second, fleet(Some(second * 1000), 10, second)))
            .collect();
        assert_eq!(troubles(LIMITS, &readings, 60), [""; 0]);
    }

    #[test]
    fn before_the_first_reading_a_fleet_is_given_a_lease_to_be_read() {
        assert_eq!(troubles(LIMITS, &[], 3), [""; 0]);
        assert_eq!(
            troubles(LIMITS, &[], 4),
            ["the fleet could not be read for 4.0 s"]
        );
    }

    #[test]
    fn a_fleet_that_cannot_be_read_has_the_reason_with_it() {
        let signs = Signs::new(LIMITS, EVERY);
        let late = signs.read + Duration::from_secs(4);
        assert_eq!(
            signs.health(late, Some("WRONGPASS")).troubles,
            ["the fleet could not be read for 4.0 s: WRONGPASS"]
        );
    }

    #[test]
    fn a_fleet_that_cannot_be_read_has_that_trouble_alone() {
        // Its generator is gone and its backlog stands, too, but that is old news.
        let readings = [(0, fleet(None, 10, 0)), (20, fleet(None, 10, 0))];
        assert_eq!(
            troubles(LIMITS, &readings, 24),
            ["the fleet could not be read for 4.0 s"]
        );
        assert_eq!(troubles(LIMITS, &readings, 23).len(), 2);
    }

    #[test]
    fn what_could_not_be_read_is_not_taken_for_not_renewed() {
        let readings = [(0, fleet(Some(1), 10, 0)), (3, fleet(Some(1), 10, 0))];
        assert_eq!(troubles(LIMITS, &readings, 6), [""; 0]);
    }

    #[test]
    fn one_reading_that_went_wrong_is_no_illness_however_short_leases_are() {
        let limits = Limits {
            lease_ttl: Duration::from_millis(200),
            ..LIMITS
        };
        let readings = [(0, fleet(Some(1), 0, 0))];
        assert_eq!(troubles(limits, &readings, 1), [""; 0]);
        assert_eq!(troubles(limits, &readings, 2).len(), 1);
    }

    #[test]
    fn a_lease_that_nobody_renews_is_an_illness_whether_its_holder_lives_or_not() {
        for lease in [None, Some(1000)] {
            let readings: Vec<_> = (0..=4)
                .map(|second| (second, fleet(lease, 0, second)))
                .collect();
            assert_eq!(troubles(LIMITS, &readings[..4], 3), [""; 0]);
            assert_eq!(
                troubles(LIMITS, &readings, 4),
                ["no generator has renewed the lease for 4.0 s"]
            );
        }
        // The next one cures it.
        let cured = [
            (0, fleet(Some(1000), 0, 0)),
            (10, fleet(None, 0, 0)),
            (11, fleet(Some(9000), 0, 0)),
        ];
        assert_eq!(troubles(LIMITS, &cured, 11), [""; 0]);
        assert_eq!(troubles(LIMITS, &cured[..2], 10).len(), 1);
    }

    #[test]
    fn a_lease_that_lives_longer_than_the_watcher_was_told_has_its_own_time() {
        // Renewed in second 0, for ten seconds.
        let held = || {
            let mut snapshot = fleet(Some(10_000), 0, 0);
            snapshot.nodes = vec![NodeStatus {
                node: "g".to_owned(),
                seen_ms: 0,
                ..NodeStatus::default()
            }];
            snapshot
        };
        let readings = [(0, held()), (9, held())];
        assert_eq!(troubles(LIMITS, &readings, 9), [""; 0]);
        // Its holder died then, and nobody took it.
        let readings = [(0, held()), (9, held()), (11, fleet(None, 0, 0))];
        assert_eq!(
            troubles(LIMITS, &readings, 11),
            ["no generator has renewed the lease for 11.0 s"]
        );
    }

    #[test]
    fn a_backlog_that_stands_for_three_claims_is_an_illness() {
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
        // Nothing waits; or one message ends now and then; or the counters begin anew.
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
    fn a_failed_message_has_ended_too() {
        let readings: Vec<_> = (0..=16)
            .map(|second| {
                let mut snapshot = fleet(Some(second), 7, 0);
                snapshot.failed = second;
                (second, snapshot)
            })
            .collect();
        assert_eq!(troubles(LIMITS, &readings, 16), [""; 0]);
    }

    #[test]
    fn what_was_before_the_first_reading_is_not_held_against_a_fleet() {
        // Redis was away for a minute at the start; then a backlog is there and no generator yet.
        let readings = [(60, fleet(None, 10, 0))];
        assert_eq!(troubles(LIMITS, &readings, 61), [""; 0]);
    }
}
