//! Every order of events, explored.
//!
//! A [`World`] is Redis, the nodes as clients of it, and the calls between them. Its actions are
//! the steps of the nodes, and faults: a call arrives late, or twice; an answer is lost; a node
//! dies while its calls are on their way; the server notices a death late, or takes a living node
//! for dead; the clock jumps; a failover brings back an older state. A paused node is one whose
//! next step comes late, so every pause is explored. The number of faults is bounded; everything
//! else is tried in every order.

mod actions;
mod before;
mod checks;
mod confirmations;
mod drain;
mod events;
mod generator;
mod handed;
mod held_claim;
mod history;
mod lane;
mod liveness;
mod opening;
mod report;
mod scenario;
pub(crate) mod source;
mod transition;
mod witness;

use std::collections::BTreeMap;

pub use actions::{Action, Part};
pub use checks::Explored;
pub use held_claim::Outcomes;
pub use history::{History, Violation};
pub use report::{Report, explore};
pub(crate) use report::{Reported, report_of};
pub use scenario::{Faults, Scenario};
pub use source::SourceKind;

use crate::call::{Call, Reply, Staging};
use crate::flaw::Flaw;
use crate::state::{Ms, Node, Origin, Seq, Slot, State, Text};
use crate::step::step;
use before::Before;
use confirmations::{Answered, Confirmed};
use drain::Drain;
use events::Events;
use generator::Generator;
use handed::HandedPart;
use lane::Lane;
use opening::Kept;

/// Time to live of leases and claims.
const TTL: Ms = 1_000;
/// The word of the generator that published the given packs.
const GIVEN: Origin = 1;

/// What a client knows of a call that it sent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum CallState<Answer> {
    /// No answer yet.
    InFlight,
    /// The answer is lost.
    ReplyLost,
    Answered(Answer),
}

/// One node as a client.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Client {
    dead: bool,
    /// The epoch that its next lease must exceed.
    above: u64,
    generator: Generator,
    lane: Lane,
    handed: HandedPart,
    drain: Drain,
    /// Number of its last claim on records.
    drain_number: u64,
    /// How many packs it has numbered to stage them.
    stages: u64,
    /// Whether it never generates: its source gave up, or it only works or drains.
    declines: bool,
    /// The highest number that it was told to be published or processed.
    known: Seq,
    /// The highest number that it has said in a beat to this server.
    said: Seq,
    /// The texts of the messages that it was told to be published or processed.
    told: BTreeMap<Seq, Text>,
    /// Answers that it does not believe yet.
    unconfirmed: Vec<Answered>,
    /// Whether it waits for a replica.
    is_confirming: bool,
    /// The packs of its reign before, if no other generator reigned since.
    kept: Option<Kept>,
    /// The number behind the server's last one, if the node had a pack of it when it went on.
    gave_up_on: Option<Seq>,
}

/// A call on its way to Redis.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct SentCall {
    by: Node,
    call: Call,
    /// The texts that the handler got, if it is a commit.
    texts: Vec<Text>,
}

/// Redis, the nodes, and the calls between them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    redis: State,
    now: Ms,
    nodes: Vec<Client>,
    /// Calls on their way, sorted: they may arrive in any order.
    wire: Vec<SentCall>,
    /// The state that a failover would bring back.
    replica: Option<Box<(State, History)>>,
    history: History,
    /// The text of every key that was ever published, also of those that a failover lost.
    keys: BTreeMap<(Origin, Seq), Text>,
    /// The messages that a node was told of, if nodes confirm answers.
    confirmed: BTreeMap<Seq, Confirmed>,
    /// The highest number that a node had said to this server when the last generator sealed.
    said_before_seal: Seq,
    /// The nodes that were connected to this server, a bit per node.
    connected: u32,
    max_open: u64,
    want: u64,
    calls_die_with_node: bool,
    stages_packs: bool,
    source: SourceKind,
    confirms: bool,
    /// Whether workers sleep in `idle`, so that publishes hand messages over to them.
    hands_over: bool,
    /// Whether the server may forget: only then it matters what the nodes know.
    may_forget: bool,
    flaw: Option<Flaw>,
    /// The faults that may still happen.
    faults: Faults,
    /// What the last action brought about.
    events: Events,
}

fn client(node: Node, scenario: &Scenario) -> Client {
    Client {
        declines: node >= scenario.generators,
        ..Client::default()
    }
}

