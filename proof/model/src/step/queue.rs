//! Publish, extend, commit and give back.

use std::cmp::Ordering;

use super::Script;
use crate::call::{Delay, Effect, Reply, Staging};
use crate::flaw::Flaw;
use crate::state::{
    Body, Claim, EndedClaim, Entry, LedgerEntry, Ms, Node, Origin, Pack, Range, Record, Seq, Slot,
    Suspects, Text,
};

/// The arguments of a publish.
pub(super) struct Publish<'a> {
    pub(super) node: Node,
    pub(super) epoch: u64,
    pub(super) first: Seq,
    pub(super) texts: &'a [Text],
    pub(super) bytes: u64,
    pub(super) origin: Origin,
    pub(super) staging: Staging,
    pub(super) cursor: u64,
    pub(super) max_open: u64,
    pub(super) ttl: Ms,
    pub(super) micros: u64,
    pub(super) audited: bool,
}

/// The arguments of a commit.
pub(super) struct Commit<'a> {
    pub(super) slot: Slot,
    pub(super) number: u64,
    pub(super) first: Seq,
    pub(super) last: Seq,
    pub(super) failed: &'a [Record],
    pub(super) delayed: &'a [Delay],
    pub(super) max_errors: u64,
    pub(super) effect: Effect,
    pub(super) audited: bool,
}

