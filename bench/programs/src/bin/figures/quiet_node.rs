//! A node whose log goes nowhere: reading some ten thousand lines per second would take the very cores
//! that are measured.

use std::path::Path;
use std::process::{Child, Stdio};

use anyhow::{Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

/// A node that generates at full speed or works. It is killed when this is dropped.
pub(crate) struct QuietNode(Child);

impl QuietNode {
    /// Starts a node. Blanks separate the further arguments of `baton run`.
    pub(crate) fn start(program: &Path, url: &str, args: &str) -> Result<Self> {
        let node = baton_processes::command(program)
            .args(["run", "--redis", url, "--interval", "0"])
            .args(["--max-pending", "100000"])
            .args(args.split(' '))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()?;
        Ok(Self(node))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Asks it to stop in good order and waits until it has.
    pub(crate) fn stop(mut self) -> Result<()> {
        kill_process(Pid::from_child(&self.0), Signal::TERM)?;
        let status = self.0.wait()?;
        ensure!(status.success(), "a node ended with {status}");
        Ok(())
    }
}

impl Drop for QuietNode {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
