//! A master, two replicas and three Sentinels.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write as _;
use std::net::IpAddr;

use anyhow::{Context, Result, ensure};
use baton_server::{CertificateFiles, PrivateServer, PrivateServerBuilder};

use super::{Member, TIMEOUT, connect_within, port, position, probe};

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

/// The servers and their Sentinels.
pub(super) struct Sentinels {
    host: IpAddr,
    tls: bool,
    pub(super) servers: Vec<PrivateServer>,
    pub(super) sentinels: Vec<PrivateServer>,
}

impl Sentinels {
    /// Starts the servers with these settings and their Sentinels on this address. With certificates
    /// they speak TLS, with each other and with clients.
    pub(super) fn start(
        servers: &PrivateServerBuilder,
        sentinels: &PrivateServerBuilder,
        host: IpAddr,
        tls: Option<&CertificateFiles>,
    ) -> Result<Self> {
        let certified = |settings: &PrivateServerBuilder| match tls {
            Some(files) => settings.clone().tls(files.clone()),
            None => settings.clone(),
        };
        let mut group = Self {
            host,
            tls: tls.is_some(),
            servers: Vec::new(),
            sentinels: Vec::new(),
        };
        for _ in 0..EACH {
            let mut server = certified(servers)
                .config("replica-announce-ip", host.to_string())
                .config("repl-diskless-sync-delay", "0");
            if let Some(master) = group.servers.first() {
                server = server.config("replicaof", format!("{host} {}", port(master)?));
            }
            group.servers.push(server.start()?);
        }
        let first = port(&group.servers[0])?;
        for _ in 0..EACH {
            let sentinel = sentinel(certified(sentinels), host, first);
            group.sentinels.push(sentinel.start()?);
        }
        group.sentinels.iter().try_for_each(set_periods)?;
        Ok(group)
    }

    /// `redis+sentinel://…` or `rediss+sentinel://…`, for clients.
    pub(super) fn url(&self) -> String {
        let sentinels = self.sentinels.iter().filter_map(PrivateServer::port);
        let hosts: Vec<_> = sentinels
            .map(|port| format!("{}:{port}", self.host))
            .collect();
        let scheme = if self.tls { "rediss" } else { "redis" };
        format!("{scheme}+sentinel://{}/{MASTER}", hosts.join(","))
    }

    /// The server that most Sentinels call the master.
    pub(super) fn master(&self) -> Result<usize> {
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

    /// Lets a Sentinel replace the living master.
    pub(super) fn fail_over(&self, sentinel: usize) -> Result<()> {
        let mut command = redis::cmd("SENTINEL");
        command.arg("FAILOVER").arg(MASTER);
        Ok(command.exec(&mut connect_within(TIMEOUT, &self.sentinels[sentinel])?)?)
    }

    /// Starts a server as a replica of the master from now on. The last line of this kind in a
    /// configuration file wins.
    pub(super) fn append_replicaof(&self, server: usize, master: usize) -> Result<()> {
        let path = self.servers[server].config_path();
        let mut file = File::options().append(true).open(path)?;
        let port = port(&self.servers[master])?;
        Ok(writeln!(file, "\nreplicaof {} {port}", self.host)?)
    }

    /// Starts a Sentinel again that was killed.
    pub(super) fn restart_sentinel(&mut self, index: usize) -> Result<()> {
        self.sentinels[index].restart_unchanged()?;
        set_periods(&self.sentinels[index])
    }

    /// Whether each Sentinel knows that a server must not be promoted.
    pub(super) fn is_passed_over(&self, server: usize) -> Result<bool> {
        let wanted = port(&self.servers[server])?.to_string();
        for sentinel in &self.sentinels {
            let all: Vec<HashMap<String, String>> = ask("REPLICAS").query(&mut probe(sentinel)?)?;
            let is_seen = |seen: &HashMap<String, String>| {
                let has = |field, value| seen.get(field).is_some_and(|found| found == value);
                has("port", wanted.as_str()) && has("slave-priority", "0")
            };
            if !all.iter().any(is_seen) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Checks that all Sentinels name this master and see all others.
    pub(super) fn check(&self, master: usize) -> Result<()> {
        for index in 0..self.sentinels.len() {
            self.check_sentinel(index, master)
                .with_context(|| Member::Sentinel(index).to_string())?;
        }
        Ok(())
    }

    fn check_sentinel(&self, index: usize, master: usize) -> Result<()> {
        let mut sentinel = probe(&self.sentinels[index])?;
        ensure!(
            self.master_of(&mut sentinel)? == master,
            "names another master"
        );
        let seen: HashMap<String, String> = ask("MASTER").query(&mut sentinel)?;
        check_flags("the master", &seen)?;
        for (word, what) in [("REPLICAS", "a replica"), ("SENTINELS", "another Sentinel")] {
            let all: Vec<HashMap<String, String>> = ask(word).query(&mut sentinel)?;
            ensure!(all.len() == EACH - 1, "sees {} × {what}", all.len());
            for seen in &all {
                check_flags(what, seen)?;
                // A Sentinel that has not asked yet would demote a server once more.
                let role = seen.get("role-reported").map_or("slave", String::as_str);
                ensure!(role == "slave", "sees {what} as a {role}");
            }
        }
        Ok(())
    }

    /// The server that a Sentinel calls the master.
    fn master_of(&self, sentinel: &mut redis::Connection) -> Result<usize> {
        let (_, found): (String, u16) = redis::cmd("SENTINEL")
            .arg("get-master-addr-by-name")
            .arg(MASTER)
            .query(sentinel)?;
        position(&self.servers, found).context("the Sentinel names a server that is not here")
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

/// A question to a Sentinel about the group.
fn ask(word: &str) -> redis::Cmd {
    let mut command = redis::cmd("SENTINEL");
    command.arg(word).arg(MASTER);
    command
}

/// Flags that mean no trouble. A Sentinel keeps the last one after the trouble is over.
const HARMLESS: [&str; 4] = ["master", "slave", "sentinel", "master_down"];

/// Other flags, such as `s_down` and `disconnected`, mean trouble.
fn check_flags(what: &str, seen: &HashMap<String, String>) -> Result<()> {
    let flags = seen.get("flags").map_or("", String::as_str);
    let well = flags.split(',').all(|flag| HARMLESS.contains(&flag));
    ensure!(well, "sees {what} as {flags:?}");
    Ok(())
}
