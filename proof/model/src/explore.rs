//! Every way in which things can go wrong, tried.
//!
//! A [`World`] is Redis, the nodes as clients of it, and what is on the wire between them. Its
//! steps are those of the nodes, and of fate: a call arrives now, or later than others, or
//! twice; an answer is lost; a node dies, with its calls still under way; the server notices a
//! death late, or believes one that is none; the clock jumps; a failover brings back an older
//! state. A node that pauses is one whose next step comes late, so every pause is among them.
//! How often fate may strike is bounded, everything else is tried in every order.

mod calm;
mod checks;
mod drain;
mod fate;
mod history;
mod lane;
mod reign;
mod report;

use std::ops::BitOrAssign;

pub use checks::Explored;
pub use fate::Step;
pub use history::{History, Wrong};
pub use report::{Report, explore};

use crate::call::{Call, Reply, Settled};
use crate::flaw::Flaw;
use crate::state::{Ms, Node, Seq, State, Suspects, Text};
use crate::step::{POISON_DEATHS, step};
use drain::Drain;
use history::Before;
use lane::Lane;
use reign::Reign;

/// Time to live of leases and claims.
const TTL: Ms = 1_000;

/// What a node is there for, and what fate may do.
#[derive(Debug, Clone, Default)]
pub struct Setting {
    /// Its name, for people.
    pub name: &'static str,
    /// How many nodes, the first ones, beat and generate.
    pub generators: u8,
    /// How many nodes, after them, work.
    pub workers: u8,
    /// Whether workers ask one after the other, begin in a fixed order, and die only with
    /// messages in hand: they are alike, so that most other orders are the same with other names.
    pub in_turn: bool,
    /// Whether the calls of a node that dies are lost with it. Else they may arrive later.
    pub last_words_lost: bool,
    /// How many nodes, after them, drain the errors store.
    pub drains: u8,
    /// Packs that lie in the queue at the beginning, by their sizes.
    pub given: Vec<u64>,
    /// How many texts are made in all, in packs of one or two.
    pub texts: u64,
    /// Most messages that may wait or be in hand.
    pub max_open: u64,
    /// Most messages that a worker asks for.
    pub want: u64,
    /// Whether messages fail.
    pub failing: bool,
    /// How often fate may strike.
    pub fate: Fate,
    /// Whether it is tried from every state if all comes to a good end. Takes its time.
    pub to_the_end: bool,
    /// A deliberate break.
    pub flaw: Option<Flaw>,
}

/// How often each thing may happen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Fate {
    /// Nodes die.
    pub crashes: u8,
    /// Answers are lost.
    pub silences: u8,
    /// Calls are sent again although the first is still on its way.
    pub twins: u8,
    /// A living node's connection is cut and comes back.
    pub cuts: u8,
    /// The clock jumps past every deadline, or back as far.
    pub jumps: u8,
    /// So much time passes that every node that lives is connected again.
    pub waits: u8,
    /// The clock is set a day ahead, or back.
    pub days: u8,
    /// The server restarts with all its data.
    pub restarts: u8,
    /// The server is replaced by one that lacks the last writes.
    pub failovers: u8,
    /// A generator's lease lapses, though nobody took it.
    pub lapses: u8,
    /// A worker or a drain gives back what it holds, or a part of it.
    pub returns: u8,
    /// Somebody drops a failed message, or retries it.
    pub settles: u8,
    /// A message is committed by itself, and its neighbours after it under the same claim.
    pub singles: u8,
}

/// Things that must be seen at least once, or nothing was proved.
#[derive(Debug, Clone, Copy, Default)]
pub struct Events(u32);

impl Events {
    const SEALED: Self = Self(1);
    const TAKEOVER: Self = Self(1 << 1);
    const FENCED: Self = Self(1 << 2);
    const ALREADY: Self = Self(1 << 3);
    const GAP: Self = Self(1 << 4);
    const LOST: Self = Self(1 << 5);
    const FULL: Self = Self(1 << 6);
    const SPLIT: Self = Self(1 << 7);
    const POISON: Self = Self(1 << 8);
    const PARTIAL: Self = Self(1 << 9);
    const DRAINED: Self = Self(1 << 10);
    const DROPPED: Self = Self(1 << 11);
    const RETRIED: Self = Self(1 << 12);
    const RETRIED_IN_PACK: Self = Self(1 << 13);
    const MISSING: Self = Self(1 << 14);
    const CLEARED: Self = Self(1 << 15);
    const POSTPONED: Self = Self(1 << 16);

    fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl BitOrAssign for Events {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// What the step before did is not part of what a state is.
impl PartialEq for Events {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
impl Eq for Events {}
impl std::hash::Hash for Events {
    fn hash<H: std::hash::Hasher>(&self, _: &mut H) {}
}

/// One node as a client.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Client {
    dead: bool,
    /// The epoch that its next lease must exceed.
    above: u64,
    reign: Reign,
    lane: Lane,
    drain: Drain,
    /// Number of its last claim on error records.
    drained: u64,
}

/// A call on its way.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Letter {
    by: Node,
    call: Call,
    /// The texts that the handler of a commit saw.
    texts: Vec<Text>,
}

/// Everything there is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    redis: State,
    now: Ms,
    nodes: Vec<Client>,
    /// Calls on their way, sorted: they may arrive in any order.
    wire: Vec<Letter>,
    /// What a failover would bring back.
    replica: Option<Box<(State, History)>>,
    history: History,
    /// Texts made so far.
    made: Text,
    max_open: u64,
    want: u64,
    last_words_lost: bool,
    flaw: Option<Flaw>,
    /// What fate may still do.
    fate: Fate,
    /// What the last step brought.
    events: Events,
}

