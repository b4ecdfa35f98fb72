//! The push service of a run: a process of its own, so that it can die.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};

use crate::handlers::{self, Shared};

/// Longest wait for a service that was started.
const START: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(2);
/// How many ports are tried.
const PORTS: usize = 10;

/// A push service. Dropping it kills the process.
pub struct PushService {
    program: PathBuf,
    folder: PathBuf,
    addr: SocketAddr,
    child: Option<Child>,
    /// When the process lived: from its start, and until its death, if it died.
    pub lives: Vec<(Instant, Option<Instant>)>,
}

impl PushService {
    /// Starts the service on a free port and waits until it answers.
    pub(super) fn start(program: PathBuf, shared: &Shared) -> Result<Self> {
        for _ in 0..PORTS {
            let port = baton_server::free_port()?;
            let mut service = Self {
                program: program.clone(),
                folder: shared.path().to_owned(),
                addr: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
                child: None,
                lives: Vec::new(),
            };
            // Another program may have taken the port.
            if service.restart().is_ok() {
                return Ok(service);
            }
        }
        bail!("the push service finds no port");
    }

    /// The name of its process in the report.
    pub fn label(&self) -> String {
        push_service_label(self.lives.len())
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Starts it on the same port, and waits until it answers.
    pub fn restart(&mut self) -> Result<()> {
        self.kill9();
        let child = Command::new(&self.program)
            .arg(handlers::PUSH_SERVICE)
            .arg(&self.folder)
            .arg(self.addr.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()?;
        let child = self.child.insert(child);
        let deadline = Instant::now() + START;
        while TcpStream::connect(self.addr).is_err() {
            ensure!(child.try_wait()?.is_none(), "the push service ended");
            ensure!(
                Instant::now() < deadline,
                "the push service does not answer"
            );
            std::thread::sleep(POLL);
        }
        self.lives.push((Instant::now(), None));
        Ok(())
    }

    /// Kills it with -9, if it runs.
    pub fn kill9(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
            if let Some((_, until)) = self.lives.last_mut() {
                *until = Some(Instant::now());
            }
        }
    }
}

/// The name of the service's process in the report: each start is another process.
pub fn push_service_label(number: usize) -> String {
    format!("push service {number}")
}

impl Drop for PushService {
    fn drop(&mut self) {
        self.kill9();
    }
}
