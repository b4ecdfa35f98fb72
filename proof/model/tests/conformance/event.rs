//! What can happen to a fleet: a call, or something that no call does.

use baton_model::call::Call;
use baton_model::state::{Body, Entry, Ms, Node, Range, Record, Run, Seq, Slot, State, Text};

/// The run of the server before it restarted. No server of ours has it.
pub(crate) const OTHER_RUN: Run = u32::MAX;

/// One thing that happens.
#[derive(Debug, Clone)]
pub(crate) enum Event {
    /// A script is called, through the connection of a node that is present.
    Call { by: Node, call: Call },
    /// A node connects.
    Join(Node),
    /// A node's connection ends.
    Drop(Node),
    /// The clock moves on, or back.
    Shift(Ms),
    /// The server restarted with its data, and all nodes are back.
    Restarted,
    /// An idle worker takes the bell's token.
    TakeBell,
    /// Workers may have died with the range at the head of the queue.
    Blame(Range),
    /// Somebody pushes what is not ours into the queue.
    Foreign(std::ops::Range<Text>),
    /// Somebody makes an error record by hand.
    Forge(Record),
    /// Somebody deletes a pack.
    LosePack(Seq),
    /// Somebody deletes a claim.
    LoseClaim(Slot),
    /// A person deletes the deadline of a claim.
    LoseDeadline(Slot),
    /// Nodes that beat this long ago, at that run, and are not present.
    Crowd { nodes: Vec<Node>, ago: Ms, run: Run },
}

/// What Redis holds and the model does not speak of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Beside {
    /// Whether the protocol's version is written down.
    pub(crate) protocol: bool,
    /// The name of this data.
    pub(crate) born: Option<String>,
}

impl Beside {
    /// What it is after a call. The name is any word, but once it is there it stays.
    pub(crate) fn after(&self, call: &Call, seen: &Self) -> Self {
        let seen = seen.born.as_ref();
        let born = seen.filter(|_| matches!(call, Call::Seal { .. }));
        Self {
            protocol: self.protocol || matches!(call, Call::Beat { .. }),
            born: self.born.as_ref().or(born).cloned(),
        }
    }
}

/// Lets something happen to the model that no call does. `at` is the time.
pub(crate) fn befall(event: &Event, state: &mut State, at: Ms) {
    match event {
        Event::Call { .. } => {}
        Event::Join(node) => state.set_present(*node, true),
        Event::Drop(node) => state.set_present(*node, false),
        Event::Shift(by) => shift(state, *by),
        Event::Restarted => {
            if state.lease.node.is_some() {
                state.lease.run = OTHER_RUN;
            }
            state.nodes.values_mut().for_each(|run| *run = OTHER_RUN);
            let claims = state.claims.values_mut();
            claims.for_each(|claim| claim.run = OTHER_RUN);
        }
        Event::TakeBell => state.bell = false,
        Event::Blame(range) => state.queue[0] = Entry::Range(*range),
        Event::Foreign(texts) => {
            state.queue.extend(texts.clone().map(Entry::Foreign));
        }
        Event::Forge(record) => state.fail(*record),
        Event::LosePack(first) => {
            state.packs.remove(first);
        }
        Event::LoseClaim(slot) => {
            state.claims.remove(slot);
        }
        Event::LoseDeadline(slot) => {
            state.deadlines.remove(slot);
        }
        Event::Crowd { nodes, ago, run } => {
            for node in nodes {
                // In front of everybody who is here.
                state.joined.insert(*node, at - 1_000_000 + Ms::from(*node));
                state.seen.insert(*node, at - ago);
                state.nodes.insert(*node, *run);
            }
        }
    }
}

/// That the clock moves on is the same as that all times move back; but for those of takeovers,
/// which are only told.
fn shift(state: &mut State, by: Ms) {
    if state.lease.node.is_some() {
        state.lease.until -= by;
    }
    let times = state
        .lease
        .since
        .iter_mut()
        .chain(state.joined.values_mut())
        .chain(state.seen.values_mut())
        .chain(state.deadlines.values_mut())
        .chain(state.workers.values_mut().map(|settled| &mut settled.at));
    times.for_each(|time| *time -= by);
    let waiting = state.queue.iter_mut().filter_map(|entry| match entry {
        Entry::Range(range) => Some(range),
        Entry::Foreign(_) => None,
    });
    let in_hand = state.claims.values_mut();
    let in_hand = in_hand.filter_map(|claim| match &mut claim.body {
        Body::Messages(range) => Some(range),
        Body::Records(_) => None,
    });
    let suspects = waiting.chain(in_hand).map(|range| &mut range.suspects);
    let suspects = suspects.filter(|suspects| suspects.nodes != 0);
    suspects.for_each(|suspects| suspects.since -= by);
}
