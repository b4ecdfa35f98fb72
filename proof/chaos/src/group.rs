//! A master, two replicas and three Sentinels, each of which a run can kill, pause and start again.
//!
//! The servers listen at the host's end of a wire, if there is one: Sentinels give all clients the
//! same addresses, so a node inside a network namespace must reach them as every other node does.

mod whole;

use std::fmt;
use std::fs::File;
use std::io::Write as _;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use baton_server::{CertificateFiles, Fsync, PrivateServer, PrivateServerBuilder};

/// The master's name.
const MASTER: &str = "fleet";
/// How many servers and how many Sentinels there are.
const EACH: usize = 3;
/// After this time without an answer a Sentinel takes a server for dead, in ms.
const DOWN_AFTER_MS: u64 = 500;
/// A Sentinel tries a failover again after twice this time, in ms.
const FAILOVER_TIMEOUT_MS: u64 = 1000;
/// How often Sentinels ping and ask servers, and tell each other, in ms. By default they ping a server as
/// often as they take it for dead, so a new master is often taken for dead before the first answer; and
/// a master that comes back stays one for up to 18 s, and a run would wait most of its time. A
/// replica is promoted only if its last INFO is younger than five pings, and comes every second. A
/// Sentinel that did not run for two seconds, because the machine or its disk was busy, does nothing
/// for a time, by default 30 s.
const SENTINEL_PERIODS: [(&str, u64); 4] = [
    ("ping-period", 250),
    ("info-period", 1000),
    ("publish-period", 500),
    ("tilt-period", 2000),
];
/// Longest wait for an answer of a member that may be paused.
const PROBE_TIMEOUT: Duration = Duration::from_millis(500);
/// Longest wait for an answer of a server that works.
const TIMEOUT: Duration = Duration::from_secs(5);

/// How a server that was killed comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejoin {
    /// With the configuration that it had: a master comes back as one, until Sentinels demote it.
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

/// The group.
pub struct Group {
    host: IpAddr,
    tls: bool,
    servers: Vec<PrivateServer>,
    sentinels: Vec<PrivateServer>,
}

impl Group {
    /// Starts the group, whose members all listen on this address, without waiting until it is whole.
    /// With certificates they speak TLS, with each other and with clients.
    pub fn start(
        program: &Path,
        fsync: Fsync,
        host: IpAddr,
        tls: Option<&CertificateFiles>,
    ) -> Result<Self> {
        let base = || {
            let server = PrivateServer::builder()
                .program(program)
                .config("bind", listen(host))
                .config("protected-mode", "no");
            match tls {
                Some(files) => server.tls(files.clone()),
                None => server,
            }
        };
        let mut group = Self {
            host,
            tls: tls.is_some(),
            servers: Vec::new(),
            sentinels: Vec::new(),
        };
        for _ in 0..EACH {
            let mut server = base()
                .appendonly(fsync)
                .config("replica-announce-ip", host.to_string())
                .config("repl-diskless-sync-delay", "0");
            if let Some(master) = group.servers.first() {
                server = server.config("replicaof", format!("{host} {}", port(master)?));
            }
            group.servers.push(server.start()?);
        }
        let first = port(&group.servers[0])?;
        for _ in 0..EACH {
            group.sentinels.push(sentinel(base(), host, first).start()?);
        }
        group.sentinels.iter().try_for_each(set_periods)?;
        Ok(group)
    }

    /// `redis+sentinel://…` or `rediss+sentinel://…`, for clients.
    pub fn url(&self) -> String {
        let sentinels = self.sentinels.iter().filter_map(PrivateServer::port);
        let hosts: Vec<_> = sentinels
            .map(|port| format!("{}:{port}", self.host))
            .collect();
        let scheme = if self.tls { "rediss" } else { "redis" };
        format!("{scheme}+sentinel://{}/{MASTER}", hosts.join(","))
    }

    /// The server that most Sentinels call the master.
    pub fn master(&self) -> Result<usize> {
        let mut votes = [0; EACH];
        for sentinel in &self.sentinels {
            let master = probe(sentinel).and_then(|mut redis| self.master_of(&mut redis));
            if let Ok(master) = master {
                votes[master] += 1;
            }
        }
        let most = (0..EACH).max_by_key(|index| votes[*index]);
        most.filter(|index| votes[*index] * 2 > EACH)
            .context("the Sentinels name no master")
    }

    /// The servers that are not the master.
    pub fn replicas(&self) -> Result<Vec<usize>> {
        let master = self.master()?;
        Ok((0..EACH).filter(|index| *index != master).collect())
    }

