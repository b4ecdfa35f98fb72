//! The arena of a run: the server, the nodes, the proxies between them, and the drains.

pub mod clock;
mod drains;
mod failovers;
mod handler;
mod push_service;
mod server;
mod servers;
mod settings;
mod source;
mod tls;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use baton::FailedMessage;
use baton_processes::{Fleet, Own};
use baton_server::PrivateServer;
use tempfile::TempDir;

use crate::group::Group;
use crate::handlers::{HandlerKind, Shared};
use crate::history::End;
use crate::namespace::Namespace;
use crate::observer::Observer;
use crate::proxy::Proxy;
use crate::rng::Rng;
use crate::stop::Stop;

pub use drains::Drain;
pub use failovers::Failover;
pub use push_service::{PushService, push_service_label};
pub use servers::Servers;
pub use settings::Settings;

use clock::Traces;
use tls::Tls;

/// The fleet's name.
pub const FLEET: &str = "chaos";
/// The settings of every node. Messages come often and take a while, so that nodes hold some when a
/// fault hits them, and a backlog is soon worked off. All times to live are short, so that a run
/// sees many of them end.
const BEHAVIOUR: &[(&str, &str)] = &[
    ("BATON_FLEET", FLEET),
    ("BATON_CONCURRENCY", "4"),
    ("BATON_LEASE_TTL", "1s"),
    ("BATON_CLAIM_TTL", "1500ms"),
    ("BATON_AUDIT", "1"),
];
/// Longest search for a worker that holds messages.
const SEARCH: Duration = Duration::from_secs(3);
/// Longest wait for the first line of a new node.
const FIRST_LINE: Duration = Duration::from_secs(10);

/// One node, alive or dead.
pub struct Node {
    /// Its name in the report.
    pub label: String,
    /// Its name in Redis; empty until it has logged a line.
    pub name: String,
    /// Its proxy; `None` once the node is dead, for a node in the network namespace, and for a group
    /// of servers.
    pub proxy: Option<Proxy>,
    /// Whether it runs in the network namespace.
    pub wired: bool,
    /// The file that the library for fake clocks reads.
    pub clock: PathBuf,
    /// When it was started.
    pub from: Instant,
    /// When and how it ended.
    pub gone: Option<(Instant, End)>,
    /// When it was paused, and until when.
    pub pauses: Vec<(Instant, Option<Instant>)>,
    /// Whether it has a crash point, at which it may die by itself.
    pub armed: bool,
    complaints: PathBuf,
    _traces: Traces,
}

/// A kill without another fault at the same time, for the figures.
pub struct Death {
    /// Which node.
    pub node: usize,
    /// When.
    pub at: Instant,
    /// Whether it was the generator.
    pub generator: bool,
}

/// Everything that takes part in a run. Dropping it kills every process and removes every file.
pub struct Arena {
    // The order matters: fields are dropped from the first to the last.
    /// The nodes' processes; a node's place is its copy's number.
    pub fleet: Fleet,
    /// The drains' processes.
    pub drains: Fleet<FailedMessage>,
    /// The nodes.
    pub nodes: Vec<Node>,
    /// The drains.
    pub drained: Vec<Drain>,
    /// The network namespace of one node, where that is possible.
    pub wire: Option<Namespace>,
    /// The push service, if messages are pushed.
    pub push_service: Option<PushService>,
    /// The way from the network namespace to the push service.
    push_proxy: Option<Proxy>,
    /// The folder that handlers share with this run.
    pub shared: Shared,
    /// The server, or the group of them.
    pub servers: Servers,
    /// The server's clock, for the library that fakes it.
    pub server_clock: PathBuf,
    server_traces: Vec<Traces>,
    /// When the server died or was killed.
    pub server_deaths: Vec<Instant>,
    /// When a group of servers may have forgotten what its master had acknowledged.
    pub failovers: Vec<Failover>,
    /// The master of each partition when the group was whole, and when that was.
    whole: Option<(Vec<usize>, Instant)>,
    /// Deaths to be timed.
    pub deaths: Vec<Death>,
    /// Violations so far.
    pub findings: Vec<String>,
    /// Whether two faults are active.
    pub crowded: bool,
    /// The settings of the run.
    pub settings: Settings,
    /// Reads the fleet.
    pub observer: Observer,
    /// Ctrl-C.
    pub stop: Stop,
    heard: usize,
    folder: TempDir,
    /// Its files must outlive the servers.
    _tls: Option<Tls>,
}

