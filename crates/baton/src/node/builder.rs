//! Building a node: every setting by its name, with a default.

use std::sync::Arc;
use std::time::Duration;

use super::backoff::Backoff;
use super::config::{Config, GeneratorWorks, Roles};
use super::rate::Rate;
use super::{Node, Observe};
use crate::{Durability, Error, Event, FleetName, Handler, Source, Target};

/// Settings for a [`Node`]. All copies of one fleet use the same.
///
/// ```
/// # use std::time::Duration;
/// # use baton::{FleetName, Node};
/// # fn settings() -> Result<(), baton::Error> {
/// let settings = Node::builder(FleetName::new("orders")?)
///     .timeout(Duration::from_secs(10))
///     .concurrency(16);
/// settings.check()
/// # }
/// # settings().unwrap();
/// ```
#[must_use]
#[derive(Clone)]
pub struct NodeBuilder {
    config: Config,
    observe: Observe,
}

impl NodeBuilder {
    pub(super) fn new(fleet: FleetName) -> Self {
        Self {
            config: Config::new(fleet),
            observe: Arc::new(|_| {}),
        }
    }

    /// How many partitions the fleet has, from 1 to 1,024. A fleet keeps the number that its first node gave
    /// it: a node that asks for another one is refused. Unless set, the node takes the fleet's number, and a
    /// new fleet has one partition, or 16 in a cluster.
    ///
    /// Partitions spread a fleet over the servers of a cluster. Messages keep their order within a
    /// partition only.
    pub fn partitions(mut self, partitions: impl Into<Option<u32>>) -> Self {
        self.config.partitions = partitions.into();
        self
    }

    /// The fleet stops generating when it has published this many in all. No limit unless set.
    pub fn messages(mut self, messages: impl Into<Option<u64>>) -> Self {
        self.config.messages = messages.into();
        self
    }

    /// The most messages that a generator publishes in a time, whatever its source has. No bound unless
    /// set. A new generator may publish its first message at once.
    pub fn rate(mut self, rate: impl Into<Option<Rate>>) -> Self {
        self.config.rate = rate.into();
        self
    }

    /// How long a silent generator keeps the lease. 1.5 s unless set.
    pub fn lease_ttl(mut self, ttl: Duration) -> Self {
        self.config.lease_ttl = ttl;
        self
    }

    /// How long a silent worker keeps its messages. 5 s unless set.
    pub fn claim_ttl(mut self, ttl: Duration) -> Self {
        self.config.claim_ttl = ttl;
        self
    }

    /// How many messages a worker handles at the same time. One unless set.
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.config.concurrency = concurrency;
        self
    }

    /// How long a handler may take for one message. After that its attempt ends and counts as failed.
    /// No limit unless set.
    pub fn timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.config.timeout = timeout.into();
        self
    }

    /// How many attempts a message has before it goes to the errors store. A death of its worker
    /// counts as one, too. Five unless set.
    pub fn attempts(mut self, attempts: u64) -> Self {
        self.config.attempts = attempts;
        self
    }

    /// How long a failed message waits for its next attempt. From a second to ten minutes unless
    /// set.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.config.backoff = backoff;
        self
    }

    /// Whether the generator handles messages, too. It does not unless set.
    ///
    /// A handler then runs on the runtime of the generator: one that blocks its thread delays the
    /// beat and the publishing.
    pub fn generator_works(mut self, works: GeneratorWorks) -> Self {
        self.config.generator_works = works;
        self
    }

    /// Which roles this node takes. Both unless set. Nodes of one fleet may differ in it.
    pub fn roles(mut self, roles: Roles) -> Self {
        self.config.roles = roles;
        self
    }

    /// Backpressure: the generator waits while so many messages wait or are in workers' hands.
    /// One million unless set.
    pub fn max_pending(mut self, max: u64) -> Self {
        self.config.max_pending = max;
        self
    }

    /// How many failed messages the errors store may keep. Workers wait while it is full. One
    /// million unless set.
    pub fn max_errors(mut self, max: u64) -> Self {
        self.config.max_errors = max;
        self
    }

    /// How long the errors store keeps a failed message. The generator drops older ones, at most a
    /// minute late; [`Snapshot::dropped`](crate::inspect::Snapshot::dropped) counts them. At least
    /// 1 s. For ever unless set.
    ///
    /// The age counts from the failure, on Redis's clock. A record without a usable time (foreign
    /// bytes, or a time that is still to come) goes together with the next one that has a time. A
    /// record that a drain or take has claimed stays.
    pub fn keep_errors(mut self, keep: impl Into<Option<Duration>>) -> Self {
        self.config.keep_errors = keep.into();
        self
    }

    /// Keeps a ledger of every publish and commit in Redis, for
    /// [`Inspector::audit`](crate::Inspector::audit). It grows with every pack. Off unless set.
    pub fn audit(mut self, audit: bool) -> Self {
        self.config.audit = audit;
        self
    }

    /// Runs even on a server that deletes keys when its memory is full. Off unless set.
    pub fn allow_eviction(mut self, allow: bool) -> Self {
        self.config.allow_eviction = allow;
        self
    }

    /// What must have a message, or its end, before this node reports it and its source hears of it.
    /// While Redis cannot give it, the node waits and warns. The server's memory unless set.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.config.durability = durability;
        self
    }

    /// Calls `observe` for each event, on the thread that beats and works: while it blocks, the
    /// node does not renew its lease.
    pub fn on_event(mut self, observe: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        self.observe = Arc::new(observe);
        self
    }

    /// Says which setting cannot work, if one cannot.
    pub fn check(&self) -> Result<(), Error> {
        self.config.check()
    }

    /// A node with a new name. It connects when it runs.
    pub fn build<S: Source, H: Handler>(
        self,
        target: Target,
        source: S,
        handler: H,
    ) -> Result<Node<S, H>, Error> {
        self.config.check()?;
        if let Some(partitions) = self.config.partitions {
            baton_protocol::check_partitions(&target, partitions)?;
        }
        Ok(Node {
            target,
            config: self.config,
            source,
            handler,
            name: baton_protocol::new_name(),
            meter: Arc::default(),
            observe: self.observe,
        })
    }
}

impl std::fmt::Debug for NodeBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("NodeBuilder").field(&self.config).finish()
    }
}
