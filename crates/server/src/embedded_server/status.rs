//! What the embedded server's calls return.

use std::path::PathBuf;

/// Which server answers after [`EmbeddedServer::start`](super::EmbeddedServer::start).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Started {
    /// The one that this call started.
    Here,
    /// One that was there before, or that another process started at the same moment.
    Joined,
}

/// What [`EmbeddedServer::stop`](super::EmbeddedServer::stop) did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Stopped {
    /// The server wrote its data and ended.
    Ended {
        /// The pid that it had.
        pid: u32,
    },
    /// There was no server.
    NotRunning,
    /// Another server answers on the port. It still runs.
    NotOurs,
}

/// The state of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EmbeddedState {
    /// The server runs and answers.
    Running {
        /// Its pid.
        pid: u32,
    },
    /// The server's process lives and does not answer: it is starting, or it hangs.
    NotAnswering {
        /// Its pid.
        pid: u32,
    },
    /// There is no server.
    Down,
    /// Another server answers on the port.
    NotOurs,
}

/// What [`EmbeddedServer::status`](super::EmbeddedServer::status) returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbeddedStatus {
    /// Its state.
    pub state: EmbeddedState,
    /// The port on 127.0.0.1.
    pub port: u16,
    /// The folder of its files.
    pub data_dir: PathBuf,
    /// The program that runs, or that would be run; `None` if there is none.
    pub program: Option<PathBuf>,
    /// The size of its append-only files.
    pub aof_bytes: u64,
    /// The file with the password that the running server wants; `None` if none runs, or if it
    /// was started without one.
    pub password_file: Option<PathBuf>,
}

impl EmbeddedStatus {
    /// Whether the server runs and answers.
    #[must_use]
    pub fn is_running(&self) -> bool {
        matches!(self.state, EmbeddedState::Running { .. })
    }
}
