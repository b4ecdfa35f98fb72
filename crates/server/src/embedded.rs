//! The server that `baton run` starts when none answers: a process of its own, which outlives the
//! node that happened to start it.
//!
//! Two nodes may find nothing there at the same moment, and each start one. The port decides:
//! only one server can listen on it, the other ends before it has touched any data, and both nodes
//! use the one that answers. Nodes with the same data folder do not get that far, because a lock
//! file lets one of them start at a time.
//!
//! Who the server is, is asked of the server itself and of the operating system. The pid file
//! alone proves nothing: it stays behind after a crash, its number may be another process's by
//! now, and a server that loses the port has already written its own pid over the winner's.
//!
//! The port is open to every user of the machine, so the server wants a password. It lies in the
//! server's folder, which only its owner can read, and is sent only while a server of ours lives:
//! another user may listen on the port when it does not.

mod folder;
mod launch;

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::error::Error;
use crate::probe::{Address, Answer, Identity};
use crate::program::{find_program, require};
use crate::{password, process};

pub use folder::default_data_dir;

/// How long a server may take to answer, or to end when it is asked to.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long it may take to read its data, as long as it says that it does.
const LOADING_PATIENCE: Duration = Duration::from_secs(120);
/// The pause between two looks at a server.
const POLL: Duration = Duration::from_millis(10);

/// The server that all nodes of this machine share when there is no other.
#[derive(Clone, Debug)]
pub struct Embedded {
    port: u16,
    data_dir: PathBuf,
    program: Option<PathBuf>,
    /// [`PATIENCE`], unless a test has less.
    patience: Duration,
}

/// Whose server answers after [`Embedded::start`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Started {
    /// The one that this call has started.
    Here,
    /// One that was there already, or that another process started at the same moment.
    Joined,
}

/// What [`Embedded::stop`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Stopped {
    /// The server has written its data and is gone.
    Ended {
        /// The pid that it had.
        pid: u32,
    },
    /// There was no server.
    NotRunning,
    /// A server answers on the port, and it is not this one: it was left alone.
    NotOurs,
}

/// What is there at the moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EmbeddedState {
    /// The server runs and answers.
    Running {
        /// Its pid.
        pid: u32,
    },
    /// The server's process is there, but it does not answer: it is starting, or it hangs.
    NotAnswering {
        /// Its pid.
        pid: u32,
    },
    /// There is no server.
    Down,
    /// A server answers on the port, and it is not this one.
    NotOurs,
}

/// What [`Embedded::status`] tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbeddedStatus {
    /// Whether it runs.
    pub state: EmbeddedState,
    /// The port on 127.0.0.1.
    pub port: u16,
    /// Where its files are kept.
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

impl Embedded {
    /// A server on this port of 127.0.0.1 with its files below this folder. Nothing is started.
    #[must_use]
    pub fn new(port: u16, data_dir: impl Into<PathBuf>) -> Embedded {
        Embedded {
            port,
            data_dir: data_dir.into(),
            program: None,
            patience: PATIENCE,
        }
    }

    /// Runs this program instead of the one that [`find_program`] finds.
    #[must_use]
    pub fn program(mut self, program: impl Into<PathBuf>) -> Embedded {
        self.program = Some(program.into());
        self
    }

    /// The server's address.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The password of the server that runs on this port; `None` if no server of ours does, or
    /// if it was started without one. Sends nothing.
    #[must_use]
    pub fn password(&self) -> Option<String> {
        password::read(&self.password_file()?)
    }

    /// Whether a server of ours runs on this port that an older version started without a
    /// password. Sends nothing.
    #[must_use]
    pub fn is_open(&self) -> bool {
        let pid = self.pid_from_file(&self.folder());
        pid.is_some_and(|pid| self.has_our_port(pid)) && self.password_file().is_none()
    }

    /// The server's log file.
    #[must_use]
    pub fn log_path(&self) -> PathBuf {
        self.folder().join("server.log")
    }

