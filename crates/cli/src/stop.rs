//! Asking a command to stop: by signal, or because nobody reads its output any more.

use std::io;
use std::process;
use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tokio::sync::watch;

/// Why to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// A signal came.
    Signal(i32),
    /// The reader of standard output is gone.
    OutputClosed,
}

/// The wish to stop, shared by all who may have it.
#[derive(Clone)]
pub(crate) struct Stop(watch::Sender<Option<Cause>>);

impl Stop {
    /// From now on the first SIGTERM or SIGINT is a wish to stop, and the second ends the
    /// process at once. The signals have a thread of their own, so that the second is heard
    /// even while the first one's work blocks.
    pub(crate) fn on_signals() -> io::Result<Self> {
        let stop = Self(watch::Sender::new(None));
        let mut signals = Signals::new([SIGTERM, SIGINT])?;
        let asked = stop.clone();
        let hear = move || {
            let mut first = true;
            for signal in signals.forever() {
                if !first {
                    process::exit(i32::from(exit_code(signal)));
                }
                first = false;
                asked.ask(Cause::Signal(signal));
            }
        };
        thread::Builder::new()
            .name("signals".to_owned())
            .spawn(hear)?;
        Ok(stop)
    }

    /// A wish that no signal expresses.
    #[cfg(test)]
    pub(crate) fn by_request() -> Self {
        Self(watch::Sender::new(None))
    }

    /// Asks to stop; the first cause stays.
    pub(crate) fn ask(&self, cause: Cause) {
        self.0.send_if_modified(|asked| {
            let first = asked.is_none();
            asked.get_or_insert(cause);
            first
        });
    }

    /// Why to stop, if somebody asked.
    pub(crate) fn cause(&self) -> Option<Cause> {
        *self.0.borrow()
    }

    /// Waits until somebody asks.
    pub(crate) async fn asked(&self) -> Cause {
        let mut asked = self.0.subscribe();
        // An error would mean that the sender is gone, which `self` keeps alive.
        match asked.wait_for(Option::is_some).await.map(|cause| *cause) {
            Ok(Some(cause)) => cause,
            _ => std::future::pending().await,
        }
    }
}

/// The exit code of a process that a signal ended, as shells count it.
pub(crate) fn exit_code(signal: i32) -> u8 {
    u8::try_from(signal).unwrap_or(0).saturating_add(128)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_cause_stays() {
        let stop = Stop::by_request();
        stop.ask(Cause::OutputClosed);
        stop.ask(Cause::Signal(SIGTERM));
        assert_eq!(stop.asked().await, Cause::OutputClosed);
    }

    #[test]
    fn signals_have_the_exit_codes_that_shells_give_them() {
        assert_eq!((exit_code(SIGINT), exit_code(SIGTERM)), (130, 143));
    }
}
