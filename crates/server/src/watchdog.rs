//! The watchdog ends a private server together with its owner, however the owner ends.
//!
//! No destructor runs in a process that is killed, and what Linux offers for this (the parent
//! death signal) must be set between fork and exec, which needs unsafe code and does not exist on
//! macOS. A pipe does the same everywhere: the watchdog is a small shell process that reads from
//! a pipe whose only writing end the owner has. However the owner ends, the pipe closes. Then the
//! watchdog kills the owner's server and removes its folder.
//!
//! The owner writes a line whenever its server changes: the pid of the server to kill, or an empty
//! line when there is none. A new process waits for a line before it becomes the server, and the
//! owner sends that line after the pid. So the watchdog knows the pid of every server.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

/// The watchdog ignores the signals of the owner's terminal and session: it ends by itself after
/// the owner. The server leads a process group, which also holds its children that write RDB
/// files. A dying process may still create a file after the kill, so the removal is repeated.
const WATCH: &str = r#"
trap '' HUP INT TERM
pid=
while read -r line; do pid=$line; done
if [ -n "$pid" ]; then
    kill -s KILL -- "-$pid" || kill -s KILL "$pid"
fi
tries=0
while rm -rf "$1"; [ -e "$1" ] && [ "$tries" -lt 100 ]; do
    tries=$((tries + 1))
    sleep 0.1
done
"#;

/// Waits for a line of the owner, then becomes the server. The pid stays the same.
const WAIT_AND_BECOME: &str = r#"read -r go && exec "$@" </dev/null"#;

/// The process that cleans up after its owner.
#[derive(Debug)]
pub(crate) struct Watchdog {
    process: Child,
    /// `None` only during the drop.
    pipe: Option<ChildStdin>,
}

impl Watchdog {
    /// Starts to watch over this folder, which is removed at the end.
    pub(crate) fn start(folder: &Path) -> io::Result<Watchdog> {
        let mut process = shell(WATCH)
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let pipe = process.stdin.take();
        Ok(Watchdog { process, pipe })
    }

    /// Starts a server that will not outlive this process.
    pub(crate) fn run(
        &mut self,
        program: &Path,
        arguments: &[&OsStr],
        log: File,
    ) -> io::Result<Child> {
        let mut server = shell(WAIT_AND_BECOME)
            .arg(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        let watched = self.tell(&server.id().to_string());
        let told = server.stdin.take().map_or(Ok(()), |mut go| match watched {
            Ok(()) => go.write_all(b"go\n"),
            // Dropping `go` closes the pipe, and the process ends without a server.
            Err(error) => Err(error),
        });
        if let Err(error) = told {
            let _ = server.kill();
            let _ = server.wait();
            return Err(error);
        }
        Ok(server)
    }

    /// Forgets the server. Call this before another process can get its pid.
    pub(crate) fn forget(&mut self) -> io::Result<()> {
        self.tell("")
    }

    fn tell(&mut self, line: &str) -> io::Result<()> {
        match &mut self.pipe {
            // One write for the whole line: a kill may end the owner between two.
            Some(pipe) => pipe.write_all(format!("{line}\n").as_bytes()),
            None => Ok(()),
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.pipe = None;
        let _ = self.process.wait();
    }
}

/// A shell in a process group of its own, so that Ctrl-C in the owner's terminal does not reach
/// it: the owner decides when it ends.
fn shell(script: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", script, "baton-server"])
        .process_group(0);
    command
}
