//! What Redis holds for a fleet, as plain values.
//!
//! One field per key of docs/protocol.md. A text is only a number here: who it is matters, not
//! what it says.

use std::collections::BTreeMap;

/// A node's name.
pub type Node = u8;
/// A sequence number.
pub type Seq = u64;
/// The id of an error record.
pub type Id = u64;
/// Which text it is.
pub type Text = u64;
/// Milliseconds on Redis's clock. A clock may be set back, and nothing is before all times.
pub type Ms = i64;
/// The run of the server; 0 is the empty word.
pub type Run = u32;

/// One lane of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot {
    /// Whose.
    pub node: Node,
    /// Which.
    pub lane: u8,
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
    /// How often it came back from a worker that did not end it.
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

/// Nodes that may have died with some messages. A node that is present did not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Suspects {
    /// Which nodes, a bit for each.
    pub nodes: u32,
    /// When the last of them was added; 0 without any.
    pub since: Ms,
    /// The run of the server at that time; 0 without any.
    pub run: Run,
}

impl Suspects {
    /// These nodes, without which there is no time either.
    pub fn new(nodes: u32, since: Ms, run: Run) -> Self {
        match nodes {
            0 => Self::default(),
            _ => Self { nodes, since, run },
        }
    }

    /// How many.
    pub fn count(&self) -> u64 {
        u64::from(self.nodes.count_ones())
    }
}

/// What lies in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Entry {
    /// Messages.
    Range(Range),
    /// Something that no script of ours wrote.
    Foreign(Text),
}

/// Texts that were published together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pack {
    /// The texts.
    pub texts: Vec<Text>,
    /// Its length when encoded.
    pub bytes: u64,
}

/// Why a message failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// Its handler rejected it.
    Rejected,
    /// So many workers died with it.
    Poison(u64),
    /// It was no message of the fleet.
    Foreign,
    /// Its pack was not there.
    TextMissing,
}

/// An error record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Record {
    /// Which message; 0 if it never was one.
    pub seq: Seq,
    /// Its text.
    pub text: Text,
    /// Which attempt failed.
    pub attempt: u64,
    /// Why.
    pub reason: Reason,
}

/// What a slot holds.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Body {
    /// A worker: messages.
    Messages(Range),
    /// A drain: the ids of failed ones.
    Records(Vec<Id>),
}

/// A slot's hold on something.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Claim {
    /// Its number, growing per slot.
    pub number: u64,
    /// The run of the server when it was made.
    pub run: Run,
    /// On what.
    pub body: Body,
}

/// What a slot ended last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Settled {
    /// The claim.
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
    /// Who has it.
    pub node: Option<Node>,
    /// Its fencing number.
    pub epoch: u64,
    /// Until when.
    pub until: Ms,
    /// The run of the server when it was renewed last.
    pub run: Run,
    /// Since when its holder has it, or nobody.
    pub since: Option<Ms>,
}

/// Why the lease got a new epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum How {
    /// Nobody ever had it.
    First,
    /// Its holder gave it up.
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
    /// Which.
    pub epoch: u64,
    /// Who has it.
    pub node: Node,
    /// When.
    pub at: Ms,
    /// How long it may have been without a living holder.
    pub gap: Ms,
    /// Why.
    pub how: How,
    /// Who had it before.
    pub from: Option<Node>,
}

/// Who may publish, and where the numbers stand.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Fence {
    /// Who.
    pub node: Option<Node>,
    /// Under which epoch.
    pub epoch: u64,
    /// The last number.
    pub last: Seq,
    /// Where the schedule stands.
    pub cursor: u64,
    /// Whether this data has a name, which the first seal gave it.
    pub born: bool,
}

/// One line of the ledger, without its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Line {
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
        /// By whom.
        slot: Slot,
        /// The first.
        first: Seq,
        /// The last.
        last: Seq,
        /// How many failed.
        failed: u64,
        /// Whether a handler saw them to their end.
        handled: bool,
    },
    /// A failed message waits again.
    Retried {
        /// Which.
        seq: Seq,
    },
}

/// Everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct State {
    /// The run of the server.
    pub run: Run,
    /// Who is subscribed to its presence channel, a bit per node.
    pub present: u32,
    /// `generator`
    pub lease: Lease,
    /// `nodes`: at which run each beat last
    pub nodes: BTreeMap<Node, Run>,
    /// `joined`
    pub joined: BTreeMap<Node, Ms>,
    /// `seen`
    pub seen: BTreeMap<Node, Ms>,
    /// `takeovers`, newest first
    pub takeovers: Vec<Takeover>,
    /// `fence`
    pub fence: Fence,
    /// `queue`
    pub queue: Vec<Entry>,
    /// `packs`
    pub packs: BTreeMap<Seq, Pack>,
    /// `left`
    pub left: BTreeMap<Seq, u64>,
    /// `claims`
    pub claims: BTreeMap<Slot, Claim>,
    /// `deadlines`
    pub deadlines: BTreeMap<Slot, Ms>,
    /// `workers`
    pub workers: BTreeMap<Slot, Settled>,
    /// `errors`
    pub errors: BTreeMap<Id, Record>,
    /// `errors_held`
    pub held: BTreeMap<Id, Slot>,
    /// `errors_ids`: the id given last. Where the search for the oldest begins is a hint, which
    /// nothing depends on.
    pub last_id: Id,
    /// `stats`: ended well
    pub done: u64,
    /// `stats`: failed
    pub failed: u64,
    /// `stats`: entries that were not ours
    pub foreign: u64,
    /// `stats`: failed messages that were given to the workers again
    pub retried: u64,
    /// Whether `bell` has its token.
    pub bell: bool,
    /// `ledger`
    pub ledger: Vec<Line>,
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

    /// Every range that waits.
    pub fn waiting(&self) -> impl Iterator<Item = Range> + '_ {
        self.queue.iter().filter_map(|entry| match entry {
            Entry::Range(range) => Some(*range),
            Entry::Foreign(_) => None,
        })
    }

    /// Appends an error record.
    pub fn fail(&mut self, record: Record) {
        self.last_id += 1;
        self.errors.insert(self.last_id, record);
    }

    /// The ids of records that no drain holds, the oldest first.
    pub fn free_ids(&self) -> impl Iterator<Item = Id> + '_ {
        let ids = self.errors.keys().copied();
        ids.filter(|id| !self.held.contains_key(id))
    }

    /// Every range in a worker's hands.
    pub fn in_hand(&self) -> impl Iterator<Item = Range> + '_ {
        self.claims.values().filter_map(|claim| match claim.body {
            Body::Messages(range) => Some(range),
            Body::Records(_) => None,
        })
    }
}
