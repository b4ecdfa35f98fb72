//! The settings of a group.

use std::time::Duration;

use super::{MASTER, SENTINELS, SentinelGroup};
use crate::private_server::{percent_encode, quote};
use crate::probe::Login;
use crate::{Error, PrivateServer, PrivateServerBuilder};

/// How long a master may be silent. On a busy machine, Sentinels with less patience replace masters that
/// are only slow.
const DOWN_AFTER: Duration = Duration::from_secs(2);

/// The settings of a [`SentinelGroup`].
#[derive(Clone, Debug)]
#[must_use]
pub struct SentinelGroupBuilder {
    servers: PrivateServerBuilder,
    replicas: usize,
    down_after: Duration,
    /// User and password of the Sentinels.
    login: Option<(String, String)>,
}

impl SentinelGroupBuilder {
    pub(super) fn new(servers: PrivateServerBuilder) -> Self {
        Self {
            servers,
            replicas: 2,
            down_after: DOWN_AFTER,
            login: None,
        }
    }

    /// How many replicas the master has. By default there are two.
    pub fn replicas(mut self, replicas: usize) -> Self {
        self.replicas = replicas;
        self
    }

    /// How long a master may be silent until a Sentinel takes it for dead. By default it is two
    /// seconds.
    pub fn down_after(mut self, silence: Duration) -> Self {
        self.down_after = silence;
        self
    }

    /// The Sentinels let in this user alone. By default they let in all.
    pub fn sentinel_login(mut self, user: &str, password: &str) -> Self {
        self.login = Some((user.to_owned(), password.to_owned()));
        self
    }

    /// Starts the servers and then the Sentinels, and waits until they know each other.
    ///
    /// # Errors
    ///
    /// As for [`PrivateServerBuilder::start`], and if the Sentinels do not see all replicas in time.
    pub fn start(self) -> Result<SentinelGroup, Error> {
        // Each of the servers may become a replica, so each knows how to log in at the master.
        let settings = self.servers.clone().replicable();
        let master = settings.clone().start()?;
        let port = master.port().unwrap_or_default();
        let mut servers = vec![master];
        for _ in 0..self.replicas {
            let replica = settings.clone();
            let replica = replica.config("replicaof", format!("127.0.0.1 {port}"));
            servers.push(replica.start()?);
        }
        let sentinels: Result<_, _> = (0..SENTINELS)
            .map(|_| self.sentinel(port).start())
            .collect();
        let query = match &self.login {
            None => String::new(),
            Some((user, password)) => format!(
                "?sentinel_user={}&sentinel_password={}",
                percent_encode(user),
                percent_encode(password)
            ),
        };
        let group = SentinelGroup {
            servers,
            sentinels: sentinels?,
            query,
        };
        group.wait_until_complete(self.replicas)?;
        Ok(group)
    }

    /// A Sentinel that watches the master on this port.
    fn sentinel(&self, port: u16) -> PrivateServerBuilder {
        let mut sentinel = PrivateServer::builder().sentinel();
        if let Some(program) = &self.servers.program {
            sentinel = sentinel.program(program);
        }
        if let Some(files) = &self.servers.tls {
            sentinel = sentinel.tls(files.clone());
        }
        let down_after = self.down_after.as_millis();
        let mut lines = vec![
            format!("monitor {MASTER} 127.0.0.1 {port} 2"),
            format!("down-after-milliseconds {MASTER} {down_after}"),
            format!("failover-timeout {MASTER} 2000"),
        ];
        if let Some(Login { user, password }) = self.servers.credentials() {
            lines.push(format!("auth-user {MASTER} {user}"));
            lines.push(format!("auth-pass {MASTER} {}", quote(&password)));
        }
        if let Some((user, password)) = &self.login {
            sentinel = sentinel.login(user, password);
            // The Sentinels let in each other as this user.
            lines.push(format!("sentinel-user {user}"));
            lines.push(format!("sentinel-pass {}", quote(password)));
        }
        let add = |sentinel: PrivateServerBuilder, line| sentinel.config("sentinel", line);
        lines.into_iter().fold(sentinel, add)
    }
}
