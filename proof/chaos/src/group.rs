//! Several servers, each of which a run can kill, pause and start again: a master, two replicas and three
//! Sentinels, or a cluster of three masters with a replica each.
//!
//! The servers listen at the host's end of a wire, if there is one: Sentinels and clusters give all
//! clients the same addresses, so a node inside a network namespace must reach them as every other node
//! does.

mod cluster;
mod sentinels;
mod whole;

use std::fmt;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use baton::FleetName;
use baton_server::{CertificateFiles, ClusterGroup, Fsync, PrivateServer, PrivateServerBuilder};

use crate::rng::Rng;

pub use cluster::Cluster;
use sentinels::Sentinels;

/// Longest wait for an answer of a member that may be paused.
const PROBE_TIMEOUT: Duration = Duration::from_millis(500);
/// Longest wait for an answer of a server that works.
const TIMEOUT: Duration = Duration::from_secs(5);

/// How a server that was killed comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejoin {
    /// With the configuration that it had: a master comes back as one, until Sentinels or the other
    /// servers of the cluster demote it.
    AsItWas,
    /// As a replica of the master, as an operator would start it.
    AsReplica,
}

impl fmt::Display for Rejoin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AsItWas => "as it was",
            Self::AsReplica => "as a replica",
        })
    }
}

/// One process of the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Member {
    /// The server with this index.
    Server(usize),
    /// The Sentinel with this index.
    Sentinel(usize),
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(index) => write!(f, "server {}", index + 1),
            Self::Sentinel(index) => write!(f, "Sentinel {}", index + 1),
        }
    }
}

/// The servers that have the same data: one master, and its replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shard {
    /// All servers that the Sentinels watch.
    Watched,
    /// Those of a cluster that have this slot.
    Slot(u16),
}

/// The group.
pub struct Group {
    kind: Kind,
}

enum Kind {
    Sentinels(Sentinels),
    Cluster(Cluster),
}

impl Group {
    /// Starts a master, two replicas and three Sentinels, which all listen on this address, without
    /// waiting until the group is whole. With certificates they speak TLS.
    pub fn start_sentinels(
        program: &Path,
        fsync: Fsync,
        host: IpAddr,
        tls: Option<&CertificateFiles>,
    ) -> Result<Self> {
        let sentinels = settings(program, host);
        let servers = sentinels.clone().appendonly(fsync);
        let group = Sentinels::start(&servers, &sentinels, host, tls)?;
        Ok(Self {
            kind: Kind::Sentinels(group),
        })
    }

    /// Starts a cluster of three masters with a replica each, which all listen on this address, for a fleet
    /// of so many partitions.
    pub fn start_cluster(
        program: &Path,
        fsync: Fsync,
        host: IpAddr,
        fleet: &FleetName,
        partitions: u32,
    ) -> Result<Self> {
        let servers = settings(program, host).appendonly(fsync);
        let group = ClusterGroup::builder(servers).host(host).start()?;
        Ok(Self {
            kind: Kind::Cluster(Cluster::new(group, fleet, partitions)?),
        })
    }

    /// For clients.
    pub fn url(&self) -> String {
        match &self.kind {
            Kind::Sentinels(sentinels) => sentinels.url(),
            Kind::Cluster(cluster) => cluster.group.url(),
        }
    }

    /// The shard of any partition.
    pub fn pick_shard(&self, rng: &mut Rng) -> Result<Shard> {
        match &self.kind {
            Kind::Sentinels(_) => Ok(Shard::Watched),
            Kind::Cluster(cluster) => {
                let slot = rng.pick(cluster.slots());
                Ok(Shard::Slot(slot.context("there is no partition")?))
            }
        }
    }

    /// The shard of the lease.
    pub fn control_shard(&self) -> Shard {
        match &self.kind {
            Kind::Sentinels(_) => Shard::Watched,
            Kind::Cluster(cluster) => Shard::Slot(cluster.control),
        }
    }

