//! How much work a lane takes at a time.

use std::time::Duration;

/// About how much work a lane takes at a time, and the most where Redis answers slowly.
const SLICE: (Duration, Duration) = (Duration::from_millis(40), Duration::from_secs(1));
/// How much longer a lane works than it waits for Redis.
const WORK_PER_WAIT: u32 = 3;
/// Work that is rather finished than given back.
const REST: Duration = Duration::from_millis(10);
/// Most messages of one claim.
const MAX_WANT: u64 = 1000;
/// A claim asks for at most so many times the messages of the one before.
const WANT_GROWTH: u64 = 8;

/// How fast a lane's handler is and how fast Redis answers, and so how much to claim.
pub(crate) struct Pace {
    /// Smoothed handling time of one message.
    each: Duration,
    /// Smoothed time from a claim to its answer.
    answer: Duration,
    /// How many messages were handled last.
    last: u64,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            each: SLICE.0,
            answer: Duration::ZERO,
            last: 1,
        }
    }
}

impl Pace {
    pub(crate) fn measure(&mut self, count: u64, took: Duration) {
        if count == 0 {
            return;
        }
        let each = took.div_f64(count as f64);
        // Slower counts at once, faster by and by.
        self.each = if each > self.each {
            each
        } else {
            (self.each + each) / 2
        };
        self.last = count;
    }

    /// Notes how long Redis took to answer a claim.
    pub(crate) fn answered(&mut self, after: Duration) {
        self.answer = (self.answer * 3 + after) / 4;
    }

    /// How much work to take at a time. Where thousands of lanes wait for one server, the calls
    /// are what is short: then a lane spends about a quarter of its time waiting.
    fn slice(&self) -> Duration {
        let (shortest, longest) = SLICE;
        (self.answer * WORK_PER_WAIT).clamp(shortest, longest)
    }

    /// Whether a slice has lasted too long: its time is up, and what is left of it would take
    /// more than a moment.
    pub(crate) fn is_over(&self, took: Duration, handled: u64, left: u64) -> bool {
        handled > 0 && took > self.slice() && took.mul_f64(left as f64 / handled as f64) > REST
    }

    /// Whether a few messages are worth a look at the clock.
    pub(crate) fn is_slow(&self) -> bool {
        self.each > SLICE.0 / 500
    }

    pub(crate) fn want(&self) -> u64 {
        let fitting = self.slice().as_nanos() / self.each.as_nanos().max(1);
        let fitting = u64::try_from(fitting).unwrap_or(u64::MAX);
        fitting
            .min(self.last.saturating_mul(WANT_GROWTH))
            .clamp(1, MAX_WANT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_that_lasts_too_long_is_over_unless_little_is_left() {
        let (ms, pace) = (Duration::from_millis, Pace::default());
        assert!(!pace.is_over(ms(39), 10, 100), "in time");
        assert!(pace.is_over(ms(41), 10, 3), "12 ms to go");
        assert!(!pace.is_over(ms(41), 40, 2), "2 ms to go");
        assert!(!pace.is_over(ms(41), 0, 1), "nothing handled");
    }

    #[test]
    fn a_lane_that_waits_long_for_the_server_takes_as_much_work() {
        let (ms, mut pace) = (Duration::from_millis, Pace::default());
        pace.measure(1, ms(100));
        assert_eq!(pace.want(), 1);
        for _ in 0..50 {
            pace.answered(ms(150));
        }
        assert_eq!(pace.want(), 4);
        assert!(!pace.is_over(ms(400), 4, 1), "in time");
        assert!(pace.is_over(ms(600), 6, 1));
        for _ in 0..50 {
            pace.answered(ms(1));
        }
        assert_eq!(pace.want(), 1, "the server is fast again");
    }

    #[test]
    fn a_fast_handler_soon_takes_whole_packs_and_a_slow_one_single_messages() {
        let mut pace = Pace::default();
        assert_eq!(pace.want(), 1);
        for _ in 0..30 {
            let want = pace.want();
            pace.measure(want, Duration::from_micros(want));
        }
        assert_eq!(pace.want(), MAX_WANT);
        pace.measure(1, Duration::from_millis(80));
        assert_eq!(pace.want(), 1);
    }
}
