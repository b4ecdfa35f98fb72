//! A command that was handed to the supervisor, as its node sees it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;

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
            supervisor.died();
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

    /// The leash says that the supervisor died.
    pub(crate) fn lost_its_supervisor(&self) {
        self.supervisor.died();
    }

    /// Whether the supervisor runs that can kill the command.
    pub(crate) fn is_supervised(&self) -> bool {
        self.supervisor.is_alive()
    }

    /// The supervisor died: kills the command's processes in its place.
    pub(crate) async fn kill_orphans(&self) -> io::Result<()> {
        self.supervisor.died();
        let (mark, marked) = (self.mark.clone(), self.marked.clone());
        tokio::task::spawn_blocking(move || orphans::kill(&mark, &marked)).await?;
        Ok(())
    }
}