    /// The master of a shard: the one that most Sentinels name, or the owner of a slot.
    pub fn master(&self, shard: Shard) -> Result<usize> {
        match shard {
            Shard::Watched => self.sentinels()?.master(),
            Shard::Slot(slot) => Ok(self.cluster()?.group.owner(slot)?),
        }
    }

    /// The master of each partition, in order.
    pub fn masters(&self) -> Result<Vec<usize>> {
        match &self.kind {
            Kind::Sentinels(sentinels) => Ok(vec![sentinels.master()?]),
            Kind::Cluster(cluster) => cluster.owners(cluster.slots()),
        }
    }

    /// The partitions of this master.
    pub fn partitions_of(&self, master: usize) -> Result<Vec<u32>> {
        let masters = (0..).zip(self.masters()?);
        let its = masters.filter(|(_, of)| *of == master);
        Ok(its.map(|(partition, _)| partition).collect())
    }

    /// The replicas of a master.
    pub fn replicas(&self, master: usize) -> Result<Vec<usize>> {
        match &self.kind {
            Kind::Sentinels(sentinels) => {
                let all = 0..sentinels.servers.len();
                Ok(all.filter(|index| *index != master).collect())
            }
            Kind::Cluster(cluster) => Ok(cluster.group.replicas_of(master)?),
        }
    }

    /// The cluster, if the group is one.
    pub fn cluster(&self) -> Result<&Cluster> {
        match &self.kind {
            Kind::Cluster(cluster) => Ok(cluster),
            Kind::Sentinels(_) => bail!("there is no cluster"),
        }
    }

    /// The cluster, if the group is one, to add and remove servers.
    pub fn cluster_mut(&mut self) -> Result<&mut Cluster> {
        match &mut self.kind {
            Kind::Cluster(cluster) => Ok(cluster),
            Kind::Sentinels(_) => bail!("there is no cluster"),
        }
    }

    fn sentinels(&self) -> Result<&Sentinels> {
        match &self.kind {
            Kind::Sentinels(sentinels) => Ok(sentinels),
            Kind::Cluster(_) => bail!("there are no Sentinels"),
        }
    }

    /// How many Sentinels there are.
    pub fn count_sentinels(&self) -> usize {
        self.sentinels().map_or(0, |group| group.sentinels.len())
    }

    fn servers(&self) -> &[PrivateServer] {
        match &self.kind {
            Kind::Sentinels(sentinels) => &sentinels.servers,
            Kind::Cluster(cluster) => &cluster.group.servers,
        }
    }

    /// A connection to a server that works.
    pub fn connect(&self, server: usize) -> Result<redis::Connection> {
        connect_within(TIMEOUT, &self.servers()[server])
    }

    /// The process of a member.
    pub fn process(&mut self, member: Member) -> Result<&mut PrivateServer> {
        let process = match (&mut self.kind, member) {
            (Kind::Sentinels(group), Member::Server(index)) => group.servers.get_mut(index),
            (Kind::Sentinels(group), Member::Sentinel(index)) => group.sentinels.get_mut(index),
            (Kind::Cluster(cluster), Member::Server(index)) => cluster.group.servers.get_mut(index),
            (Kind::Cluster(_), Member::Sentinel(_)) => None,
        };
        process.with_context(|| format!("there is no {member}"))
    }

    /// Starts a member again that was killed. Does nothing if it runs. Returns how it came back: a
    /// master that is not replaced yet comes back as it was, and so does every server of a cluster.
    pub fn restart(&mut self, member: Member, how: Rejoin) -> Result<Rejoin> {
        if self.process(member)?.is_running() {
            return Ok(Rejoin::AsItWas);
        }
        let mut came = Rejoin::AsItWas;
        match (&mut self.kind, member) {
            (Kind::Sentinels(group), Member::Sentinel(index)) => {
                group.restart_sentinel(index)?;
                return Ok(came);
            }
            (Kind::Sentinels(group), Member::Server(index)) if how == Rejoin::AsReplica => {
                let master = group.master()?;
                if master != index {
                    group.append_replicaof(index, master)?;
                    came = Rejoin::AsReplica;
                }
            }
            _ => {}
        }
        self.process(member)?.restart_unchanged()?;
        Ok(came)
    }