    /// How many Sentinels there are.
    pub fn sentinels(&self) -> usize {
        self.sentinels.len()
    }

    /// A connection to a server that works.
    pub fn connect(&self, server: usize) -> Result<redis::Connection> {
        connect_within(TIMEOUT, &self.servers[server])
    }

    /// The process of a member.
    pub fn process(&mut self, member: Member) -> &mut PrivateServer {
        match member {
            Member::Server(index) => &mut self.servers[index],
            Member::Sentinel(index) => &mut self.sentinels[index],
        }
    }

    /// Starts a member again that was killed. Does nothing if it runs. Returns how it came back: a
    /// master that no Sentinel has replaced yet comes back as it was.
    pub fn restart(&mut self, member: Member, how: Rejoin) -> Result<Rejoin> {
        if self.process(member).is_running() {
            return Ok(Rejoin::AsItWas);
        }
        let mut came = Rejoin::AsItWas;
        if let (Member::Server(index), Rejoin::AsReplica) = (member, how) {
            let master = self.master()?;
            if master != index {
                self.append_replicaof(index, master)?;
                came = Rejoin::AsReplica;
            }
        }
        let process = self.process(member);
        process.restart_unchanged()?;
        if let Member::Sentinel(_) = member {
            set_periods(process)?;
        }
        Ok(came)
    }

    /// Lets a Sentinel replace the living master.
    pub fn fail_over(&self, sentinel: usize) -> Result<()> {
        let mut command = redis::cmd("SENTINEL");
        command.arg("FAILOVER").arg(MASTER);
        Ok(command.exec(&mut connect_within(TIMEOUT, &self.sentinels[sentinel])?)?)
    }

    /// Says whether Sentinels may promote a server.
    pub fn set_promotable(&self, server: usize, promotable: bool) -> Result<()> {
        let priority = if promotable { 100 } else { 0 };
        let mut command = redis::cmd("CONFIG");
        command.arg("SET").arg("replica-priority").arg(priority);
        Ok(command.exec(&mut self.connect(server)?)?)
    }

    /// The first member that has ended by itself, with its log.
    pub fn ended(&mut self) -> Option<String> {
        let members = (0..EACH).flat_map(|index| [Member::Server(index), Member::Sentinel(index)]);
        for member in members {
            let process = self.process(member);
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
        [
            named("server", &self.servers),
            named("sentinel", &self.sentinels),
        ]
        .concat()
    }

    /// The last line of this kind in a configuration file wins.
    fn append_replicaof(&self, server: usize, master: usize) -> Result<()> {
        let path = self.servers[server].config_path();
        let mut file = File::options().append(true).open(path)?;
        let port = port(&self.servers[master])?;
        Ok(writeln!(file, "\nreplicaof {} {port}", self.host)?)
    }

    /// The server that a Sentinel calls the master.
    fn master_of(&self, sentinel: &mut redis::Connection) -> Result<usize> {
        let (_, found): (String, u16) = redis::cmd("SENTINEL")
            .arg("get-master-addr-by-name")
            .arg(MASTER)
            .query(sentinel)?;
        self.with_port(found)
            .context("the Sentinel names a server that is not here")
    }

    fn with_port(&self, port: u16) -> Option<usize> {
        let mut servers = self.servers.iter();
        servers.position(|server| server.port() == Some(port))
    }
}

/// The words of `bind`: this process and the watchdog look at 127.0.0.1.
fn listen(host: IpAddr) -> String {
    match host.is_loopback() {
        true => host.to_string(),
        false => format!("127.0.0.1 {host}"),
    }
}

fn sentinel(base: PrivateServerBuilder, host: IpAddr, master: u16) -> PrivateServerBuilder {
    let lines = [
        format!("announce-ip {host}"),
        format!("monitor {MASTER} {host} {master} 2"),
        format!("down-after-milliseconds {MASTER} {DOWN_AFTER_MS}"),
        format!("failover-timeout {MASTER} {FAILOVER_TIMEOUT_MS}"),
        format!("parallel-syncs {MASTER} 2"),
    ];
    let sentinel = base.sentinel();
    lines
        .into_iter()
        .fold(sentinel, |sentinel, line| sentinel.config("sentinel", line))
}

fn set_periods(sentinel: &PrivateServer) -> Result<()> {
    let mut command = redis::cmd("SENTINEL");
    command.arg("DEBUG");
    for (name, ms) in SENTINEL_PERIODS {
        command.arg(name).arg(ms);
    }
    Ok(command.exec(&mut connect_within(TIMEOUT, sentinel)?)?)
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
