//! What nodes ask of Redis, and what it answers: the words of the scripts.

use crate::state::{Id, Ms, Node, Range, Record, Run, Seq, Slot, Text};

/// A call of a script.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Call {
    /// "I am here."
    Beat {
        /// Who.
        node: Node,
        /// The run of the server, as the node's connection saw it.
        run: Run,
        /// Time to live of the lease.
        ttl: Ms,
        /// An epoch that the lease must exceed.
        above: u64,
    },
    /// A node stops in good order.
    Leave {
        /// Who.
        node: Node,
    },
    /// A new generator raises the fence.
    Seal {
        /// Who.
        node: Node,
        /// Under which epoch.
        epoch: u64,
    },
    /// A pack of messages.
    Publish {
        /// Who.
        node: Node,
        /// Under which epoch.
        epoch: u64,
        /// Number of the first message.
        first: Seq,
        /// The texts.
        texts: Vec<Text>,
        /// Length of the encoded pack.
        bytes: u64,
        /// Where the schedule stands after it.
        cursor: u64,
        /// Most messages that may wait or be in hand.
        max_open: u64,
        /// Whether a ledger is kept.
        audited: bool,
    },
    /// Messages from the head of the queue.
    Claim {
        /// For whom.
        slot: Slot,
        /// Number of the claim.
        number: u64,
        /// The run of the server, as the node's connection saw it.
        run: Run,
        /// Most messages wanted.
        want: u64,
        /// Time to live of the claim.
        ttl: Ms,
    },
    /// A slow handler keeps its claims.
    Extend {
        /// Time to live from now on.
        ttl: Ms,
        /// Slots and the numbers of their claims.
        claims: Vec<(Slot, u64)>,
    },
    /// The first messages of a claim end.
    Commit {
        /// By whom.
        slot: Slot,
        /// Number of the claim.
        number: u64,
        /// The first message that ends.
        first: Seq,
        /// The last one.
        last: Seq,
        /// Records of those that failed.
        failed: Vec<Record>,
        /// Most error records kept.
        max_errors: u64,
        /// What is done to the application's counter.
        effect: Effect,
        /// Whether a ledger is kept.
        audited: bool,
    },
    /// What a claim still holds goes back.
    GiveBack {
        /// By whom.
        slot: Slot,
        /// Number of the claim.
        number: u64,
    },
    /// The claims of the dead go back.
    Reclaim {
        /// The run of the server, or 0 to believe any absence.
        run: Run,
        /// Most claims looked at.
        most: usize,
        /// Which of `workers` the server happened to look at, to forget them if they are old.
        looked_at: Vec<Slot>,
        /// In which of `claims` it happened to look for one without a deadline.
        checked: Vec<Slot>,
    },
    /// A person takes the lease from a holder that is gone.
    Free,
    /// A drain takes error records.
    ErrorsClaim {
        /// Who.
        slot: Slot,
        /// Number of the claim.
        number: u64,
        /// The run of the server, as the drain's connection saw it.
        run: Run,
        /// Exactly these records, or the oldest.
        ids: Option<Vec<Id>>,
        /// Most of the oldest.
        most: u64,
        /// Time to live of the claim.
        ttl: Ms,
    },
    /// A drain has printed records.
    ErrorsCommit {
        /// Who.
        slot: Slot,
        /// Number of the claim.
        number: u64,
        /// How many, from the first on.
        printed: u64,
    },
    /// Somebody drops failed messages, or gives them to the workers again.
    Settle {
        /// Whether it is the latter.
        retry: bool,
        /// Which.
        records: Vec<Seen>,
    },
    /// Where is everything?
    Census,
}

/// A record that somebody saw in the errors store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Seen {
    /// Its id.
    pub id: Id,
    /// What it said.
    pub record: Record,
    /// Length of a pack of its text alone.
    pub bytes: u64,
}

/// What became of a record that was to be settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// Gone for good.
    Dropped,
    /// Its message waits in the queue.
    Retried,
    /// It is not in the store, or a drain holds it.
    Missing,
    /// It is no message that could wait, and stays.
    Unfit,
}

/// What a commit does to the application's counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Effect {
    /// Nothing.
    None,
    /// Adds to it.
    Add(u64),
    /// Something that would fail.
    Bad,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// To a beat: the node holds the lease.
    Generator {
        /// Under which epoch.
        epoch: u64,
        /// When to beat again.
        next: Ms,
        /// Redis's clock.
        now: Ms,
    },
    /// To a beat: it does not.
    Worker {
        /// Who does.
        holder: Option<Node>,
        /// Under which epoch.
        epoch: u64,
        /// When to beat again.
        next: Ms,
        /// Redis's clock.
        now: Ms,
        /// 1 and 2 are the first standbys, 0 any later one.
        place: u64,
    },
    /// To a leave, whether it gave up the lease.
    Left {
        /// Whether it did.
        resigned: bool,
    },
    /// To a person who frees the lease.
    Freed {
        /// The holder, if it is gone.
        holder: Option<Node>,
    },
    /// To a seal.
    Sealed {
        /// The last number.
        last: Seq,
        /// Where the schedule stands.
        cursor: u64,
    },
    /// To a seal or a publish: somebody else sealed.
    Fenced {
        /// Who.
        node: Option<Node>,
        /// Under which epoch.
        epoch: u64,
    },
    /// To a publish: written.
    Published,
    /// To a publish: the fleet has these numbers.
    AlreadyPublished {
        /// The last number.
        last: Seq,
    },
    /// An earlier try of this very call did it.
    Already,
    /// To a publish: the last number is another.
    Gap {
        /// Which.
        last: Seq,
    },
    /// To a publish or a commit: no room.
    Full {
        /// Open messages, or error records.
        count: u64,
    },
    /// To a claim.
    Claimed {
        /// Which messages. Who is suspected, a worker does not hear.
        range: Range,
        /// Whether the answer brings the pack along; if not, the node reads it.
        sent: bool,
        /// The pack; none if it is gone.
        pack: Option<Vec<Text>>,
    },
    /// Nothing waits.
    Empty,
    /// This number was settled before.
    Stale,
    /// To a claim: the slot holds another.
    Held {
        /// Its number.
        number: u64,
    },
    /// To an extend: per claim, whether it is still held.
    Extended(Vec<bool>),
    /// To a commit: written.
    Done,
    /// The claim is no longer this slot's.
    Lost,
    /// To a commit: its effect would fail.
    Refused,
    /// To a give-back: done.
    GivenBack,
    /// To a reclaim.
    Reclaimed {
        /// Messages that went back.
        messages: u64,
        /// Error records that went back.
        records: u64,
        /// Who held them.
        nodes: Vec<Node>,
    },
    /// To a drain's claim.
    Records(Vec<(Id, Record)>),
    /// To a census.
    Counted {
        /// Messages accepted.
        published: u64,
        /// Ended well.
        done: u64,
        /// Failed.
        failed: u64,
        /// Waiting.
        pending: u64,
        /// In hand.
        claimed: u64,
        /// Error records, in the store or in a drain's hands.
        errors: u64,
        /// Entries that were not ours.
        foreign: u64,
        /// Failed messages that were given to the workers again.
        retried: u64,
    },
    /// To whoever settles failed messages.
    Settled(Vec<Settled>),
}
