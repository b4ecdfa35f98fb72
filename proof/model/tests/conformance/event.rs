//! The events of a sequence: calls, and everything else that can happen to a fleet.

use baton_model::call::Call;
use baton_model::state::{
    Body, Entry, Ms, Node, Note, Range, Record, RunId, Seq, Slot, State, Text,
};

/// The run id of the server before a restart. No server of this test has it.
pub(crate) const OTHER_RUN: RunId = u32::MAX;

/// One event.
#[derive(Debug, Clone)]
pub(crate) enum Event {
    /// A call, through the connection of a node that is present.
    Call { by: Node, call: Call },
    /// A node connects.
    Join(Node),
    /// A node's connection ends.
    Drop(Node),
    /// The clock moves on, or back.
    Shift(Ms),
    /// The server restarted with its data, and all nodes are back.
    Restarted,
    /// Workers may have died with the range at the head of the queue. Its first message gets the note,
    /// if there is one.
    Blame { range: Range, note: Option<Note> },
    /// A person pushes foreign entries into the queue.
    Foreign(std::ops::Range<Text>),
    /// A person puts a foreign member into `delayed`.
    ForeignDelayed { text: Text, due: Ms },
    /// A person makes a record by hand.
    Forge(Record),
    /// A person deletes a pack.
    LosePack(Seq),
    /// A staged pack expires.
    Expire(Node, u64),
    /// A person deletes a claim.
    LoseClaim(Slot),
    /// A person deletes the deadline of a claim.
    LoseDeadline(Slot),
    /// Absent nodes whose last beat was this long ago, at that run id.
    Crowd {
        nodes: Vec<Node>,
        ago: Ms,
        run_id: RunId,
    },
}

/// What Redis stores and the model leaves out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Unmodelled {
    /// Whether the protocol's version is stored.
    pub(crate) protocol: bool,
    /// The name of this data.
    pub(crate) born: Option<String>,
}

impl Unmodelled {
    /// What it must be after a call. The name is random, but never changes.
    pub(crate) fn after(&self, call: &Call, seen: &Self) -> Self {
        let seen = seen.born.as_ref();
        let born = seen.filter(|_| matches!(call, Call::Seal { .. }));
        Self {
            protocol: self.protocol || matches!(call, Call::Beat { .. }),
            born: self.born.as_ref().or(born).cloned(),
        }
    }
}

/// Applies an event that is not a call to the model. `at` is the time.
pub(crate) fn apply(event: &Event, state: &mut State, at: Ms) {
    match event {
        Event::Call { .. } => {}
        Event::Join(node) => state.set_present(*node, true),
        Event::Drop(node) => state.set_present(*node, false),
        Event::Shift(by) => shift(state, *by),
        Event::Restarted => {
            if state.lease.node.is_some() {
                state.lease.run_id = OTHER_RUN;
            }
            if state.lease.waited != 0 {
                state.lease.waited = OTHER_RUN;
            }
            state
                .nodes
                .values_mut()
                .for_each(|run_id| *run_id = OTHER_RUN);
            let claims = state.claims.values_mut();
            claims.for_each(|claim| claim.run_id = OTHER_RUN);
            let idle = std::mem::take(&mut state.idle).into_iter();
            state.idle = idle
                .map(|((node, _), idle)| ((node, OTHER_RUN), idle))
                .collect();
        }
        Event::Blame { range, note } => {
            state.queue[0] = Entry::Range(*range);
            state.notes.extend(note.map(|note| (range.first, note)));
        }
        Event::Foreign(texts) => {
            state.queue.extend(texts.clone().map(Entry::Foreign));
        }
        Event::ForeignDelayed { text, due } => {
            state.delayed.insert(Entry::Foreign(*text), *due);
        }
        Event::Forge(record) => state.fail(*record),
        Event::LosePack(first) => {
            state.packs.remove(first);
        }
        Event::Expire(node, stage) => {
            state.staged.remove(&(*node, *stage));
        }
        Event::LoseClaim(slot) => {
            state.claims.remove(slot);
        }
        Event::LoseDeadline(slot) => {
            state.deadlines.remove(slot);
        }
        Event::Crowd { nodes, ago, run_id } => {
            for node in nodes {
                // In line before all nodes of the sequence.
                state.joined.insert(*node, at - 1_000_000 + Ms::from(*node));
                state.seen.insert(*node, at - ago);
                state.nodes.insert(*node, *run_id);
            }
        }
    }
}

/// Moves all stored times back, which is the same as moving the clock on. The times of takeovers
/// and pauses stay: nothing depends on them.
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
        .chain(state.idle.values_mut().map(|idle| &mut idle.since))
        .chain(state.deadlines.values_mut())
        .chain(state.delayed.values_mut())
        .chain(state.workers.values_mut().map(|settled| &mut settled.at));
    times.for_each(|time| *time -= by);
    let waiting = state.queue.iter_mut().filter_map(|entry| match entry {
        Entry::Range(range) => Some(range),
        Entry::Foreign(_) => None,
    });
    let claimed = state.claims.values_mut();
    let claimed = claimed.filter_map(|claim| match &mut claim.body {
        Body::Messages(range) => Some(range),
        Body::Records(_) => None,
    });
    let suspects = waiting.chain(claimed).map(|range| &mut range.suspects);
    let suspects = suspects.filter(|suspects| suspects.nodes != 0);
    suspects.for_each(|suspects| suspects.since -= by);
}
