//! The witness: notices that Redis lost data, so that no data is lost silently.
//!
//! After a restart without an append-only file, a `FLUSHALL`, or a failover to an older copy, the
//! fleet simply begins anew, and Redis itself remembers nothing. But the nodes do. Each node
//! remembers the highest number that Redis confirmed to it. When Redis falls behind that number,
//! the node warns once.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::Event;

/// Redis may still confirm calls that were under way when the node noticed a loss. A loss within
/// this time is the same loss.
const SAME_LOSS: Duration = Duration::from_secs(1);

/// The memory of one node.
#[derive(Default)]
pub(crate) struct Witness(Mutex<Memory>);

#[derive(Default)]
struct Memory {
    /// The highest number that Redis confirmed to this node; 0 for none.
    highest: u64,
    /// When the node last noticed a loss.
    noticed: Option<Instant>,
}

impl Witness {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers what Redis confirmed, if the event says that it did.
    pub(crate) fn remember(&self, event: &Event) {
        if let Event::Published { last, .. } | Event::Processed { last, .. } = event {
            let mut memory = self.memory();
            memory.highest = memory.highest.max(*last);
        }
    }

    /// The highest number that Redis confirmed to this node so far.
    pub(crate) fn confirmed(&self) -> u64 {
        self.memory().highest
    }

    /// Compares Redis's last number with what it had confirmed before the node asked for it: while
    /// that answer is on its way, Redis may confirm more. If Redis has less, returns the highest
    /// number that the node knew. Returns none if the node has noticed that loss before.
    pub(crate) fn compare(&self, confirmed: u64, last: u64) -> Option<u64> {
        match confirmed > last {
            true => self.memory().fall_back(last),
            false => None,
        }
    }

    /// The caller knows that Redis lost its data: returns the highest number that the node knew.
    /// Returns none if Redis has just that number, if the node knew of no number, or if it has
    /// noticed that loss before.
    pub(crate) fn notice_loss(&self, last: u64) -> Option<u64> {
        let mut memory = self.memory();
        match memory.highest == last {
            true => None,
            false => memory.fall_back(last),
        }
    }
}

impl Memory {
    /// Goes on from Redis's last number. Returns the highest number before, if this loss is new.
    fn fall_back(&mut self, last: u64) -> Option<u64> {
        let highest = std::mem::replace(&mut self.highest, last);
        let same = self.noticed.is_some_and(|at| at.elapsed() < SAME_LOSS);
        let new = highest > 0 && !same;
        if new {
            self.noticed = Some(Instant::now());
        }
        new.then_some(highest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(witness.notice_loss(0), None, "nothing was known");
        let witness = Witness::default();
        witness.remember(&published(7));
        witness.remember(&published(5));
        assert_eq!(witness.compare(7, 7), None, "nothing is missing");
        assert_eq!(witness.compare(7, 2), Some(7));
        // An answer that came a little late.
        witness.remember(&published(7));
        assert_eq!(witness.notice_loss(2), None);
    }

    #[test]
    fn data_that_is_known_to_be_lost_is_noticed_whatever_the_numbers_are() {
        let witness = Witness::default();
        witness.remember(&published(7));
        assert_eq!(witness.notice_loss(100), Some(7));
        witness.remember(&published(101));
        assert_eq!(witness.compare(101, 101), None);
        assert_eq!(witness.notice_loss(101), None, "all of it is there");
    }

    #[test]
    fn numbers_that_were_confirmed_while_the_answer_was_on_its_way_are_not_missing() {
        let witness = Witness::default();
        witness.remember(&published(7));
        let confirmed = witness.confirmed();
        // Redis answers with 7, and confirms 8 before the node has that answer.
        witness.remember(&published(8));
        assert_eq!(witness.compare(confirmed, 7), None);
        assert_eq!(witness.confirmed(), 8);
        assert_eq!(witness.compare(witness.confirmed(), 7), Some(8));
    }
}
