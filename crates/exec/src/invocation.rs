//! One command that handles one message, as its node sees it.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

use crate::leash::{Ended, Leash, Report, Request};
use crate::output_lines::OutputLines;
use crate::running_command::RunningCommand;
use crate::stderr_tail::StderrTail;
use crate::stdin_file;
use crate::supervisor_process::SupervisorProcess;

/// How long a node waits for the rest of the output after the exit: other processes may hold the pipes.
pub(crate) const OUTPUT_TIMEOUT: Duration = Duration::from_secs(1);
/// Max bytes that one read takes.
const READ_BYTES: usize = 16 << 10;

/// A command that handles a message. Dropping it kills the command's process group.
pub(crate) struct Invocation(RunningCommand);

/// How a command went.
pub(crate) enum Went {
    /// It did not start, for this reason.
    NotStarted(String),
    /// The supervisor died.
    Unsupervised,
    /// It ended, and this is the end of its stderr.
    Ended(Ended, String),
}

impl Invocation {
    /// Hands a message to a new command.
    pub(crate) async fn start(
        supervisor: Arc<SupervisorProcess>,
        text: &[u8],
        request: Request,
    ) -> io::Result<Self> {
        let stdin = stdin_file::with(text)?;
        let running = RunningCommand::start(supervisor, stdin.as_fd(), request).await?;
        Ok(Self(running))
    }

    /// The file in which the command asks for effects.
    pub(crate) fn effects(&self) -> &Path {
        &self.0.marked
    }

    /// Waits for the end, and passes on each line of stdout.
    pub(crate) async fn end(&mut self, on_line: impl Fn(&[u8])) -> io::Result<Went> {
        let (mut lines, mut tail) = (OutputLines::default(), StderrTail::default());
        let (stdout, stderr) = (&mut self.0.stdout, &mut self.0.stderr);
        let went = {
            let output = async {
                let out = read(stdout, |piece| lines.push(piece, &on_line));
                let err = read(stderr, |piece| tail.push(piece));
                tokio::join!(out, err);
            };
            let mut output = std::pin::pin!(output);
            let mut over = false;
            let ending = end_of(&mut self.0.leash);
            let mut ending = std::pin::pin!(ending);
            let went = loop {
                tokio::select! {
                    went = &mut ending => break went?,
                    () = &mut output, if !over => over = true,
                }
            };
            if !over {
                // What comes later is lost.
                let _ = tokio::time::timeout(OUTPUT_TIMEOUT, output).await;
            }
            went
        };
        lines.finish(&on_line);
        Ok(match went {
            Went::Ended(ended, _) => Went::Ended(ended, tail.text()),
            Went::Unsupervised => {
                self.0.kill_orphans().await?;
                Went::Unsupervised
            }
            other => other,
        })
    }
}

/// Reads a pipe to its end.
async fn read(pipe: &mut pipe::Receiver, mut take: impl FnMut(&[u8])) {
    let mut bytes = Vec::with_capacity(READ_BYTES);
    loop {
        bytes.clear();
        match pipe.read_buf(&mut bytes).await {
            // A pipe cannot fail otherwise.
            Ok(0) | Err(_) => return,
            Ok(_) => take(&bytes),
        }
    }
}

/// Waits for the report.
async fn end_of(leash: &mut Leash) -> io::Result<Went> {
    Ok(match leash.next().await? {
        Some(Report::Failed { reason }) => Went::NotStarted(reason),
        Some(Report::Ended(ended)) => Went::Ended(ended, String::new()),
        None => Went::Unsupervised,
    })
}
