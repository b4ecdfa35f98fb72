//! How a node behaves. Identical copies have identical settings.

use std::time::Duration;

use crate::{Error, FleetName};

/// Shortest and longest time to live of leases and claims. Below, jitter would kill healthy
/// nodes; above, nobody would wait for it.
const TTL_RANGE: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(3600));
/// Most lanes of one node.
const MAX_CONCURRENCY: usize = 10_000;
/// Most messages that may wait or be kept as failed, and the highest sequence number: what a
/// Lua number holds exactly.
const MAX_COUNT: u64 = 1 << 53;

/// Most missed time that a generator makes up for, unless it is set.
const CATCH_UP: Duration = Duration::from_secs(600);
/// Longest time that a generator can be asked to make up for.
const LONGEST_CATCH_UP: Duration = Duration::from_secs(366 * 24 * 3600);

/// What becomes of ticks of the schedule that passed while no node generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Missed {
    /// The generator makes up for them at once.
    CatchUp {
        /// For those of so long a time; older ones are left out, and the generator says how many.
        at_most: Duration,
    },
    /// They are left out.
    Skip,
}

impl Default for Missed {
    fn default() -> Self {
        Self::CatchUp { at_most: CATCH_UP }
    }
}

/// The settings of a node.
#[derive(Debug, Clone)]
pub struct Config {
    /// The fleet it belongs to.
    pub fleet: FleetName,
    /// Time between two messages; zero is full speed.
    pub interval: Duration,
    /// Stop generating when the fleet has published this many in total.
    pub messages: Option<u64>,
    /// How long a silent generator keeps the lease.
    pub lease_ttl: Duration,
    /// How long a silent worker keeps its messages.
    pub claim_ttl: Duration,
    /// How many messages a worker handles at the same time.
    pub concurrency: usize,
    /// What becomes of missed ticks.
    pub missed: Missed,
    /// Backpressure: most messages that may wait or be in workers' hands.
    pub max_pending: u64,
    /// Most failed messages the errors store may keep.
    pub max_errors: u64,
    /// Keep a ledger of every publish and commit in Redis, for an [`Audit`](crate::Audit). It
    /// grows with every pack.
    pub audit: bool,
    /// Run even on a server that deletes keys when its memory is full.
    pub allow_eviction: bool,
}

impl Config {
    /// The defaults, for a fleet.
    pub fn new(fleet: FleetName) -> Self {
        Self {
            fleet,
            interval: Duration::from_millis(500),
            messages: None,
            lease_ttl: Duration::from_millis(1500),
            claim_ttl: Duration::from_secs(5),
            concurrency: 1,
            missed: Missed::default(),
            max_pending: 1_000_000,
            max_errors: 1_000_000,
            audit: false,
            allow_eviction: false,
        }
    }

    /// Says which setting cannot work, if one cannot.
    pub fn check(&self) -> Result<(), Error> {
        let (shortest, longest) = TTL_RANGE;
        for (name, ttl) in [("lease", self.lease_ttl), ("claim", self.claim_ttl)] {
            if ttl < shortest || ttl > longest {
                return Err(Error::Config(format!(
                    "the {name} ttl must lie between {shortest:?} and {longest:?}, not {ttl:?}"
                )));
            }
        }
        if self.interval > Duration::ZERO && self.interval < Duration::from_millis(1) {
            return Err(Error::Config(
                "the interval is zero (full speed) or at least 1 ms".to_owned(),
            ));
        }
        if matches!(self.missed, Missed::CatchUp { at_most } if at_most > LONGEST_CATCH_UP) {
            return Err(Error::Config(
                "a generator makes up for at most 366 days".to_owned(),
            ));
        }
        if self.concurrency == 0 || self.concurrency > MAX_CONCURRENCY {
            return Err(Error::Config(format!(
                "the concurrency must lie between 1 and {MAX_CONCURRENCY}"
            )));
        }
        for (name, count) in [
            ("pending messages", self.max_pending),
            ("errors", self.max_errors),
        ] {
            if count == 0 || count > MAX_COUNT {
                return Err(Error::Config(format!(
                    "the most {name} must lie between 1 and {MAX_COUNT}"
                )));
            }
        }
        if self.messages.is_some_and(|messages| messages > MAX_COUNT) {
            return Err(Error::Config(format!("at most {MAX_COUNT} messages")));
        }
        Ok(())
    }
}
