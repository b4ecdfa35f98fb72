//! The settings of a cluster.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use super::ClusterGroup;
use crate::{Error, PrivateServerBuilder};

/// Whether replicas go to another master, and masters without slots become replicas. Servers before 7.0
/// do not know the setting.
const REPLICA_MIGRATION: &str = "cluster-allow-replica-migration";

/// The settings of a [`ClusterGroup`].
#[derive(Clone, Debug)]
#[must_use]
pub struct ClusterGroupBuilder {
    servers: PrivateServerBuilder,
    masters: usize,
    replicas: usize,
    node_timeout: Duration,
    host: IpAddr,
}

impl ClusterGroupBuilder {
    pub(super) fn new(servers: PrivateServerBuilder) -> Self {
        Self {
            servers,
            masters: 3,
            replicas: 1,
            node_timeout: Duration::from_secs(1),
            host: Ipv4Addr::LOCALHOST.into(),
        }
    }

    /// How many masters share the slots. By default there are three: fewer cannot replace one that
    /// dies.
    pub fn masters(mut self, masters: usize) -> Self {
        self.masters = masters;
        self
    }

    /// How many replicas each master has. By default there is one.
    pub fn replicas(mut self, replicas: usize) -> Self {
        self.replicas = replicas;
        self
    }

    /// How long a server may be silent until the others take it for dead. By default it is a second.
    pub fn node_timeout(mut self, silence: Duration) -> Self {
        self.node_timeout = silence;
        self
    }

    /// The address that the servers give to each other and to clients. By default it is 127.0.0.1, and
    /// the servers must listen there in any case.
    pub fn host(mut self, host: IpAddr) -> Self {
        self.host = host;
        self
    }

    /// Starts the servers, lets them meet, and waits until they agree, which takes about two seconds:
    /// a new master serves no sooner.
    ///
    /// # Errors
    ///
    /// As for [`PrivateServerBuilder::start`], and if the servers do not agree in time.
    pub fn start(self) -> Result<ClusterGroup, Error> {
        let timeout = self.node_timeout.as_millis().to_string();
        let older = (self.servers.cluster().replicable())
            .config("cluster-announce-ip", self.host.to_string())
            .config("cluster-node-timeout", timeout)
            // The masters that live go on without the slots of one that is dead.
            .config("cluster-require-full-coverage", "no");
        let settings = older.clone().config(REPLICA_MIGRATION, "no");
        let (first, settings) = match settings.clone().start() {
            Err(Error::EndedEarly { log }) if log.contains(REPLICA_MIGRATION) => {
                (older.clone().start()?, older)
            }
            started => (started?, settings),
        };
        let mut group = ClusterGroup {
            servers: vec![first],
            settings,
            replicas: self.replicas,
            host: self.host,
        };
        let count = self.masters * (1 + self.replicas);
        for _ in 1..count {
            let server = group.settings.clone().start()?;
            group.servers.push(server);
        }
        group.share_slots(self.masters)?;
        // Each meets each: gossip alone takes a second longer.
        for server in 1..count {
            (0..server).try_for_each(|other| group.meet(server, other))?;
        }
        for replica in self.masters..count {
            group.replicate(replica, (replica - self.masters) / self.replicas)?;
        }
        group.wait_until_complete()?;
        Ok(group)
    }
}
