//! Delayed messages: a commit puts them aside, a reclaim wakes those that are due, and a worker gives
//! back the messages behind the one that takes long.

use super::Script;
use crate::call::{Delay, Reply};
use crate::flaw::Flaw;
use crate::state::{Body, Claim, Entry, LedgerEntry, Ms, Range, Seq, Slot, Suspects};

/// Delayed messages with the latest times that are checked, too.
const LATEST_DELAYED: usize = 2;

impl Script<'_> {
    /// How many of `count` committed messages leave their pack. A delayed message that is the first
    /// of its pack stays there; the others get packs of their own.
    pub(super) fn leaving(&self, range: Range, count: u64, delayed: &[Delay]) -> u64 {
        let is_first = |delay: &Delay| delay.seq == range.pack;
        let stays = delayed.iter().any(is_first) && !self.has(Flaw::DelayedLeavesItsPack);
        let moves = delayed.iter().any(|delay| !is_first(delay));
        let twice = moves && self.has(Flaw::DelayedLeavesTwice);
        count - u64::from(stays) + u64::from(twice)
    }

    /// A message of a committed range waits for its next attempt.
    pub(super) fn delay(&mut self, range: Range, delay: &Delay, audited: bool) {
        let seq = delay.seq;
        let (pack, count) = match seq == range.pack {
            true => (range.pack, range.count),
            false => (seq, 1),
        };
        let kept = self.has(Flaw::DelayUncounted);
        let waits = Range {
            pack,
            count,
            first: seq,
            last: seq,
            returns: range.returns + u64::from(!kept),
            suspects: Suspects::default(),
        };
        if pack != range.pack && !self.has(Flaw::DelayedWithoutPack) {
            self.state.packs.insert(seq, delay.pack.clone());
        }
        let due = self.now + delay.delay;
        self.state.delayed.insert(Entry::Range(waits), due);
        if !self.has(Flaw::DelayWithoutNote) {
            self.state.notes.insert(seq, delay.note);
        }
        if audited {
            self.state.ledger.push(LedgerEntry::Delayed { seq });
        }
    }

    /// Delayed messages that are due go to the head of the queue, the earliest first. Returns how
    /// many, and after what time the next one is due.
    pub(super) fn wake_delayed(&mut self, max_due: usize) -> (u64, Option<Ms>) {
        let delayed = self.state.delayed.iter();
        let mut all: Vec<(Ms, Entry)> = delayed.map(|(entry, at)| (*at, *entry)).collect();
        all.sort_unstable_by_key(|(at, entry)| (*at, text_order(entry)));
        let early = self.has(Flaw::WakeEarly);
        let now = self.now;
        let mut due: Vec<Entry> = all
            .iter()
            .filter(|(at, _)| *at <= now || early)
            .map(|(_, entry)| *entry)
            .take(max_due)
            .collect();
        // A clock that was ahead may have made the latest times.
        let latest = &all[all.len().saturating_sub(LATEST_DELAYED)..];
        let too_late = latest
            .iter()
            .filter(|(at, _)| *at > now && self.is_past(*at));
        due.extend(too_late.map(|(_, entry)| *entry));
        for entry in due.iter().rev() {
            if !self.has(Flaw::WakeKeepsDelayed) {
                self.state.delayed.remove(entry);
            }
            self.state.queue.insert(0, *entry);
        }
        let next = self.state.delayed.values().min();
        let next_due = next.map(|at| (at - now).max(0));
        (due.len() as u64, next_due)
    }

    /// A worker gives back the messages of its claim behind `keep`.
    pub(super) fn give_back_behind(&mut self, slot: Slot, number: u64, keep: Seq) -> Reply {
        let held = self.state.claims.get(&slot);
        let Some(held) = held.filter(|claim| claim.number == number).cloned() else {
            return Reply::Lost;
        };
        let Body::Messages(range) = held.body else {
            return Reply::Lost;
        };
        if !(range.first..=range.last).contains(&keep) {
            return Reply::Lost;
        }
        if keep == range.last {
            return Reply::GivenBack;
        }
        let kept = Range {
            last: keep,
            ..range
        };
        let first = match self.has(Flaw::KeepGivesBackTooMuch) {
            true => keep,
            false => keep + 1,
        };
        let rest = Range { first, ..range };
        if !self.has(Flaw::KeepKeepsAll) {
            let body = Body::Messages(kept);
            self.state.claims.insert(slot, Claim { body, ..held });
        }
        self.state.queue.insert(0, Entry::Range(rest));
        self.ring();
        Reply::GivenBack
    }
}

/// The order of members with the same time: that of their texts.
fn text_order(entry: &Entry) -> Option<String> {
    let range = entry.range()?;
    let Range {
        pack,
        count,
        first,
        last,
        returns,
        ..
    } = range;
    Some(format!("{pack} {count} {first} {last} {returns}"))
}
