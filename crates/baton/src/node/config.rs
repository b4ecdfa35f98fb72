//! The settings of a node. Identical copies have identical settings.

use std::time::Duration;

use baton_protocol::bounds::{MAX_EXACT, MAX_TTL_MS};
use baton_protocol::{Durability, Setting};

use crate::node::backoff::Backoff;
use crate::node::rate::Rate;
use crate::{Error, FleetName};

/// Shortest and longest time to live of leases and claims. With a shorter one, jitter would kill
/// healthy nodes.
const TTL_RANGE: (Duration, Duration) = (
    Duration::from_millis(200),
    Duration::from_millis(MAX_TTL_MS),
);
/// Most lanes of one node.
const MAX_CONCURRENCY: usize = 10_000;

/// Time to live of a lease and of a claim, unless they are set.
pub(crate) const LEASE_TTL: Duration = Duration::from_millis(1500);
pub(crate) const CLAIM_TTL: Duration = Duration::from_secs(5);

/// Shortest time to keep failed messages. A shorter one has a mistaken unit.
const SHORTEST_KEEP: Duration = Duration::from_secs(1);

/// Whether a generator handles messages, too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum GeneratorWorks {
    /// It only generates. Messages wait while the fleet has no other node.
    #[default]
    Never,
    /// It handles messages while it is the only node of its fleet. When another node joins, the
    /// generator ends the messages that it handles and claims no more.
    Alone,
    /// It handles messages as every other node does.
    Always,
}

impl GeneratorWorks {
    /// Whether a generator beside so many standbys works.
    pub(crate) fn beside(self, standbys: u64) -> bool {
        match self {
            Self::Never => false,
            Self::Alone => standbys == 0,
            Self::Always => true,
        }
    }
}

/// Which roles a node takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Roles {
    /// It generates while it holds the lease, and works otherwise.
    #[default]
    Both,
    /// It never takes the lease.
    OnlyWorks,
    /// It handles no messages, and waits for the lease.
    OnlyGenerates,
}

/// The settings of a node.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) fleet: FleetName,
    /// None is what the fleet has, or else what the target suggests.
    pub(crate) partitions: Option<u32>,
    pub(crate) messages: Option<u64>,
    pub(crate) rate: Option<Rate>,
    pub(crate) lease_ttl: Duration,
    pub(crate) claim_ttl: Duration,
    pub(crate) concurrency: usize,
    pub(crate) timeout: Option<Duration>,
    pub(crate) attempts: u64,
    pub(crate) backoff: Backoff,
    pub(crate) generator_works: GeneratorWorks,
    pub(crate) roles: Roles,
    pub(crate) max_pending: u64,
    pub(crate) max_errors: u64,
    /// None is for ever.
    pub(crate) keep_errors: Option<Duration>,
    pub(crate) audit: bool,
    pub(crate) allow_eviction: bool,
    pub(crate) durability: Durability,
}

impl Config {
    /// The defaults, for a fleet.
    pub(crate) fn new(fleet: FleetName) -> Self {
        Self {
            fleet,
            partitions: None,
            messages: None,
            rate: None,
            lease_ttl: LEASE_TTL,
            claim_ttl: CLAIM_TTL,
            concurrency: 1,
            timeout: None,
            attempts: 5,
            backoff: Backoff::default(),
            generator_works: GeneratorWorks::default(),
            roles: Roles::default(),
            max_pending: 1_000_000,
            max_errors: 1_000_000,
            keep_errors: None,
            audit: false,
            allow_eviction: false,
            durability: Durability::None,
        }
    }

    /// Says which setting cannot work, if one cannot.
    pub(crate) fn check(&self) -> Result<(), Error> {
        check_ttl(Setting::LeaseTtl, "lease", self.lease_ttl)?;
        check_ttl(Setting::ClaimTtl, "claim", self.claim_ttl)?;
        if self.concurrency == 0 || self.concurrency > MAX_CONCURRENCY {
            let problem = format!("the concurrency must lie between 1 and {MAX_CONCURRENCY}");
            return Err(Error::setting(Setting::Concurrency, problem));
        }
        if self.timeout.is_some_and(|timeout| timeout.is_zero()) {
            let problem = "a handler needs a timeout above zero, or none";
            return Err(Error::setting(Setting::Timeout, problem));
        }
        if self.roles == Roles::OnlyGenerates && self.generator_works != GeneratorWorks::Never {
            let problem = "a node that only generates cannot work as a generator";
            return Err(Error::setting(Setting::Roles, problem));
        }
        check_count(Setting::Attempts, "attempts", self.attempts)?;
        self.backoff.check()?;
        check_count(Setting::MaxPending, "pending messages", self.max_pending)?;
        check_count(Setting::MaxErrors, "errors", self.max_errors)?;
        if self.keep_errors.is_some_and(|keep| keep < SHORTEST_KEEP) {
            let problem = format!("failed messages are kept for {SHORTEST_KEEP:?} at least");
            return Err(Error::setting(Setting::KeepErrors, problem));
        }
        if let Some(Err(problem)) = self.rate.map(|rate| rate.check()) {
            return Err(Error::setting(Setting::Rate, problem));
        }
        if self.messages.is_some_and(|messages| messages > MAX_EXACT) {
            let problem = format!("at most {MAX_EXACT} messages");
            return Err(Error::setting(Setting::Messages, problem));
        }
        Ok(())
    }
}

pub(crate) fn check_ttl(setting: Setting, name: &str, ttl: Duration) -> Result<(), Error> {
    let (shortest, longest) = TTL_RANGE;
    if (shortest..=longest).contains(&ttl) {
        return Ok(());
    }
    let problem =
        format!("the {name} ttl must lie between {shortest:?} and {longest:?}, not {ttl:?}");
    Err(Error::setting(setting, problem))
}

fn check_count(setting: Setting, name: &str, count: u64) -> Result<(), Error> {
    if (1..=MAX_EXACT).contains(&count) {
        return Ok(());
    }
    let problem = format!("the most {name} must lie between 1 and {MAX_EXACT}");
    Err(Error::setting(setting, problem))
}