impl Arena {
    /// Starts the server and the nodes, without waiting for them.
    pub fn new(settings: Settings, stop: Stop) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("baton-chaos-").tempdir()?;
        let server_clock = folder.path().join("server.clock");
        let tls = settings.tls.then(Tls::new).transpose()?;
        let (servers, wire) =
            servers::start(&settings, folder.path(), &server_clock, tls.as_ref())?;
        let (url, partitions) = (servers.url(), settings.partitions);
        let certificates = tls.as_ref().map(Tls::variables).unwrap_or_default();
        let shared = Shared::create(folder.path().join("handler"))?;
        let push_service = match settings.handler {
            HandlerKind::Push => Some(PushService::start(settings.own_program.clone(), &shared)?),
            _ => None,
        };
        let get_errors = ["getErrors", "--json", "--fleet", FLEET, "--redis"]
            .map(str::to_owned)
            .into_iter()
            .chain([url.clone()]);
        let mut arena = Self {
            fleet: Fleet::new(&settings.program, &[])
                .with_env(&handler::variables(&settings, folder.path()))
                .with_env(&certificates),
            drains: Fleet::of(&settings.program, get_errors.collect()).with_env(&certificates),
            nodes: Vec::new(),
            drained: Vec::new(),
            wire,
            push_service,
            push_proxy: None,
            shared,
            observer: match &tls {
                Some(tls) => Observer::at(tls.target(&url)?, url, FLEET, partitions)?,
                None => Observer::new(url, FLEET, partitions)?,
            },
            servers,
            server_clock,
            server_traces: Vec::new(),
            server_deaths: Vec::new(),
            failovers: Vec::new(),
            whole: None,
            deaths: Vec::new(),
            findings: Vec::new(),
            crowded: false,
            settings,
            stop,
            heard: 0,
            folder,
            _tls: tls,
        };
        arena.note_server();
        if let (Some(wire), Some(service)) = (&arena.wire, &arena.push_service) {
            arena.push_proxy = Some(Proxy::start_on(wire.host(), service.addr())?);
        }
        arena.fill()?;
        Ok(arena)
    }

    /// Starts the server again with the same data. On a stalled machine a start may time out, so it
    /// is tried again until the timeout of the run.
    pub fn restart_server(&mut self) -> Result<()> {
        let deadline = Instant::now() + self.settings.timeout;
        loop {
            match self.server()?.restart() {
                Err(baton_server::Error::NoAnswer { .. }) if Instant::now() < deadline => {
                    self.stop.check()?;
                }
                restarted => {
                    restarted?;
                    self.note_server();
                    return Ok(());
                }
            }
        }
    }

    fn note_server(&mut self) {
        if let Servers::Single(server) = &self.servers {
            self.server_traces.extend(server.pid().map(Traces));
        }
    }

    /// The only server of a run that has one.
    pub fn server(&mut self) -> Result<&mut PrivateServer> {
        match &mut self.servers {
            Servers::Single(server) => Ok(server),
            Servers::Group(_) => bail!("there is no single server"),
        }
    }

    /// The servers of a run that has a group of them.
    pub fn group(&mut self) -> Result<&mut Group> {
        match &mut self.servers {
            Servers::Group(group) => Ok(group),
            Servers::Single(_) => bail!("there is no group of servers"),
        }
    }

    /// Starts nodes until there are as many as there should be.
    pub fn fill(&mut self) -> Result<()> {
        while self.fleet.alive().len() < self.settings.nodes {
            self.start_node(&[])?;
        }
        Ok(())
    }

    /// Starts one node, with these environment variables.
    pub fn start_node(&mut self, env: &[(&str, String)]) -> Result<usize> {
        self.start(env, false)
    }

    /// Starts one node that logs to a file. The trap ignores SIGXFSZ, which would kill the node when
    /// its disk is full.
    pub fn start_node_with_file(&mut self) -> Result<usize> {
        self.start(&[], true)
    }

    fn start(&mut self, env: &[(&str, String)], logs_to_file: bool) -> Result<usize> {
        let number = self.nodes.len();
        let alive = self.fleet.alive();
        let taken = alive.iter().any(|copy| self.nodes[*copy].wired);
        let wire = self.wire.as_ref().filter(|_| !taken);
        let wired = wire.is_some();
        let mut prefix = wire.map(Namespace::command_prefix).unwrap_or_default();
        let (url, proxy) = self.servers.way_for_node(wire)?;
        let file = |kind: &str| self.folder.path().join(format!("{number}.{kind}"));
        let (time, complaints) = (file("clock"), file("err"));
        let mut all: Vec<(String, String)> = env
            .iter()
            .map(|(name, value)| (name.to_string(), value.clone()))
            .collect();
        let (words, variables) = self.handler(number, wired, env);
        all.extend(variables);
        if let Some(library) = self.settings.node_faketime() {
            fs::write(&time, "+0")?;
            all.extend(clock::variables(library, &time));
        }
        if logs_to_file {
            let words = ["sh", "-c", "trap '' XFSZ; exec \"$@\"", "sh"];
            prefix.extend(words.map(str::to_owned));
        }
        let copy = self.fleet.start_with(Own {
            prefix,
            log: logs_to_file.then(|| file("log")),
            args: [
                vec!["--redis".to_owned(), url],
                self.settings.level.words(),
                self.settings.partition_words(number),
                words,
            ]
            .concat(),
            env: all,
            stderr: Some(File::create(&complaints)?),
            group: true,
        })?;
        self.nodes.push(Node {
            label: format!("node {}", copy + 1),
            name: String::new(),
            wired,
            proxy,
            clock: time,
            _traces: Traces(self.fleet.pid(copy)),
            from: Instant::now(),
            gone: None,
            pauses: Vec::new(),
            armed: env.iter().any(|(name, _)| *name == "BATON_CRASH_AT"),
            complaints,
        });
        Ok(copy)
    }

    /// Learns the nodes' names from their logs.
    pub fn hear(&mut self) {
        let told = self.fleet.told_since(self.heard);
        self.heard += told.len();
        for told in told {
            let node = &mut self.nodes[told.copy];
            if node.name.is_empty() {
                node.name = told.node().to_owned();
            }
        }
    }

    /// Waits until a node has logged its first line; false if it does not.
    pub fn wait_joined(&mut self, node: usize) -> Result<bool> {
        let deadline = Instant::now() + FIRST_LINE;
        loop {
            self.hear();
            if !self.nodes[node].name.is_empty() {
                return Ok(true);
            }
            if Instant::now() > deadline || self.fleet.ended(node)?.is_some() {
                return Ok(false);
            }
            self.stop.pause_poll()?;
        }
    }

    /// The living node with this name.
    pub fn named(&mut self, name: &str) -> Option<usize> {
        self.hear();
        let alive = self.fleet.alive();
        alive
            .into_iter()
            .find(|copy| self.nodes[*copy].name == name)
    }

    /// The living node that generates: according to Redis, or, while Redis does not answer, to the
    /// logs.
    pub fn generator(&mut self) -> Option<usize> {
        let seen = self
            .observer
            .snapshot()
            .ok()
            .and_then(|status| status.generator.node);
        match seen {
            Some(name) => self.named(&name),
            None => {
                let told = self.fleet.generator();
                told.filter(|copy| self.fleet.alive().contains(copy))
            }
        }
    }

    /// The living nodes that do not generate.
    pub fn workers(&mut self) -> Vec<usize> {
        let generator = self.generator();
        let alive = self.fleet.alive().into_iter();
        alive.filter(|copy| Some(*copy) != generator).collect()
    }

    /// The labels of nodes in the report.
    pub fn labels(&self, nodes: &[usize]) -> Vec<String> {
        nodes
            .iter()
            .map(|node| self.nodes[*node].label.clone())
            .collect()
    }

    /// Pauses one of these workers that holds messages: a paused worker still holds them when it is
    /// killed.
    pub fn pause_holder(&mut self, among: &[usize], rng: &mut Rng) -> Result<Option<usize>> {
        let deadline = Instant::now() + SEARCH;
        while Instant::now() < deadline {
            self.stop.check()?;
            let Some(worker) = rng.pick(among) else {
                return Ok(None);
            };
            self.hear();
            self.fleet.pause(worker)?;
            let name = &self.nodes[worker].name;
            let holds = self.observer.snapshot().is_ok_and(|status| {
                let mut nodes = status.nodes.iter();
                nodes.any(|node| node.node == *name && node.claimed > 0)
            });
            if holds {
                return Ok(Some(worker));
            }
            self.fleet.resume(worker)?;
        }
        Ok(None)
    }

    /// The proxy of a node. A dead node has one only in the network namespace.
    pub fn proxy(&self, node: usize) -> Option<&Proxy> {
        let node = &self.nodes[node];
        match node.wired {
            // The wire outlives the node, and its fault must be lifted all the same.
            true => self.wire.as_ref().and_then(Namespace::proxy),
            false => node.proxy.as_ref(),
        }
    }

    /// Kills a node with -9.
    pub fn kill(&mut self, node: usize) -> Result<()> {
        let at = Instant::now();
        self.fleet.kill9(node)?;
        self.bury(node, at, End::Killed);
        Ok(())
    }

    /// Kills a node with -9, and times how soon the others notice.
    pub fn kill_timed(&mut self, node: usize, generator: bool) -> Result<()> {
        let at = Instant::now();
        self.kill(node)?;
        // With another fault active, the time would be that fault's as well.
        if !self.crowded {
            self.deaths.push(Death {
                node,
                at,
                generator,
            });
        }
        Ok(())
    }

    /// Notes the end of a node.
    pub fn bury(&mut self, node: usize, at: Instant, end: End) {
        if let Err(error) = self.shared.set_gone(node) {
            self.findings.push(format!("cannot write a file: {error}"));
        }
        let node = &mut self.nodes[node];
        node.gone = Some((at, end));
        if let Some((_, until @ None)) = node.pauses.last_mut() {
            *until = Some(at);
        }
        // Its connections are closed with it.
        node.proxy = None;
    }

    /// Asks a node to stop, unless it has ended: another process may have its id by now.
    pub fn terminate(&mut self, node: usize) -> Result<()> {
        match self.fleet.ended(node)? {
            Some(_) => Ok(()),
            None => self.fleet.terminate(node),
        }
    }

    /// Waits for a node that was asked to stop.
    pub fn wait_stopped(&mut self, node: usize) -> Result<()> {
        let timeout = self.settings.timeout;
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(status) = self.fleet.ended(node)? {
                self.bury(node, Instant::now(), End::Stopped);
                if !status.success() {
                    let words = self.last_words(node);
                    self.findings.push(format!(
                        "{} was asked to stop and ended with {status}: {words}",
                        self.nodes[node].label
                    ));
                }
                return Ok(());
            }
            if Instant::now() > deadline {
                self.findings.push(format!(
                    "{} did not stop within {timeout:?}",
                    self.nodes[node].label
                ));
                return self.kill(node);
            }
            self.stop.pause_poll()?;
        }
    }

    /// The stderr of a node.
    pub fn last_words(&self, node: usize) -> String {
        words(&self.nodes[node].complaints)
    }

    /// Notes nodes that ended by themselves. That is a violation, unless they have a crash point.
    pub fn count_heads(&mut self) -> Result<()> {
        for node in self.fleet.alive() {
            let Some(status) = self.fleet.ended(node)? else {
                continue;
            };
            let end = match status.code() {
                Some(_) => End::Stopped,
                None => End::Killed,
            };
            self.bury(node, Instant::now(), end);
            if !self.nodes[node].armed || end == End::Stopped {
                let words = self.last_words(node);
                let label = &self.nodes[node].label;
                self.findings
                    .push(format!("{label} ended by itself with {status}: {words}"));
            }
        }
        Ok(())
    }
}

fn words(path: &Path) -> String {
    let said = fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&said).trim().to_owned()
}
