//! What Redis holds for a fleet, as plain values.
//!
//! One field per key of docs/protocol.md. A text is only a number here: its identity matters, not
//! its bytes.

use std::collections::BTreeMap;

/// A node's name.
pub type Node = u8;
/// A sequence number.
pub type Seq = u64;
/// The id of a record in the errors store.
pub type Id = u64;
/// A text, as its number.
pub type Text = u64;
/// Names a parked pack: the partition that it is for, and its first number.
pub type ParcelField = (usize, Seq);
/// The word that a generator draws for its packs, as its number; 0 is the empty text. A message's key
/// is this word and the sequence number.
pub type Origin = u64;
/// Why an attempt failed, as a number.
pub type AttemptReason = u64;
/// Milliseconds on Redis's clock, which may be set back.
pub type Ms = i64;
/// The server's run id; 0 is the empty text.
pub type RunId = u32;
/// A node as `idle` has it: with the server's run id, as the node's connection saw it.
pub type Sleeper = (Node, RunId);

/// The name under which a lane claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot {
    /// The lane's node.
    pub node: Node,
    /// The lane, or [`Slot::HANDED`].
    pub lane: u8,
}

impl Slot {
    /// In place of a lane: the part of a node that gets messages in the step that publishes them.
    pub const HANDED: u8 = u8::MAX;

    /// The slot in which a node gets messages in the step that publishes them.
    pub fn handed(node: Node) -> Self {
        Self {
            node,
            lane: Self::HANDED,
        }
    }
}

/// How an idle node waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Idle {
    /// Since when.
    pub since: Ms,
    /// How many messages its lane wants.
    pub want: u64,
}

/// Messages of one pack.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Range {
    /// The pack's first message.
    pub pack: Seq,
    /// How many messages the pack has.
    pub count: u64,
    /// The first message of the range.
    pub first: Seq,
    /// The last one.
    pub last: Seq,
    /// How often it came back: a worker's claim on it was reclaimed, or its message was delayed.
    pub returns: u64,
    /// The nodes that may have died with it.
    pub suspects: Suspects,
}

impl Range {
    /// How many messages it has.
    pub fn size(&self) -> u64 {
        self.last - self.first + 1
    }
}

/// Nodes that may have died with some messages. A node that is present has not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Suspects {
    /// A bit per node.
    pub nodes: u32,
    /// When the last of them was added; 0 without any.
    pub since: Ms,
    /// The server's run id at that time; 0 without any.
    pub run_id: RunId,
}

impl Suspects {
    /// These nodes; without nodes, no time and no run id either.
    pub fn new(nodes: u32, since: Ms, run_id: RunId) -> Self {
        match nodes {
            0 => Self::default(),
            _ => Self {
                nodes,
                since,
                run_id,
            },
        }
    }

    /// How many nodes.
    pub fn count(&self) -> u64 {
        u64::from(self.nodes.count_ones())
    }
}

/// An entry of the queue, or of `delayed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Entry {
    /// Messages.
    Range(Range),
    /// An entry that no script of ours wrote.
    Foreign(Text),
}

impl Entry {
    /// Its range, if it has one.
    pub fn range(&self) -> Option<Range> {
        match self {
            Self::Range(range) => Some(*range),
            Self::Foreign(_) => None,
        }
    }
}

/// Texts that were published together, or one that was published before.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pack {
    /// The texts.
    pub texts: Vec<Text>,
    /// Its length when encoded.
    pub bytes: u64,
    /// The word of the generator that published the texts.
    pub origin: Origin,
}

/// What Redis knows of the attempts of a message that was delayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Note {
    /// Why the first attempt failed.
    pub first: AttemptReason,
    /// Why the last attempt failed.
    pub last: AttemptReason,
}

/// Why a message failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// Its handler rejected it, or its last attempt failed.
    Rejected,
    /// So many workers died with it.
    Poison(u64),
    /// It was no message of the fleet.
    Foreign,
    /// Its pack was not there.
    TextMissing,
}

