//! A master with replicas, and Sentinels that watch them.

mod builder;

use std::thread;
use std::time::{Duration, Instant};

use crate::{Error, PrivateServer, PrivateServerBuilder};

pub use builder::SentinelGroupBuilder;

/// How long a group may take until its replicas follow and its Sentinels know each other.
const TIMEOUT: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(20);
/// The master's name.
const MASTER: &str = "fleet";
/// How many Sentinels there are.
const SENTINELS: usize = 3;

/// A master with replicas and three Sentinels, for tests that lose servers.
#[derive(Debug)]
pub struct SentinelGroup {
    /// The first of them is the master at the beginning.
    pub servers: Vec<PrivateServer>,
    /// The Sentinels.
    pub sentinels: Vec<PrivateServer>,
    /// The query of the URL: what the Sentinels want to know.
    query: String,
}

impl SentinelGroup {
    /// Starts a master with so many replicas. Sentinels take a master for dead after two seconds.
    ///
    /// # Errors
    ///
    /// As for [`SentinelGroupBuilder::start`].
    pub fn start(settings: &PrivateServerBuilder, replicas: usize) -> Result<Self, Error> {
        Self::builder(settings.clone()).replicas(replicas).start()
    }

    /// Describes a group whose servers have these settings. If they speak TLS, so do the Sentinels.
    /// The Sentinels run the same program.
    pub fn builder(servers: PrivateServerBuilder) -> SentinelGroupBuilder {
        SentinelGroupBuilder::new(servers)
    }

    /// `redis+sentinel://…` or `rediss+sentinel://…` for clients, with the Sentinels' credentials and
    /// without the servers' password.
    #[must_use]
    pub fn url(&self) -> String {
        let ports = self.sentinels.iter().filter_map(PrivateServer::port);
        let hosts: Vec<_> = ports.map(|port| format!("127.0.0.1:{port}")).collect();
        let scheme = self
            .sentinels
            .first()
            .map_or("redis", PrivateServer::scheme);
        let (hosts, query) = (hosts.join(","), &self.query);
        format!("{scheme}+sentinel://{hosts}/{MASTER}{query}")
    }

    /// Which of the servers is the master, if all Sentinels that answer name the same.
    #[must_use]
    pub fn master(&self) -> Option<usize> {
        let infos = self.sentinels.iter().filter_map(info_of_sentinel);
        let mut ports = infos.map(|info| master_in(&info));
        let port = ports.next()??;
        let mut servers = self.servers.iter();
        match ports.all(|other| other == Some(port)) {
            true => servers.position(|server| server.port() == Some(port)),
            false => None,
        }
    }

    /// Waits until all Sentinels name the same master. On a busy machine they may take a master for
    /// dead that is only slow, and disagree while they replace it.
    ///
    /// # Errors
    ///
    /// If they do not agree in time.
    pub fn agreed_master(&self) -> Result<usize, Error> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            if let Some(master) = self.master() {
                return Ok(master);
            }
            if Instant::now() > deadline {
                return Err(self.no_answer());
            }
            thread::sleep(POLL);
        }
    }

    fn no_answer(&self) -> Error {
        Error::NoAnswer {
            seconds: TIMEOUT.as_secs(),
            log: self.sentinels[0].log(),
        }
    }

    /// Waits until each Sentinel knows the replicas and the other Sentinels.
    fn wait_until_complete(&self, replicas: usize) -> Result<(), Error> {
        let deadline = Instant::now() + TIMEOUT;
        let is_complete = |sentinel: &PrivateServer| {
            let info = info_of_sentinel(sentinel).unwrap_or_default();
            info.contains(&format!("slaves={replicas},sentinels={SENTINELS}"))
        };
        while !self.sentinels.iter().all(is_complete) {
            if Instant::now() > deadline {
                return Err(self.no_answer());
            }
            thread::sleep(POLL);
        }
        Ok(())
    }
}

fn info_of_sentinel(sentinel: &PrivateServer) -> Option<String> {
    sentinel.info("sentinel").ok()
}

/// The master's port, as a Sentinel says.
fn master_in(info: &str) -> Option<u16> {
    let address = info.split("address=127.0.0.1:").nth(1)?;
    address.split(',').next()?.parse().ok()
}
