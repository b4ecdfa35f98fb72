//! The calls of the scripts, and their answers.

use crate::state::{
    Id, Ms, Node, Note, Origin, Pack, ParcelField, Paused, Range, Record, RunId, Seq, Sleeper,
    Slot, Text,
};

/// A call of a script.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Call {
    /// A node announces itself, and renews the lease or takes it.
    Beat {
        /// The node.
        node: Node,
        /// The server's run id, as the node's connection saw it.
        run_id: RunId,
        /// Time to live of the lease.
        ttl: Ms,
        /// An epoch that the lease must exceed.
        above: u64,
        /// Whether the node may generate.
        candidate: bool,
        /// The highest number that Redis acknowledged to the node; 0 for none.
        known: Seq,
    },
    /// A node leaves the fleet.
    Leave {
        /// The node.
        node: Node,
    },
    /// A new generator raises the fence.
    Seal {
        /// The generator.
        node: Node,
        /// Its epoch.
        epoch: u64,
    },
    /// A generator publishes a pack, or stores its cursor alone.
    Publish {
        /// The generator.
        node: Node,
        /// Its epoch.
        epoch: u64,
        /// Number of the first message.
        first: Seq,
        /// The texts; none if it stores the cursor alone.
        texts: Vec<Text>,
        /// Length of the encoded pack.
        bytes: u64,
        /// The generator's word for its packs.
        origin: Origin,
        /// How the pack reaches Redis.
        staging: Staging,
        /// Where the source stands after it.
        cursor: u64,
        /// Max messages that have not ended.
        max_open: u64,
        /// Time to live of the claim, if an idle node gets messages at once.
        ttl: Ms,
        /// How many µs after the full millisecond the server happens to run it.
        micros: u64,
        /// Whether the fleet is audited.
        audited: bool,
    },
    /// A generator declares that numbers have no message.
    Void {
        /// The generator.
        node: Node,
        /// Its epoch.
        epoch: u64,
        /// The first number.
        first: Seq,
        /// The last one.
        last: Seq,
        /// Whether the fleet is audited.
        audited: bool,
    },
    /// A generator keeps packs that are for other partitions, or removes such packs.
    Park {
        /// The generator.
        node: Node,
        /// Its epoch.
        epoch: u64,
        /// What it keeps, or removes.
        parking: Parking,
    },
    /// A worker claims messages from the head of the queue.
    Claim {
        /// The lane's slot.
        slot: Slot,
        /// Number of the claim.
        number: u64,
        /// The server's run id, as the node's connection saw it.
        run_id: RunId,
        /// Max messages.
        want: u64,
        /// Time to live of the claim.
        ttl: Ms,
        /// Whether the lane holds no other claim.
        alone: bool,
        /// If the lane has slept: how many other lanes of its node wait to sleep.
        sleepers: Option<u8>,
    },
    /// A worker extends its claims.
    Extend {
        /// Their new time to live.
        ttl: Ms,
        /// Slots and the numbers of their claims.
        claims: Vec<(Slot, u64)>,
    },
    /// A worker ends the first messages of its claim, or delays them.
    Commit {
        /// The claim's slot.
        slot: Slot,
        /// Number of the claim.
        number: u64,
        /// The first message of the commit.
        first: Seq,
        /// The last one.
        last: Seq,
        /// Records of those that failed.
        failed: Vec<Record>,
        /// Those that are tried again later.
        delayed: Vec<Delay>,
        /// Max records in the errors store.
        max_errors: u64,
        /// What is done to the application's counter.
        effect: Effect,
        /// Whether the fleet is audited.
        audited: bool,
    },
    /// A worker or a drain gives back the rest of its claim; a worker also a part of it.
    GiveBack {
        /// The claim's slot.
        slot: Slot,
        /// Number of the claim.
        number: u64,
        /// The last message that the worker keeps, if it keeps some.
        keep: Option<Seq>,
        /// Whether the messages go to the end of the queue.
        at_end: bool,
    },
    /// A node returns the claims of the dead, and delayed messages that are due.
    Reclaim {
        /// The server's run id, or 0 to believe any absence.
        run_id: RunId,
        /// The node that calls, if it works: it is woken if messages wait and no node is idle.
        caller: Option<Node>,
        /// Max claims that are checked.
        max_claims: usize,
        /// Max delayed messages that it returns.
        max_due: usize,
        /// What the server happened to sample.
        sampled: Sampled,
    },
    /// A person frees the lease of a holder that is gone.
    Free,
    /// A drain claims records.
    ErrorsClaim {
        /// The drain's slot.
        slot: Slot,
        /// Number of the claim.
        number: u64,
        /// The server's run id, as the drain's connection saw it.
        run_id: RunId,
        /// Exactly these records, or the oldest.
        ids: Option<Vec<Id>>,
        /// Max of the oldest records.
        max: u64,
        /// Time to live of the claim.
        ttl: Ms,
    },
    /// A drain deletes records of its claim.
    ErrorsCommit {
        /// The drain's slot.
        slot: Slot,
        /// Number of the claim.
        number: u64,
        /// How many, from the first on.
        removed: u64,
    },
    /// A person drops failed messages, or retries them.
    Settle {
        /// Whether to retry them.
        retry: bool,
        /// Their records.
        records: Vec<Seen>,
    },
    /// An operator pauses parts of the fleet, or lets them go on.
    Pause {
        /// Whether to let them go on.
        resume: bool,
        /// Whether it is about the generator.
        generator: bool,
        /// Whether it is about the workers.
        workers: bool,
    },
    /// A node that was rung and is busy rings for another one.
    Ring,
    /// A node of several partitions says what number it knows.
    Tell {
        /// The highest number that Redis acknowledged to it; 0 for none.
        known: Seq,
    },
    /// Counts where every message is.
    Census,
}

