//! How long to wait between attempts, and which reasons the log has.

use std::time::Duration;

/// Pauses that double from one attempt to the next, with jitter: a thousand nodes that lost the
/// same server must not come back in the same moment.
#[derive(Debug)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    /// Pauses that grow from `first` to `longest`.
    pub fn new(first: Duration, longest: Duration) -> Self {
        Self {
            first,
            longest,
            next: first,
        }
    }

    /// The next pause: between half and all of the time that it has grown to.
    pub fn pause(&mut self) -> Duration {
        let pause = self.next.mul_f64(rand::random_range(0.5..=1.0));
        self.next = (self.next * 2).min(self.longest);
        pause
    }

    /// What was tried has worked: the next failure begins with the first pause.
    pub fn reset(&mut self) {
        self.next = self.first;
    }
}

/// Max reasons that are remembered. A server whose every reason differs is reported each time.
const MAX_REASONS: usize = 16;

/// The reasons that the log has since all was well.
#[derive(Debug, Default)]
pub struct LoggedReasons {
    reasons: Vec<String>,
}

impl LoggedReasons {
    /// Whether this reason is new. It is not the next time.
    pub fn is_new(&mut self, reason: &str) -> bool {
        if self.reasons.iter().any(|logged| logged == reason) {
            return false;
        }
        if self.reasons.len() == MAX_REASONS {
            self.reasons.remove(0);
        }
        self.reasons.push(reason.to_owned());
        true
    }

    /// Whether the log has any.
    pub fn is_empty(&self) -> bool {
        self.reasons.is_empty()
    }

    /// All is well again: every reason is new.
    pub fn clear(&mut self) {
        self.reasons.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_begin_anew_after_a_success() {
        let ms = Duration::from_millis;
        let mut backoff = Backoff::new(ms(20), ms(1000));
        for whole in [20, 40, 80, 160, 320, 640, 1000, 1000] {
            let pause = backoff.pause();
            assert!(pause >= ms(whole) / 2 && pause <= ms(whole), "{pause:?}");
        }
        backoff.reset();
        assert!(backoff.pause() <= ms(20));
    }

    #[test]
    fn each_reason_is_new_once_until_all_is_well() {
        let mut logged = LoggedReasons::default();
        assert!(
            logged.is_new("a") && logged.is_new("b") && !logged.is_new("a") && !logged.is_new("b")
        );
        logged.clear();
        assert!(logged.is_empty() && logged.is_new("a"));
        for i in 0..100 {
            assert!(logged.is_new(&i.to_string()));
        }
        assert!(logged.reasons.len() <= MAX_REASONS);
    }
}
