//! What a node tells about itself while it runs.

use super::warning::Warning;

/// Something happened. Told after Redis answered, and only if it took effect.
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
        /// Who generates.
        generator: String,
    },
    /// Messages were accepted.
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
    /// Messages ended.
    Processed {
        /// The first message.
        first: u64,
        /// The last message.
        last: u64,
        /// Those that failed.
        failed: Vec<u64>,
        /// Which attempt it was.
        attempt: u64,
    },
    /// This node generates no more: its lease ran out or another node sealed.
    Fenced {
        /// The epoch it had.
        epoch: u64,
        /// Who generates now, if known.
        by: Option<String>,
    },
    /// This worker's claim ran out before its commit; the messages are another's now.
    Lost {
        /// The first message.
        first: u64,
        /// The last message.
        last: u64,
    },
    /// Messages of dead workers are back in the queue.
    Reclaimed {
        /// How many.
        count: u64,
        /// Who held them.
        nodes: Vec<String>,
    },
    /// The connection to Redis was lost or regained.
    Redis {
        /// Whether there is one now.
        up: bool,
        /// Why not.
        reason: Option<String>,
    },
    /// Something is wrong that an operator should know.
    Warning(Warning),
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
        /// Failed messages in the errors store.
        errors: u64,
    },
    /// The node stopped in good order.
    Stopped,
}