/// What a reclaim happens to sample.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Sampled {
    /// Fields of `workers`; it forgets old ones.
    pub workers: Vec<Slot>,
    /// Fields of `claims`; it gives them a missing deadline.
    pub claims: Vec<Slot>,
    /// Members of `idle`; it removes those that are absent.
    pub idle: Vec<Sleeper>,
}

impl Call {
    /// The number under which a publish stages its pack, if it does.
    pub fn stages(&self) -> Option<u64> {
        match self {
            Self::Publish {
                staging: Staging::Now(stage),
                ..
            } => Some(*stage),
            _ => None,
        }
    }
}

/// How the pack of a publish reaches Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Staging {
    /// As an argument: it is small.
    Inline,
    /// The generator stages it right before the call, under its own number of these texts.
    Now(u64),
    /// An earlier call staged it under that number.
    Before(u64),
}

/// What a call does with packs that are for other partitions.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Parking {
    /// Keeps these.
    Keep(Vec<(ParcelField, Text)>),
    /// Removes these.
    Remove(Vec<ParcelField>),
}

/// A message that is tried again later.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Delay {
    /// The message.
    pub seq: Seq,
    /// After what time.
    pub delay: Ms,
    /// What is noted of its attempts.
    pub note: Note,
    /// A pack of its text alone. The script takes it if the message is not the first of its pack.
    pub pack: Pack,
}

/// A record that a person saw in the errors store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Seen {
    /// Its id.
    pub id: Id,
    /// The record.
    pub record: Record,
    /// Length of a pack of its text alone.
    pub bytes: u64,
}

/// What a call to settle did with one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// Deleted it.
    Dropped,
    /// Put its message into the queue.
    Retried,
    /// Nothing: it is not in the store, or a drain holds it.
    Missing,
    /// Left it in the store: it is no message that could wait.
    Unfit,
}

/// What a commit does to the application's counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Effect {
    /// Nothing.
    None,
    /// Adds to it.
    Add(u64),
    /// Has an effect that would fail.
    Bad,
}

/// What a call published on the ring channel of a node that hears it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ring {
    /// The node.
    pub node: Node,
    /// The messages that the call claimed for it, if it did.
    pub handed: Option<Handed>,
}

/// Messages that a publish claimed for an idle node, in the slot [`Slot::handed`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handed {
    /// Number of the claim.
    pub number: u64,
    /// The messages.
    pub range: Range,
    /// Their pack.
    pub pack: HandedPack,
}

