//! Ctrl-C: the first signal ends the plan, and the run still judges every message; the second signal
//! ends the run at once.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

#[derive(Default)]
struct Shared {
    signals: AtomicU32,
    lock: Mutex<()>,
    heard: Condvar,
}

/// The request to end the run.
#[derive(Clone, Default)]
pub struct Stop(Arc<Shared>);

impl Stop {
    /// From now on SIGINT and SIGTERM request the end of the run.
    pub fn on_signals() -> Result<Self> {
        let stop = Self::default();
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        let shared = Arc::clone(&stop.0);
        std::thread::spawn(move || {
            for _ in signals.forever() {
                shared.signals.fetch_add(1, Ordering::Relaxed);
                // Under the lock, so that no wait can miss it.
                let _lock = shared.lock.lock().unwrap_or_else(PoisonError::into_inner);
                shared.heard.notify_all();
            }
        });
        Ok(stop)
    }

    /// Whether a signal came.
    pub fn asked(&self) -> bool {
        self.0.signals.load(Ordering::Relaxed) > 0
    }

    /// Fails if two signals came.
    pub fn check(&self) -> Result<()> {
        match self.0.signals.load(Ordering::Relaxed) {
            0 | 1 => Ok(()),
            _ => bail!("interrupted"),
        }
    }

    /// Waits for this time, or until a signal comes.
    pub fn wait(&self, time: Duration) {
        let until = Instant::now() + time;
        let mut lock = self.0.lock.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            if self.asked() {
                return;
            }
            let waited = self.0.heard.wait_timeout(lock, left);
            lock = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Pauses between two polls of a condition; fails if two signals came.
    pub fn pause_poll(&self) -> Result<()> {
        self.check()?;
        std::thread::sleep(Duration::from_millis(10));
        Ok(())
    }
}