    /// Starts the server unless one answers on the port, and waits until one does.
    ///
    /// # Errors
    ///
    /// If there is no program, if the folder cannot be used, or if after 10 seconds nothing
    /// answers (a server that says that it is reading its data gets two minutes).
    pub fn start(&self) -> Result<Started, Error> {
        if self.wait_while_loading() {
            return Ok(Started::Joined);
        }
        let program = self.find_program()?;
        let folder = folder::create(&self.folder())?;
        let _lock = folder::lock(&folder)?;

        // Whoever had the lock before us may have started it.
        if self.wait_while_loading() {
            return Ok(Started::Joined);
        }
        if let Some(pid) = self.pid_from_file(&folder) {
            return self.wait_for_unanswering(pid, &folder);
        }
        self.launch(&program, &folder)
    }

    /// What is there at the moment.
    #[must_use]
    pub fn status(&self) -> EmbeddedStatus {
        let (state, program) = self.look();
        EmbeddedStatus {
            state,
            port: self.port,
            data_dir: self.data_dir.clone(),
            program: program.or_else(|| self.find_program().ok()),
            aof_bytes: folder::aof_bytes(&self.folder()),
            password_file: self.password_file(),
        }
    }

    /// Asks the server to end, and waits until it has written its data and is gone. A server that
    /// is not this one is never touched.
    ///
    /// # Errors
    ///
    /// [`Error::StillRunning`] if it has not ended within 10 seconds.
    pub fn stop(&self) -> Result<Stopped, Error> {
        // No folder, no server of ours, and nothing to lock.
        let _lock = match fs::canonicalize(self.folder()) {
            Ok(folder) => Some(folder::lock(&folder)?),
            Err(_) => None,
        };
        let pid = match self.look().0 {
            EmbeddedState::Running { pid } | EmbeddedState::NotAnswering { pid } => pid,
            EmbeddedState::Down => return Ok(Stopped::NotRunning),
            EmbeddedState::NotOurs => return Ok(Stopped::NotOurs),
        };
        process::signal(pid, Signal::TERM)
            .map_err(Error::io(format!("ask the server {pid} to end")))?;
        let deadline = Instant::now() + self.patience;
        while self.is_ours(pid) {
            if Instant::now() > deadline {
                return Err(Error::StillRunning {
                    pid,
                    seconds: self.patience.as_secs(),
                });
            }
            thread::sleep(POLL);
        }
        Ok(Stopped::Ended { pid })
    }

    fn folder(&self) -> PathBuf {
        self.data_dir.join("server")
    }

    fn find_program(&self) -> Result<PathBuf, Error> {
        match &self.program {
            Some(program) => require("Embedded::program", program),
            None => find_program(),
        }
    }

    fn probe(&self) -> Answer {
        Address::Tcp(self.port).probe(self.password().as_deref())
    }

    /// The file with the password of the server that runs on this port.
    fn password_file(&self) -> Option<PathBuf> {
        let folder = fs::canonicalize(self.folder()).ok()?;
        let pid = self.pid_from_file(&folder)?;
        let config = folder.join(folder::CONFIG_FILE);
        // A server that was started by an older version has no such file, and no password.
        let wants_one = self.has_our_port(pid)
            && process::command_line(pid)?.contains(config.to_string_lossy().as_ref());
        wants_one.then(|| folder.join(folder::PASSWORD_FILE))
    }

    fn has_our_port(&self, pid: u32) -> bool {
        let port = format!(" --port {} ", self.port);
        process::command_line(pid).is_some_and(|command| command.contains(&port))
    }

