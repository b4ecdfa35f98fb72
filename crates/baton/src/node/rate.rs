//! How fast a generator may publish.

use std::time::Duration;

use tokio::time::Instant;

/// Messages that a generator may be late with and publish at once. The runtime's timers are not exact,
/// so a high rate needs it.
const BURST: Duration = Duration::from_millis(10);

/// A bound of the messages that a generator publishes: so many in a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    count: u32,
    per: Duration,
}

impl Rate {
    /// At most `count` messages in each `per`, evenly spread.
    pub fn new(count: u32, per: Duration) -> Self {
        Self { count, per }
    }

    /// Why it cannot work, if it cannot.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let period = self.per.checked_div(self.count);
        match period {
            None => Err("a rate of no messages: pause the generator instead"),
            Some(Duration::ZERO) => Err("the rate is higher than any generator is fast"),
            Some(_) => Ok(()),
        }
    }

    /// The time of so many messages.
    fn time_of(&self, count: u64) -> Duration {
        self.per.mul_f64(count as f64 / f64::from(self.count))
    }
}

/// Keeps a generator to its rate.
#[derive(Debug)]
pub(crate) struct Pace {
    rate: Rate,
    /// When the next message is due.
    due: Instant,
}

impl Pace {
    /// A generator may publish its first message at once.
    pub(crate) fn new(rate: Rate, now: Instant) -> Self {
        Self { rate, due: now }
    }

    /// How many messages it may publish now, or when the next.
    pub(crate) fn allowed(&self, now: Instant) -> Result<u64, Instant> {
        let late = match now.checked_duration_since(self.due) {
            None => return Err(self.due),
            Some(late) => late.min(BURST),
        };
        let more = late.as_secs_f64() / self.rate.time_of(1).as_secs_f64();
        Ok(1 + more as u64)
    }

    /// It made so many, perhaps more than it may: then it waits for longer.
    pub(crate) fn made(&mut self, count: u64, now: Instant) {
        let earliest = now.checked_sub(BURST).unwrap_or(now);
        self.due = self.due.max(earliest) + self.rate.time_of(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// How many messages a generator makes in a time if it looks every `step`.
    fn made_in(rate: Rate, time: Duration, step: Duration) -> u64 {
        let begin = Instant::now();
        let (mut pace, mut now, mut made) = (Pace::new(rate, begin), begin, 0);
        while now < begin + time {
            if let Ok(allowed) = pace.allowed(now) {
                pace.made(allowed, now);
                made += allowed;
            }
            now += step;
        }
        made
    }

    #[test]
    fn a_generator_keeps_to_its_rate_however_often_it_looks() {
        for step in [1, 2, 5, 9].map(Duration::from_millis) {
            let slow = made_in(Rate::new(2, SECOND), 60 * SECOND, step);
            assert!((119..=120).contains(&slow), "{slow}");
            let fast = made_in(Rate::new(100_000, SECOND), SECOND, step);
            assert!((99_000..=100_001).contains(&fast), "{fast}");
        }
        let hourly = made_in(Rate::new(1, 3600 * SECOND), 36_000 * SECOND, SECOND);
        assert_eq!(hourly, 10);
    }

    #[test]
    fn what_a_generator_could_not_publish_is_not_made_up_for() {
        let begin = Instant::now();
        let mut pace = Pace::new(Rate::new(1000, SECOND), begin);
        let late = begin + 60 * SECOND;
        assert_eq!(pace.allowed(late), Ok(11));
        pace.made(11, late);
        assert!(pace.allowed(late).is_err());
    }

    #[test]
    fn messages_that_belong_together_are_paid_for_later() {
        let begin = Instant::now();
        let mut pace = Pace::new(Rate::new(10, SECOND), begin);
        assert_eq!(pace.allowed(begin), Ok(1));
        pace.made(50, begin);
        let due = begin + 5 * SECOND;
        assert_eq!(pace.allowed(begin + SECOND), Err(due));
        assert_eq!(pace.allowed(due), Ok(1));
    }

    #[test]
    fn a_rate_that_cannot_be_is_refused() {
        for (count, per) in [(0, SECOND), (1, Duration::ZERO), (u32::MAX, SECOND)] {
            assert!(Rate::new(count, per).check().is_err(), "{count} {per:?}");
        }
        for (count, per) in [(1, SECOND), (1_000_000, SECOND), (1, 3600 * SECOND)] {
            assert_eq!(Rate::new(count, per).check(), Ok(()));
        }
    }
}
