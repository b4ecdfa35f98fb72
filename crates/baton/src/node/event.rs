//! What happens on a node while it runs.

use std::time::Duration;

use super::warning::Warning;
use crate::Part;

/// Something happened on this node. A node reports messages only after Redis has confirmed them.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// This node is the generator: it has the lease and has sealed the fence.
    Generator {
        /// Fencing number of the lease.
        epoch: u64,
    },
    /// This node is a worker.
    Worker {
        /// The node that generates.
        generator: String,
    },
    /// Redis accepted messages of this node.
    Published {
        /// Fencing number of the lease.
        epoch: u64,
        /// The first message.
        first: u64,
        /// The last message.
        last: u64,
        /// Its text, when it is a single one.
        text: Option<Vec<u8>>,
    },
    /// This node has handled messages: they have ended, or wait for their next attempt.
    Processed {
        /// The first message.
        first: u64,
        /// The last message.
        last: u64,
        /// Those that failed.
        failed: Vec<u64>,
        /// Those that wait for their next attempt.
        delayed: Vec<u64>,
        /// Which attempt it was.
        attempt: u64,
    },
    /// An attempt of this node failed: the message waits for its next attempt.
    Delayed {
        /// The message.
        seq: u64,
        /// Which attempt it was.
        attempt: u64,
        /// How long it waits.
        delay: Duration,
        /// Why the attempt failed.
        reason: String,
    },
    /// This node generates no more: its lease ran out or another node sealed.
    Fenced {
        /// The epoch it had.
        epoch: u64,
        /// The node that generates now, if this node knows it.
        by: Option<String>,
    },
    /// This worker could not commit before its claim ended. Other workers get the messages, unless
    /// the commit took effect and only its answer was lost.
    Lost {
        /// The first message.
        first: u64,
        /// The last message.
        last: u64,
    },
    /// This worker has committed messages, and stops before Redis could confirm that at the node's
    /// durability: a failover can still forget it, and then other workers get the messages.
    Unconfirmed {
        /// The first message.
        first: u64,
        /// The last message.
        last: u64,
    },
    /// Redis no longer has messages that it had acknowledged to this node: a failover or a restart
    /// forgot them. The generator sends again what it still has, or its source makes them again; the
    /// other numbers are [`Event::Void`].
    Regressed {
        /// The first message.
        first: u64,
        /// The last message.
        last: u64,
    },
    /// These numbers have no message and never will: Redis forgot their messages, and this generator
    /// cannot send them again.
    Void {
        /// The first number.
        first: u64,
        /// The last number.
        last: u64,
    },
    /// Messages of dead workers are back in the queue.
    Reclaimed {
        /// How many.
        count: u64,
        /// The nodes that held them.
        nodes: Vec<String>,
    },
    /// This generator dropped failed messages that were older than the fleet keeps them.
    Dropped {
        /// How many.
        count: u64,
    },
    /// An operator has paused the part of the fleet that this node is, as it noticed.
    Paused {
        /// The generator, or the workers.
        part: Part,
    },
    /// An operator has ended the pause.
    Resumed {
        /// The generator, or the workers.
        part: Part,
    },
    /// The connection to Redis was lost or regained.
    Redis {
        /// Whether there is one now.
        up: bool,
        /// Why not.
        reason: Option<String>,
    },
    /// What Redis acknowledges is as durable again as the settings ask, after
    /// [`Warning::NotDurable`].
    Confirmed,
    /// Something is wrong that an operator should know.
    Warning(Warning),
    /// An event about messages of one partition, in a fleet that has several. Sequence numbers count in
    /// their partition.
    InPartition {
        /// The partition, from 0 on.
        partition: u32,
        /// What happened there.
        event: Box<Event>,
    },
    /// How things are, every ten seconds.
    Snapshot {
        /// Whether this node generates.
        generator: bool,
        /// Messages this node published per second since the last snapshot.
        published_per_s: f64,
        /// Messages this node processed per second since the last snapshot.
        processed_per_s: f64,
        /// Messages of the fleet that wait.
        pending: u64,
        /// Messages of the fleet in workers' hands.
        claimed: u64,
        /// Messages of the fleet that wait for their next attempt.
        delayed: u64,
        /// Failed messages in the errors store.
        errors: u64,
    },
    /// The node has stopped.
    Stopped,
}

impl Event {
    /// What happened, without the partition in which it happened.
    pub fn inner(&self) -> &Self {
        match self {
            Self::InPartition { event, .. } => event.inner(),
            event => event,
        }
    }
}
