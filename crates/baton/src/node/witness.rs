//! The witness: notices that Redis forgot messages, so that none is lost silently.
//!
//! After a restart without an append-only file, a `FLUSHALL`, or a failover to an older copy, Redis
//! itself remembers nothing of what it lost. But the nodes do. Each node remembers the highest number
//! that Redis acknowledged to it, and tells it with each beat. The answer has the fleet's last number:
//! if that is lower, the node says once which messages are gone.
//!
//! A node that takes the lease after such a loss may know less than others. So it waits for a moment
//! before it seals: by then the beats of the others have told Redis what they know. All nodes beat as
//! soon as they find another server process. A process that forgot messages while it ran (`FLUSHALL`) is
//! noticed only with the next regular beat.

use std::ops::RangeInclusive;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use baton_protocol::bounds::REUNION_MS;
use tokio::time::Instant;

use crate::Event;

/// A loss so soon after the node found another server process came with it.
const SAME_LOSS: Duration = Duration::from_secs(1);

/// The memory of one node.
#[derive(Default)]
pub(crate) struct Witness(Mutex<Memory>);

#[derive(Default)]
struct Memory {
    /// The highest number that Redis acknowledged to this node; 0 for none.
    known: u64,
    /// The highest number that Redis lacks and of which the node has said so; none if Redis has all of
    /// these again.
    missing: Option<u64>,
    /// The fleet's last number in the answer to the last beat, unless the node has said since that it is
    /// lower.
    beat_last: u64,
    /// The server process of the last beat; empty before the first.
    run_id: String,
    /// When the node found another server process.
    moved: Option<Instant>,
    /// When the node noticed a loss without another server process.
    flushed: Option<Instant>,
}

impl Witness {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers what Redis acknowledged, if the event says that it did.
    pub(crate) fn remember(&self, event: &Event) {
        if let Event::Published { last, .. } | Event::Processed { last, .. } = event {
            self.acknowledged(*last);
        }
    }

    /// Redis acknowledged a message with this number.
    pub(crate) fn acknowledged(&self, last: u64) {
        let mut memory = self.memory();
        memory.known = memory.known.max(last);
    }

    /// The highest number that Redis acknowledged to this node so far.
    pub(crate) fn known(&self) -> u64 {
        self.memory().known
    }

    /// The node beats at this server process.
    pub(crate) fn beats_at(&self, run_id: String) {
        let mut memory = self.memory();
        if run_id.is_empty() || run_id == memory.run_id {
            return;
        }
        if !memory.run_id.is_empty() {
            memory.moved = Some(Instant::now());
        }
        memory.run_id = run_id;
    }

    /// The server lost its data, though this node misses no message.
    pub(crate) fn data_lost(&self) {
        self.memory().lost_data();
    }

    /// When the other nodes have told Redis what they know, after it forgot messages or may have. A
    /// generator beats every `beat` at least.
    pub(crate) fn all_told_at(&self, beat: Duration) -> Option<Instant> {
        let memory = self.memory();
        let flushed = memory.flushed.map(|at| at + beat);
        let since = flushed.max(memory.moved)?;
        Some(since + Duration::from_millis(REUNION_MS))
    }

    /// Compares Redis's last number with what the node knew before it asked for it: while that answer
    /// is on its way, Redis may acknowledge more. If Redis has less, returns the numbers that it
    /// forgot. Returns none if the node has said so, and Redis lacks numbers since.
    ///
    /// The node goes on to know these numbers: no other message may get them, also if Redis forgets
    /// again before they are void.
    pub(crate) fn compare(&self, known: u64, last: u64) -> Option<RangeInclusive<u64>> {
        let mut memory = self.memory();
        if known <= last {
            // What Redis acknowledges meanwhile may be higher, and is not missing.
            memory.missing = memory.missing.filter(|missing| *missing > last);
            return None;
        }
        if memory.missing.is_some() {
            return None;
        }
        let highest = memory.known.max(known);
        memory.missing = Some(highest);
        memory.lost_data();
        memory.beat_last = memory.beat_last.min(last);
        Some(last + 1..=highest)
    }

    /// Compares as [`Witness::compare`] does, with the answer to a beat. Beats are answered in order, so a
    /// last number that fell between two of them is a loss, too, whatever was lost before. Where answers
    /// are confirmed, `confirms`, the fleet's last number may count messages that no node was told of:
    /// then only what this node knows is lost.
    pub(crate) fn compare_beat(
        &self,
        known: u64,
        last: u64,
        confirms: bool,
    ) -> Option<RangeInclusive<u64>> {
        let forgotten = self.compare(known, last);
        let mut memory = self.memory();
        let before = std::mem::replace(&mut memory.beat_last, last);
        let had = match confirms {
            true => before.min(memory.known),
            false => before,
        };
        forgotten.or_else(|| (last < had).then_some(last + 1..=had))
    }
}

