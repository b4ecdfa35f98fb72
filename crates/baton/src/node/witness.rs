//! What this node knows that Redis had: so that data which Redis loses is not lost silently.
//!
//! A server without an append-only file that restarts, a `FLUSHALL`, a failover to an older
//! copy: the fleet simply begins anew, and Redis itself remembers nothing. But its nodes do.
//! Each remembers the highest number that Redis confirmed to it. When Redis falls behind that,
//! the node says what it knew, once.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::Event;

/// What was under way when a loss was noticed may still be confirmed; within this time it is the
/// same loss.
const SAME_LOSS: Duration = Duration::from_secs(1);

/// The memory of one node.
#[derive(Default)]
pub(crate) struct Witness(Mutex<Memory>);

#[derive(Default)]
struct Memory {
    /// The highest number that Redis confirmed to this node; 0 for none.
    highest: u64,
    /// When a loss was noticed.
    noticed: Option<Instant>,
}

impl Witness {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers what an event says that Redis confirmed.
    pub(crate) fn saw(&self, event: &Event) {
        if let Event::Published { last, .. } | Event::Processed { last, .. } = event {
            let mut memory = self.memory();
            memory.highest = memory.highest.max(*last);
        }
    }

    /// Compares Redis's last number with what it confirmed. Returns the highest number that was
    /// known if Redis has less, or if it lost its data anyhow; but nothing if this node knew of
    /// no number, or has noticed that loss before.
    pub(crate) fn notice(&self, last: u64, lost: bool) -> Option<u64> {
        let mut memory = self.memory();
        if memory.highest == last || (memory.highest < last && !lost) {
            return None;
        }
        let highest = std::mem::replace(&mut memory.highest, last);
        let same = memory.noticed.is_some_and(|at| at.elapsed() < SAME_LOSS);
        let told = highest > 0 && !same;
        if told {
            memory.noticed = Some(Instant::now());
        }
        told.then_some(highest)
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
        assert_eq!(witness.notice(0, true), None, "nothing was known");
        let witness = Witness::default();
        witness.saw(&published(7));
        witness.saw(&published(5));
        assert_eq!(witness.notice(7, false), None, "nothing is missing");
        assert_eq!(witness.notice(2, false), Some(7));
        // A part of the node that was a little late.
        witness.saw(&published(7));
        assert_eq!(witness.notice(2, true), None);
    }

    #[test]
    fn data_that_is_known_to_be_lost_is_told_whatever_the_numbers_are() {
        let witness = Witness::default();
        witness.saw(&published(7));
        assert_eq!(witness.notice(100, true), Some(7));
        witness.saw(&published(101));
        assert_eq!(witness.notice(101, false), None);
        assert_eq!(witness.notice(101, true), None, "all of it is there");
    }
}
