//! How many messages a lane claims at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long a batch lasts where Redis answers fast, and where it answers slowly.
const BATCH_TIME: (Duration, Duration) = (Duration::from_millis(40), Duration::from_secs(1));
/// How many times longer a lane works than it waits for Redis.
const WORK_PER_WAIT: u32 = 3;
/// Work that takes no longer than this may wait for its lane: to give so little back costs more
/// than it brings, and a lane with such batches claims ahead.
pub(crate) const MOMENT: Duration = Duration::from_millis(10);
/// Max messages of one claim.
const MAX_WANT: u64 = 1000;

/// Measures how fast a lane's handler is and how fast Redis answers, and so how much to claim.
#[derive(Default)]
pub(crate) struct BatchSize {
    /// Smoothed handling time of one message; none before the first.
    handling: Option<Duration>,
    /// Smoothed time from a claim to its answer.
    answer: Duration,
    /// What the lanes of the node know together.
    node: Arc<NodeHandling>,
}

/// The handling time of one message that a lane of this node measured last, in ns; 0 before the first.
/// A lane that has handled nothing yet goes by it.
#[derive(Default)]
pub(crate) struct NodeHandling(AtomicU64);

impl NodeHandling {
    fn set(&self, handling: Duration) {
        let ns = u64::try_from(handling.as_nanos()).unwrap_or(u64::MAX);
        self.0.store(ns.max(1), Ordering::Relaxed);
    }

    fn get(&self) -> Option<Duration> {
        let ns = self.0.load(Ordering::Relaxed);
        (ns > 0).then(|| Duration::from_nanos(ns))
    }
}

impl BatchSize {
    /// Nothing is known of this lane, and perhaps something of its node.
    pub(crate) fn new(node: Arc<NodeHandling>) -> Self {
        Self {
            node,
            ..Self::default()
        }
    }

    /// Notes how long the handler took for a batch.
    pub(crate) fn measure(&mut self, count: u64, took: Duration) {
        if count == 0 {
            return;
        }
        let handling = took.div_f64(count as f64);
        // A slower handler counts at once, a faster one by and by.
        self.handling = Some(match self.handling {
            Some(before) if before > handling => (before + handling) / 2,
            _ => handling,
        });
        self.node.set(handling);
    }

    /// Notes how long Redis took to answer a claim.
    pub(crate) fn answered(&mut self, after: Duration) {
        self.answer = (self.answer * 3 + after) / 4;
    }

    /// How long a batch lasts. Where thousands of lanes wait for one server, its calls per second
    /// are the bottleneck: then a lane waits for about a quarter of its time.
    fn batch_time(&self) -> Duration {
        let (shortest, longest) = BATCH_TIME;
        (self.answer * WORK_PER_WAIT).clamp(shortest, longest)
    }

    /// Whether a batch has lasted too long: its time is up, and what is left of it takes more than
    /// a moment.
    pub(crate) fn is_over(&self, took: Duration, handled: u64, left: u64) -> bool {
        handled > 0
            && took > self.batch_time()
            && took.mul_f64(left as f64 / handled as f64) > MOMENT
    }

    /// Whether the handler is so slow that checking the clock after every message costs little.
    pub(crate) fn is_slow(&self) -> bool {
        self.handling
            .is_none_or(|handling| handling > BATCH_TIME.0 / 500)
    }

    /// Whether a batch takes so little time that waiting for Redis between two batches counts.
    pub(crate) fn is_quick(&self) -> bool {
        let want = u32::try_from(self.want()).unwrap_or(u32::MAX);
        self.handling
            .is_some_and(|handling| handling.saturating_mul(want) <= MOMENT)
    }

    /// A message takes longer than this, and is not handled yet.
    pub(crate) fn takes_longer_than(&self, time: Duration) {
        self.node.set(time);
    }

    /// Max messages of the next claim. A lane that knows nothing of its handler claims as many as it
    /// can: if a message takes longer than a moment, it gives back those behind it.
    pub(crate) fn want(&self) -> u64 {
        let Some(handling) = self.handling.or_else(|| self.node.get()) else {
            return MAX_WANT;
        };
        let fitting = self.batch_time().as_nanos() / handling.as_nanos().max(1);
        let fitting = u64::try_from(fitting).unwrap_or(u64::MAX);
        fitting.clamp(1, MAX_WANT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_that_lasts_too_long_is_over_unless_little_is_left() {
        let (ms, size) = (Duration::from_millis, BatchSize::default());
        assert!(!size.is_over(ms(39), 10, 100), "in time");
        assert!(size.is_over(ms(41), 10, 3), "12 ms to go");
        assert!(!size.is_over(ms(41), 40, 2), "2 ms to go");
        assert!(!size.is_over(ms(41), 0, 1), "nothing handled");
    }

    #[test]
    fn a_lane_that_waits_long_for_the_server_claims_more() {
        let (ms, mut size) = (Duration::from_millis, BatchSize::default());
        size.measure(1, ms(100));
        assert_eq!(size.want(), 1);
        for _ in 0..50 {
            size.answered(ms(150));
        }
        assert_eq!(size.want(), 4);
        assert!(!size.is_over(ms(400), 4, 1), "in time");
        assert!(size.is_over(ms(600), 6, 1));
        for _ in 0..50 {
            size.answered(ms(1));
        }
        assert_eq!(size.want(), 1, "the server is fast again");
    }

    #[test]
    fn a_fast_handler_takes_whole_packs_and_a_slow_one_single_messages() {
        let mut size = BatchSize::default();
        assert_eq!(size.want(), MAX_WANT, "unknown");
        size.measure(1, Duration::from_micros(1));
        assert_eq!(size.want(), MAX_WANT);
        size.measure(1, Duration::from_millis(80));
        assert_eq!(size.want(), 1);
    }

    #[test]
    fn a_lane_that_has_handled_nothing_goes_by_what_others_know() {
        let node = Arc::new(NodeHandling::default());
        let (mut first, second) = (BatchSize::new(Arc::clone(&node)), BatchSize::new(node));
        first.takes_longer_than(Duration::from_millis(10));
        assert_eq!((first.want(), second.want()), (4, 4));
        first.measure(1, Duration::from_secs(1));
        assert_eq!(second.want(), 1);
    }

    #[test]
    fn a_slow_first_message_keeps_the_second_claim_small() {
        let mut size = BatchSize::default();
        size.measure(1, Duration::from_secs(1));
        assert_eq!(size.want(), 1);
    }

    #[test]
    fn a_batch_is_quick_if_the_lane_knows_that_it_takes_a_few_milliseconds() {
        let us = Duration::from_micros;
        let quick = |count, took| {
            let mut size = BatchSize::default();
            size.measure(count, took);
            size.is_quick()
        };
        assert!(!BatchSize::default().is_quick(), "unknown");
        assert!(quick(1000, us(10_000)), "1000 messages of 10 us");
        assert!(!quick(1000, us(11_000)), "1000 messages of 11 us");
        assert!(!quick(1, us(2000)), "20 messages of 2 ms");
    }
}
