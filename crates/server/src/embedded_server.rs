//! The server that `baton run` starts when none answers: a process of its own, which outlives the
//! node that started it.
//!
//! Two nodes may find no server at the same moment and start one each. The port decides: only one
//! server can listen on it. The other ends before it has touched any data, and both nodes use the
//! one that answers. Nodes with the same data folder do not get that far, because a lock file lets
//! one of them start at a time.
//!
//! The server itself and the operating system say whether a server is ours. The pid file alone
//! proves nothing: it stays behind after a crash, another process may have its number by now, and
//! a server that lost the port has already written its own pid over the winner's.
//!
//! Every user of the machine can reach the port, so the server wants a password. The password lies
//! in the server's folder, which only its owner can read. It is sent only while a server of ours
//! lives: at other times another user may listen on the port.

mod folder;
mod launch;
mod ownership;
mod status;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, thread};

use rustix::process::Signal;

use crate::error::Error;
use crate::probe::{Address, Answer, Login};
use crate::program::{find_program, require};
use crate::{password, process};

pub use folder::default_data_dir;
pub use status::{EmbeddedState, EmbeddedStatus, Started, Stopped};

/// How long a server may take to answer, or to end after a signal.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long a server that says that it reads its data may take.
const LOADING_TIMEOUT: Duration = Duration::from_secs(120);
/// The pause between two probes of a server.
const POLL: Duration = Duration::from_millis(10);

/// The server that all nodes of one user on this machine share when there is no other.
#[derive(Clone, Debug)]
pub struct EmbeddedServer {
    port: u16,
    data_dir: PathBuf,
    program: Option<PathBuf>,
    /// [`TIMEOUT`], or less in a test.
    timeout: Duration,
}

impl EmbeddedServer {
    /// A server on this port of 127.0.0.1 with its files below this folder. This call starts
    /// nothing.
    #[must_use]
    pub fn new(port: u16, data_dir: impl Into<PathBuf>) -> Self {
        Self {
            port,
            data_dir: data_dir.into(),
            program: None,
            timeout: TIMEOUT,
        }
    }

    /// Runs this program instead of the one that [`find_program`] finds.
    #[must_use]
    pub fn program(mut self, program: impl Into<PathBuf>) -> Self {
        self.program = Some(program.into());
        self
    }

    /// The server's address.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The password of our server on this port; `None` if there is none, or if it wants no
    /// password. Sends nothing.
    #[must_use]
    pub fn password(&self) -> Option<String> {
        password::read(&self.password_file()?)
    }

    /// Whether our server runs on this port and wants no password, because an older version started
    /// it. Sends nothing.
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

        // The process that had the lock before may have started it.
        if self.wait_while_loading() {
            return Ok(Started::Joined);
        }
        if let Some(pid) = self.pid_from_file(&folder) {
            return self.wait_for_unanswering(pid, &folder);
        }
        self.launch(&program, &folder)
    }

    /// The server's state at this moment.
    #[must_use]
    pub fn status(&self) -> EmbeddedStatus {
        let (state, program) = self.state();
        EmbeddedStatus {
            state,
            port: self.port,
            data_dir: self.data_dir.clone(),
            program: program.or_else(|| self.find_program().ok()),
            aof_bytes: folder::aof_bytes(&self.folder()),
            password_file: self.password_file(),
        }
    }

    /// Asks the server to end, and waits until it has written its data and is gone. Never touches
    /// a server that is not ours.
    ///
    /// # Errors
    ///
    /// [`Error::StillRunning`] if it has not ended within 10 seconds.
    pub fn stop(&self) -> Result<Stopped, Error> {
        // Without a folder there is no server of ours, and nothing to lock.
        let _lock = match fs::canonicalize(self.folder()) {
            Ok(folder) => Some(folder::lock(&folder)?),
            Err(_) => None,
        };
        let pid = match self.state().0 {
            EmbeddedState::Running { pid } | EmbeddedState::NotAnswering { pid } => pid,
            EmbeddedState::Down => return Ok(Stopped::NotRunning),
            EmbeddedState::NotOurs => return Ok(Stopped::NotOurs),
        };
        process::signal(pid, Signal::TERM)
            .map_err(Error::io(format!("ask the server {pid} to end")))?;
        let deadline = Instant::now() + self.timeout;
        while self.is_ours(pid) {
            if Instant::now() > deadline {
                return Err(Error::StillRunning {
                    pid,
                    seconds: self.timeout.as_secs(),
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
            Some(program) => require("EmbeddedServer::program", program),
            None => find_program(),
        }
    }

    fn probe(&self) -> Answer {
        let login = self.password().map(Login::of_default_user);
        Address::Tcp(self.port).probe(login.as_ref())
    }

    /// Whether a server answers. Waits while it reads its data.
    fn wait_while_loading(&self) -> bool {
        let deadline = Instant::now() + LOADING_TIMEOUT;
        loop {
            match self.probe() {
                Answer::Ready(_) => return true,
                Answer::Loading if Instant::now() < deadline => thread::sleep(POLL),
                _ => return false,
            }
        }
    }

    /// Waits for a server whose process lives and whose port is silent, for as long as the process
    /// that started it would wait.
    fn wait_for_unanswering(&self, pid: u32, folder: &Path) -> Result<Started, Error> {
        let deadline = Instant::now() + self.timeout;
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

    fn impatient(port: u16, data_dir: &Path) -> EmbeddedServer {
        EmbeddedServer {
            timeout: Duration::from_secs(2),
            ..EmbeddedServer::new(port, data_dir)
        }
    }

    /// Starts a server and returns its pid.
    fn start(server: &EmbeddedServer) -> u32 {
        assert_eq!(server.start().unwrap(), Started::Here);
        match server.status().state {
            EmbeddedState::Running { pid } => pid,
            state => panic!("it does not run: {state:?}"),
        }
    }

    #[test]
    fn a_port_that_another_program_holds_is_reported_with_the_log() {
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
        let first = EmbeddedServer::new(free_port().unwrap(), data.path());
        let pid = start(&first);

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
        let embedded = EmbeddedServer::new(free_port().unwrap(), data.path());
        let pid = start(&embedded);

        process::signal(pid, Signal::STOP).unwrap();
        let state = embedded.status().state;
        let stopped = impatient(embedded.port, data.path()).stop();
        process::signal(pid, Signal::CONT).unwrap();

        assert_eq!(state, EmbeddedState::NotAnswering { pid });
        assert!(matches!(stopped, Err(Error::StillRunning { pid: of, .. }) if of == pid));
        // It was asked to end, and does so as soon as it can.
        let deadline = Instant::now() + TIMEOUT;
        while embedded.status().state != EmbeddedState::Down {
            assert!(Instant::now() < deadline, "{:?}", embedded.status());
            thread::sleep(POLL);
        }
    }
}
