//! Handlers of commands, and what becomes of their messages.

use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use baton::{Effects, Handler, HandlerError, Message};
use baton_exec::{Exec, ExecHandler};
use rustix::process::{Pid, Signal, kill_process};

/// How long a test waits for what must happen.
const TIMEOUT: Duration = Duration::from_secs(20);

/// What becomes of a message, and why.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    Rejected(String),
    Later(String),
    Unavailable(String),
}

impl Outcome {
    pub(crate) fn rejected(reason: &str) -> Self {
        Self::Rejected(reason.to_owned())
    }

    pub(crate) fn later(reason: &str) -> Self {
        Self::Later(reason.to_owned())
    }

    pub(crate) fn unavailable(reason: &str) -> Self {
        Self::Unavailable(reason.to_owned())
    }
}

impl From<Result<(), HandlerError>> for Outcome {
    fn from(ended: Result<(), HandlerError>) -> Self {
        match ended {
            Ok(()) => Self::Done,
            Err(error) if error.is_final() => Self::rejected(error.reason()),
            Err(error) if error.is_unavailable() => Self::unavailable(error.reason()),
            Err(error) => Self::later(error.reason()),
        }
    }
}

/// A handler whose supervisor is this test program.
pub(crate) fn handler(exec: Exec) -> ExecHandler {
    Heard::default().handler(exec)
}

pub(crate) fn message(text: &[u8]) -> Message<'_> {
    let mut message = Message::new(7, text);
    message.partition = 3;
    message
}

pub(crate) async fn handle(handler: &ExecHandler, text: &[u8]) -> Outcome {
    let handled = handler.handle(message(text), &mut Effects::default()).await;
    handled.into()
}

/// What commands print.
#[derive(Clone, Default)]
pub(crate) struct Heard(Arc<Mutex<Vec<String>>>);

impl Heard {
    pub(crate) fn handler(&self, exec: Exec) -> ExecHandler {
        let heard = self.clone();
        let supervisor = || {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(["--ignored", "--exact", "supervisor"]);
            command
        };
        exec.handler(supervisor, move |seq, line| {
            let line = String::from_utf8_lossy(line);
            heard.0.lock().unwrap().push(format!("{seq}: {line}"));
        })
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// Whether there is such a process, be it only a zombie.
pub(crate) fn exists(pid: &str) -> bool {
    std::path::Path::new("/proc").join(pid).exists()
}

/// Whether there is such a process and it is no zombie.
pub(crate) fn runs(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(") ").next().unwrap_or_default();
    !state.is_empty() && !state.starts_with(['Z', 'X'])
}

/// The most memory that this process has had.
pub(crate) fn peak_memory_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap()
}

pub(crate) fn kill9(pid: &str) {
    signal(pid, Signal::KILL);
}

pub(crate) fn pause(pid: &str) {
    signal(pid, Signal::STOP);
}

fn signal(pid: &str, signal: Signal) {
    let pid = Pid::from_raw(pid.parse().unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

pub(crate) async fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < TIMEOUT, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