    /// Lets one of the Sentinels, or one of the master's replicas in a cluster, replace this master, which
    /// lives.
    pub fn fail_over(&self, master: usize, rng: &mut Rng) -> Result<()> {
        match &self.kind {
            Kind::Sentinels(group) => {
                let last = group.sentinels.len() as u64 - 1;
                group.fail_over(rng.between(0, last) as usize)
            }
            Kind::Cluster(cluster) => {
                let replicas = self.replicas(master)?;
                let replica = rng.pick(&replicas).context("there is no replica")?;
                Ok(cluster.group.fail_over(replica)?)
            }
        }
    }

    /// Says whether Sentinels may promote a server.
    pub fn set_promotable(&self, server: usize, promotable: bool) -> Result<()> {
        let priority = if promotable { 100 } else { 0 };
        let mut command = redis::cmd("CONFIG");
        command.arg("SET").arg("replica-priority").arg(priority);
        Ok(command.exec(&mut self.connect(server)?)?)
    }

    /// Whether each Sentinel knows that a server must not be promoted.
    pub fn is_passed_over(&self, server: usize) -> Result<bool> {
        self.sentinels()?.is_passed_over(server)
    }

    fn members(&self) -> impl Iterator<Item = Member> + use<> {
        let servers = (0..self.servers().len()).map(Member::Server);
        servers.chain((0..self.count_sentinels()).map(Member::Sentinel))
    }

    /// The first member that has ended by itself, with its log.
    pub fn ended(&mut self) -> Option<String> {
        for member in self.members() {
            let process = self.process(member).ok()?;
            if !process.is_running() {
                return Some(format!(
                    "{member} ended by itself; its log: {}",
                    process.log()
                ));
            }
        }
        None
    }

    /// The log of every member, by its name.
    pub fn logs(&self) -> Vec<(String, String)> {
        let named = |name: &'static str, all: &[PrivateServer]| -> Vec<(String, String)> {
            let logs = (1..).zip(all);
            logs.map(|(number, member)| (format!("{name}-{number}"), member.log()))
                .collect()
        };
        let sentinels = self.sentinels().map(|group| group.sentinels.as_slice());
        [
            named("server", self.servers()),
            named("sentinel", sentinels.unwrap_or_default()),
        ]
        .concat()
    }
}

/// The settings of every member. This process and the watchdog look at 127.0.0.1.
fn settings(program: &Path, host: IpAddr) -> PrivateServerBuilder {
    let listen = match host.is_loopback() {
        true => host.to_string(),
        false => format!("127.0.0.1 {host}"),
    };
    PrivateServer::builder()
        .program(program)
        .config("bind", listen)
        .config("protected-mode", "no")
}

fn position(servers: &[PrivateServer], port: u16) -> Option<usize> {
    let mut servers = servers.iter();
    servers.position(|server| server.port() == Some(port))
}

fn port(server: &PrivateServer) -> Result<u16> {
    server.port().context("the server has no port")
}

/// A connection to a member that may be paused.
fn probe(member: &PrivateServer) -> Result<redis::Connection> {
    connect_within(PROBE_TIMEOUT, member)
}

fn connect_within(timeout: Duration, member: &PrivateServer) -> Result<redis::Connection> {
    let client = redis::Client::open(member.plain_url())?;
    let connection = client.get_connection_with_timeout(timeout)?;
    connection.set_read_timeout(Some(timeout))?;
    connection.set_write_timeout(Some(timeout))?;
    Ok(connection)
}
