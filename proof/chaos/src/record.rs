//! What a run leaves behind: who lived when in which role, which faults hit whom, and what
//! became of every message. The verdict is read off it, the report drawn from it.
//!
//! All times are seconds since the run began.

use serde::{Deserialize, Serialize};

/// A whole run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Record {
    /// The seed that repeats the plan.
    pub seed: u64,
    /// How to run it again.
    pub command: String,
    /// Name and version of the server program.
    pub server: String,
    /// How the server kept its data: `appendfsync always`, for one.
    pub durability: String,
    /// How long it took.
    pub seconds: f64,
    /// Every process that was part of it, in the order they were started.
    pub lanes: Vec<Lane>,
    /// Every fault, in order.
    pub faults: Vec<Fault>,
    /// What became of the messages.
    pub verdict: Verdict,
    /// From the death of a generator to its successor's seal, in ms.
    pub takeovers_ms: Vec<f64>,
    /// From the death of a worker that held messages to their return to the queue, in ms.
    pub recoveries_ms: Vec<f64>,
}

/// The life of one process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Lane {
    /// Its name in the picture: `node 3`, `getErrors 1`.
    pub label: String,
    /// Its name in Redis and in the logs, once it has told one.
    pub node: String,
    /// When it was started.
    pub from_s: f64,
    /// When it was gone, or the run ended.
    pub to_s: f64,
    /// How it ended.
    pub end: End,
    /// What it was, from when to when; in order, without overlap, with holes while unknown.
    pub spans: Vec<Span>,
    /// When it ended (or, as a generator, published) messages.
    pub ticks: Vec<Tick>,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// Killed with -9, by the run or at a crash point.
    Killed,
    /// By itself, in good order.
    Stopped,
    /// It lived to the end of the run.
    Alive,
}

/// A time in one role.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Span {
    /// From when.
    pub from_s: f64,
    /// Until when.
    pub to_s: f64,
    /// As what.
    pub role: Role,
}

/// What a process was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// It generated.
    Generator {
        /// Under this epoch.
        epoch: u64,
    },
    /// It worked.
    Worker,
    /// It took failed messages out of the errors store.
    Drain,
    /// It was stopped in its tracks.
    Paused,
}

/// Messages published or ended at about one moment by one process.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Tick {
    /// When.
    pub at_s: f64,
    /// How many.
    pub count: u64,
    /// How many of them failed.
    pub failed: u64,
}

/// One fault and what came of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Fault {
    /// Its kind: `kill -9 the generator`.
    pub name: String,
    /// Labels of the lanes that it hit; empty if it hit the server.
    pub targets: Vec<String>,
    /// When it began.
    pub from_s: f64,
    /// When it was lifted.
    pub to_s: f64,
    /// How long after that the fleet had caught up, with balanced books, in ms.
    pub settled_ms: Option<f64>,
    /// Anything worth a word: `accepted 3 messages meanwhile`.
    pub note: String,
}

/// What became of the messages.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Verdict {
    /// Messages that Redis accepted.
    pub published: u64,
    /// Ended well, once.
    pub done: u64,
    /// Ended as failed, once.
    pub failed: u64,
    /// Failed messages that were printed by a drain and are gone.
    pub drained: u64,
    /// Accepted, never ended.
    pub lost: u64,
    /// Ended more than once.
    pub duplicated: u64,
    /// Ended, never accepted.
    pub phantom: u64,
    /// Everything that must not be, each with its story; empty if all is well.
    pub findings: Vec<String>,
}

impl Verdict {
    /// Whether every message ended exactly once and nothing else is wrong.
    pub fn is_clean(&self) -> bool {
        self.lost == 0 && self.duplicated == 0 && self.phantom == 0 && self.findings.is_empty()
    }
}
