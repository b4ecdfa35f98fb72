//! One command that handles one message, as its node sees it.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

use crate::effects_file::{self, Unreadable};
use crate::leash::{Ended, Leash, Report, Request};
use crate::output_lines::OutputLines;
use crate::running_command::RunningCommand;
use crate::stderr_tail::StderrTail;
use crate::stdin_file;
use crate::supervisor_process::{SupervisorProcess, UNANSWERED};

/// How long a node waits for the rest of the output after the exit: other processes may hold the pipes.
pub(crate) const OUTPUT_TIMEOUT: Duration = Duration::from_secs(1);
/// Max bytes that one read takes.
const READ_BYTES: usize = 16 << 10;

/// A command that handles a message. Dropping it kills the command's process group.
pub(crate) struct Invocation(RunningCommand);

/// How a command went.
pub(crate) enum Went {
    /// It did not start, for this reason; if it `is_exhausted`, because the machine lacks something.
    NotStarted { reason: String, is_exhausted: bool },
    /// The supervisor died, or was killed because it did not answer. This is the reason.
    Unsupervised(&'static str),
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
        let effects = supervisor.file(&request.file);
        effects_file::create(&effects).inspect_err(|_| supervisor.replace())?;
        let running = RunningCommand::start(supervisor, stdin.as_fd(), request).await?;
        Ok(Self(running))
    }

    /// Reads the effects for which the command asked.
    pub(crate) fn read_effects(&self) -> Result<Vec<u8>, Unreadable> {
        let read = effects_file::read(&self.0.marked);
        if read == Err(Unreadable::NoFolder) {
            self.0.lost_its_supervisor();
        }
        read
    }

    /// Waits for the end, and passes on each line of stdout.
    pub(crate) async fn end(&mut self, on_line: impl Fn(&[u8])) -> io::Result<Went> {
        let (mut lines, mut tail) = (OutputLines::default(), StderrTail::default());
        let (limit, orphan_killer) = (self.0.answer_timeout(), self.0.orphan_killer());
        let (stdout, stderr) = (&mut self.0.stdout, &mut self.0.stderr);
        let went = {
            let output = async {
                let out = read(stdout, |piece| lines.push(piece, &on_line));
                let err = read(stderr, |piece| tail.push(piece));
                tokio::join!(out, err);
            };
            let mut output = std::pin::pin!(output);
            let mut over = false;
            let ending = end_of(&mut self.0.leash, limit);
            let mut ending = std::pin::pin!(ending);
            let went = loop {
                tokio::select! {
                    went = &mut ending => break went?,
                    () = &mut output, if !over => over = true,
                }
            };
            if let Went::Unsupervised(_) = went {
                orphan_killer.kill().await?;
            }
            if !over {
                // What comes later is lost.
                let _ = tokio::time::timeout(OUTPUT_TIMEOUT, output).await;
            }
            went
        };
        lines.finish(&on_line);
        Ok(match went {
            Went::Ended(ended, _) => Went::Ended(ended, tail.text()),
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

/// Waits for the report of the end. The supervisor must tell something within the limit.
async fn end_of(leash: &mut Leash, mut limit: Duration) -> io::Result<Went> {
    loop {
        let Ok(report) = tokio::time::timeout(limit, leash.next()).await else {
            return Ok(Went::Unsupervised(UNANSWERED));
        };
        return Ok(match report? {
            Some(Report::Failed {
                reason,
                is_exhausted,
            }) => Went::NotStarted {
                reason,
                is_exhausted,
            },
            Some(Report::Ended(ended)) => Went::Ended(ended, String::new()),
            Some(Report::Killed) => {
                // The supervisor can do no more. A process that reads from a dead disk ends late.
                limit = Duration::MAX;
                continue;
            }
            None => Went::Unsupervised("the supervisor of its command died"),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_a_supervisor_that_tells_nothing_is_given_up() {
        let limit = Duration::from_millis(100);
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let (mut ours, theirs) = (Leash::new(ours).unwrap(), Leash::new(theirs).unwrap());
        let went = end_of(&mut ours, limit).await.unwrap();
        assert!(matches!(went, Went::Unsupervised(UNANSWERED)));

        theirs.tell(&Report::Killed);
        let longer = tokio::time::timeout(3 * limit, end_of(&mut ours, limit));
        assert!(longer.await.is_err());
        drop(theirs);
        let went = end_of(&mut ours, limit).await.unwrap();
        assert!(matches!(went, Went::Unsupervised(reason) if reason != UNANSWERED));
    }
}
