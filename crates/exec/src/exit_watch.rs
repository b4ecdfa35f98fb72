//! Waits for the exit of a process without reaping it. Until it is reaped, the kernel gives its number
//! to no other process, so a signal to its group reaches no stranger.

use std::io;

use rustix::process::{Pid, WaitId, WaitIdOptions, WaitIdStatus, waitid};

use crate::leash::Cause;

/// A process that may have exited.
pub(crate) struct ExitWatch {
    pid: Pid,
    #[cfg(target_os = "linux")]
    pidfd: Option<tokio::net::unix::pipe::Receiver>,
}

impl ExitWatch {
    /// Watches a child of this process.
    pub(crate) fn new(pid: Pid) -> Self {
        Self {
            pid,
            #[cfg(target_os = "linux")]
            pidfd: Self::pidfd(pid),
        }
    }

    /// A descriptor that is readable when the process has exited. It is no pipe, but tokio waits for
    /// a pipe's readiness as it would for that of any descriptor.
    #[cfg(target_os = "linux")]
    fn pidfd(pid: Pid) -> Option<tokio::net::unix::pipe::Receiver> {
        use rustix::process::{PidfdFlags, pidfd_open};
        let opened = pidfd_open(pid, PidfdFlags::NONBLOCK).ok()?;
        tokio::net::unix::pipe::Receiver::from_owned_fd_unchecked(opened).ok()
    }

    /// Waits for the exit. May be cancelled and called again.
    pub(crate) async fn exited(&self) -> io::Result<Cause> {
        #[cfg(target_os = "linux")]
        if let Some(pidfd) = &self.pidfd {
            pidfd.readable().await?;
            return Self::cause(self.pid, WaitIdOptions::NOHANG);
        }
        self.exited_on_a_thread().await
    }

    /// Waits on a thread of its own: a Linux before 5.3 and other systems have no pidfd.
    async fn exited_on_a_thread(&self) -> io::Result<Cause> {
        let pid = self.pid;
        let wait = move || Self::cause(pid, WaitIdOptions::empty());
        tokio::task::spawn_blocking(wait).await?
    }

    fn cause(pid: Pid, options: WaitIdOptions) -> io::Result<Cause> {
        let options = options | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let status = waitid(WaitId::Pid(pid), options)?;
        let cause = |status: WaitIdStatus| match status.exit_status() {
            Some(code) => Some(Cause::Exit(code)),
            None => status.terminating_signal().map(Cause::Signal),
        };
        status
            .and_then(cause)
            .ok_or_else(|| io::Error::other("the system does not say how the command ended"))
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[tokio::test]
    async fn both_ways_to_wait_see_the_exit_and_reap_nothing() {
        for (script, cause) in [("exit 7", Cause::Exit(7)), ("kill -9 $$", Cause::Signal(9))] {
            let mut child = Command::new("/bin/sh")
                .args(["-c", script])
                .spawn()
                .unwrap();
            let watch = ExitWatch::new(Pid::from_child(&child));
            assert_eq!(watch.exited().await.unwrap(), cause);
            assert_eq!(watch.exited_on_a_thread().await.unwrap(), cause);
            child.wait().unwrap();
            assert!(watch.exited_on_a_thread().await.is_err());
        }
    }
}
