//! Turns an operation into an event: its random numbers choose among what the state offers.
//!
//! The first candidate of each choice is the usual one; unusual ones come last. So a shrunk sequence
//! is an ordinary one with few unusual events.

mod failed;
mod messages;
mod parked;

use baton_model::call::{Call, Sampled};
use baton_model::state::{Entry, Ms, Node, Note, Range, RunId, Seq, Slot, State, Suspects, Text};

use crate::event::{Event, OTHER_RUN};
use crate::operation::{Operation, Verb};

/// Nodes that come and go.
pub(crate) const NODES: Node = 4;
/// Nodes that Redis knows but that are never present.
const GHOSTS: std::ops::Range<Node> = NODES..10;
/// Max delayed messages that a reclaim wakes; no sequence has so many.
const MAX_DUE: usize = 500;
/// Lanes of a worker, and the lane of a drain.
const LANES: [u8; 2] = [0, 1];
const DRAIN: u8 = 9;
/// Times to live. Most are so long that the real time of a sequence does not matter.
const TTLS: [Ms; 6] = [100_000, 50_000, 300_000, 0, 100_000, 1_000];
/// How the clock moves: by whole seconds, because `workers` has no others.
const SHIFTS: [Ms; 16] = [
    100_000,
    700_000,
    60_000,
    300_000,
    -100_000,
    6_000,
    7_000,
    600_000,
    1_000,
    599_000,
    6_000,
    5_000,
    86_400_000,
    -86_400_000,
    -3_500_000,
    -3_600_000,
];
/// No sequence takes so long.
pub(crate) const MAX_SEQUENCE_MS: Ms = 10_000;
/// How far a clock may be wrong.
const DAY: Ms = 86_400_000;
/// How long ago the last suspect was added; negative if the clock was ahead.
const SUSPECTED: [Ms; 8] = [
    6_000,
    0,
    4_000,
    6_000,
    5_000,
    -1_000,
    -3_595_000,
    -86_400_000,
];

/// What an operation can refer to.
pub(crate) struct Scene<'a> {
    pub(crate) state: &'a State,
    /// Redis's clock.
    pub(crate) at: Ms,
    pub(crate) run_id: RunId,
    pub(crate) audited: bool,
    /// The last call, which may be repeated.
    pub(crate) last_call: Option<&'a Event>,
    /// The number of texts so far.
    pub(crate) texts: &'a mut Text,
}

/// The event of an operation; none if the state offers nothing for it.
pub(crate) fn choose(op: &Operation, scene: Scene<'_>) -> Option<Event> {
    let mut chooser = Chooser {
        scene,
        picks: op.picks.iter(),
    };
    match op.verb {
        Verb::Join => {
            let absent = chooser.nodes(false);
            Some(Event::Join(chooser.maybe(&absent)?))
        }
        Verb::Drop => {
            let present = chooser.nodes(true);
            Some(Event::Drop(chooser.maybe(&present)?))
        }
        Verb::Shift => Some(Event::Shift(chooser.one(&SHIFTS))),
        Verb::Restarted => Some(Event::Restarted),
        Verb::Blame => match chooser.scene.state.queue.first()? {
            Entry::Range(range) => Some(Event::Blame {
                range: Range {
                    returns: chooser.one(&[3, 1, 2]),
                    suspects: chooser.suspects(),
                    ..*range
                },
                note: chooser.mostly(2).then_some(Note { first: 1, last: 2 }),
            }),
            Entry::Foreign(_) => None,
        },
        Verb::Foreign => {
            // One claim removes at most 100 of them.
            let count = chooser.one(&[1, 2, 1, 2, 1, 2, 1, 2, 100, 101]);
            Some(Event::Foreign(chooser.texts(count)))
        }
        Verb::ForeignDelayed => {
            let text = chooser.texts(1).start;
            // No two members are due at the same time: the model does not know which text is first.
            let far = 2 * DAY + text as Ms * MAX_SEQUENCE_MS;
            let due = chooser.one(&[chooser.scene.at + far, chooser.scene.at - far]);
            Some(Event::ForeignDelayed { text, due })
        }
        Verb::Forge => Some(Event::Forge(chooser.forged())),
        Verb::LosePack => {
            let packs: Vec<Seq> = chooser.scene.state.packs.keys().copied().collect();
            Some(Event::LosePack(chooser.maybe(&packs)?))
        }
        Verb::Expire => {
            let staged: Vec<(Node, u64)> = chooser.scene.state.staged.keys().copied().collect();
            let (node, stage) = chooser.maybe(&staged)?;
            Some(Event::Expire(node, stage))
        }
        Verb::LoseClaim => {
            let slots: Vec<Slot> = chooser.scene.state.claims.keys().copied().collect();
            Some(Event::LoseClaim(chooser.maybe(&slots)?))
        }
        Verb::LoseDeadline => {
            let slots: Vec<Slot> = chooser.scene.state.claims.keys().copied().collect();
            Some(Event::LoseDeadline(chooser.maybe(&slots)?))
        }
        Verb::Crowd => Some(Event::Crowd {
            nodes: GHOSTS.collect(),
            ago: chooser.one(&[0, 5_000, 700_000]),
            run_id: chooser.one(&[OTHER_RUN, chooser.scene.run_id]),
        }),
        Verb::Repeat => match chooser.scene.last_call? {
            Event::Call { by, .. } if !chooser.scene.state.is_present(*by) => None,
            event => Some(event.clone()),
        },
        verb => chooser.call(verb),
    }
}

