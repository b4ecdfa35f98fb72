//! A cluster: masters that share the slots, and replicas of each.

mod builder;
mod complete;
mod slots;
mod view;

use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

use crate::reply::Reply;
use crate::{Error, PrivateServer, PrivateServerBuilder};

pub use builder::ClusterGroupBuilder;
use view::Seen;

/// How long a cluster may take until it is complete.
const TIMEOUT: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(20);
/// Longest wait for an answer of a server that may be paused.
const PROBE_TIMEOUT: Duration = Duration::from_millis(500);
/// Longest wait for an answer of a server that works.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(6);

/// A cluster of masters and their replicas, for tests that lose servers and move slots.
#[derive(Debug)]
pub struct ClusterGroup {
    /// First the masters, then their replicas, as they were at the beginning; then those that were
    /// added.
    pub servers: Vec<PrivateServer>,
    settings: PrivateServerBuilder,
    /// How many replicas each master has.
    replicas: usize,
    host: IpAddr,
}

impl ClusterGroup {
    /// Starts a cluster of so many masters, each with so many replicas. A server is taken for dead
    /// after a second.
    ///
    /// # Errors
    ///
    /// As for [`ClusterGroupBuilder::start`].
    pub fn start(
        settings: &PrivateServerBuilder,
        masters: usize,
        replicas: usize,
    ) -> Result<Self, Error> {
        let builder = Self::builder(settings.clone());
        builder.masters(masters).replicas(replicas).start()
    }

    /// Describes a cluster whose servers have these settings.
    pub fn builder(servers: PrivateServerBuilder) -> ClusterGroupBuilder {
        ClusterGroupBuilder::new(servers)
    }

    /// `redis+cluster://…` for clients, without the servers' password.
    #[must_use]
    pub fn url(&self) -> String {
        let ports = self.servers.iter().filter_map(PrivateServer::port);
        let hosts: Vec<_> = ports.map(|port| format!("{}:{port}", self.host)).collect();
        format!("redis+cluster://{}", hosts.join(","))
    }

    /// The master of a slot, as the server with the newest knowledge says.
    ///
    /// # Errors
    ///
    /// If no server that answers knows a master of the slot.
    pub fn owner(&self, slot: u16) -> Result<usize, Error> {
        self.owner_in(&self.all_seen(), slot)
    }

    /// The masters of these slots, each as for [`ClusterGroup::owner`].
    ///
    /// # Errors
    ///
    /// If no server that answers knows a master of one of the slots.
    pub fn owners(&self, slots: &[u16]) -> Result<Vec<usize>, Error> {
        let all = self.all_seen();
        let owners = slots.iter().map(|slot| self.owner_in(&all, *slot));
        owners.collect()
    }

    /// What all servers that answer say about all servers.
    fn all_seen(&self) -> Vec<Seen> {
        let views = self.servers.iter().filter_map(|server| view(server).ok());
        views.flatten().collect()
    }

    fn owner_in(&self, all: &[Seen], slot: u16) -> Result<usize, Error> {
        let owners = all.iter().filter(|seen| seen.owns(slot));
        // A promotion and a move of a slot each give the new owner a greater epoch than all others have.
        let newest = owners.max_by_key(|seen| seen.epoch);
        newest
            .and_then(|seen| self.with_port(seen.port))
            .ok_or_else(|| Error::incomplete(format!("no server has slot {slot}")))
    }

    /// The masters that have slots, as the server with this index says.
    ///
    /// # Errors
    ///
    /// If the server does not answer.
    pub fn masters_seen_by(&self, server: usize) -> Result<Vec<usize>, Error> {
        let seen = view(&self.servers[server])?.into_iter();
        let masters = seen.filter(|seen| seen.has_slots());
        Ok(masters
            .filter_map(|seen| self.with_port(seen.port))
            .collect())
    }

    /// The replicas of a master, as it says itself.
    ///
    /// # Errors
    ///
    /// If the master does not answer.
    pub fn replicas_of(&self, master: usize) -> Result<Vec<usize>, Error> {
        let id = self.id(master)?;
        let seen = view(&self.servers[master])?.into_iter();
        let replicas = seen.filter(|seen| seen.master.as_deref() == Some(&id));
        Ok(replicas
            .filter_map(|seen| self.with_port(seen.port))
            .collect())
    }