impl World {
    fn new(setting: &Setting) -> Self {
        let nodes = setting.generators + setting.workers + setting.drains;
        let mut world = Self {
            redis: State {
                run: 1,
                present: (1 << nodes) - 1,
                ..State::default()
            },
            now: 10 * TTL,
            nodes: vec![Client::default(); nodes.into()],
            wire: Vec::new(),
            replica: None,
            history: History::default(),
            made: 0,
            max_open: u64::MAX,
            want: setting.want,
            last_words_lost: setting.last_words_lost,
            flaw: setting.flaw,
            fate: setting.fate,
            events: Events::default(),
        };
        // What is given was published by a node that is long gone.
        let before = Node::MAX;
        let mut first: Seq = 1;
        for count in &setting.given {
            let call = Call::Publish {
                node: before,
                epoch: 0,
                first,
                texts: (world.made + 1..=world.made + count).collect(),
                bytes: 0,
                cursor: first + count - 1,
                max_open: u64::MAX,
                audited: false,
            };
            world.redis.fence.node = Some(before);
            world.run(&call, &[]);
            world.made += count;
            first += count;
        }
        world.redis.fence.node = None;
        world.max_open = setting.max_open;
        world
    }

    /// A call on its way.
    fn send(&mut self, by: Node, call: Call, texts: Vec<Text>) {
        let letter = Letter { by, call, texts };
        let at = self.wire.partition_point(|other| *other < letter);
        self.wire.insert(at, letter);
    }

    /// A call arrives: the script runs, and the observer notes what it did.
    fn run(&mut self, call: &Call, texts: &[Text]) -> Reply {
        let before = Before::of(&self.redis, call, &self.nodes);
        let failed = self.redis.failed;
        let suspects = self.redis.waiting().next().unwrap_or_default().suspects;
        let reply = step(&mut self.redis, call, self.now, self.flaw);
        // For people: nothing depends on it.
        self.redis.lease.since = None;
        self.redis.takeovers.clear();
        self.history
            .witness(&before, call, &reply, &self.redis, texts);
        if matches!(call, Call::Claim { .. }) {
            self.events |= self.after_claim(suspects, failed, &reply);
        }
        self.events |= match (call, &reply) {
            (_, Reply::Fenced { .. }) => Events::FENCED,
            (_, Reply::Already | Reply::AlreadyPublished { .. }) => Events::ALREADY,
            (_, Reply::Gap { .. }) => Events::GAP,
            (Call::Commit { .. }, Reply::Lost) => Events::LOST,
            (_, Reply::Full { .. }) => Events::FULL,
            (_, Reply::Claimed { range, .. }) if range.size() < range.count => Events::SPLIT,
            (Call::ErrorsCommit { printed, .. }, Reply::Done) if *printed > 0 => Events::DRAINED,
            (_, Reply::Settled(settled)) => match settled[..] {
                [Settled::Dropped] => Events::DROPPED,
                [Settled::Retried]
                    if self
                        .redis
                        .waiting()
                        .last()
                        .is_some_and(|range| range.count > 1) =>
                {
                    Events::RETRIED_IN_PACK
                }
                [Settled::Retried] => Events::RETRIED,
                _ => Events::MISSING,
            },
            _ => Events::default(),
        };
        reply
    }

    /// What a claim did about the suspects of the first range, when so many messages had failed.
    fn after_claim(&self, suspects: Suspects, failed: u64, reply: &Reply) -> Events {
        let back = suspects.nodes & self.redis.present;
        let gone = Suspects::new(suspects.nodes & !back, suspects.since, suspects.run);
        match reply {
            _ if self.redis.failed > failed => Events::POISON,
            Reply::Claimed { .. } if back != 0 => Events::CLEARED,
            Reply::Claimed { .. } | Reply::Empty if gone.count() >= POISON_DEATHS => {
                Events::POSTPONED
            }
            _ => Events::default(),
        }
    }

    /// A node hears the answer to its call, or that there is none.
    fn hear(&mut self, by: Node, call: &Call, reply: Option<&Reply>) {
        if self.nodes[by as usize].dead {
            return;
        }
        match call {
            Call::Seal { node, epoch } => match reply {
                Some(reply) => self.hear_seal(by, *epoch, reply),
                None if self.nodes[by as usize].reign == (Reign::Sealing { epoch: *epoch }) => {
                    let (node, epoch) = (*node, *epoch);
                    self.send(by, Call::Seal { node, epoch }, Vec::new());
                }
                None => {}
            },
            Call::Publish { .. } => self.hear_publish(by, call, reply),
            Call::Claim { .. } | Call::Commit { .. } | Call::GiveBack { .. } => {
                self.hear_lane(by, call, reply);
            }
            Call::ErrorsClaim { .. } | Call::ErrorsCommit { .. } => {
                self.hear_drain(by, call, reply);
            }
            Call::Settle { .. } if reply.is_none() => self.send(by, call.clone(), Vec::new()),
            _ => {}
        }
    }
}
