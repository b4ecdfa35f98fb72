//! How long to wait between attempts.

use std::time::Duration;

/// Pauses that double from one attempt to the next, with jitter: a thousand nodes that lost the
/// same server must not reconnect at the same moment.
#[derive(Debug)]
pub struct Backoff {
    first: Duration,
    max: Duration,
    next: Duration,
}

impl Backoff {
    /// Pauses that grow from `first` to `max`.
    pub fn new(first: Duration, max: Duration) -> Self {
        Self {
            first,
            max,
            next: first,
        }
    }

    /// The next pause: a random part, at least half, of the time that it has grown to.
    pub fn pause(&mut self) -> Duration {
        let pause = self.next.mul_f64(rand::random_range(0.5..=1.0));
        self.next = (self.next * 2).min(self.max);
        pause
    }

    /// An attempt succeeded: the next failure begins with the first pause.
    pub fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_max_and_begin_anew_after_a_success() {
        let ms = Duration::from_millis;
        let mut backoff = Backoff::new(ms(20), ms(1000));
        for grown in [20, 40, 80, 160, 320, 640, 1000, 1000] {
            let pause = backoff.pause();
            assert!(pause >= ms(grown) / 2 && pause <= ms(grown), "{pause:?}");
        }
        backoff.reset();
        assert!(backoff.pause() <= ms(20));
    }
}
