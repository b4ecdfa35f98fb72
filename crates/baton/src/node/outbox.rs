//! The outbox: the packs that a generator sends, and their numbers.
//!
//! Redis's last number says what became of the packs, if this generator wrote that number. The
//! outbox knows which numbers it sent. So it recognizes a last number that this generator did not
//! write: one that Redis fell back to because it lost writes, or one that another program wrote.
//!
//! Redis may forget what it confirmed. The outbox keeps confirmed packs for a moment, and a node's next
//! reign sends them again under their own numbers. Numbers that cannot be filled become void.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use baton_protocol::{Digest, Parcel, Progress};
use tokio::time::Instant;

/// How much of the confirmed packs is kept, and for how long.
const KEPT: (usize, Duration) = (8 << 20, Duration::from_secs(3));

/// A pack on its way.
#[derive(Clone)]
pub(crate) struct Prepared {
    pub(crate) first: u64,
    pub(crate) count: u64,
    /// Where the source stands after it, as Redis stores it.
    pub(crate) cursor: Vec<u8>,
    /// What the fleet has made with it, in all partitions; none in a fleet of one partition.
    pub(crate) made: Option<Progress>,
    /// Whether its messages were due at certain times.
    pub(crate) is_scheduled: bool,
    pub(crate) digest: Option<Digest>,
    pub(crate) pack: Arc<Vec<u8>>,
    /// This node's number of these bytes.
    pub(crate) stage: u64,
    /// Whether Redis has the bytes staged: it answered, and did not accept the pack.
    pub(crate) is_staged: bool,
    /// The text of a single message, for the log.
    pub(crate) text: Option<Vec<u8>>,
    pub(crate) announced: bool,
    /// Whether Redis may have it under its numbers: it was sent, and the answer was lost.
    pub(crate) maybe_there: bool,
    /// The highest number that Redis had confirmed when it was sent last.
    pub(crate) sent_after: u64,
    /// Whether its numbers have no messages: Redis forgot them, and they cannot be had.
    pub(crate) is_void: bool,
}

impl Prepared {
    /// Numbers without messages. They leave the cursor as it is.
    fn void(first: u64, last: u64, cursor: Vec<u8>) -> Self {
        Self {
            first,
            count: last - first + 1,
            cursor,
            made: None,
            is_scheduled: false,
            digest: None,
            pack: Arc::default(),
            stage: 0,
            is_staged: false,
            text: None,
            announced: false,
            maybe_there: false,
            sent_after: 0,
            is_void: true,
        }
    }

    /// A pack that an earlier generator parked: perhaps it was sent before.
    pub(crate) fn parked(parcel: Parcel, stage: u64) -> Self {
        Self {
            first: parcel.first,
            count: parcel.count,
            cursor: parcel.cursor,
            made: Some(parcel.made),
            is_scheduled: parcel.is_scheduled,
            digest: parcel.digest,
            pack: Arc::new(parcel.pack),
            stage,
            is_staged: false,
            text: None,
            announced: false,
            maybe_there: true,
            sent_after: 0,
            is_void: false,
        }
    }

    /// The pack as another partition keeps it.
    pub(crate) fn parcel(&self, partition: u32) -> Parcel {
        Parcel {
            partition,
            first: self.first,
            count: self.count,
            made: self.made.unwrap_or_default(),
            digest: self.digest,
            is_scheduled: self.is_scheduled,
            cursor: self.cursor.clone(),
            pack: self.pack.to_vec(),
        }
    }

    /// The number of its last message; of the one before it, if it has none.
    pub(crate) fn last(&self) -> u64 {
        self.first + self.count - 1
    }
}

/// The packs of a reign that is over: what Redis confirmed a moment ago, and what it did not confirm.
pub(crate) struct Kept {
    pub(crate) epoch: u64,
    /// The highest number that Redis confirmed.
    confirmed: u64,
    /// The fleet's last number and its cursor when the reign began.
    base: (u64, Vec<u8>),
    /// In the order of their numbers.
    packs: Vec<Prepared>,
    /// The first numbers of those that are parked.
    parked: BTreeSet<u64>,
}

