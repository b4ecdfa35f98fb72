//! Whether a process or a listener is our embedded server.

use std::fs;
use std::path::{Path, PathBuf};

use super::{EmbeddedServer, EmbeddedState, folder};
use crate::probe::{Answer, Identity};
use crate::process;

impl EmbeddedServer {
    /// The file with the password of the server that runs on this port.
    pub(super) fn password_file(&self) -> Option<PathBuf> {
        let folder = fs::canonicalize(self.folder()).ok()?;
        let pid = self.pid_from_file(&folder)?;
        let config = folder.join(folder::CONFIG_FILE);
        // An older version started its server without this file and without a password.
        let wants_one = self.has_our_port(pid)
            && process::command_line(pid)?.contains(config.to_string_lossy().as_ref());
        wants_one.then(|| folder.join(folder::PASSWORD_FILE))
    }

    /// Whether this process was started for our port.
    pub(super) fn has_our_port(&self, pid: u32) -> bool {
        let port = format!(" --port {} ", self.port);
        process::command_line(pid).is_some_and(|command| command.contains(&port))
    }

    /// The server's state, and the program that runs if it told.
    pub(super) fn state(&self) -> (EmbeddedState, Option<PathBuf>) {
        let answer = self.probe();
        if let Answer::Ready(Identity {
            pid: Some(pid),
            program,
        }) = &answer
            && self.is_ours(*pid)
        {
            return (EmbeddedState::Running { pid: *pid }, program.clone());
        }
        let state = match (self.pid_from_file(&self.folder()), answer) {
            (Some(pid), Answer::Refused | Answer::NotRedis | Answer::Loading) => {
                EmbeddedState::NotAnswering { pid }
            }
            // Its password file is lost, so it does not let us ask for its pid.
            (Some(pid), Answer::Ready(Identity { pid: None, .. })) if self.has_our_port(pid) => {
                EmbeddedState::Running { pid }
            }
            (_, Answer::Ready(_) | Answer::Loading) => EmbeddedState::NotOurs,
            (None, Answer::Refused | Answer::NotRedis) => EmbeddedState::Down,
        };
        (state, None)
    }

    /// The pid in the pid file, if it is that of a living server of ours.
    pub(super) fn pid_from_file(&self, folder: &Path) -> Option<u32> {
        folder::read_pid(folder).filter(|pid| self.is_ours(*pid))
    }

    /// Whether this is the pid of a living server with our folder.
    pub(super) fn is_ours(&self, pid: u32) -> bool {
        // A server runs with the real path of its folder, which exists as long as it runs.
        let Ok(folder) = fs::canonicalize(self.folder()) else {
            return false;
        };
        let pid_file = folder.join(folder::PID_FILE);
        process::can_signal(pid)
            && process::command_line(pid)
                .is_some_and(|command| command.contains(pid_file.to_string_lossy().as_ref()))
    }
}
