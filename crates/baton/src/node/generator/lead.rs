//! How far the generator is ahead of the workers.
//!
//! A generator that is faster than its workers gains nothing by it: the packs that wait take memory,
//! and the server's caches have forgotten them when a worker reads them. So a generator that is far
//! ahead lets the workers go first, a millisecond at a time, as long as they take packs. Where they
//! take none, it goes on at full speed until the queue is full.

use std::time::Duration;

use tokio::time::Instant;

/// So many packs may wait.
const MAX_LEAD: u64 = 64;
/// How long a generator that is further ahead publishes nothing.
const YIELD: Duration = Duration::from_millis(1);

/// What the answers to publishes say about the queue.
#[derive(Default)]
pub(super) struct Lead {
    /// How many ranges waited after the last publish.
    waiting: u64,
    until: Option<Instant>,
}

impl Lead {
    /// Notes that so many ranges waited right after a publish.
    pub(super) fn note(&mut self, waiting: u64, now: Instant) {
        let workers_take = waiting <= self.waiting;
        self.waiting = waiting;
        if workers_take && waiting > MAX_LEAD && self.yields_until(now).is_none() {
            self.until = Some(now + YIELD);
        }
    }

    /// Until when the generator publishes nothing; none if it may publish.
    pub(super) fn yields_until(&self, now: Instant) -> Option<Instant> {
        self.until.filter(|until| *until > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the generator yields after a publish that left so many ranges, and one more.
    fn yields(before: u64, after: u64) -> bool {
        let (mut lead, now) = (Lead::default(), Instant::now());
        lead.note(before, now);
        let earlier = lead.yields_until(now);
        assert_eq!(earlier, None, "the queue has only grown");
        lead.note(after, now);
        lead.yields_until(now).is_some()
    }

    #[test]
    fn a_generator_far_ahead_of_workers_that_take_packs_yields() {
        assert!(yields(MAX_LEAD + 1, MAX_LEAD + 1));
        assert!(yields(MAX_LEAD + 9, MAX_LEAD + 2));
    }

    #[test]
    fn a_short_queue_and_workers_that_take_nothing_do_not_slow_a_generator_down() {
        assert!(!yields(MAX_LEAD, MAX_LEAD));
        assert!(!yields(MAX_LEAD + 1, MAX_LEAD + 2));
    }

    #[test]
    fn what_was_under_way_does_not_make_a_generator_yield_for_longer() {
        let (mut lead, now) = (Lead::default(), Instant::now());
        lead.note(MAX_LEAD + 2, now);
        lead.note(MAX_LEAD + 2, now);
        lead.note(MAX_LEAD + 1, now + YIELD / 2);
        assert_eq!(lead.yields_until(now), Some(now + YIELD));
        assert_eq!(lead.yields_until(now + YIELD), None);
    }
}