impl Kept {
    /// What is kept, and the packs that an earlier generator parked, for a partition with this last number
    /// and cursor. No number of these has another text.
    pub(crate) fn with_parked(
        kept: Option<Self>,
        last: u64,
        cursor: &[u8],
        parked: Vec<Prepared>,
    ) -> Option<Self> {
        if parked.is_empty() {
            return kept;
        }
        let mut kept = kept.unwrap_or_else(|| Self {
            epoch: 0,
            confirmed: last,
            base: (last, cursor.to_vec()),
            packs: Vec::new(),
            parked: BTreeSet::new(),
        });
        kept.parked = parked.iter().map(|pack| pack.first).collect();
        let is_new = |pack: &Prepared| kept.packs.iter().all(|known| known.first != pack.first);
        let new: Vec<Prepared> = parked.into_iter().filter(is_new).collect();
        kept.packs.extend(new);
        kept.packs.sort_by_key(|pack| (pack.first, pack.last()));
        Some(kept)
    }

    /// What is to be sent again after this last number and cursor. Other nodes know of numbers up to
    /// `known`.
    fn after(mut self, last: u64, cursor: &[u8], known: u64) -> Vec<Prepared> {
        let has_cursors = !cursor.is_empty() || self.packs.iter().any(|p| !p.cursor.is_empty());
        // Another generator may have reigned in between, and Redis has forgotten that, too. Then these
        // packs may hold rows that it published, and lack others.
        let is_here = |pack: &Prepared| pack.last() == last && pack.cursor == cursor;
        let continues = self.base == (last, cursor.to_vec()) || self.packs.iter().any(is_here);
        // Another node may know a number of a pack that Redis never confirmed, with another text.
        let (confirmed, parked) = (self.confirmed, &self.parked);
        self.packs.retain(|p| {
            let is_ours = p.first <= confirmed || p.first > known || parked.contains(&p.first);
            p.first > last && is_ours
        });
        let starts = [last]
            .into_iter()
            .chain(self.packs.iter().map(Prepared::last));
        let mut steps = starts.zip(&self.packs);
        let has_hole = steps.any(|(before, pack)| pack.first != before + 1);
        // Of several partitions, others may have what the source made later: it does not go back.
        let goes_back = self.packs.iter().all(|pack| pack.made.is_none());
        match has_cursors && goes_back && (has_hole || !continues) {
            // The source makes all of it again.
            true => Vec::new(),
            false => self.packs,
        }
    }
}

/// The packs of one reign, in the order of their numbers.
#[derive(Default)]
pub(crate) struct Outbox {
    /// The fleet's last number and its cursor when the reign began.
    base: (u64, Vec<u8>),
    /// The number of the next new message.
    pub(crate) next: u64,
    /// The highest number that was ever sent.
    sent: u64,
    /// The highest number that Redis confirmed.
    confirmed: u64,
    /// Refused or unanswered: the next to send.
    unsent: VecDeque<Prepared>,
    /// Confirmed a moment ago.
    kept: VecDeque<(Instant, Prepared)>,
    kept_bytes: usize,
}

impl Outbox {
    /// Goes on where the fleet stands: after its last number and its cursor. Redis may have forgotten
    /// messages up to `known`, which is a number above `last` then. What is kept of them is sent again,
    /// and the other numbers become void.
    pub(crate) fn fill(last: u64, cursor: &[u8], known: u64, kept: Option<Kept>) -> Self {
        let mut outbox = Self::after(last, cursor);
        let packs = kept.map(|kept| kept.after(last, cursor, known));
        for pack in packs.into_iter().flatten() {
            outbox.void_up_to(pack.first - 1);
            outbox.add(pack);
        }
        outbox.void_up_to(known);
        outbox
    }