impl Script<'_> {
    pub(super) fn publish(&mut self, call: &Publish<'_>) -> Reply {
        let pack = Pack {
            texts: call.texts.to_vec(),
            bytes: call.bytes,
            origin: call.origin,
        };
        if let Staging::Now(stage) = call.staging {
            self.state.staged.insert((call.node, stage), pack.clone());
        }
        if let Some(refusal) = self.refuse_publish(call) {
            if matches!(refusal, Reply::Full { .. }) && self.has(Flaw::CursorWithoutPack) {
                self.state.fence.cursor = call.cursor;
            }
            return refusal;
        }
        if call.texts.is_empty() {
            self.state.fence.cursor = call.cursor;
            return Reply::Published;
        }
        let pack = match call.staging {
            Staging::Inline => Some(pack),
            Staging::Now(stage) | Staging::Before(stage) => {
                self.state.staged.remove(&(call.node, stage))
            }
        };
        let Some(pack) = pack else {
            return Reply::Missing;
        };
        let (first, count) = (call.first, call.texts.len() as u64);
        let last = first + count - 1;
        let keeps_cursor = !self.has(Flaw::CursorNotKept);
        let state = &mut self.state;
        state.packs.insert(first, pack);
        state.fence.last = last;
        if keeps_cursor {
            state.fence.cursor = call.cursor;
        }
        if call.audited {
            let epoch = call.epoch;
            state
                .ledger
                .push(LedgerEntry::Published { epoch, first, last });
        }
        let range = Range {
            pack: first,
            count,
            first,
            last,
            returns: 0,
            suspects: Suspects::default(),
        };
        if let Some(rest) = self.hand_over(range, call) {
            self.state.queue.push(Entry::Range(rest));
            self.ring();
        }
        Reply::Published
    }

    /// The answer to a publish that writes nothing.
    fn refuse_publish(&self, call: &Publish<'_>) -> Option<Reply> {
        let (fence, count) = (&self.state.fence, call.texts.len() as u64);
        let same_node = fence.node == Some(call.node) || self.has(Flaw::EpochOnlyFence);
        if (!same_node || fence.epoch != call.epoch) && !self.has(Flaw::NoFence) {
            return Some(Reply::Fenced {
                node: fence.node,
                epoch: fence.epoch,
            });
        }
        if count == 0 {
            let last = fence.last;
            let is_paused = fence.paused.generator.is_some() && !self.has(Flaw::CursorWhilePaused);
            return match call.first.cmp(&(last + 1)) {
                Ordering::Less if self.has(Flaw::CursorGoesBack) => None,
                Ordering::Less => Some(Reply::AlreadyPublished { last }),
                Ordering::Equal => is_paused.then_some(Reply::Paused),
                Ordering::Greater => Some(Reply::Gap { last }),
            };
        }
        if call.first + count - 1 <= fence.last {
            return Some(Reply::AlreadyPublished { last: fence.last });
        }
        if call.first != fence.last + 1 && !self.has(Flaw::NumbersWithHoles) {
            return Some(Reply::Gap { last: fence.last });
        }
        if fence.paused.generator.is_some() && !self.has(Flaw::PublishWhilePaused) {
            return Some(Reply::Paused);
        }
        let accepted = fence.last + self.state.retried;
        let void = match self.has(Flaw::VoidTakesRoom) {
            true => 0,
            false => self.state.void,
        };
        let open = accepted.saturating_sub(self.state.done + self.state.failed + void);
        (open + count > call.max_open).then_some(Reply::Full { count: open })
    }

    /// Some messages of a pack have ended; with the last of them the pack is deleted.
    pub(super) fn count_down(&mut self, range: Range, ended: u64) {
        let state = &mut self.state;
        let left = state.left.get(&range.pack).copied().unwrap_or(range.count);
        let left = left.saturating_sub(ended);
        if left == 0 {
            state.packs.remove(&range.pack);
            state.left.remove(&range.pack);
        } else {
            state.left.insert(range.pack, left);
        }
    }

    pub(super) fn extend(&mut self, ttl: Ms, claims: &[(Slot, u64)]) -> Reply {
        let until = self.now + ttl;
        let state = &mut self.state;
        let held = claims.iter().map(|(slot, number)| {
            let held = state.claims.get(slot).map(|claim| claim.number) == Some(*number);
            if held {
                state.deadlines.insert(*slot, until);
            }
            held
        });
        Reply::Extended(held.collect())
    }

    pub(super) fn commit(&mut self, call: &Commit<'_>) -> Reply {
        let (held, range) = match self.check_commit(call) {
            Ok(held) => held,
            Err(refusal) => return refusal,
        };
        let last = match self.has(Flaw::CommitEndsAll) {
            true => range.last,
            false => call.last,
        };
        let (count, failed) = (last - call.first + 1, call.failed.len() as u64);
        let delayed = match self.has(Flaw::DelayedIsDone) {
            true => 0,
            false => call.delayed.len() as u64,
        };
        let leaving = self.leaving(range, count, call.delayed);
        self.end_first(call.slot, held, range, last, leaving);
        let state = &mut self.state;
        state.done += count - failed - delayed;
        state.failed += failed;
        call.failed.iter().for_each(|record| state.fail(*record));
        self.remember_ended(call.slot, call.number, call.first, call.last);
        if range.returns > 0 && !self.has(Flaw::EndKeepsNote) {
            let committed = call.first..=last;
            self.state.notes.retain(|seq, _| !committed.contains(seq));
        }
        let state = &mut self.state;
        if call.audited {
            state.ledger.push(LedgerEntry::Ended {
                slot: call.slot,
                first: call.first,
                last: call.last,
                failed,
                handled: true,
            });
        }
        if let Effect::Add(by) = call.effect {
            state.effects += by;
        }
        for delay in call.delayed {
            self.delay(range, delay, call.audited);
        }
        Reply::Done
    }

    /// The claim that a commit is about and its range, or the answer to a commit that writes
    /// nothing.
    fn check_commit(&self, call: &Commit<'_>) -> Result<(Claim, Range), Reply> {
        let Commit {
            slot,
            number,
            first,
            last,
            failed,
            delayed,
            ..
        } = *call;
        let ended = self.state.workers.get(&slot);
        let same = ended.is_some_and(|e| (e.number, e.first, e.last) == (number, first, last));
        if same && !self.has(Flaw::CommitForgets) {
            return Err(Reply::Already);
        }
        let held = self.state.claims.get(&slot).ok_or(Reply::Lost)?;
        let Body::Messages(range) = held.body else {
            return Err(Reply::Lost);
        };
        let right_claim = held.number == number || self.has(Flaw::CommitAnyClaim);
        let right_first = range.first == first || self.has(Flaw::CommitAnyRange);
        let right_last = first <= last && last <= range.last;
        let ending = failed.len() + delayed.len();
        let right_count = ending as u64 <= last.saturating_sub(first) + 1;
        let right_delays = delayed.is_sorted_by(|one, next| one.seq < next.seq)
            && delayed.iter().all(|d| (first..=last).contains(&d.seq));
        if !(right_claim && right_first && right_last && right_count && right_delays) {
            return Err(Reply::Lost);
        }
        let records = self.state.errors.len() as u64;
        if !failed.is_empty() && records + failed.len() as u64 > call.max_errors {
            return Err(Reply::Full { count: records });
        }
        match call.effect {
            Effect::Bad => Err(Reply::Refused),
            _ => Ok((held.clone(), range)),
        }
    }

    /// The first messages of a claim leave it, up to `last`; `leaving` of them leave their pack.
    fn end_first(&mut self, slot: Slot, held: Claim, range: Range, last: Seq, leaving: u64) {
        if !self.has(Flaw::CommitKeepsClaim) {
            self.state.claims.remove(&slot);
        }
        if last == range.last {
            self.state.deadlines.remove(&slot);
        } else {
            let first = last + 1;
            let body = Body::Messages(Range { first, ..range });
            self.state.claims.insert(slot, Claim { body, ..held });
        }
        if self.has(Flaw::CommitDropsPack) {
            self.state.packs.remove(&range.pack);
        }
        match leaving {
            0 => {}
            // The whole pack ended at once, so its messages were never counted down.
            leaving if leaving == range.count => drop(self.state.packs.remove(&range.pack)),
            leaving => self.count_down(range, leaving),
        }
    }

    pub(super) fn give_back(&mut self, slot: Slot, number: u64, at_end: bool) -> Reply {
        if self.state.claims.get(&slot).map(|claim| claim.number) != Some(number) {
            return Reply::Lost;
        }
        let waited = self.state.queue.len();
        self.put_back(slot, None);
        if at_end && self.state.queue.len() > waited {
            self.state.queue.rotate_left(1);
        }
        self.remember_ended(slot, number, 0, 0);
        Reply::GivenBack
    }

    /// Remembers the claim that a slot has ended, and the messages `first..=last` that ended with
    /// it. A drain's claim has 0 and the number of removed records.
    pub(super) fn remember_ended(&mut self, slot: Slot, number: u64, first: Seq, last: Seq) {
        let at = self.now;
        let ended = EndedClaim {
            number,
            first,
            last,
            at,
        };
        self.state.workers.insert(slot, ended);
    }
}