/// A record in the errors store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Record {
    /// The message; 0 if it never was one.
    pub seq: Seq,
    /// Its text.
    pub text: Text,
    /// Which attempt failed.
    pub attempt: u64,
    /// Why.
    pub reason: Reason,
    /// The word of the generator that published it.
    pub origin: Origin,
    /// Why its first attempt failed, if it was delayed.
    pub first_reason: Option<AttemptReason>,
}

/// What a claim is on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Body {
    /// A worker's claim: messages.
    Messages(Range),
    /// A drain's claim: ids of records.
    Records(Vec<Id>),
}

/// A slot's claim.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Claim {
    /// Its number. Each claim of a slot has a higher one.
    pub number: u64,
    /// The server's run id when it was made.
    pub run_id: RunId,
    /// What it is on.
    pub body: Body,
}

/// The claim that a slot ended last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EndedClaim {
    /// Its number.
    pub number: u64,
    /// The first message that ended; 0 if none did.
    pub first: Seq,
    /// The last one.
    pub last: Seq,
    /// When.
    pub at: Ms,
}

/// The right to generate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Lease {
    /// Its holder.
    pub node: Option<Node>,
    /// Its fencing number.
    pub epoch: u64,
    /// Until when.
    pub until: Ms,
    /// The server's run id when it was renewed last.
    pub run_id: RunId,
    /// When its holder got it, or when it became free.
    pub since: Option<Ms>,
    /// The server's run id at which a beat waited for the holder; 0 if none did.
    pub waited: RunId,
}

/// Why the lease got a new epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum How {
    /// It had no holder before.
    First,
    /// Its holder resigned.
    Resigned,
    /// Its holder was gone.
    Gone,
    /// Its holder was silent for too long.
    Expired,
    /// The holder itself needed a higher epoch.
    Raised,
}

/// The lease got a new epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Takeover {
    /// The new epoch.
    pub epoch: u64,
    /// The new holder.
    pub node: Node,
    /// When.
    pub at: Ms,
    /// How long it was without a living holder, at most.
    pub gap: Ms,
    /// Why.
    pub how: How,
    /// The holder before.
    pub from: Option<Node>,
}

/// Which generator may publish, and the last number.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Fence {
    /// The generator.
    pub node: Option<Node>,
    /// Its epoch.
    pub epoch: u64,
    /// The last number.
    pub last: Seq,
    /// Where the source stands; 0 if no cursor is stored.
    pub cursor: u64,
    /// Whether this data has its name, which the first seal writes.
    pub born: bool,
    /// The highest number that a node knew when it was above the last one; 0 if none was.
    pub known: Seq,
    /// What an operator has paused.
    pub paused: Paused,
}

/// What an operator has paused, and since when.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Paused {
    /// The generator.
    pub generator: Option<Ms>,
    /// The workers.
    pub workers: Option<Ms>,
}

/// An entry of the ledger, without its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LedgerEntry {
    /// A pack was accepted.
    Published {
        /// Under this epoch.
        epoch: u64,
        /// Its first message.
        first: Seq,
        /// Its last.
        last: Seq,
    },
    /// Messages ended.
    Ended {
        /// The slot of their claim.
        slot: Slot,
        /// The first.
        first: Seq,
        /// The last.
        last: Seq,
        /// How many failed.
        failed: u64,
        /// Whether a handler got them.
        handled: bool,
    },
    /// A failed message was retried.
    Retried {
        /// The message.
        seq: Seq,
    },
    /// Numbers got no message: the server forgot those that it had.
    Void {
        /// The first number.
        first: Seq,
        /// The last.
        last: Seq,
    },
    /// The commit before it did not end this message.
    Delayed {
        /// The message.
        seq: Seq,
    },
}