    /// Numbers up to this one that no pack has become void.
    fn void_up_to(&mut self, last: u64) {
        if self.next <= last {
            let void = Prepared::void(self.next, last, self.base.1.clone());
            self.add(void);
        }
    }

    /// What the next reign may send again.
    pub(crate) fn into_kept(mut self, epoch: u64) -> Kept {
        self.sort_kept();
        let kept = self.kept.into_iter().map(|(_, pack)| pack);
        Kept {
            epoch,
            confirmed: self.confirmed,
            base: self.base,
            packs: kept.chain(self.unsent).collect(),
            parked: BTreeSet::new(),
        }
    }

    /// A pack whose answer was lost is confirmed later than those behind it.
    fn sort_kept(&mut self) {
        let kept = self.kept.make_contiguous();
        kept.sort_by_key(|(_, pack)| (pack.first, pack.last()));
    }

    /// The last pack that waits: it says where the source stands. None if no pack says it.
    pub(crate) fn newest(&self) -> Option<&Prepared> {
        self.unsent.iter().rev().find(|pack| !pack.is_void)
    }

    fn after(last: u64, cursor: &[u8]) -> Self {
        Self {
            base: (last, cursor.to_vec()),
            next: last + 1,
            sent: last,
            confirmed: last,
            ..Self::default()
        }
    }

    /// The highest number that Redis confirmed.
    pub(crate) fn confirmed(&self) -> u64 {
        self.confirmed
    }

    /// Whether all that was made is sent.
    pub(crate) fn is_empty(&self) -> bool {
        self.unsent.is_empty()
    }

    /// Whether the pack that waits was due at a certain time.
    pub(crate) fn is_scheduled(&self) -> bool {
        self.unsent.front().is_some_and(|pack| pack.is_scheduled)
    }

    /// The next pack to send.
    pub(crate) fn pop(&mut self) -> Option<Prepared> {
        let mut prepared = self.unsent.pop_front()?;
        self.sent = self.sent.max(prepared.last());
        prepared.sent_after = self.confirmed;
        Some(prepared)
    }

    /// Takes a new pack, which has the next numbers.
    pub(crate) fn add(&mut self, prepared: Prepared) {
        self.next = prepared.last() + 1;
        self.unsent.push_back(prepared);
    }

    /// Whether Redis has this very pack when it answers that all numbers up to `last` are taken.
    /// That is so only if the pack was sent before, and if Redis has no number that this generator
    /// never sent. A cursor alone need not be there: a pack behind it brought a later one.
    pub(crate) fn is_there(&self, prepared: &Prepared, last: u64) -> bool {
        (prepared.maybe_there || prepared.count == 0) && last <= self.sent
    }

    /// Whether no pack behind this one is confirmed. After a lost answer a pack is confirmed later
    /// than those behind it.
    pub(crate) fn is_newest(&self, prepared: &Prepared) -> bool {
        prepared.last() >= self.confirmed
    }

    /// Keeps a confirmed pack for a moment.
    pub(crate) fn confirm(&mut self, mut prepared: Prepared) {
        self.confirmed = self.confirmed.max(prepared.last());
        prepared.maybe_there = true;
        let (max_bytes, max_age) = KEPT;
        self.kept_bytes += prepared.pack.len();
        self.kept.push_back((Instant::now(), prepared));
        while let Some((at, oldest)) = self.kept.front() {
            if self.kept_bytes <= max_bytes && at.elapsed() <= max_age {
                break;
            }
            self.kept_bytes -= oldest.pack.len();
            self.kept.pop_front();
        }
    }

    /// Puts what was not accepted in front of everything else that waits.
    pub(crate) fn requeue(&mut self, mut again: VecDeque<Prepared>) {
        again.append(&mut self.unsent);
        self.unsent = again;
    }

