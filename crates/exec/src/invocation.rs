//! One command that handles one message, as its node sees it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use baton::Message;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

use crate::effects_file::{self, Unreadable};
use crate::leash::{self, Ended, Leash, Report, Request};
use crate::orphans;
use crate::output_lines::OutputLines;
use crate::stderr_tail::StderrTail;
use crate::stdin_file;
use crate::supervisor_process::{SupervisorProcess, UNANSWERED};

/// How long a node waits for the rest of the output after the exit: other processes may hold the pipes.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(1);
/// Max bytes that one read takes.
const READ_BYTES: usize = 16 << 10;

/// A command that was handed to the supervisor. Dropping it kills the command's process group.
pub(crate) struct Invocation {
    /// The file in which the command asks for effects.
    effects: PathBuf,
    leash: Leash,
    stdout: pipe::Receiver,
    stderr: pipe::Receiver,
    /// It has the folder of the effects.
    supervisor: Arc<SupervisorProcess>,
}

/// How a command went.
pub(crate) enum Went {
    /// It did not start, for this reason.
    NotStarted(String),
    /// The supervisor died, or was killed because it did not answer. This is the reason.
    Unsupervised(&'static str),
    /// It ended, and this is the end of its stderr.
    Ended(Ended, String),
}

impl Invocation {
    /// Hands a message to a new command.
    pub(crate) async fn start(
        supervisor: Arc<SupervisorProcess>,
        message: Message<'_>,
        effects: String,
    ) -> io::Result<Self> {
        let stdin = stdin_file::with(message.text)?;
        let (stdout, stdout_end) = io::pipe()?;
        let (stderr, stderr_end) = io::pipe()?;
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        let path = supervisor.effects(&effects);
        let request = Request {
            seq: message.seq,
            key: message.key().to_string(),
            attempt: message.attempt,
            effects,
        };
        io::Write::write_all(&mut &ours, &leash::line(&request)?)?;
        let leash = Leash::new(ours)?;
        let (stdout, stderr) = (receiver(stdout.into())?, receiver(stderr.into())?);
        let descriptors = [
            stdin.as_fd(),
            stdout_end.as_fd(),
            stderr_end.as_fd(),
            theirs.as_fd(),
        ];
        effects_file::create(&path).inspect_err(|_| supervisor.replace())?;
        if let Err(error) = supervisor.send(descriptors).await {
            supervisor.replace();
            return Err(error);
        }
        Ok(Self {
            effects: path,
            leash,
            stdout,
            stderr,
            supervisor,
        })
    }

    /// Reads the effects for which the command asked.
    pub(crate) fn read_effects(&self) -> Result<Vec<u8>, Unreadable> {
        let read = effects_file::read(&self.effects);
        if read == Err(Unreadable::NoFolder) {
            self.supervisor.replace();
        }
        read
    }

    /// Waits for the end, and passes on each line of stdout.
    pub(crate) async fn end(&mut self, on_line: impl Fn(&[u8])) -> io::Result<Went> {
        let (mut lines, mut tail) = (OutputLines::default(), StderrTail::default());
        let (stdout, stderr) = (&mut self.stdout, &mut self.stderr);
        let went = {
            let output = async {
                let out = read(stdout, |piece| lines.push(piece, &on_line));
                let err = read(stderr, |piece| tail.push(piece));
                tokio::join!(out, err);
            };
            let mut output = std::pin::pin!(output);
            let mut over = false;
            let ending = end_of(&mut self.leash, self.supervisor.answer_timeout);
            let mut ending = std::pin::pin!(ending);
            let went = loop {
                tokio::select! {
                    went = &mut ending => break went?,
                    () = &mut output, if !over => over = true,
                }
            };
            if let Went::Unsupervised(_) = went {
                self.supervisor.kill();
                let effects = self.effects.clone();
                tokio::task::spawn_blocking(move || orphans::kill(&effects)).await?;
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

fn receiver(end: OwnedFd) -> io::Result<pipe::Receiver> {
    pipe::Receiver::from_owned_fd(end)
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
            Some(Report::Failed { reason }) => Went::NotStarted(reason),
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