    fn look(&self) -> (EmbeddedState, Option<PathBuf>) {
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
            (Some(pid), Answer::Refused | Answer::Mute | Answer::Loading) => {
                EmbeddedState::NotAnswering { pid }
            }
            // It does not say who it is, because its password file was lost.
            (Some(pid), Answer::Ready(Identity { pid: None, .. })) if self.has_our_port(pid) => {
                EmbeddedState::Running { pid }
            }
            (_, Answer::Ready(_) | Answer::Loading) => EmbeddedState::NotOurs,
            (None, Answer::Refused | Answer::Mute) => EmbeddedState::Down,
        };
        (state, None)
    }

    /// The pid in the pid file, if it is that of a living server of ours.
    fn pid_from_file(&self, folder: &Path) -> Option<u32> {
        folder::read_pid(folder).filter(|pid| self.is_ours(*pid))
    }

    /// Whether this is the pid of a living server with our folder.
    fn is_ours(&self, pid: u32) -> bool {
        // A server is run with the real path, which must exist as long as it runs.
        let Ok(folder) = fs::canonicalize(self.folder()) else {
            return false;
        };
        let pid_file = folder.join(folder::PID_FILE);
        process::is_in_reach(pid)
            && process::command_line(pid)
                .is_some_and(|command| command.contains(pid_file.to_string_lossy().as_ref()))
    }

    /// Whether a server answers, after waiting for it to have read its data.
    fn wait_while_loading(&self) -> bool {
        let deadline = Instant::now() + LOADING_PATIENCE;
        loop {
            match self.probe() {
                Answer::Ready(_) => return true,
                Answer::Loading if Instant::now() < deadline => thread::sleep(POLL),
                _ => return false,
            }
        }
    }

    /// The server's process is there and its port is silent: give it the time to come up that its
    /// starter would have given it.
    fn wait_for_unanswering(&self, pid: u32, folder: &Path) -> Result<Started, Error> {
        let deadline = Instant::now() + self.patience;
        while Instant::now() < deadline && self.is_ours(pid) {
            if self.wait_while_loading() {
                return Ok(Started::Joined);
            }
            thread::sleep(POLL);
        }
        Err(Error::FolderInUse {
            pid,
            port: self.port,
            folder: folder.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;
    use crate::free_port;

    fn impatient(port: u16, data_dir: &Path) -> Embedded {
        Embedded {
            patience: Duration::from_secs(2),
            ..Embedded::new(port, data_dir)
        }
    }

    #[test]
    fn a_port_that_something_else_holds_is_reported_with_the_log() {
        let data = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || listener.incoming().for_each(drop));
        let embedded = impatient(port, data.path());

        let error = embedded.start().unwrap_err();

        assert!(matches!(error, Error::PortTaken { .. }), "{error}");
        assert!(
            error.to_string().contains("Address already in use"),
            "{error}"
        );
        assert_eq!(embedded.status().state, EmbeddedState::Down);
    }

    #[test]
    fn a_folder_in_use_by_a_server_on_another_port_is_not_given_to_a_second() {
        let data = tempfile::tempdir().unwrap();
        let first = Embedded::new(free_port().unwrap(), data.path());
        assert_eq!(first.start().unwrap(), Started::Here);
        let EmbeddedState::Running { pid } = first.status().state else {
            panic!("{:?}", first.status())
        };

        let error = impatient(free_port().unwrap(), data.path()).start();

        let stopped = first.stop().unwrap();
        assert!(
            matches!(error, Err(Error::FolderInUse { pid: of, .. }) if of == pid),
            "{error:?}"
        );
        assert_eq!(stopped, Stopped::Ended { pid });
    }

    #[test]
    fn a_server_that_hangs_is_not_answering_and_is_reported_when_it_does_not_end() {
        let data = tempfile::tempdir().unwrap();
        let embedded = Embedded::new(free_port().unwrap(), data.path());
        assert_eq!(embedded.start().unwrap(), Started::Here);
        let EmbeddedState::Running { pid } = embedded.status().state else {
            panic!("{:?}", embedded.status())
        };

        process::signal(pid, Signal::STOP).unwrap();
        let state = embedded.status().state;
        let stopped = impatient(embedded.port, data.path()).stop();
        process::signal(pid, Signal::CONT).unwrap();

        assert_eq!(state, EmbeddedState::NotAnswering { pid });
        assert!(matches!(stopped, Err(Error::StillRunning { pid: of, .. }) if of == pid));
        // It was asked to end, and does so as soon as it can.
        let deadline = Instant::now() + PATIENCE;
        while embedded.status().state != EmbeddedState::Down {
            assert!(Instant::now() < deadline, "{:?}", embedded.status());
            thread::sleep(POLL);
        }
    }
}
