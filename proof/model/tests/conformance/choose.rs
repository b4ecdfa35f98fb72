//! From an operation to what it means now: its numbers choose among what the state offers.
//!
//! The first candidate of each choice is the one that does something; wild ones come last. So
//! a shrinking sequence becomes an ordinary one, with one wild thing in it.

mod failed;

use baton_model::call::{Call, Effect};
use baton_model::state::{
    Body, Claim, Entry, Ms, Node, Range, Reason, Record, Run, Seq, Slot, State, Suspects, Text,
};

use crate::event::{Event, OTHER_RUN};
use crate::op::{Op, Verb};
use crate::words;

/// Nodes that come and go.
pub(crate) const NODES: Node = 4;
/// Nodes that are remembered but never come.
const GHOSTS: std::ops::Range<Node> = NODES..10;
/// Lanes of a worker, and the lane of a drain.
const LANES: [u8; 2] = [0, 1];
const DRAIN: u8 = 9;
/// Times to live: real time, which passes during a sequence, should not matter to most.
const TTLS: [Ms; 6] = [100_000, 50_000, 300_000, 0, 100_000, 1_000];
/// How the clock moves. Whole seconds: `workers` knows no others.
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
/// When the last suspect was added, before now: long ago, just now, under a clock that was ahead.
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

/// What is known when it is an operation's turn.
pub(crate) struct Scene<'a> {
    pub(crate) state: &'a State,
    /// Redis's clock.
    pub(crate) at: Ms,
    pub(crate) run: Run,
    pub(crate) audited: bool,
    /// The call before, to be repeated.
    pub(crate) before: Option<&'a Event>,
    /// Texts that were given out.
    pub(crate) texts: &'a mut Text,
}

