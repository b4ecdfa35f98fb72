//! Calls of generators and workers.

use baton_model::call::{Call, Delay, Effect, Staging};
use baton_model::state::{
    Body, Claim, Ms, Node, Note, Origin, Pack, Range, Reason, Record, Seq, Slot, Text,
};

use baton_protocol::bounds::SMALL_PACK_BYTES;

use super::{Chooser, DRAIN, LANES, TTLS};
use crate::encoding;

/// How long messages are delayed. The longest is the max.
const DELAYS: [Ms; 6] = [0, 60_000, 0, 1_000, 300_000, 3_600_000];

impl Chooser<'_> {
    pub(super) fn beat(&mut self, present: &[Node]) -> Call {
        let epoch = self.scene.state.lease.epoch;
        Call::Beat {
            node: self.one(present),
            run_id: self.scene.run_id,
            ttl: self.one(&TTLS),
            above: self.usually(0, &[epoch, epoch + 1, epoch.saturating_sub(1)]),
            candidate: self.mostly(8),
            known: self.known(),
        }
    }

    /// A number that a node knows; sometimes one that the server forgot.
    pub(super) fn known(&mut self) -> Seq {
        let (last, known) = (self.scene.state.fence.last, self.scene.state.fence.known);
        self.usually(0, &[last + 2, last, known + 1, known, last + 1])
    }

    pub(super) fn seal(&mut self, present: &[Node]) -> Call {
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

    /// A pause; mostly the end of one, if something is paused: else a sequence would do little more.
    pub(super) fn pause(&mut self) -> Call {
        let paused = self.scene.state.fence.paused;
        let is_paused = paused.generator.is_some() || paused.workers.is_some();
        let (generator, workers) =
            self.one(&[(true, true), (true, false), (false, true), (false, false)]);
        Call::Pause {
            resume: self.mostly(4) == is_paused,
            generator,
            workers,
        }
    }

    pub(super) fn publish(&mut self, present: &[Node]) -> Call {
        let state = self.scene.state;
        let fence = &state.fence;
        let sealed = fence.node.filter(|node| state.is_present(*node));
        let any = self.one(present);
        let node = self.usually(sealed.unwrap_or(any), &[any]);
        let next = fence.last + 1;
        let any_first = [fence.last.max(1), next + 1, 1];
        // Once in a while the source has no messages, and only its cursor is stored.
        let (first, (staging, texts, origin)) = match self.one(&[1, 2, 3, 4, 20, 2, 3, 0]) {
            0 if self.mostly(2) => (next, (Staging::Inline, Vec::new(), 0)),
            0 => (self.one(&any_first), (Staging::Inline, Vec::new(), 0)),
            count => (self.usually(next, &any_first), self.pack_of(node, count)),
        };
        let count = texts.len() as u64;
        let ended = state.done + state.failed + state.void;
        let open = (fence.last + state.retried).saturating_sub(ended) + count;
        Call::Publish {
            node,
            epoch: self.usually(
                fence.epoch,
                &[fence.epoch + 1, fence.epoch.saturating_sub(1)],
            ),
            first,
            bytes: encoding::pack(&texts, origin).len() as u64,
            origin,
            staging,
            cursor: self.texts(1).start * 10,
            texts,
            max_open: self.usually(1_000_000, &[open, open.saturating_sub(1), 0]),
            ttl: self.one(&TTLS),
            // The state after the call shows it.
            micros: 0,
            audited: self.scene.audited,
        }
    }

    /// A void; mostly of numbers that a node knows, or of the next one.
    pub(super) fn void(&mut self, present: &[Node]) -> Call {
        let state = self.scene.state;
        let fence = &state.fence;
        let sealed = fence.node.filter(|node| state.is_present(*node));
        let any = self.one(present);
        let next = fence.last + 1;
        let first = self.usually(next, &[next + 1, fence.last.max(1), 1]);
        let last = self.one(&[fence.known, next, next + 1, next + 5, fence.last]);
        Call::Void {
            node: self.usually(sealed.unwrap_or(any), &[any]),
            epoch: self.usually(
                fence.epoch,
                &[fence.epoch + 1, fence.epoch.saturating_sub(1)],
            ),
            first,
            last: last.max(first),
            audited: self.scene.audited,
        }
    }

    /// A pack: new texts, which are staged if they are many bytes; or texts that the node has staged
    /// before; once in a while, texts that it staged and that are gone.
    fn pack_of(&mut self, node: Node, count: u64) -> (Staging, Vec<Text>, Origin) {
        let staged = self.scene.state.staged.iter();
        let staged = staged.filter(|((by, _), _)| *by == node);
        let staged: Vec<(u64, &Pack)> = staged.map(|((_, stage), pack)| (*stage, pack)).collect();
        let before = self.mostly(2).then(|| self.maybe(&staged)).flatten();
        if let Some((stage, pack)) = before {
            return (Staging::Before(stage), pack.texts.clone(), pack.origin);
        }
        let texts: Vec<Text> = self.texts(count).collect();
        let origin = texts[0] % 3 + 1;
        if encoding::pack(&texts, origin).len() <= SMALL_PACK_BYTES {
            return (Staging::Inline, texts, origin);
        }
        // A text is never in two packs, so its number is one of the pack.
        let stage = texts[0];
        let staging = self.usually(Staging::Now(stage), &[Staging::Before(stage)]);
        (staging, texts, origin)
    }

    /// Any slot of a worker; sometimes that of a drain.
    pub(super) fn any_slot(&mut self) -> Slot {
        // Few of them, so that they claim again and again.
        let node = self.one(&[0, 1, 2, 0, 1, 3]);
        let lane = self.one(&LANES);
        Slot {
            node,
            lane: self.usually(lane, &[lane, Slot::HANDED, DRAIN]),
        }
    }

    /// A slot that has claimed messages, or records; sometimes any slot.
    pub(super) fn holder(&mut self, of_messages: bool) -> Slot {
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

    /// The numbers of a slot's claim and of the one that it ended last.
    fn numbers(&self, slot: Slot) -> (Option<u64>, u64) {
        let held = self.scene.state.claims.get(&slot);
        let ended = self.scene.state.workers.get(&slot);
        (
            held.map(|claim| claim.number),
            ended.map_or(0, |ended| ended.number),
        )
    }

    /// A number for a new claim.
    pub(super) fn new_number(&mut self, slot: Slot) -> u64 {
        let (held, ended) = self.numbers(slot);
        let next = held.unwrap_or(0).max(ended) + 1;
        self.usually(next, &[held.unwrap_or(ended), ended, 1, next + 1])
    }

    /// The number of a slot's claim; sometimes a wrong one.
    pub(super) fn held_number(&mut self, slot: Slot) -> u64 {
        let (held, ended) = self.numbers(slot);
        let held = held.unwrap_or(ended);
        self.usually(held, &[held + 1, ended, held.saturating_sub(1)])
    }

    pub(super) fn claim(&mut self) -> Call {
        let slot = self.any_slot();
        Call::Claim {
            slot,
            number: self.new_number(slot),
            run_id: self.scene.run_id,
            want: self.one(&[2, 1, 3, 100, 17, 100, 0]),
            ttl: self.one(&TTLS),
            alone: self.usually(true, &[false]),
            sleepers: self.one(&[None, Some(0), Some(1)]),
        }
    }

    pub(super) fn extend(&mut self) -> Call {
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

    pub(super) fn commit(&mut self) -> Call {
        let state = self.scene.state;
        let slot = self.holder(true);
        let held = match state.claims.get(&slot) {
            Some(Claim {
                body: Body::Messages(range),
                ..
            }) => Some(*range),
            _ => None,
        };
        let ended = state.workers.get(&slot);
        let ended = ended.map_or((1, 1), |ended| (ended.first, ended.last));
        let (usual_first, usual_last) = held.map_or(ended, |range| (range.first, range.last));
        let number = self.held_number(slot);
        // A repeated commit has the whole range of the old one.
        let (first, last) = match self.pick() % 16 {
            0..8 => (usual_first, usual_last),
            8 | 9 => (usual_first, usual_first),
            10 | 11 => (usual_first, usual_first.midpoint(usual_last)),
            12 => (usual_first + 1, usual_last.max(usual_first + 1)),
            13 => (usual_first, usual_last + 1),
            14 => (usual_last + 1, usual_last),
            _ => ended,
        };
        let failed = self.failed(held.map_or(0, |range| range.returns), first, last);
        let delayed = self.delayed(held, &failed, first, last);
        let room = state.errors.len() + failed.len();
        let tight = [room as u64, room.saturating_sub(1) as u64, 0];
        Call::Commit {
            slot,
            number,
            first,
            last,
            failed,
            delayed,
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

    /// Records of some of these messages; sometimes of one too many.
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
        let record = |seq: Seq| {
            let (text, origin) = self.text(seq);
            let note = self.scene.state.notes.get(&seq);
            Record {
                seq,
                text,
                attempt: returns + 1,
                reason: Reason::Rejected,
                origin,
                first_reason: note.map(|note| note.first),
            }
        };
        (first..=end).filter(fails).map(record).collect()
    }

    /// The text of a message, and the word of the generator that published it. A message that waits
    /// for a later attempt has a pack of its own, between the numbers of the pack that it was in.
    fn text(&self, seq: Seq) -> (Text, Origin) {
        let mut packs = self.scene.state.packs.range(..=seq).rev();
        let found = packs.find_map(|(first, pack)| {
            let text = pack.texts.get((seq - first) as usize)?;
            Some((*text, pack.origin))
        });
        // Every generator draws a word: no real message has a pack without one.
        found.unwrap_or((0, 1))
    }

    /// Some of the messages that did not fail; sometimes one too many, a foreign one, or in a wrong
    /// order.
    fn delayed(
        &mut self,
        held: Option<Range>,
        failed: &[Record],
        first: Seq,
        last: Seq,
    ) -> Vec<Delay> {
        let (which, delay) = (self.pick() % 16, self.one(&DELAYS));
        let fails = |seq: &Seq| failed.iter().any(|record| record.seq == *seq);
        let attempt = held.map_or(0, |range| range.returns) + 1;
        let one = |seq: Seq| {
            let (text, origin) = self.text(seq);
            let texts = vec![text];
            let note = self.scene.state.notes.get(&seq);
            Delay {
                seq,
                delay,
                note: Note {
                    first: note.map_or(attempt, |note| note.first),
                    last: attempt,
                },
                pack: Pack {
                    bytes: encoding::pack(&texts, origin).len() as u64,
                    texts,
                    origin,
                },
            }
        };
        let open = || (first..=last).filter(|seq| !fails(seq));
        match which {
            0..7 => Vec::new(),
            7 | 8 => open().take(1).map(one).collect(),
            9 | 10 => open().next_back().into_iter().map(one).collect(),
            11 | 12 => open().map(one).collect(),
            13 => open().chain([last + 1]).map(one).collect(),
            14 => open().rev().map(one).collect(),
            _ => (first..=last).map(one).collect(),
        }
    }

    pub(super) fn give_back(&mut self) -> Call {
        let of_messages = self.mostly(3);
        let slot = self.holder(of_messages);
        let claim = self.scene.state.claims.get(&slot);
        let (first, last) = match claim.map(|claim| &claim.body) {
            Some(Body::Messages(range)) => (range.first, range.last),
            _ => (1, 1),
        };
        let middle = first.midpoint(last);
        let keeps = [
            first,
            middle,
            last.saturating_sub(1),
            first,
            last,
            last + 1,
            first - 1,
        ];
        Call::GiveBack {
            slot,
            number: self.held_number(slot),
            keep: self.mostly(2).then(|| self.one(&keeps)),
            at_end: self.mostly(2),
        }
    }
}