impl World {
    fn new(scenario: &Scenario) -> Self {
        let nodes = scenario.generators + scenario.workers + scenario.drains;
        let mut world = Self {
            redis: State {
                run_id: 1,
                present: (1 << nodes) - 1,
                ..State::default()
            },
            now: 10 * TTL,
            nodes: (0..nodes).map(|node| client(node, scenario)).collect(),
            wire: Vec::new(),
            replica: None,
            history: History::default(),
            keys: BTreeMap::new(),
            confirmed: BTreeMap::new(),
            said_before_seal: 0,
            connected: (1 << nodes) - 1,
            max_open: u64::MAX,
            want: scenario.want,
            calls_die_with_node: scenario.calls_die_with_node,
            stages_packs: scenario.stages_packs,
            source: scenario.source,
            confirms: scenario.confirms,
            hands_over: scenario.hands_over,
            may_forget: scenario.faults.failovers > 0,
            flaw: scenario.flaw,
            faults: scenario.faults,
            events: Events::default(),
        };
        // A node that is long gone has published the given packs.
        let publisher = Node::MAX;
        let mut first: Seq = 1;
        for count in &scenario.given {
            let call = Call::Publish {
                node: publisher,
                epoch: 0,
                first,
                texts: (first..first + count)
                    .map(|row| source::text(row, GIVEN))
                    .collect(),
                bytes: 0,
                origin: GIVEN,
                staging: Staging::Inline,
                cursor: source::cursor_after(first + count - 1),
                max_open: u64::MAX,
                ttl: TTL,
                micros: 0,
                audited: false,
            };
            world.redis.fence.node = Some(publisher);
            world.execute(&call, &[]);
            first += count;
        }
        world.redis.fence.node = None;
        world.max_open = scenario.max_open;
        world
    }

    /// Sends a call to Redis.
    fn send(&mut self, by: Node, call: Call, texts: Vec<Text>) {
        let sent = SentCall { by, call, texts };
        let at = self.wire.partition_point(|other| *other < sent);
        self.wire.insert(at, sent);
    }

    /// Redis executes a call, and the history notes what it did.
    fn execute(&mut self, call: &Call, texts: &[Text]) -> Reply {
        let before = Before::of(&self.redis, call, &self.nodes, self.now);
        let failed = self.redis.failed;
        let suspects = self.redis.waiting().next().unwrap_or_default().suspects;
        let lease = self.redis.lease.clone();
        let (reply, rings) = step(&mut self.redis, call, self.now, self.flaw);
        // Nothing depends on these; they would only multiply the states.
        self.redis.lease.since = None;
        self.redis.takeovers.clear();
        match self.hands_over {
            true => self.redis.idle.values_mut().for_each(|idle| idle.since = 0),
            false => self.redis.idle.clear(),
        }
        self.history
            .witness(&before, call, &reply, &self.redis, texts);
        self.send_rings(rings);
        if reply == Reply::Published {
            self.note_keys(call);
            self.check_texts(call);
            self.check_void(call);
        }
        self.note_said(call, &reply);
        self.check_absence(call, &lease, &before);
        if matches!(call, Call::Claim { .. }) {
            self.events |= self.event_of_claim(suspects, failed, &reply);
        }
        self.events |= self.event_of(call, &reply);
        self.events |= self.event_of_pause(call, &reply);
        self.events |= self.event_of_regression(call, &reply, &lease);
        self.events |= before.event_of_attempts(call, &reply);
        reply
    }

    /// Notes the keys of published messages. No two texts may ever have the same.
    fn note_keys(&mut self, call: &Call) {
        let Call::Publish {
            first,
            texts,
            origin,
            ..
        } = call
        else {
            return;
        };
        for (seq, text) in (*first..).zip(texts) {
            if *self.keys.entry((*origin, seq)).or_insert(*text) != *text {
                self.history.note(Violation::KeyOfAnother);
            }
        }
    }

    /// A node gets the answer to its call; none if the answer is lost.
    fn hear(&mut self, by: Node, call: &Call, reply: Option<&Reply>) {
        if self.nodes[by as usize].dead {
            return;
        }
        match call {
            Call::Seal { epoch, .. } => self.hear_seal(by, *epoch, reply),
            Call::Publish { .. } | Call::Void { .. } => self.hear_publish(by, call, reply),
            Call::Commit { slot, .. } | Call::GiveBack { slot, .. }
                if slot.lane == Slot::HANDED =>
            {
                self.hear_handed(by, call, reply);
            }
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
