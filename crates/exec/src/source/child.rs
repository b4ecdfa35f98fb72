//! One run of a source's command.

use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use baton::SourceError;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::line_buffer::{Found, LineBuffer};
use crate::invocation::OUTPUT_TIMEOUT;
use crate::leash::{Cause, Report, Request};
use crate::output_lines::OutputLines;
use crate::running_command::RunningCommand;
use crate::stderr_tail::StderrTail;
use crate::stdin_file;
use crate::supervisor_process::SupervisorProcess;

/// Max bytes that one read of stderr takes, and the pause after such a read: a source that prints errors
/// without end shall not keep its node busy.
const STDERR_BYTES: usize = 16 << 10;
const STDERR_PAUSE: Duration = Duration::from_millis(10);

/// Gets each line of a source's stderr.
pub(super) type OnOutput = Arc<dyn Fn(&[u8]) + Send + Sync>;

/// A running source. Dropping it kills the command's process group.
pub(super) struct Child {
    command: RunningCommand,
    /// How the command ended.
    cause: Option<Cause>,
    /// Whether its output is over.
    is_over: bool,
    /// After its exit: how long other processes may hold its output.
    output_until: Option<Instant>,
    tail: Arc<Mutex<StderrTail>>,
    stderr: JoinSet<()>,
    /// Writes to its stdin.
    _stdin: JoinSet<()>,
    accepted: watch::Sender<Option<Vec<u8>>>,
}

impl Child {
    /// Starts the command. Its stdin is empty, or has this first line.
    pub(super) async fn start(
        supervisor: Arc<SupervisorProcess>,
        request: Request,
        first_line: Option<Vec<u8>>,
        on_output: OnOutput,
    ) -> io::Result<Self> {
        let (accepted, to_write) = watch::channel(None);
        let mut stdin = JoinSet::new();
        let mut command = match first_line {
            None => {
                let nothing = stdin_file::with(b"")?;
                RunningCommand::start(supervisor, nothing.as_fd(), request).await?
            }
            Some(first_line) => {
                let (theirs, ours) = io::pipe()?;
                let ours = pipe::Sender::from_owned_fd(ours.into())?;
                stdin.spawn(write(ours, first_line, to_write));
                RunningCommand::start(supervisor, theirs.as_fd(), request).await?
            }
        };
        let tail = Arc::default();
        let mut stderr = JoinSet::new();
        let their_stderr = std::mem::replace(&mut command.stderr, closed()?);
        stderr.spawn(pass_on(their_stderr, Arc::clone(&tail), on_output));
        Ok(Self {
            command,
            cause: None,
            is_over: false,
            output_until: None,
            tail,
            stderr,
            _stdin: stdin,
            accepted,
        })
    }

    /// Writes a line to its stdin, when it reads. A later line replaces one that still waits.
    pub(super) fn tell(&self, line: Vec<u8>) {
        self.accepted.send_replace(Some(line));
    }

    /// Reads what is there now.
    pub(super) fn read(&mut self, lines: &mut LineBuffer) -> io::Result<Found> {
        if self.is_over {
            return Ok(Found::End);
        }
        let found = lines.read(&self.command.stdout)?;
        self.is_over = found == Found::End;
        Ok(found)
    }

    /// How it ended, if it has.
    pub(super) fn cause(&self) -> Option<Cause> {
        self.cause
    }

    /// Waits until there is more to read, or until it has ended. May be cancelled.
    pub(super) async fn wait(&mut self) -> Result<(), SourceError> {
        let output_until = self.output_until.unwrap_or_else(Instant::now);
        let has_ended = self.cause.is_some();
        let report = tokio::select! {
            ready = self.command.stdout.readable(), if !self.is_over => return Ok(ready?),
            () = tokio::time::sleep_until(output_until), if has_ended => {
                self.is_over = true;
                return Ok(());
            }
            report = self.command.leash.next::<Report>(), if !has_ended => report?,
        };
        match report {
            Some(Report::Ended(ended)) => {
                self.cause = Some(ended.cause);
                self.output_until = Some(Instant::now() + OUTPUT_TIMEOUT);
                // What it left running would print for ever.
                self.command.leash.let_go();
                Ok(())
            }
            // A source has no timeout. Its end follows.
            Some(Report::Killed) => Ok(()),
            Some(Report::Failed { reason, .. }) => {
                Err(SourceError::Retry(format!("cannot start: {reason}")))
            }
            None => {
                // `kill` finds its processes.
                self.command.lost_its_supervisor();
                Err(SourceError::retry("the supervisor of the command died"))
            }
        }
    }

    /// The end of its stderr. Called after its exit; may be cancelled.
    pub(super) async fn stderr(&mut self) -> String {
        let _ = tokio::time::timeout(OUTPUT_TIMEOUT, self.stderr.join_next()).await;
        let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        tail.text()
    }

    /// Kills all its processes, and waits until they are dead.
    pub(super) async fn kill(self) {
        let is_unknown = self.cause.is_none() && !self.command.is_supervised();
        self.command.leash.let_go();
        let _ = tokio::time::timeout(OUTPUT_TIMEOUT, self.command.leash.gone()).await;
        if is_unknown {
            // It fails only if this runtime ends.
            let _ = self.command.orphan_killer().kill().await;
        }
    }
}

/// A pipe that is over.
fn closed() -> io::Result<pipe::Receiver> {
    pipe::Receiver::from_owned_fd(io::pipe()?.0.into())
}

/// Writes the first line, and then each line that comes. If the source does not read, the last one waits.
async fn write(
    mut to: pipe::Sender,
    first_line: Vec<u8>,
    mut lines: watch::Receiver<Option<Vec<u8>>>,
) {
    let mut line = Some(first_line);
    loop {
        if let Some(line) = line
            && to.write_all(&line).await.is_err()
        {
            // The source reads no more.
            return;
        }
        if lines.changed().await.is_err() {
            return;
        }
        line = lines.borrow_and_update().clone();
    }
}

/// Passes on each line of stderr, and keeps its end.
async fn pass_on(mut stderr: pipe::Receiver, tail: Arc<Mutex<StderrTail>>, on_output: OnOutput) {
    let mut lines = OutputLines::endless();
    let mut bytes = Vec::with_capacity(STDERR_BYTES);
    loop {
        bytes.clear();
        match stderr.read_buf(&mut bytes).await {
            // A pipe cannot fail otherwise.
            Ok(0) | Err(_) => break,
            Ok(_) => {
                lines.push(&bytes, |line| on_output(line));
                let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
                tail.push(&bytes);
            }
        }
        if bytes.len() >= STDERR_BYTES {
            tokio::time::sleep(STDERR_PAUSE).await;
        }
    }
    lines.finish(|line| on_output(line));
}
