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
use crate::supervisor_process::SupervisorProcess;

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
    /// The supervisor died.
    Unsupervised,
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
            let ending = end_of(&mut self.leash);
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
                self.supervisor.replace();
                let effects = self.effects.clone();
                tokio::task::spawn_blocking(move || orphans::kill(&effects)).await?;
                Went::Unsupervised
            }
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

/// Waits for the report.
async fn end_of(leash: &mut Leash) -> io::Result<Went> {
    Ok(match leash.next().await? {
        Some(Report::Failed { reason }) => Went::NotStarted(reason),
        Some(Report::Ended(ended)) => Went::Ended(ended, String::new()),
        None => Went::Unsupervised,
    })
}
