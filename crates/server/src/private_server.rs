//! A server that belongs to the process that starts it: for the demo, the benchmarks and the tests.

mod builder;

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::error::{Error, log_tail};
use crate::probe::{self, Address, Answer};
use crate::process;
use crate::reply::Reply;
use crate::watchdog::Watchdog;

pub(crate) use builder::quote;
pub use builder::{CertificateFiles, Fsync, PrivateServerBuilder};

/// How long a server may take to answer, or to end after a signal.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The pause between two probes of a server.
const POLL: Duration = Duration::from_millis(5);

/// A server of this process's own, in a temporary folder.
///
/// The server and its folder are gone when the owner drops this value, when the owner ends without
/// dropping it, and when the owner is killed.
///
/// ```no_run
/// use baton_server::{Fsync, PrivateServer};
///
/// let mut server = PrivateServer::builder().appendonly(Fsync::Always).start()?;
/// println!("{}", server.url());
/// server.kill9();
/// server.restart()?; // on the same port, with the same data
/// # Ok::<(), baton_server::Error>(())
/// ```
#[derive(Debug)]
pub struct PrivateServer {
    program: PathBuf,
    settings: PrivateServerBuilder,
    address: Address,
    process: Option<Child>,
    // The order matters: fields are dropped from the first to the last. The watchdog removes the
    // folder; `folder` removes it only if the watchdog was killed.
    watchdog: Watchdog,
    folder: TempDir,
}

impl PrivateServer {
    /// Describes a server: TCP, no persistence, no password, unless told otherwise.
    pub fn builder() -> PrivateServerBuilder {
        PrivateServerBuilder::default()
    }

    /// The address without the password: `redis://127.0.0.1:PORT`, `rediss://127.0.0.1:PORT` or
    /// `unix:///path/to.sock`.
    #[must_use]
    pub fn url(&self) -> String {
        match &self.address {
            Address::Tcp(port) => format!("{}://127.0.0.1:{port}", self.scheme()),
            Address::Unix(path) => format!("unix://{}", path.display()),
        }
    }

    /// The address with the password, if there is one: `redis://:PASSWORD@127.0.0.1:PORT` or
    /// `unix:///path/to.sock?pass=PASSWORD`.
    #[must_use]
    pub fn url_with_password(&self) -> String {
        let Some(password) = self.settings.password.as_deref().map(percent_encode) else {
            return self.url();
        };
        match &self.address {
            Address::Tcp(port) => format!("{}://:{password}@127.0.0.1:{port}", self.scheme()),
            Address::Unix(path) => format!("unix://{}?pass={password}", path.display()),
        }
    }

    /// The address at which the server speaks no TLS, without the password.
    #[must_use]
    pub fn plain_url(&self) -> String {
        match self.plain_address() {
            Address::Tcp(port) => format!("redis://127.0.0.1:{port}"),
            Address::Unix(path) => format!("unix://{}", path.display()),
        }
    }

