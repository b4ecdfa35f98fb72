//! What was true before a call, so that the history knows what the call did.

use std::collections::BTreeMap;

use super::{Client, Events};
use crate::call::{Call, Reply};
use crate::state::{Body, Entry, Id, Ms, Node, Note, Range, Seq, Slot, State};
use crate::step::POISON_DEATHS;

/// What was true before a call, as far as it takes to know what the call did.
pub(super) struct Before {
    pub(super) last: Seq,
    /// The generator that may publish, and its epoch.
    pub(super) fence: (Option<Node>, u64),
    pub(super) last_id: Id,
    pub(super) records: Vec<Seq>,
    /// The ranges that waited, if the call is a publish or a claim; and the dead nodes.
    pub(super) waiting: Vec<Range>,
    dead: u32,
    /// The claims on messages with their deadlines and the delayed messages, if the call is a reclaim.
    pub(super) claimed: Vec<(Slot, Range, Ms)>,
    pub(super) delayed: BTreeMap<Entry, Ms>,
    /// The notes, if the call is a claim or a commit.
    notes: BTreeMap<Seq, Note>,
    pub(super) now: Ms,
}

impl Before {
    pub(super) fn of(state: &State, call: &Call, nodes: &[Client], now: Ms) -> Self {
        let records = match call {
            Call::ErrorsCommit { slot, .. } => match state.claims.get(slot).map(|c| &c.body) {
                Some(Body::Records(ids)) => {
                    let records = ids.iter().filter_map(|id| state.errors.get(id));
                    records.map(|record| record.seq).collect()
                }
                _ => Vec::new(),
            },
            _ => Vec::new(),
        };
        let (waiting, dead) = match call {
            Call::Claim { .. } => {
                let dead = nodes.iter().enumerate().filter(|(_, client)| client.dead);
                let dead = dead.map(|(node, _)| 1 << node).sum();
                (state.waiting().collect(), dead)
            }
            Call::Publish { .. } => (state.waiting().collect(), 0),
            _ => (Vec::new(), 0),
        };
        let (claimed, delayed) = match call {
            Call::Reclaim { .. } => {
                let claims = state.claims.iter();
                let claimed = claims.filter_map(|(slot, claim)| match claim.body {
                    Body::Messages(range) => {
                        let deadline = state.deadlines.get(slot).copied();
                        Some((*slot, range, deadline.unwrap_or(now)))
                    }
                    Body::Records(_) => None,
                });
                (claimed.collect(), state.delayed.clone())
            }
            _ => Default::default(),
        };
        let notes = match call {
            Call::Claim { .. } | Call::Commit { .. } => state.notes.clone(),
            _ => BTreeMap::new(),
        };
        Self {
            last: state.fence.last,
            fence: (state.fence.node, state.fence.epoch),
            last_id: state.last_id,
            records,
            waiting,
            dead,
            claimed,
            delayed,
            notes,
            now,
        }
    }

    /// What a call did with messages that were tried before.
    pub(super) fn event_of_attempts(&self, call: &Call, reply: &Reply) -> Events {
        let Call::Commit {
            first,
            last,
            failed,
            delayed,
            ..
        } = call
        else {
            return Events::default();
        };
        let mut events = Events::default();
        let is_delayed = |seq: Seq| delayed.iter().any(|delay| delay.seq == seq);
        let tried = (*first..=*last).filter(|seq| self.notes.contains_key(seq));
        for seq in tried.filter(|_| *reply == Reply::Done) {
            let record = failed.iter().find(|record| record.seq == seq);
            events |= match record {
                Some(record) if record.first_reason.is_some() => Events::FAILED_LAST,
                Some(_) => Events::default(),
                None if is_delayed(seq) => Events::DELAYED_AGAIN,
                None => Events::DONE_LATER,
            };
        }
        events
    }

    /// Whether a claim left the queue as it was.
    pub(super) fn left_queue(&self, after: &State) -> bool {
        after.waiting().eq(self.waiting.iter().copied())
    }

    /// Whether enough processes died with a message to make it poison.
    pub(super) fn killed_enough(&self, seq: Seq) -> bool {
        let mut ranges = self.waiting.iter();
        let range = ranges.find(|range| (range.first..=range.last).contains(&seq));
        let suspects = range.map_or(0, |range| range.suspects.nodes);
        u64::from((suspects & self.dead).count_ones()) >= POISON_DEATHS
    }
}
