//! A handler that takes its time and rejects some messages by chance.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use baton::{Effects, Handler, HandlerError, Message, Rejected};
use tokio::time::Instant;

use crate::args::RunArgs;

/// The part of one oversleep that later sleeps make up for, at most. A process that was stopped
/// has not overslept.
const MAX_OVERSLEPT: Duration = Duration::from_millis(5);

/// Pretends to work.
pub(crate) struct PretendedWork {
    /// Time that every message takes.
    work: Duration,
    /// Time that every character of its text takes.
    work_per_char: Duration,
    /// Probability of a rejection.
    error_rate: f64,
    /// Nanoseconds that earlier messages overslept and later ones have yet to make up for.
    overslept_ns: AtomicU64,
}

impl PretendedWork {
    /// The work that the flags ask for.
    pub(crate) fn new(args: &RunArgs) -> Self {
        Self::with(args.work, args.work_per_char, args.error_rate)
    }

    fn with(work: Duration, work_per_char: Duration, error_rate: f64) -> Self {
        Self {
            work,
            work_per_char,
            error_rate,
            overslept_ns: AtomicU64::new(0),
        }
    }

    /// Sleeps for a time that is right on average. The timer ticks in milliseconds, so a sleep
    /// often takes too long; later sleeps take that much less.
    async fn sleep(&self, time: Duration) {
        let time_ns = time.as_nanos() as u64;
        let less = |owed_ns: u64| Some(owed_ns.saturating_sub(time_ns));
        let order = Ordering::Relaxed;
        let owed_ns = self.overslept_ns.fetch_update(order, order, less);
        let made_up = Duration::from_nanos(owed_ns.unwrap_or_default().min(time_ns));
        let rest = time - made_up;
        if rest.is_zero() {
            return;
        }
        let began = Instant::now();
        tokio::time::sleep(rest).await;
        let over = began.elapsed().saturating_sub(rest).min(MAX_OVERSLEPT);
        self.overslept_ns.fetch_add(over.as_nanos() as u64, order);
    }

    fn time(&self, text: &[u8]) -> Duration {
        if self.work_per_char.is_zero() {
            return self.work;
        }
        // In UTF-8 every byte but the first of a character is 0b10xxxxxx.
        let chars = text.iter().filter(|byte| **byte & 0xc0 != 0x80).count();
        let chars = u32::try_from(chars).unwrap_or(u32::MAX);
        self.work
            .saturating_add(self.work_per_char.saturating_mul(chars))
    }
}

impl Handler for PretendedWork {
    async fn handle(&self, message: Message<'_>, _: &mut Effects) -> Result<(), HandlerError> {
        let time = self.time(message.text);
        if !time.is_zero() {
            self.sleep(time).await;
        }
        if self.error_rate > 0.0 && rand::random_bool(self.error_rate) {
            let percent = (self.error_rate * 1e6).round() / 1e4;
            let reason = format!("found faulty by chance ({percent} %)");
            return Err(Rejected::new(reason).into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handling_takes_longer_for_longer_texts() {
        let handler = PretendedWork::with(Duration::from_millis(10), Duration::from_millis(2), 0.0);
        assert_eq!(handler.time("grün".as_bytes()), Duration::from_millis(18));
        assert_eq!(handler.time(b""), Duration::from_millis(10));
    }

    #[tokio::test(start_paused = true)]
    async fn later_sleeps_make_up_for_an_oversleep() {
        let handler = PretendedWork::with(Duration::from_micros(500), Duration::ZERO, 0.0);
        let began = Instant::now();
        for _ in 0..200 {
            handler.sleep(handler.work).await;
        }
        // Each sleep alone takes at least 1 ms. Together they take 200 × 500 µs, and what the
        // last one overslept.
        let owed = Duration::from_nanos(handler.overslept_ns.load(Ordering::Relaxed));
        assert_eq!(began.elapsed(), Duration::from_millis(100) + owed);
        assert!(owed <= Duration::from_millis(2), "{owed:?}");
    }

    #[tokio::test]
    async fn the_error_rate_is_the_share_of_rejected_messages() {
        let message = Message::new(1, b"x");
        for (error_rate, expected) in [(0.0, 0..=0), (1.0, 1000..=1000), (0.3, 200..=400)] {
            let handler = PretendedWork::with(Duration::ZERO, Duration::ZERO, error_rate);
            let mut rejected = 0;
            for _ in 0..1000 {
                let outcome = handler.handle(message, &mut Effects::default()).await;
                rejected += u32::from(outcome.is_err());
            }
            assert!(expected.contains(&rejected), "{error_rate}: {rejected}");
        }
    }
}