    /// `redis`, or `rediss` if the server speaks TLS.
    pub(crate) fn scheme(&self) -> &'static str {
        match self.settings.tls {
            None => "redis",
            Some(_) => "rediss",
        }
    }

    /// A section of what the server says about itself.
    pub(crate) fn info(&self, section: &str) -> Result<String, Error> {
        self.command(&["INFO", section], probe::TIMEOUT)
            .map(Reply::text)
    }

    /// Sends one command, and waits this long for its answer.
    pub(crate) fn command(&self, words: &[&str], timeout: Duration) -> Result<Reply, Error> {
        let login = self.settings.credentials();
        let answer = self.plain_address().command(login.as_ref(), words, timeout);
        let named = words.iter().take(2).copied().collect::<Vec<_>>().join(" ");
        answer.map_err(Error::io(format!("send {named} to a server")))
    }

    /// Where the server speaks no TLS.
    fn plain_address(&self) -> Address {
        plain_address(&self.settings, &self.address, self.folder.path())
    }

    /// The port; `None` if the server listens on a socket.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        match self.address {
            Address::Tcp(port) => Some(port),
            Address::Unix(_) => None,
        }
    }

    /// The server's process id; `None` while it is down.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Child::id)
    }

    /// The program that is run.
    #[must_use]
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The server's temporary folder: its configuration, its log and its data.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What the server has logged.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read(self.log_path())
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// Whether the server still runs; false too if it has ended by itself.
    pub fn is_running(&mut self) -> bool {
        match self.process.as_mut().map(Child::try_wait) {
            Some(Ok(None)) => true,
            Some(_) => {
                self.reap();
                false
            }
            None => false,
        }
    }

    /// Kills the server with SIGKILL, as a crash would, and waits until it is gone. Nothing happens
    /// if it is down.
    pub fn kill9(&mut self) {
        self.reap();
    }

    /// Starts the server again with the same address and the same folder. If it still runs, it is
    /// killed first.
    ///
    /// # Errors
    ///
    /// As for [`PrivateServerBuilder::start`], and if another program has taken the port and keeps it.
    pub fn restart(&mut self) -> Result<(), Error> {
        self.write_config()?;
        self.restart_unchanged()
    }

    /// As [`PrivateServer::restart`], with the configuration file as it is now. Sentinels rewrite
    /// their files and those of the servers that they watch: so each remembers what it was told.
    ///
    /// # Errors
    ///
    /// As for [`PrivateServer::restart`].
    pub fn restart_unchanged(&mut self) -> Result<(), Error> {
        self.kill9();
        let deadline = Instant::now() + TIMEOUT;
        loop {
            match self.run_program() {
                Err(Error::PortTaken { .. }) if Instant::now() < deadline => thread::sleep(POLL),
                result => return result,
            }
        }
    }

    /// Pauses the server with SIGSTOP: connections stay open, and it answers nothing.
    ///
    /// # Errors
    ///
    /// [`Error::NotRunning`] if it is down.
    pub fn pause(&mut self) -> Result<(), Error> {
        self.signal(Signal::STOP)
    }

    /// Resumes a paused server.
    ///
    /// # Errors
    ///
    /// [`Error::NotRunning`] if it is down.
    pub fn resume(&mut self) -> Result<(), Error> {
        self.signal(Signal::CONT)
    }

    /// Asks the server to end, and waits until it has written its data and is gone. The folder
    /// stays until the value is dropped, so [`PrivateServer::restart`] works. Nothing happens if
    /// it is down.
    ///
    /// # Errors
    ///
    /// [`Error::StillRunning`] if it has not ended within 10 seconds.
    pub fn stop(&mut self) -> Result<(), Error> {
        if !self.is_running() {
            return Ok(());
        }
        self.signal(Signal::TERM)?;
        // A paused server handles the first signal only after it resumes.
        self.signal(Signal::CONT)?;
        let deadline = Instant::now() + TIMEOUT;
        while self.is_running() {
            if Instant::now() > deadline {
                let pid = self.pid().unwrap_or_default();
                return Err(Error::StillRunning {
                    pid,
                    seconds: TIMEOUT.as_secs(),
                });
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    fn log_path(&self) -> PathBuf {
        self.folder.path().join("server.log")
    }

    fn signal(&mut self, signal: Signal) -> Result<(), Error> {
        if !self.is_running() {
            return Err(Error::NotRunning);
        }
        let pid = self.pid().ok_or(Error::NotRunning)?;
        process::signal(pid, signal).map_err(Error::io(format!("signal the server {pid}")))
    }

    /// The server's configuration file.
    #[must_use]
    pub fn config_path(&self) -> PathBuf {
        self.folder.path().join("server.conf")
    }

    /// Starts the server at `self.address` and waits until it answers there.
    fn launch(&mut self) -> Result<(), Error> {
        self.write_config()?;
        self.run_program()
    }

    fn write_config(&self) -> Result<(), Error> {
        let config = self.config_path();
        let text = self.settings.render(&self.address, self.folder.path());
        fs::write(&config, text).map_err(Error::io(format!("write {}", config.display())))
    }

    /// Starts the program with its configuration file, and waits until it answers.
    fn run_program(&mut self) -> Result<(), Error> {
        let config = self.config_path();
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.log_path())
            .map_err(Error::io(format!("open {}", self.log_path().display())))?;
        let log_start = log.metadata().map(|metadata| metadata.len()).unwrap_or(0);
        let mut arguments = vec![config.as_os_str()];
        if self.settings.sentinel {
            arguments.push("--sentinel".as_ref());
        }
        let process = self
            .watchdog
            .run(&self.program, &arguments, log)
            .map_err(Error::io(format!("run {}", self.program.display())))?;
        let pid = process.id();
        self.process = Some(process);
        self.wait_for_answer(pid, log_start)
    }

    /// Waits until the server with this pid, and not another one, answers.
    fn wait_for_answer(&mut self, pid: u32, log_start: u64) -> Result<(), Error> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let login = self.settings.credentials();
            let answer = self.plain_address().probe(login.as_ref());
            if !self.is_running() {
                let log = log_tail(&self.log_path(), log_start);
                return Err(match self.address {
                    Address::Tcp(port) => Error::ended(port, log),
                    Address::Unix(_) => Error::EndedEarly { log },
                });
            }
            match answer {
                // A server whose settings restrict INFO does not say its pid. It counts as ours.
                Answer::Ready(identity)
                    if identity.pid.is_none_or(|answering| answering == pid) =>
                {
                    return Ok(());
                }
                _ if Instant::now() > deadline => {
                    let log = log_tail(&self.log_path(), log_start);
                    self.reap();
                    return Err(Error::NoAnswer {
                        seconds: TIMEOUT.as_secs(),
                        log,
                    });
                }
                _ => thread::sleep(POLL),
            }
        }
    }

    /// Kills the server if it still runs and waits for its end, so that no zombie stays.
    fn reap(&mut self) {
        let Some(mut process) = self.process.take() else {
            return;
        };
        // The group also holds children that write RDB files. No other process can have the number
        // until the wait below, and an error means that the processes are gone already.
        let _ = process::signal_group(process.id(), Signal::KILL);
        let _ = process.kill();
        let _ = self.watchdog.forget();
        let _ = process.wait();
    }
}

impl Drop for PrivateServer {
    fn drop(&mut self) {
        self.reap();
    }
}

/// Where a server with these settings speaks no TLS.
fn plain_address(settings: &PrivateServerBuilder, address: &Address, folder: &Path) -> Address {
    match settings.tls {
        None => address.clone(),
        Some(_) => Address::Unix(folder.join("server.sock")),
    }
}

pub(crate) fn percent_encode(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_encoded_for_its_place_in_a_url() {
        assert_eq!(
            percent_encode("p@ss/w:rd é-._~"),
            "p%40ss%2Fw%3Ard%20%C3%A9-._~"
        );
    }
}