    /// The master that a server follows; the server itself if it is a master.
    ///
    /// # Errors
    ///
    /// If the server does not answer.
    pub fn master_of(&self, server: usize) -> Result<usize, Error> {
        let all = view(&self.servers[server])?;
        let own = all.iter().find(|seen| seen.has_flag("myself"));
        let master = own.and_then(|own| own.master.as_deref());
        let seen = master.and_then(|id| all.iter().find(|seen| seen.id == id));
        Ok(seen
            .and_then(|seen| self.with_port(seen.port))
            .unwrap_or(server))
    }

    /// Lets a replica take the place of its master, which lives and hands over all that it has. The
    /// promotion follows soon after.
    ///
    /// # Errors
    ///
    /// If the server is no replica, or its master is down.
    pub fn fail_over(&self, replica: usize) -> Result<(), Error> {
        self.send(replica, &["CLUSTER", "FAILOVER"]).map(drop)
    }

    /// Adds a master without slots, with as many replicas as the others have, and waits until the
    /// cluster is complete. Returns the index of the master; those of its replicas follow.
    ///
    /// # Errors
    ///
    /// As for [`ClusterGroupBuilder::start`].
    pub fn add_master(&mut self) -> Result<usize, Error> {
        let first = self.servers.len();
        for _ in 0..=self.replicas {
            let server = self.settings.clone().start()?;
            self.servers.push(server);
        }
        for new in first..self.servers.len() {
            (0..new).try_for_each(|old| self.meet(new, old))?;
        }
        for replica in first + 1..self.servers.len() {
            self.replicate(replica, first)?;
        }
        self.wait_until_complete()?;
        Ok(first)
    }

    /// Removes the master that was added last, with its replicas: they die, and the others forget them.
    /// It must have no slots.
    ///
    /// # Errors
    ///
    /// If one of the others does not answer.
    pub fn remove_master(&mut self, master: usize) -> Result<(), Error> {
        let removed = self.servers.split_off(master);
        let ids: Result<Vec<_>, _> = removed.iter().map(id).collect();
        drop(removed);
        for id in ids? {
            for server in 0..self.servers.len() {
                match self.send(server, &["CLUSTER", "FORGET", &id]) {
                    // Newer servers tell each other.
                    Err(error) if !says(&error, "Unknown node") => return Err(error),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn meet(&self, server: usize, other: usize) -> Result<(), Error> {
        let port = self.servers[other].port().unwrap_or_default().to_string();
        let words = ["CLUSTER", "MEET", &self.host.to_string(), &port];
        self.send(server, &words).map(drop)
    }

    /// Makes a server a replica as soon as it knows its master.
    fn replicate(&self, replica: usize, master: usize) -> Result<(), Error> {
        let id = self.id(master)?;
        wait_for(|| self.send(replica, &["CLUSTER", "REPLICATE", &id]).map(drop))
    }

    fn wait_until_complete(&self) -> Result<(), Error> {
        wait_for(|| self.check_complete())
    }

    fn id(&self, server: usize) -> Result<String, Error> {
        id(&self.servers[server])
    }

    fn with_port(&self, port: u16) -> Option<usize> {
        let mut servers = self.servers.iter();
        servers.position(|server| server.port() == Some(port))
    }

    fn send(&self, server: usize, words: &[&str]) -> Result<Reply, Error> {
        self.servers[server].command(words, ANSWER_TIMEOUT)
    }
}

fn id(server: &PrivateServer) -> Result<String, Error> {
    let id = server.command(&["CLUSTER", "MYID"], ANSWER_TIMEOUT);
    id.map(Reply::text)
}

/// What a server says about all servers of the cluster.
fn view(server: &PrivateServer) -> Result<Vec<Seen>, Error> {
    let nodes = server.command(&["CLUSTER", "NODES"], PROBE_TIMEOUT)?;
    Ok(nodes.text().lines().filter_map(Seen::read).collect())
}

/// Whether a server answered with these words.
fn says(error: &Error, words: &str) -> bool {
    matches!(error, Error::Io { source, .. } if source.to_string().contains(words))
}

/// Tries until it succeeds, or for as long as a cluster may take.
fn wait_for(mut attempt: impl FnMut() -> Result<(), Error>) -> Result<(), Error> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        match attempt() {
            Err(_) if Instant::now() < deadline => thread::sleep(POLL),
            result => return result,
        }
    }
}