/// The state of a fleet in Redis.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct State {
    /// The server's run id.
    pub run_id: RunId,
    /// The nodes that are subscribed to their presence channels, a bit per node.
    pub present: u32,
    /// `generator`
    pub lease: Lease,
    /// `nodes`: the run id of each node's last beat
    pub nodes: BTreeMap<Node, RunId>,
    /// `joined`: when each node joined; much later for nodes that never generate
    pub joined: BTreeMap<Node, Ms>,
    /// `seen`
    pub seen: BTreeMap<Node, Ms>,
    /// `takeovers`, newest first
    pub takeovers: Vec<Takeover>,
    /// `fence`
    pub fence: Fence,
    /// `queue`
    pub queue: Vec<Entry>,
    /// `pack`
    pub packs: BTreeMap<Seq, Pack>,
    /// `staged`: a node, and its number of the pack
    pub staged: BTreeMap<(Node, u64), Pack>,
    /// `parked`
    pub parked: BTreeMap<ParcelField, Text>,
    /// `left`
    pub left: BTreeMap<Seq, u64>,
    /// `delayed`: when each message is due
    pub delayed: BTreeMap<Entry, Ms>,
    /// `notes`
    pub notes: BTreeMap<Seq, Note>,
    /// `claims`
    pub claims: BTreeMap<Slot, Claim>,
    /// `deadlines`
    pub deadlines: BTreeMap<Slot, Ms>,
    /// `workers`
    pub workers: BTreeMap<Slot, EndedClaim>,
    /// `errors`
    pub errors: BTreeMap<Id, Record>,
    /// `errors_held`
    pub held: BTreeMap<Id, Slot>,
    /// `errors_ids`: the highest id. The hint where the search for the oldest begins is left out:
    /// nothing depends on it.
    pub last_id: Id,
    /// `stats`: ended well
    pub done: u64,
    /// `stats`: failed
    pub failed: u64,
    /// `stats`: foreign entries
    pub foreign: u64,
    /// `stats`: retried messages
    pub retried: u64,
    /// `stats`: dropped records
    pub dropped: u64,
    /// `stats`: numbers without a message
    pub void: u64,
    /// `idle`
    pub idle: BTreeMap<Sleeper, Idle>,
    /// `ledger`
    pub ledger: Vec<LedgerEntry>,
    /// A counter of the application, to which commits add.
    pub effects: u64,
}

impl State {
    /// Whether a node is subscribed to its presence channel.
    pub fn is_present(&self, node: Node) -> bool {
        self.present & (1 << node) != 0
    }

    /// Marks a node as subscribed, or not.
    pub fn set_present(&mut self, node: Node, present: bool) {
        match present {
            true => self.present |= 1 << node,
            false => self.present &= !(1 << node),
        }
    }

    /// Whether a node hears what is published on its ring channel: the channel is of one server
    /// process.
    pub fn hears(&self, (node, run_id): Sleeper) -> bool {
        self.is_present(node) && run_id == self.run_id
    }

    /// Every range that waits.
    pub fn waiting(&self) -> impl Iterator<Item = Range> + '_ {
        self.queue.iter().filter_map(Entry::range)
    }

    /// Every range that waits until it is due.
    pub fn delayed(&self) -> impl Iterator<Item = Range> + '_ {
        self.delayed.keys().filter_map(Entry::range)
    }

    /// Every range of messages that have not ended.
    pub fn open(&self) -> impl Iterator<Item = Range> + '_ {
        self.waiting().chain(self.claimed()).chain(self.delayed())
    }

    /// Appends a record.
    pub fn fail(&mut self, record: Record) {
        self.last_id += 1;
        self.errors.insert(self.last_id, record);
    }

    /// The ids of records that no drain holds, the oldest first.
    pub fn free_ids(&self) -> impl Iterator<Item = Id> + '_ {
        let ids = self.errors.keys().copied();
        ids.filter(|id| !self.held.contains_key(id))
    }

    /// Every range that a worker has claimed.
    pub fn claimed(&self) -> impl Iterator<Item = Range> + '_ {
        self.claims.values().filter_map(|claim| match claim.body {
            Body::Messages(range) => Some(range),
            Body::Records(_) => None,
        })
    }
}