impl Memory {
    fn lost_data(&mut self) {
        if self.moved.is_none_or(|at| at.elapsed() > SAME_LOSS) {
            self.flushed = Some(Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEAT: Duration = Duration::from_millis(500);

    fn published(last: u64) -> Event {
        Event::Published {
            epoch: 1,
            first: 1,
            last,
            text: None,
        }
    }

    #[test]
    fn a_loss_is_noticed_once_with_the_highest_number_that_was_known() {
        let witness = Witness::default();
        witness.remember(&published(7));
        witness.remember(&published(5));
        assert_eq!(witness.compare(7, 7), None, "nothing is missing");
        assert_eq!(witness.compare(7, 2), Some(3..=7));
        assert_eq!(witness.known(), 7, "no other message may get these numbers");
        assert_eq!(witness.compare(7, 2), None, "it said so");
        // An answer that came a little late.
        witness.remember(&published(8));
        assert_eq!(witness.compare(8, 2), None);
        assert_eq!(witness.compare(2, 2), None, "asked long ago");
        // They came again, or are void.
        assert_eq!(witness.compare(8, 8), None);
        assert_eq!(witness.compare(8, 7), Some(8..=8), "another loss");
    }

    #[test]
    fn a_loss_is_over_though_redis_acknowledges_more_while_its_answer_is_on_its_way() {
        let witness = Witness::default();
        witness.remember(&published(7));
        assert_eq!(witness.compare(7, 2), Some(3..=7));
        witness.remember(&published(9));
        assert_eq!(witness.compare(7, 7), None);
        assert_eq!(witness.compare(9, 5), Some(6..=9), "another loss");
    }

    #[test]
    fn a_second_loss_is_noticed_while_redis_still_lacks_numbers_of_the_first() {
        let witness = Witness::default();
        witness.remember(&published(100));
        assert_eq!(witness.compare_beat(100, 100, false), None);
        assert_eq!(witness.compare_beat(100, 0, false), Some(1..=100));
        // A source fills the numbers again, and Redis forgets again.
        assert_eq!(witness.compare_beat(100, 40, false), None);
        assert_eq!(witness.compare_beat(100, 10, false), Some(11..=40));
        assert_eq!(witness.compare_beat(100, 10, false), None, "it said so");
        // A gap showed it first.
        let witness = Witness::default();
        witness.remember(&published(9));
        assert_eq!(witness.compare_beat(9, 9, false), None);
        assert_eq!(witness.compare(9, 5), Some(6..=9));
        assert_eq!(witness.compare_beat(9, 5, false), None);
    }

    #[test]
    fn messages_that_were_never_confirmed_are_not_lost() {
        let witness = Witness::default();
        witness.remember(&published(50));
        // Redis has 82 messages, and no node was told of the last 32. A failover forgets these.
        assert_eq!(witness.compare_beat(50, 82, true), None);
        assert_eq!(witness.compare_beat(50, 50, true), None);
        assert_eq!(witness.compare_beat(50, 82, true), None);
        assert_eq!(witness.compare_beat(50, 40, true), Some(41..=50));
        // Where answers count as they come, another node may have told of them.
        assert_eq!(witness.compare_beat(50, 82, false), None);
        assert_eq!(witness.compare_beat(50, 60, false), Some(61..=82));
    }

    #[test]
    fn a_node_waits_for_the_others_after_another_server_process_or_a_loss() {
        let witness = Witness::default();
        for run_id in ["a", "", "a"] {
            witness.beats_at(run_id.to_owned());
            assert_eq!(witness.all_told_at(BEAT), None, "{run_id}");
        }
        witness.beats_at("b".to_owned());
        let moved = witness.all_told_at(BEAT).unwrap();
        assert!(moved > Instant::now());
        witness.remember(&published(1));
        let _ = witness.compare(1, 0);
        assert_eq!(witness.all_told_at(BEAT), Some(moved), "the same cause");

        let witness = Witness::default();
        witness.beats_at("a".to_owned());
        witness.remember(&published(1));
        let _ = witness.compare(1, 0);
        assert!(witness.all_told_at(BEAT).unwrap() > Instant::now() + BEAT);
    }

    #[test]
    fn numbers_that_were_acknowledged_while_the_answer_was_on_its_way_are_not_missing() {
        let witness = Witness::default();
        witness.remember(&published(7));
        let known = witness.known();
        // Redis answers with 7, and acknowledges 8 before the node has that answer.
        witness.remember(&published(8));
        assert_eq!(witness.compare(known, 7), None);
        assert_eq!(witness.known(), 8);
        assert_eq!(witness.compare(witness.known(), 7), Some(8..=8));
    }
}
