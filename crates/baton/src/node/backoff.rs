//! How long a failed message waits for its next attempt.

use std::time::Duration;

use baton_protocol::Setting;
use baton_protocol::bounds::MAX_TTL_MS;

use crate::Error;

/// The wait before the second attempt, and the longest one, unless they are set.
const DEFAULT: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(600));
/// The longest wait that can be set.
const LONGEST: Duration = Duration::from_millis(MAX_TTL_MS);
/// By how much a wait is longer or shorter by chance, so that messages which failed together do not
/// come back together.
const JITTER: f64 = 0.2;

/// Exponential backoff: each wait is twice as long as the one before, up to a longest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    shortest: Duration,
    longest: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        let (shortest, longest) = DEFAULT;
        Self { shortest, longest }
    }
}

impl Backoff {
    /// Waits from `shortest` to `longest`, which is at most an hour.
    pub fn new(shortest: Duration, longest: Duration) -> Self {
        Self { shortest, longest }
    }

    /// Says what cannot work.
    pub(crate) fn check(self) -> Result<(), Error> {
        let problem = match self {
            Self { longest, .. } if longest > LONGEST => "a backoff is at most an hour",
            Self { shortest, longest } if shortest > longest => {
                "the longest backoff is shorter than the shortest"
            }
            _ => return Ok(()),
        };
        Err(Error::setting(Setting::Backoff, problem))
    }

    /// How long a message waits after its `attempt`th failed. The handler may have asked for more.
    pub(crate) fn wait(self, attempt: u64, asked: Option<Duration>) -> Duration {
        let doublings = u32::try_from(attempt.saturating_sub(1)).unwrap_or(u32::MAX);
        let factor = 2u32.checked_pow(doublings).unwrap_or(u32::MAX);
        let wait = self.shortest.saturating_mul(factor);
        let jittered = match wait.mul_f64(1.0 + JITTER) > self.longest {
            true => self
                .longest
                .mul_f64(rand::random_range(1.0 - JITTER..=1.0))
                .max(self.shortest),
            false => wait.mul_f64(rand::random_range(1.0..=1.0 + JITTER)),
        };
        jittered.max(asked.unwrap_or_default()).min(LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn each_wait_is_twice_as_long_within_the_bounds_and_no_two_are_equal() {
        let backoff = Backoff::default();
        for (attempt, from, to) in [
            (1, 1.0, 1.2),
            (2, 2.0, 2.4),
            (5, 16.0, 19.2),
            (10, 480.0, 600.0),
            (11, 480.0, 600.0),
            (u64::MAX, 480.0, 600.0),
        ] {
            let waits: Vec<f64> = (0..50)
                .map(|_| backoff.wait(attempt, None).as_secs_f64())
                .collect();
            assert!(
                waits.iter().all(|wait| (from..=to).contains(wait)),
                "{attempt}: {waits:?}"
            );
            assert!(waits.iter().any(|wait| *wait != waits[0]), "{attempt}");
        }
    }

    #[test]
    fn a_handler_may_ask_for_more_but_not_for_less_or_for_more_than_an_hour() {
        let backoff = Backoff::new(secs(10), secs(10));
        assert!(backoff.wait(1, Some(secs(1))) >= secs(8));
        assert_eq!(backoff.wait(1, Some(secs(99))), secs(99));
        assert_eq!(backoff.wait(1, Some(secs(9999))), LONGEST);
    }

    #[test]
    fn bounds_that_cannot_work_are_refused() {
        assert!(Backoff::new(secs(2), secs(1)).check().is_err());
        assert!(Backoff::new(secs(1), secs(3601)).check().is_err());
        assert!(Backoff::new(Duration::ZERO, Duration::ZERO).check().is_ok());
    }
}
