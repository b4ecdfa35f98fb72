//! A master with replicas, and Sentinels that watch them.

use std::thread;
use std::time::{Duration, Instant};

use crate::probe::info_of;
use crate::{Error, PrivateServer, PrivateServerBuilder};

/// How long a group may take until its replicas follow and its Sentinels know each other.
const TIMEOUT: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(20);
/// The master's name.
const MASTER: &str = "fleet";

/// A master with replicas and three Sentinels, for tests that lose servers.
#[derive(Debug)]
pub struct SentinelGroup {
    /// The first of them is the master at the beginning.
    pub servers: Vec<PrivateServer>,
    /// The Sentinels.
    pub sentinels: Vec<PrivateServer>,
}

impl SentinelGroup {
    /// Starts a master with so many replicas. Sentinels take a master for dead after half a second.
    ///
    /// # Errors
    ///
    /// As for [`PrivateServerBuilder::start`], and if the Sentinels do not see all replicas in time.
    pub fn start(settings: &PrivateServerBuilder, replicas: usize) -> Result<Self, Error> {
        let master = settings.clone().start()?;
        let port = master.port().unwrap_or_default();
        let mut servers = vec![master];
        for _ in 0..replicas {
            let replica = settings
                .clone()
                .config("replicaof", format!("127.0.0.1 {port}"))
                .config("repl-diskless-sync-delay", "0");
            servers.push(replica.start()?);
        }
        let mut sentinels = Vec::new();
        for _ in 0..3 {
            let sentinel = PrivateServer::builder()
                .sentinel()
                .config("sentinel", format!("monitor {MASTER} 127.0.0.1 {port} 2"))
                .config("sentinel", format!("down-after-milliseconds {MASTER} 500"))
                .config("sentinel", format!("failover-timeout {MASTER} 2000"));
            sentinels.push(sentinel.start()?);
        }
        let group = Self { servers, sentinels };
        group.wait_until_complete(replicas)?;
        Ok(group)
    }

    /// `redis+sentinel://…`, for clients.
    #[must_use]
    pub fn url(&self) -> String {
        let sentinels = self.sentinels.iter().filter_map(PrivateServer::port);
        let hosts: Vec<_> = sentinels.map(|port| format!("127.0.0.1:{port}")).collect();
        format!("redis+sentinel://{}/{MASTER}", hosts.join(","))
    }

    /// Which of the servers the Sentinels call the master.
    #[must_use]
    pub fn master(&self) -> Option<usize> {
        let info = self.sentinels.iter().find_map(info_of_sentinel)?;
        let address = info.split("address=127.0.0.1:").nth(1)?;
        let port = address.split(',').next()?.parse().ok()?;
        let mut servers = self.servers.iter();
        servers.position(|server| server.port() == Some(port))
    }

    /// Waits until each Sentinel knows the replicas and the other Sentinels.
    fn wait_until_complete(&self, replicas: usize) -> Result<(), Error> {
        let deadline = Instant::now() + TIMEOUT;
        let is_complete = |sentinel: &PrivateServer| {
            let info = info_of_sentinel(sentinel).unwrap_or_default();
            info.contains(&format!("slaves={replicas},")) && info.contains("sentinels=3")
        };
        while !self.sentinels.iter().all(is_complete) {
            if Instant::now() > deadline {
                return Err(Error::NoAnswer {
                    seconds: TIMEOUT.as_secs(),
                    log: self.sentinels[0].log(),
                });
            }
            thread::sleep(POLL);
        }
        Ok(())
    }
}

fn info_of_sentinel(sentinel: &PrivateServer) -> Option<String> {
    info_of(sentinel.port()?, "sentinel").ok()
}