/// What an operation means now; nothing if there is nobody to do it.
pub(crate) fn choose(op: &Op, scene: Scene<'_>) -> Option<Event> {
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
        Verb::TakeBell => Some(Event::TakeBell),
        Verb::Blame => match chooser.scene.state.queue.first()? {
            Entry::Range(range) => Some(Event::Blame(Range {
                returns: chooser.one(&[3, 1, 2]),
                suspects: chooser.suspects(),
                ..*range
            })),
            Entry::Foreign(_) => None,
        },
        Verb::Foreign => {
            // One claim takes at most 100 of them out of the way.
            let count = chooser.one(&[1, 2, 1, 2, 1, 2, 1, 2, 100, 101]);
            Some(Event::Foreign(chooser.texts(count)))
        }
        Verb::Forge => Some(Event::Forge(chooser.forged())),
        Verb::LosePack => {
            let packs: Vec<Seq> = chooser.scene.state.packs.keys().copied().collect();
            Some(Event::LosePack(chooser.maybe(&packs)?))
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
            run: chooser.one(&[OTHER_RUN, chooser.scene.run]),
        }),
        Verb::Repeat => match chooser.scene.before? {
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

    /// One of some, at least one.
    fn one<T: Copy>(&mut self, candidates: &[T]) -> T {
        candidates[self.pick() % candidates.len()]
    }

    /// One of some, if there are any.
    fn maybe<T: Copy>(&mut self, candidates: &[T]) -> Option<T> {
        (!candidates.is_empty()).then(|| self.one(candidates))
    }

    /// True but for one time in so many.
    fn mostly(&mut self, times: usize) -> bool {
        self.pick() % times != times - 1
    }

    /// The usual one, or, one time in eight, one of the wild ones.
    fn usually<T: Copy>(&mut self, usual: T, wild: &[T]) -> T {
        match self.pick() {
            pick if pick % 8 == 7 => wild[pick / 8 % wild.len()],
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
        let bits = |nodes: &[Node], most: usize| {
            let nodes = nodes.iter().rev().take(most);
            nodes.fold(0, |bits, node| bits | 1 << node)
        };
        let (dead, alive) = self.one(&[(3, 0), (1, 0), (2, 0), (2, 1), (3, 1), (0, 3), (4, 0)]);
        let ago = self.one(&SUSPECTED);
        let nodes = bits(&absent, dead) | bits(&present, alive);
        // Mostly of this run of the server; or of another, or of a caller who knew none.
        let run = self.scene.run;
        let run = self.usually(run, &[OTHER_RUN, 0]);
        Suspects::new(nodes, self.scene.at - ago, run)
    }

    /// Texts that nobody has seen.
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
            Verb::Publish => self.publish(&present),
            Verb::Claim => self.claim(),
            Verb::Extend => self.extend(),
            Verb::Commit => self.commit(),
            Verb::GiveBack => self.give_back(),
            Verb::Reclaim => {
                let run = self.scene.run;
                Call::Reclaim {
                    run: self.usually(run, &[0]),
                    most: 64,
                    looked_at: Vec::new(),
                    checked: Vec::new(),
                }
            }
            Verb::Free => Call::Free,
            Verb::ErrorsClaim => self.errors_claim(),
            Verb::ErrorsCommit => self.errors_commit(),
            Verb::Settle => self.settle(),
            _ => Call::Census,
        };
        // What a node does for its own slot, another can do for it: to the script it is a late
        // twin of a call, or one that was held up on its way.
        let own = match &call {
            Call::Beat { node, .. }
            | Call::Leave { node }
            | Call::Seal { node, .. }
            | Call::Publish { node, .. } => *node,
            Call::Claim { slot, .. }
            | Call::Commit { slot, .. }
            | Call::GiveBack { slot, .. }
            | Call::ErrorsClaim { slot, .. }
            | Call::ErrorsCommit { slot, .. } => slot.node,
            Call::Extend { .. }
            | Call::Reclaim { .. }
            | Call::Free
            | Call::Settle { .. }
            | Call::Census => first_present,
        };
        let by = match self.scene.state.is_present(own) {
            true => own,
            false => first_present,
        };
        Some(Event::Call { by, call })
    }

    fn beat(&mut self, present: &[Node]) -> Call {
        let epoch = self.scene.state.lease.epoch;
        Call::Beat {
            node: self.one(present),
            run: self.scene.run,
            ttl: self.one(&TTLS),
            above: self.usually(0, &[epoch, epoch + 1, epoch.saturating_sub(1)]),
        }
    }

    fn seal(&mut self, present: &[Node]) -> Call {
        let state = self.scene.state;
        let holder = state.lease.node.filter(|node| state.is_present(*node));
        let (leased, fenced) = (state.lease.epoch, state.fence.epoch);
        let any = self.one(present);
        Call::Seal {
            node: self.usually(holder.unwrap_or(any), &[any]),
            epoch: match self.mostly(4) {
                true => leased.max(fenced).max(1),
                false => self.one(&[fenced, fenced + 1, fenced.saturating_sub(1), leased, 0]),
            },
        }
    }

    fn publish(&mut self, present: &[Node]) -> Call {
        let state = self.scene.state;
        let fence = &state.fence;
        let sealed = fence.node.filter(|node| state.is_present(*node));
        let any = self.one(present);
        let node = self.usually(sealed.unwrap_or(any), &[any]);
        let next = fence.last + 1;
        let first = self.usually(next, &[fence.last.max(1), next + 1, 1]);
        let count = self.one(&[1, 2, 3, 4, 20, 2, 3, 4]);
        let texts: Vec<Text> = self.texts(count).collect();
        let ended = state.done + state.failed;
        let open = (fence.last + state.retried).saturating_sub(ended) + count;
        Call::Publish {
            node,
            epoch: self.usually(
                fence.epoch,
                &[fence.epoch + 1, fence.epoch.saturating_sub(1)],
            ),
            first,
            bytes: words::pack(&texts).len() as u64,
            cursor: texts[0] * 10,
            texts,
            max_open: self.usually(1_000_000, &[open, open - 1, 0]),
            audited: self.scene.audited,
        }
    }

    /// Any slot of a worker; at times that of a drain.
    fn any_slot(&mut self) -> Slot {
        // Few of them, so that they meet their own past.
        let node = self.one(&[0, 1, 2, 0, 1, 3]);
        let lane = self.one(&LANES);
        Slot {
            node,
            lane: self.usually(lane, &[lane, lane, DRAIN]),
        }
    }

    /// A slot that holds messages, or records; at times any.
    fn holder(&mut self, of_messages: bool) -> Slot {
        let claims = self.scene.state.claims.iter();
        let holders =
            claims.filter(|(_, claim)| matches!(claim.body, Body::Messages(_)) == of_messages);
        let holders: Vec<Slot> = holders.map(|(slot, _)| *slot).collect();
        match self.mostly(8) {
            true => self.maybe(&holders),
            false => None,
        }
        .unwrap_or_else(|| self.any_slot())
    }

    /// The numbers of the claim that a slot holds and of the one that it settled last.
    fn numbers(&self, slot: Slot) -> (Option<u64>, u64) {
        let held = self.scene.state.claims.get(&slot);
        let settled = self.scene.state.workers.get(&slot);
        (
            held.map(|claim| claim.number),
            settled.map_or(0, |settled| settled.number),
        )
    }

    /// A number for a new claim.
    fn new_number(&mut self, slot: Slot) -> u64 {
        let (held, settled) = self.numbers(slot);
        let next = held.unwrap_or(0).max(settled) + 1;
        self.usually(next, &[held.unwrap_or(settled), settled, 1, next + 1])
    }

    /// The number of a claim that a slot should hold.
    fn held_number(&mut self, slot: Slot) -> u64 {
        let (held, settled) = self.numbers(slot);
        let held = held.unwrap_or(settled);
        self.usually(held, &[held + 1, settled, held.saturating_sub(1)])
    }

    fn claim(&mut self) -> Call {
        let slot = self.any_slot();
        Call::Claim {
            slot,
            number: self.new_number(slot),
            run: self.scene.run,
            want: self.one(&[2, 1, 3, 100, 17, 100, 0]),
            ttl: self.one(&TTLS),
        }
    }

    fn extend(&mut self) -> Call {
        let count = self.one(&[1, 2, 3]);
        let claims = (0..count).map(|_| {
            let slot = self.holder(true);
            (slot, self.held_number(slot))
        });
        Call::Extend {
            claims: claims.collect(),
            ttl: self.one(&TTLS),
        }
    }

    fn commit(&mut self) -> Call {
        let state = self.scene.state;
        let slot = self.holder(true);
        let held = match state.claims.get(&slot) {
            Some(Claim {
                body: Body::Messages(range),
                ..
            }) => Some(*range),
            _ => None,
        };
        let settled = state.workers.get(&slot);
        let settled = settled.map_or((1, 1), |settled| (settled.first, settled.last));
        let (usual_first, usual_last) = held.map_or(settled, |range| (range.first, range.last));
        let number = self.held_number(slot);
        // An old commit comes again only as a whole.
        let (first, last) = match self.pick() % 16 {
            0..8 => (usual_first, usual_last),
            8 | 9 => (usual_first, usual_first),
            10 | 11 => (usual_first, usual_first.midpoint(usual_last)),
            12 => (usual_first + 1, usual_last.max(usual_first + 1)),
            13 => (usual_first, usual_last + 1),
            14 => (usual_last + 1, usual_last),
            _ => settled,
        };
        let failed = self.failed(held.map_or(0, |range| range.returns), first, last);
        let room = state.errors.len() + failed.len();
        let tight = [room as u64, room.saturating_sub(1) as u64, 0];
        Call::Commit {
            slot,
            number,
            first,
            last,
            failed,
            max_errors: self.usually(1_000_000, &tight),
            effect: self.one(&[
                Effect::None,
                Effect::Add(1),
                Effect::Add(5),
                Effect::None,
                Effect::Bad,
            ]),
            audited: self.scene.audited,
        }
    }

    /// Records of some of these messages; at times of one too many.
    fn failed(&mut self, returns: u64, first: Seq, last: Seq) -> Vec<Record> {
        let which = self.pick() % 8;
        let fails = |seq: &Seq| match which {
            0..3 => false,
            3 => *seq == first,
            4 => *seq == last,
            5 => seq.is_multiple_of(2),
            _ => true,
        };
        let end = if which == 7 { last + 1 } else { last };
        let packs = &self.scene.state.packs;
        let text = |seq: Seq| {
            let (start, pack) = packs.range(..=seq).next_back()?;
            pack.texts.get((seq - start) as usize).copied()
        };
        let record = |seq: Seq| Record {
            seq,
            text: text(seq).unwrap_or(0),
            attempt: returns + 1,
            reason: Reason::Rejected,
        };
        (first..=end).filter(fails).map(record).collect()
    }

    fn give_back(&mut self) -> Call {
        let of_messages = self.mostly(3);
        let slot = self.holder(of_messages);
        Call::GiveBack {
            slot,
            number: self.held_number(slot),
        }
    }
}
