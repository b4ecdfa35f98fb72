//! The request to end a command: from a signal, or because the reader of its output is gone.

use std::process::{self, ExitCode};
use std::thread;

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tokio::sync::watch;

/// Why a command shall end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// This signal came.
    Signal(i32),
    /// The reader of standard output is gone.
    OutputClosed,
}

impl Cause {
    /// The exit code of a command that this cause ended early.
    pub(crate) fn exit_code(self) -> ExitCode {
        match self {
            Self::Signal(signal) => ExitCode::from(signal_code(signal)),
            Self::OutputClosed => ExitCode::FAILURE,
        }
    }
}

/// A request that every part of a command can make and wait for.
#[derive(Clone)]
pub(crate) struct Shutdown(watch::Sender<Option<Cause>>);

impl Shutdown {
    /// From now on the first SIGTERM, SIGINT or SIGHUP is a request to end, and the second ends the
    /// process at once. A program that was started with SIGHUP ignored, as by `nohup`, runs on when its
    /// terminal closes. A thread of its own waits for signals, so it sees the second one even
    /// while the command blocks.
    pub(crate) fn on_signals() -> anyhow::Result<Self> {
        let shutdown = Self(watch::Sender::new(None));
        let requests = shutdown.clone();
        let mut listened = vec![SIGTERM, SIGINT];
        listened.extend(hangup_counts().then_some(SIGHUP));
        let mut signals = Signals::new(listened).context("cannot listen for signals")?;
        let wait = move || {
            let mut first = None;
            for signal in signals.forever() {
                match first {
                    None => {
                        first = Some(signal);
                        requests.request(Cause::Signal(signal));
                    }
                    // One closing terminal sends several: the shell's, and that of the system.
                    Some(SIGHUP) if signal == SIGHUP => {}
                    Some(_) => process::exit(i32::from(signal_code(signal))),
                }
            }
        };
        thread::Builder::new()
            .name("signals".to_owned())
            .spawn(wait)
            .context("cannot listen for signals")?;
        Ok(shutdown)
    }

    /// A shutdown that no signal requests.
    #[cfg(test)]
    pub(crate) fn without_signals() -> Self {
        Self(watch::Sender::new(None))
    }

    /// Requests the end. If it is requested already, the first cause stays.
    pub(crate) fn request(&self, cause: Cause) {
        self.0.send_if_modified(|requested| {
            let first = requested.is_none();
            requested.get_or_insert(cause);
            first
        });
    }

    /// The cause, if the end is requested.
    pub(crate) fn cause(&self) -> Option<Cause> {
        *self.0.borrow()
    }

    /// Waits until the end is requested.
    pub(crate) async fn requested(&self) -> Cause {
        let mut cause = self.0.subscribe();
        // An error would mean that the sender is gone, but `self` keeps it alive.
        match cause.wait_for(Option::is_some).await.map(|cause| *cause) {
            Ok(Some(cause)) => cause,
            _ => std::future::pending().await,
        }
    }
}

/// Whether SIGHUP is to end this program: not if its caller has it ignored. Where the system does not say,
/// the signal does what it does to any other program.
fn hangup_counts() -> bool {
    let status = std::fs::read_to_string("/proc/self/status");
    status.is_ok_and(|status| ignores(&status, SIGHUP) == Some(false))
}

/// Whether a process ignores a signal, as its `/proc/PID/status` says.
fn ignores(status: &str, signal: i32) -> Option<bool> {
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))?;
    let mask = u64::from_str_radix(mask.trim(), 16).ok()?;
    let bit = u32::try_from(signal).ok()?.checked_sub(1)?;
    Some(mask.checked_shr(bit)? & 1 == 1)
}

/// The exit code that shells give to a process that a signal ended.
fn signal_code(signal: i32) -> u8 {
    u8::try_from(signal).unwrap_or(0).saturating_add(128)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_cause_stays() {
        let shutdown = Shutdown::without_signals();
        shutdown.request(Cause::OutputClosed);
        shutdown.request(Cause::Signal(SIGTERM));
        assert_eq!(shutdown.requested().await, Cause::OutputClosed);
    }

    #[test]
    fn signals_have_the_exit_codes_that_shells_give_them() {
        assert_eq!([SIGHUP, SIGINT, SIGTERM].map(signal_code), [129, 130, 143]);
    }

    #[test]
    fn the_system_says_which_signals_a_process_ignores() {
        let status = "Name:\tbaton\nSigBlk:\t0000000000000001\nSigIgn:\t0000000000001001\n";
        let ignored = [SIGHUP, SIGINT, 13].map(|signal| ignores(status, signal));
        assert_eq!(ignored, [Some(true), Some(false), Some(true)]);
        for text in ["", "SigIgn:\tx", "SigIgn:"] {
            assert_eq!(ignores(text, SIGHUP), None, "{text}");
        }
        assert_eq!(ignores(status, 65), None);
    }
}
