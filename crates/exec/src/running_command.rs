//! A command that was handed to the supervisor, as its node sees it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::unix::pipe;

use crate::leash::{self, Leash, Request};
use crate::orphans;
use crate::supervisor_process::SupervisorProcess;

/// A running command. Dropping it kills the command's process group.
pub(crate) struct RunningCommand {
    /// The path in the variable that marks the command's processes.
    pub(crate) marked: PathBuf,
    pub(crate) leash: Leash,
    pub(crate) stdout: pipe::Receiver,
    pub(crate) stderr: pipe::Receiver,
    mark: String,
    /// It has the folder of the marked path.
    supervisor: Arc<SupervisorProcess>,
}

impl RunningCommand {
    /// Hands a command to the supervisor.
    pub(crate) async fn start(
        supervisor: Arc<SupervisorProcess>,
        stdin: BorrowedFd<'_>,
        request: Request,
    ) -> io::Result<Self> {
        let (stdout, stdout_end) = io::pipe()?;
        let (stderr, stderr_end) = io::pipe()?;
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        io::Write::write_all(&mut &ours, &leash::line(&request)?)?;
        let leash = Leash::new(ours)?;
        let descriptors = [
            stdin,
            stdout_end.as_fd(),
            stderr_end.as_fd(),
            theirs.as_fd(),
        ];
        if let Err(error) = supervisor.send(descriptors).await {
            supervisor.replace();
            return Err(error);
        }
        Ok(Self {
            marked: supervisor.file(&request.file),
            leash,
            stdout: pipe::Receiver::from_owned_fd(stdout.into())?,
            stderr: pipe::Receiver::from_owned_fd(stderr.into())?,
            mark: request.mark,
            supervisor,
        })
    }

    /// The supervisor died, or its folder is gone: the next command needs another one.
    pub(crate) fn lost_its_supervisor(&self) {
        self.supervisor.replace();
    }

    /// Whether the supervisor runs that can kill the command.
    pub(crate) fn is_supervised(&self) -> bool {
        self.supervisor.is_alive()
    }

    /// How long the supervisor may take for its report.
    pub(crate) fn answer_timeout(&self) -> Duration {
        self.supervisor.answer_timeout
    }

    /// What kills the command's processes if the supervisor cannot.
    pub(crate) fn orphan_killer(&self) -> OrphanKiller {
        OrphanKiller {
            mark: self.mark.clone(),
            marked: self.marked.clone(),
            supervisor: Arc::clone(&self.supervisor),
        }
    }
}

/// Kills the processes of a command in the place of its supervisor.
pub(crate) struct OrphanKiller {
    mark: String,
    marked: PathBuf,
    supervisor: Arc<SupervisorProcess>,
}

impl OrphanKiller {
    /// The supervisor died, or does not answer: kills it, and then the command's processes.
    pub(crate) async fn kill(self) -> io::Result<()> {
        self.supervisor.kill();
        let (mark, marked) = (self.mark, self.marked);
        tokio::task::spawn_blocking(move || orphans::kill(&mark, &marked)).await?;
        Ok(())
    }
}
