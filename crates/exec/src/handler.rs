//! The handler: what the end of a command means for its message.

use std::ffi::OsString;
use std::fmt::Write;
use std::io;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use baton::{Effects, Handler, HandlerError, Message, Rejected};

use crate::effects_file::{NO_FOLDER, Unreadable};
use crate::invocation::{Invocation, Went};
use crate::leash::{Cause, Ended, Request, is_exhausted};
use crate::plan::Plan;
use crate::supervisor_process::Supervisor;
use crate::suspects::Suspects;
use crate::variables;

/// Exit codes with a meaning, from sysexits.h and from shells.
const EX_DATAERR: i32 = 65;
const NOT_EXECUTABLE: i32 = 126;
const NOT_FOUND: i32 = 127;

/// A command that handles messages, one process per message.
///
/// Its stdin is the message's text. Its environment has `BATON_SEQ`, `BATON_PARTITION`, `BATON_KEY`, `BATON_ATTEMPT`,
/// `BATON_DEADLINE_MS` (when its time is over, in ms since 1970) and `BATON_EFFECTS` (a file for JSON
/// lines such as `["INCRBY","counted",1]`, which take effect if it exits with 0).
///
/// | it ends | the message |
/// |---|---|
/// | with code 0 | is done |
/// | with code 65 | is rejected for good |
/// | with code 126 or 127, or it does not start | goes back, and no attempt counts; unless it was refused before, and commands of others ran since. For want of open files, processes or memory, never |
/// | with any other code, by a signal, or after its timeout | is tried again later |
///
/// The reason is the end of its stderr.
#[derive(Debug, Clone)]
pub struct Exec {
    words: Vec<OsString>,
    timeout: Duration,
    kill_after: Duration,
}

impl Exec {
    /// A program and its arguments.
    pub fn program(words: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        Self {
            words: words.into_iter().map(Into::into).collect(),
            timeout: Duration::from_secs(60),
            kill_after: Duration::from_secs(5),
        }
    }

    /// A command for `/bin/sh`.
    pub fn shell(command: impl Into<OsString>) -> Self {
        Self::program(["/bin/sh".into(), "-c".into(), command.into()])
    }

    /// How long a command may run; 60 s by default. Then its process group gets SIGTERM.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// How long a command may run on after SIGTERM; 5 s by default. Then its process group gets
    /// SIGKILL.
    pub fn kill_after(mut self, kill_after: Duration) -> Self {
        self.kill_after = kill_after;
        self
    }

    /// The handler. `supervisor` makes the command line of a program that calls [`crate::supervise`]
    /// and does nothing else. `on_output` gets each line of a command's stdout and the message's number.
    pub fn handler(
        self,
        supervisor: impl Fn() -> Command + Send + Sync + 'static,
        on_output: impl Fn(u64, &[u8]) + Send + Sync + 'static,
    ) -> ExecHandler {
        let plan = Plan {
            words: self.words.clone(),
            timeout: self.timeout,
            kill_after: self.kill_after,
            folder: Default::default(),
        };
        ExecHandler {
            supervisor: Supervisor::new(Box::new(supervisor), plan),
            exec: self,
            on_output: Box::new(on_output),
            invocations: AtomicU64::new(0),
            suspects: Suspects::default(),
        }
    }
}

/// Gets the number of a message and a line of its command's stdout.
type OnOutput = dyn Fn(u64, &[u8]) + Send + Sync;

/// Runs a command for each message.
pub struct ExecHandler {
    exec: Exec,
    supervisor: Supervisor,
    on_output: Box<OnOutput>,
    invocations: AtomicU64,
    suspects: Suspects,
}

impl ExecHandler {
    async fn invoke(&self, message: Message<'_>) -> io::Result<(Invocation, Went)> {
        let supervisor = self.supervisor.process()?;
        let number = self.invocations.fetch_add(1, Ordering::Relaxed);
        let request = Request {
            variables: variables::of(message, self.exec.timeout),
            mark: variables::EFFECTS.to_owned(),
            file: number.to_string(),
        };
        let mut invocation = Invocation::start(supervisor, message.text, request).await?;
        let went = invocation
            .end(|line| (self.on_output)(message.seq, line))
            .await?;
        if matches!(went, Went::Ended(..)) {
            self.suspects.clear(message);
        }
        Ok((invocation, went))
    }

    fn unsupervised(&self, message: Message<'_>, reason: &str) -> HandlerError {
        match self.suspects.add(message) {
            true => HandlerError::unavailable(reason),
            false => reason.into(),
        }
    }
}

impl Handler for ExecHandler {
    async fn handle(
        &self,
        message: Message<'_>,
        effects: &mut Effects,
    ) -> Result<(), HandlerError> {
        let invoked = self.invoke(message).await;
        let (invocation, went) = invoked.map_err(|error| {
            self.exec
                .cannot_start(&error.to_string(), is_exhausted(&error))
        })?;
        match went {
            Went::NotStarted {
                reason,
                is_exhausted,
            } => return Err(self.exec.cannot_start(&reason, is_exhausted)),
            Went::Unsupervised(reason) => return Err(self.unsupervised(message, reason)),
            Went::Ended(ended, stderr) => self.exec.judge(ended, &stderr)?,
        }
        let lines = invocation.read_effects().map_err(|why| match why {
            Unreadable::NoFolder => HandlerError::unavailable(NO_FOLDER),
            Unreadable::Missing(reason) => reason.into(),
            Unreadable::Wrong(reason) => Rejected::new(reason).into(),
        })?;
        *effects = Effects::parse_lines(&lines).map_err(Rejected::because)?;
        Ok(())
    }
}

impl Exec {
    fn cannot_start(&self, reason: &str, is_exhausted: bool) -> HandlerError {
        let program = self.words.first().cloned().unwrap_or_default();
        let reason = format!("cannot start {}: {reason}", program.display());
        match is_exhausted {
            true => HandlerError::exhausted(reason),
            false => HandlerError::unavailable(reason),
        }
    }

    /// What the end of a command means for its message.
    pub(crate) fn judge(&self, ended: Ended, stderr: &str) -> Result<(), HandlerError> {
        if !ended.timed_out && ended.cause == Cause::Exit(0) {
            return Ok(());
        }
        let reason = self.reason(ended, stderr);
        Err(match ended.cause {
            _ if ended.timed_out => reason.into(),
            Cause::Exit(EX_DATAERR) => Rejected::new(reason).into(),
            Cause::Exit(NOT_EXECUTABLE | NOT_FOUND) => HandlerError::unavailable(reason),
            Cause::Exit(_) | Cause::Signal(_) => reason.into(),
        })
    }

    fn reason(&self, ended: Ended, stderr: &str) -> String {
        let mut reason = match ended.timed_out {
            true => format!("timed out after {:?}", self.timeout),
            false => ended.cause.to_string(),
        };
        if !stderr.is_empty() {
            // Writing to a string cannot fail.
            let _ = write!(reason, ": {stderr}");
        }
        reason
    }
}
