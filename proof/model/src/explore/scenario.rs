//! What is explored: which nodes there are, and which faults may happen.

use super::source::SourceKind;
use crate::flaw::Flaw;

/// Nodes, work, and the faults that may happen.
#[derive(Debug, Clone, Default)]
pub struct Scenario {
    /// Its name, for reports.
    pub name: &'static str,
    /// How many nodes beat and generate: the first ones.
    pub generators: u8,
    /// How many nodes work: the next ones.
    pub workers: u8,
    /// Whether workers claim one after the other, begin in a fixed order, and die only while they
    /// have claimed messages. The workers are alike, so that most other orders are the same with
    /// other names.
    pub in_turn: bool,
    /// Whether the calls of a node that dies are lost with it. Otherwise they may arrive later.
    pub calls_die_with_node: bool,
    /// Whether the generators' packs are large, so that they stage them.
    pub stages_packs: bool,
    /// How many nodes drain the errors store: the last ones.
    pub drains: u8,
    /// Sizes of the packs that are in the queue at the beginning.
    pub given: Vec<u64>,
    /// How many rows the source has. A generator packs one or two of them.
    pub rows: u64,
    /// What the source makes when it is opened again. If it does not replay, workers tell the server
    /// what it forgot.
    pub source: SourceKind,
    /// Whether nodes believe an answer only when a replica has what it stands for.
    pub confirms: bool,
    /// Whether workers sleep in `idle`, so that publishes hand messages over to them.
    pub hands_over: bool,
    /// Max messages that have not ended.
    pub max_open: u64,
    /// Max messages that a worker claims.
    pub want: u64,
    /// Whether the first message of a claim may fail at once.
    pub failing: bool,
    /// How many attempts a message has before it fails; 0 if no attempt ends with an error.
    pub attempts: u64,
    /// Whether a worker may give back the end of its claim.
    pub shrinking: bool,
    /// How often each fault may happen.
    pub faults: Faults,
    /// Whether liveness is checked from every state. This takes long.
    pub check_liveness: bool,
    /// A deliberate break of the protocol.
    pub flaw: Option<Flaw>,
}

/// How often each fault may happen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Faults {
    /// A node dies.
    pub crashes: u8,
    /// An answer is lost.
    pub lost_replies: u8,
    /// A node sends a call again while the first is still on its way.
    pub duplicates: u8,
    /// A living node's connection breaks, and comes back.
    pub disconnects: u8,
    /// The clock jumps past every deadline, or back as far.
    pub clock_jumps: u8,
    /// So much time passes that every living node is connected again.
    pub long_waits: u8,
    /// The clock is set a day ahead, or back.
    pub day_jumps: u8,
    /// The server restarts with all its data.
    pub restarts: u8,
    /// A replica that lacks the last writes replaces the server.
    pub failovers: u8,
    /// A generator's lease lapses on its own clock, though no node took it.
    pub lease_lapses: u8,
    /// Time passes until the lease ends.
    pub lease_ends: u8,
    /// A source fails, and is opened again.
    pub source_failures: u8,
    /// The source of a node gives up: the node never generates again.
    pub declines: u8,
    /// A source finds no row, and only its cursor is stored.
    pub empty_batches: u8,
    /// An operator pauses the generator or the workers. The pause may end at any time.
    pub pauses: u8,
    /// A pack and its publish do not arrive together: the server refuses to stage the pack, or the
    /// publish comes later.
    pub splits: u8,
    /// Staged packs expire.
    pub expiries: u8,
    /// A worker or a drain gives back its claim, or a part of it.
    pub give_backs: u8,
    /// A person drops a failed message, or retries it.
    pub settles: u8,
    /// A worker commits one message, and then its neighbours under the same claim.
    pub single_commits: u8,
}

impl Faults {
    /// No fault.
    pub const NONE: Self = Self {
        crashes: 0,
        lost_replies: 0,
        duplicates: 0,
        disconnects: 0,
        clock_jumps: 0,
        long_waits: 0,
        day_jumps: 0,
        restarts: 0,
        failovers: 0,
        lease_lapses: 0,
        lease_ends: 0,
        source_failures: 0,
        declines: 0,
        empty_batches: 0,
        pauses: 0,
        splits: 0,
        expiries: 0,
        give_backs: 0,
        settles: 0,
        single_commits: 0,
    };
}