/// The pack of messages that a node was handed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HandedPack {
    /// It came along.
    Sent(Pack),
    /// It is large, and the node got all of it: one lane reads it.
    Whole,
    /// It is large, and the node got a part: the node reads it for all its lanes.
    Part,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// To a beat: the node holds the lease.
    Generator {
        /// Its epoch.
        epoch: u64,
        /// When to beat again.
        next: Ms,
        /// Redis's clock.
        now: Ms,
        /// How many first standbys there are.
        standbys: u64,
        /// The last number.
        last: Seq,
    },
    /// To a beat: the node does not hold the lease.
    Worker {
        /// The node that does.
        holder: Option<Node>,
        /// Its epoch.
        epoch: u64,
        /// When to beat again.
        next: Ms,
        /// Redis's clock.
        now: Ms,
        /// 1 and 2 are the first standbys, 0 any later one.
        place: u64,
        /// The last number.
        last: Seq,
    },
    /// To a leave.
    Left {
        /// Whether the node held the lease.
        resigned: bool,
    },
    /// To a call that frees the lease.
    Freed {
        /// The holder, if it is gone.
        holder: Option<Node>,
    },
    /// To a seal.
    Sealed {
        /// The last number.
        last: Seq,
        /// Where the source stands; 0 if no cursor is stored.
        cursor: u64,
        /// The highest number that a node knew when it was above the last one.
        known: Seq,
    },
    /// To a seal, a publish, a void or a park: another generator has sealed.
    Fenced {
        /// That generator.
        node: Option<Node>,
        /// Its epoch.
        epoch: u64,
    },
    /// To a publish or a void: written.
    Published,
    /// To a publish or a void: the fleet has these numbers.
    AlreadyPublished {
        /// The last number.
        last: Seq,
    },
    /// An earlier attempt of this very call did it.
    Already,
    /// To a publish or a void: the first number does not follow the last one.
    Gap {
        /// The last number.
        last: Seq,
    },
    /// To a publish: there is no staged pack.
    Missing,
    /// To a publish, a void or a claim: an operator has paused the generator, or the workers.
    Paused,
    /// To a pause or a resume: what was paused before.
    WasPaused(Paused),
    /// To a publish or a commit: no room.
    Full {
        /// Messages that have not ended, or records.
        count: u64,
    },
    /// To a claim.
    Claimed {
        /// The messages. A worker does not learn the suspects.
        range: Range,
        /// Whether the answer has the pack; if not, the node reads it.
        sent: bool,
        /// The pack; none if it is gone.
        pack: Option<Pack>,
    },
    /// No message waits.
    Empty,
    /// The slot has ended the claim of this number before.
    Stale,
    /// To a claim: the slot still has another.
    Held {
        /// Its number.
        number: u64,
    },
    /// To an extend: whether the slot still has each claim.
    Extended(Vec<bool>),
    /// To a commit or a park: written.
    Done,
    /// The slot does not have the claim any more.
    Lost,
    /// To a commit: its effect would fail.
    Refused,
    /// To a give-back: done.
    GivenBack,
    /// To a reclaim.
    Reclaimed {
        /// Messages that went back.
        messages: u64,
        /// Records that went back.
        records: u64,
        /// Delayed messages that were due.
        woken: u64,
        /// After what time the next one is due; none if no message is delayed.
        next_due: Option<Ms>,
        /// The nodes that had claimed them.
        nodes: Vec<Node>,
    },
    /// To a drain's claim.
    Records(Vec<(Id, Record)>),
    /// To a census.
    Counted {
        /// Published messages.
        published: u64,
        /// Ended well.
        done: u64,
        /// Failed.
        failed: u64,
        /// Waiting.
        pending: u64,
        /// Claimed by workers.
        claimed: u64,
        /// Delayed.
        delayed: u64,
        /// Records, also those that drains hold.
        errors: u64,
        /// Foreign entries.
        foreign: u64,
        /// Failed messages that were retried.
        retried: u64,
        /// Records that were dropped.
        dropped: u64,
        /// Numbers without a message.
        void: u64,
        /// What is paused.
        paused: Paused,
    },
    /// To a call that rings.
    Rung,
    /// To a node that tells what it knows.
    Told {
        /// The last number.
        last: Seq,
    },
    /// To a call that settles failed messages.
    Settled(Vec<Settled>),
}
