//! The way of a message: publish, extend, commit, give back.

use super::Script;
use crate::call::{Effect, Reply};
use crate::flaw::Flaw;
use crate::state::{
    Body, Claim, Entry, Line, Ms, Node, Pack, Range, Record, Seq, Settled, Slot, Suspects, Text,
};

/// The arguments of a commit.
pub(super) struct Commit<'a> {
    pub(super) slot: Slot,
    pub(super) number: u64,
    pub(super) first: Seq,
    pub(super) last: Seq,
    pub(super) failed: &'a [Record],
    pub(super) max_errors: u64,
    pub(super) effect: Effect,
    pub(super) audited: bool,
}

impl Script<'_> {
    /// The answer to a publish that is not written.
    pub(super) fn refuse_publish(
        &self,
        node: Node,
        epoch: u64,
        first: Seq,
        texts: &[Text],
        max_open: u64,
    ) -> Option<Reply> {
        let (fence, count) = (&self.state.fence, texts.len() as u64);
        let same_node = fence.node == Some(node) || self.has(Flaw::EpochOnlyFence);
        if (!same_node || fence.epoch != epoch) && !self.has(Flaw::NoFence) {
            return Some(Reply::Fenced {
                node: fence.node,
                epoch: fence.epoch,
            });
        }
        if first + count - 1 <= fence.last {
            return Some(Reply::AlreadyPublished { last: fence.last });
        }
        if first != fence.last + 1 && !self.has(Flaw::NumbersWithHoles) {
            return Some(Reply::Gap { last: fence.last });
        }
        let accepted = fence.last + self.state.retried;
        let open = accepted.saturating_sub(self.state.done + self.state.failed);
        (open + count > max_open).then_some(Reply::Full { count: open })
    }

    pub(super) fn publish(&mut self, first: Seq, texts: &[Text], bytes: u64, cursor: u64) {
        let count = texts.len() as u64;
        let keeps_cursor = !self.has(Flaw::CursorNotKept);
        let state = &mut self.state;
        let texts = texts.to_vec();
        state.packs.insert(first, Pack { texts, bytes });
        state.queue.push(Entry::Range(Range {
            pack: first,
            count,
            first,
            last: first + count - 1,
            returns: 0,
            suspects: Suspects::default(),
        }));
        state.fence.last = first + count - 1;
        if keeps_cursor {
            state.fence.cursor = cursor;
        }
        state.bell = true;
    }

    /// Some messages of a pack have ended; with the last of them it goes.
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
        let Commit {
            slot,
            number,
            first,
            mut last,
            failed,
            ..
        } = *call;
        let settled = self.state.workers.get(&slot);
        let same = settled.is_some_and(|s| (s.number, s.first, s.last) == (number, first, last));
        if same && !self.has(Flaw::CommitForgets) {
            return Reply::Already;
        }
        let Some(held) = self.state.claims.get(&slot).cloned() else {
            return Reply::Lost;
        };
        let Body::Messages(range) = held.body else {
            return Reply::Lost;
        };
        let right_claim = held.number == number || self.has(Flaw::CommitAnyClaim);
        let right_first = range.first == first || self.has(Flaw::CommitAnyRange);
        let right_last = first <= last && last <= range.last;
        if !right_claim
            || !right_first
            || !right_last
            || failed.len() as u64 > last.saturating_sub(first) + 1
        {
            return Reply::Lost;
        }
        let records = self.state.errors.len() as u64;
        if !failed.is_empty() && records + failed.len() as u64 > call.max_errors {
            return Reply::Full { count: records };
        }
        if call.effect == Effect::Bad {
            return Reply::Refused;
        }
        if self.has(Flaw::CommitEndsAll) {
            last = range.last;
        }
        let count = last - first + 1;

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
        match count == range.count {
            // Nobody has counted its messages.
            true => drop(self.state.packs.remove(&range.pack)),
            false => self.count_down(range, count),
        }
        let state = &mut self.state;
        state.done += count - failed.len() as u64;
        state.failed += failed.len() as u64;
        failed.iter().for_each(|record| state.fail(*record));
        let at = self.now;
        let settled = Settled {
            number,
            first,
            last: call.last,
            at,
        };
        state.workers.insert(slot, settled);
        if call.audited {
            state.ledger.push(Line::Ended {
                slot,
                first,
                last: call.last,
                failed: failed.len() as u64,
                handled: true,
            });
        }
        if let Effect::Add(by) = call.effect {
            state.effects += by;
        }
        Reply::Done
    }

    pub(super) fn give_back(&mut self, slot: Slot, number: u64) -> Reply {
        if self.state.claims.get(&slot).map(|claim| claim.number) != Some(number) {
            return Reply::Lost;
        }
        self.put_back(slot, None);
        self.mark(slot, number, 0);
        Reply::GivenBack
    }

    /// Notes that a claim was settled without ending messages; a drain's after so many were
    /// printed.
    pub(super) fn mark(&mut self, slot: Slot, number: u64, printed: u64) {
        let (first, last, at) = (0, printed, self.now);
        let settled = Settled {
            number,
            first,
            last,
            at,
        };
        self.state.workers.insert(slot, settled);
    }
}