    /// The server's last number is lower than ours: it lost writes that it had confirmed. Sends
    /// again what is still kept, if that follows the server's last number. Returns whether it does.
    pub(crate) fn close_gap(&mut self, last: u64) -> bool {
        self.sort_kept();
        let oldest = self.kept.iter().map(|(_, pack)| pack);
        let oldest = oldest.chain(&self.unsent).find(|pack| pack.first > last);
        if oldest.map_or(self.next, |oldest| oldest.first) > last + 1 {
            return false;
        }
        let kept = std::mem::take(&mut self.kept).into_iter();
        self.kept_bytes = 0;
        let again = kept.map(|(_, prepared)| prepared);
        self.requeue(again.filter(|prepared| prepared.first > last).collect());
        self.confirmed = last;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A new pack, which was sent.
    fn sent(outbox: &mut Outbox, count: u64) -> Prepared {
        outbox.add(Prepared {
            first: outbox.next,
            count,
            cursor: Vec::new(),
            made: None,
            is_scheduled: false,
            digest: None,
            stage: 1,
            is_staged: false,
            pack: Arc::default(),
            text: None,
            announced: false,
            maybe_there: false,
            sent_after: 0,
            is_void: false,
        });
        outbox.pop().unwrap()
    }

    fn numbers(outbox: &Outbox) -> Vec<(u64, u64)> {
        let waiting = outbox.unsent.iter();
        waiting.map(|p| (p.first, p.last())).collect()
    }

    #[test]
    fn only_what_was_sent_before_can_be_there_and_only_up_to_our_own_numbers() {
        let mut outbox = Outbox::after(4, b"");
        let mut pack = sent(&mut outbox, 2);
        assert!(!outbox.is_there(&pack, 6), "sent for the first time");
        pack.maybe_there = true;
        assert!(outbox.is_there(&pack, 6));
        assert!(!outbox.is_there(&pack, 7), "#7 was never sent");
        let _next = sent(&mut outbox, 1);
        assert!(outbox.is_there(&pack, 7));
    }

    #[test]
    fn a_cursor_alone_that_comes_after_the_pack_behind_it_is_no_foreign_number() {
        let mut outbox = Outbox::after(4, b"");
        let cursor_alone = sent(&mut outbox, 0);
        let _next = sent(&mut outbox, 2);
        assert!(outbox.is_there(&cursor_alone, 6));
        assert!(!outbox.is_there(&cursor_alone, 7), "#7 was never sent");
    }

    #[test]
    fn a_pack_that_is_confirmed_late_is_not_the_newest() {
        let mut outbox = Outbox::after(4, b"");
        let [a, b] = [2, 2].map(|count| sent(&mut outbox, count));
        assert!(outbox.is_newest(&b));
        outbox.confirm(b);
        assert!(!outbox.is_newest(&a));
        outbox.confirm(a);
        let cursor_alone = sent(&mut outbox, 0);
        assert!(outbox.is_newest(&cursor_alone));
    }

    /// An outbox after message 10 that has packs 11–12 and 13–14; Redis confirmed the first.
    fn half_confirmed() -> Outbox {
        let mut outbox = Outbox::after(10, b"");
        let [a, b] = [2, 2].map(|count| sent(&mut outbox, count));
        outbox.confirm(a);
        outbox.requeue([b].into());
        outbox
    }

    #[test]
    fn what_is_kept_closes_a_gap_without_a_hole() {
        let mut outbox = half_confirmed();
        assert!(outbox.close_gap(10));
        assert_eq!(numbers(&outbox), [(11, 12), (13, 14)]);
        let mut outbox = half_confirmed();
        assert!(!outbox.close_gap(8), "9 and 10 are not kept");
        let kept = outbox.into_kept(1).packs;
        let firsts: Vec<u64> = kept.iter().map(|pack| pack.first).collect();
        assert_eq!(firsts, [11, 13]);
    }

    #[test]
    fn packs_that_were_confirmed_out_of_order_leave_no_hole() {
        let out_of_order = || {
            let mut outbox = Outbox::after(10, b"");
            let [a, b] = [2, 2].map(|count| sent(&mut outbox, count));
            outbox.confirm(b);
            outbox.confirm(a);
            outbox
        };
        let mut outbox = out_of_order();
        assert!(outbox.close_gap(10));
        assert_eq!(numbers(&outbox), [(11, 12), (13, 14)]);
        let kept = out_of_order().into_kept(1);
        let again = Outbox::fill(10, b"", 14, Some(kept));
        assert_eq!(numbers(&again), [(11, 12), (13, 14)]);
    }

    /// What an outbox sends first: numbers, and whether they are void.
    fn plan(last: u64, cursor: &str, known: u64, kept: Kept) -> Vec<(u64, u64, bool)> {
        let outbox = Outbox::fill(last, cursor.as_bytes(), known, Some(kept));
        let waiting = outbox.unsent.iter();
        let plan: Vec<_> = waiting.map(|p| (p.first, p.last(), p.is_void)).collect();
        let end = plan.last().map_or(last, |(_, end, _)| *end);
        assert_eq!(outbox.next, end + 1);
        plan
    }

    /// Packs 11–12 and 13–14, both confirmed; 15–16, which is not. Their cursors are `c` and their last
    /// number, or there are none.
    fn three_kept(has_cursors: bool) -> Kept {
        let cursor = |last: u64| match has_cursors {
            true => format!("c{last}").into_bytes(),
            false => Vec::new(),
        };
        let mut outbox = Outbox::after(10, &cursor(10));
        for is_confirmed in [true, true, false] {
            let mut pack = sent(&mut outbox, 2);
            pack.cursor = cursor(pack.last());
            match is_confirmed {
                true => outbox.confirm(pack),
                false => outbox.requeue([pack].into()),
            }
        }
        outbox.into_kept(1)
    }

    #[test]
    fn packs_of_one_of_several_partitions_are_sent_again_also_behind_a_hole() {
        let kept = || {
            let mut kept = three_kept(true);
            for pack in &mut kept.packs {
                pack.made = Some(Progress::default());
            }
            kept
        };
        assert_eq!(plan(10, "c10", 10, kept()), ALL);
        assert_eq!(plan(10, "other", 14, kept()), ALL, "another cursor");
        let voided = plan(8, "c8", 14, kept());
        assert_eq!(voided[0], (9, 10, true));
        assert_eq!(voided[1..], ALL);
    }

    const ALL: [(u64, u64, bool); 3] = [(11, 12, false), (13, 14, false), (15, 16, false)];

    #[test]
    fn a_new_reign_sends_again_what_is_kept_and_voids_what_is_not() {
        let plan = |last, known| plan(last, "", known, three_kept(false));
        assert_eq!(plan(16, 16), [], "nothing is forgotten");
        assert_eq!(plan(10, 14), ALL);
        assert_eq!(plan(12, 14), ALL[1..]);
        // 9 and 10 are not kept, nor is 12.
        assert_eq!(plan(8, 14), [&[(9, 10, true)], &ALL[..]].concat());
        assert_eq!(plan(11, 14), [&[(12, 12, true)], &ALL[1..]].concat());
        // Another node knows 15, perhaps with another text.
        assert_eq!(plan(10, 15), [ALL[0], ALL[1], (15, 15, true)]);
        assert_eq!(plan(20, 25), [(21, 25, true)]);
    }

    #[test]
    fn packs_with_cursors_are_sent_again_only_if_they_continue_what_redis_has() {
        let plan = |last, cursor, known| plan(last, cursor, known, three_kept(true));
        assert_eq!(plan(10, "c10", 14), ALL);
        assert_eq!(plan(12, "c12", 14), ALL[1..]);
        // A hole, and a fleet that another generator brought to this number.
        assert_eq!(plan(8, "c8", 14), [(9, 14, true)]);
        assert_eq!(plan(12, "other", 14), [(13, 14, true)]);
        assert_eq!(plan(10, "", 14), [(11, 14, true)], "it lost everything");
    }
}