struct Chooser<'a> {
    scene: Scene<'a>,
    picks: std::slice::Iter<'a, u8>,
}

impl Chooser<'_> {
    fn pick(&mut self) -> usize {
        self.picks.next().map_or(0, |pick| usize::from(*pick))
    }

    /// One of these; there must be one.
    fn one<T: Copy>(&mut self, candidates: &[T]) -> T {
        candidates[self.pick() % candidates.len()]
    }

    /// One of these, if there are any.
    fn maybe<T: Copy>(&mut self, candidates: &[T]) -> Option<T> {
        (!candidates.is_empty()).then(|| self.one(candidates))
    }

    /// False once in so many times, true otherwise.
    fn mostly(&mut self, times: usize) -> bool {
        self.pick() % times != times - 1
    }

    /// The usual one, or, once in eight times, one of the unusual ones.
    fn usually<T: Copy>(&mut self, usual: T, unusual: &[T]) -> T {
        match self.pick() {
            pick if pick % 8 == 7 => unusual[pick / 8 % unusual.len()],
            _ => usual,
        }
    }

    fn nodes(&self, present: bool) -> Vec<Node> {
        let is = |node: &Node| self.scene.state.is_present(*node) == present;
        (0..NODES).filter(is).collect()
    }

    /// Nodes that may have died, some of them present.
    fn suspects(&mut self) -> Suspects {
        let (present, absent) = (self.nodes(true), self.nodes(false));
        let absent: Vec<Node> = GHOSTS.rev().chain(absent).collect();
        let bits = |nodes: &[Node], max: usize| {
            let nodes = nodes.iter().rev().take(max);
            nodes.fold(0, |bits, node| bits | 1 << node)
        };
        let (dead, alive) = self.one(&[(3, 0), (1, 0), (2, 0), (2, 1), (3, 1), (0, 3), (4, 0)]);
        let ago = self.one(&SUSPECTED);
        let nodes = bits(&absent, dead) | bits(&present, alive);
        // Usually the server's run id; or another, or that of a caller who knew none.
        let run_id = self.scene.run_id;
        let run_id = self.usually(run_id, &[OTHER_RUN, 0]);
        Suspects::new(nodes, self.scene.at - ago, run_id)
    }

    /// New texts.
    fn texts(&mut self, count: u64) -> std::ops::Range<Text> {
        let first = *self.scene.texts + 1;
        *self.scene.texts += count;
        first..first + count
    }

    /// A call by a node that is present, if there is one.
    fn call(&mut self, verb: Verb) -> Option<Event> {
        let present = self.nodes(true);
        let first_present = *present.first()?;
        let call = match verb {
            Verb::Beat => self.beat(&present),
            Verb::Leave => Call::Leave {
                node: self.one(&present),
            },
            Verb::Seal => self.seal(&present),
            // Before the first seal, no publish is accepted, and no park.
            Verb::Publish | Verb::Park
                if self.scene.state.fence.node.is_none() && self.mostly(4) =>
            {
                self.seal(&present)
            }
            Verb::Publish => self.publish(&present),
            Verb::Void => self.void(&present),
            Verb::Park => self.park(&present),
            Verb::Claim => self.claim(),
            Verb::Extend => self.extend(),
            Verb::Commit => self.commit(),
            Verb::GiveBack => self.give_back(),
            Verb::Reclaim => {
                let run_id = self.scene.run_id;
                let run_id = self.usually(run_id, &[0]);
                Call::Reclaim {
                    run_id,
                    caller: (run_id != 0).then_some(first_present),
                    max_claims: 64,
                    max_due: MAX_DUE,
                    sampled: Sampled::default(),
                }
            }
            Verb::Ring => Call::Ring,
            Verb::Tell => Call::Tell {
                known: self.known(),
            },
            Verb::Free => Call::Free,
            Verb::Pause => self.pause(),
            Verb::ErrorsClaim => self.errors_claim(),
            Verb::ErrorsCommit => self.errors_commit(),
            Verb::Settle => self.settle(),
            _ => Call::Census,
        };
        // If the node of the slot is absent, another node makes the call. To the script it is a late
        // duplicate, or a call that was delayed.
        let own = match &call {
            Call::Beat { node, .. }
            | Call::Leave { node }
            | Call::Seal { node, .. }
            | Call::Publish { node, .. }
            | Call::Void { node, .. }
            | Call::Park { node, .. } => *node,
            Call::Claim { slot, .. }
            | Call::Commit { slot, .. }
            | Call::GiveBack { slot, .. }
            | Call::ErrorsClaim { slot, .. }
            | Call::ErrorsCommit { slot, .. } => slot.node,
            Call::Extend { .. }
            | Call::Reclaim { .. }
            | Call::Free
            | Call::Pause { .. }
            | Call::Settle { .. }
            | Call::Ring
            | Call::Tell { .. }
            | Call::Census => first_present,
        };
        let by = match self.scene.state.is_present(own) {
            true => own,
            false => first_present,
        };
        Some(Event::Call { by, call })
    }
}
