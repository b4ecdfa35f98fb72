//! All that takes part: the server, the nodes, the weather between them, and who drains.

pub mod clock;
mod drains;
mod server;

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use baton::FailedMessage;
use baton_processes::{Fleet, Own};
use baton_server::PrivateServer;
use tempfile::TempDir;

use crate::dice::Dice;
use crate::eye::Eye;
use crate::history::End;
use crate::net::Namespace;
use crate::proxy::Proxy;
use crate::stop::Stop;

pub use drains::Drain;

use clock::Traces;

/// The fleet's name.
pub const FLEET: &str = "chaos";
/// How every node behaves. A message comes often, is worked on for a while, so that nodes have
/// something in their hands when they are hit, and a backlog is soon worked off. All times to
/// live are short, so that a run sees many of them end.
const BEHAVIOUR: &[(&str, &str)] = &[
    ("BATON_FLEET", FLEET),
    ("BATON_INTERVAL", "10ms"),
    ("BATON_WORK", "10ms"),
    ("BATON_CONCURRENCY", "4"),
    ("BATON_ERROR_RATE", "0.05"),
    ("BATON_LEASE_TTL", "1s"),
    ("BATON_CLAIM_TTL", "1500ms"),
    ("BATON_AUDIT", "1"),
    ("BATON_HOSTILE", "1"),
];
/// Longest search for a worker that holds messages.
const SEARCH: Duration = Duration::from_secs(3);
/// Longest wait for a new node to say something.
const FIRST_WORD: Duration = Duration::from_secs(10);

/// What a run is made of.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The program, built with the feature `chaos`.
    pub program: PathBuf,
    /// The server program.
    pub server_program: PathBuf,
    /// How many nodes there are at a time.
    pub nodes: usize,
    /// Whether the server forces every write to the disk before it answers.
    pub always: bool,
    /// The library that fakes clocks, where there is one.
    pub faketime: Option<PathBuf>,
    /// Whether the server runs with that library: an allocator of its own may clash with it.
    pub server_faketime: bool,
    /// Whether there can be network namespaces.
    pub namespaces: bool,
    /// How long anything that must happen may take.
    pub patience: Duration,
}

/// One node, alive or dead.
pub struct Node {
    /// Its name in the report.
    pub label: String,
    /// Its name in Redis; empty until it has told it.
    pub name: String,
    /// What lies between it and the server; none once it is dead, and none for one that has a
    /// network of its own.
    pub proxy: Option<Proxy>,
    /// Whether it has the network of its own.
    pub wired: bool,
    /// Its clock, for the library that fakes it.
    pub clock: PathBuf,
    /// When it was started.
    pub from: Instant,
    /// When it was gone, and how.
    pub gone: Option<(Instant, End)>,
    /// When it was paused, and until when.
    pub pauses: Vec<(Instant, Option<Instant>)>,
    /// Whether it may die by itself: it is to crash at some point.
    pub armed: bool,
    complaints: PathBuf,
    _traces: Traces,
}

/// A death by our hand while nothing else was wrong, for the figures.
pub struct Death {
    /// Which node.
    pub node: usize,
    /// When.
    pub at: Instant,
    /// Whether it was the generator.
    pub generator: bool,
}

/// All that takes part. Dropping it kills every process and removes every file.
pub struct Stage {
    // The order matters: fields are dropped from the first to the last.
    /// The nodes' processes; a node's place is its copy's number.
    pub fleet: Fleet,
    /// The drains' processes.
    pub drains: Fleet<FailedMessage>,
    /// The nodes.
    pub nodes: Vec<Node>,
    /// The drains.
    pub drained: Vec<Drain>,
    /// The network of one node's own, where that is possible.
    pub wire: Option<Namespace>,
    /// The server.
    pub server: PrivateServer,
    /// The server's clock, for the library that fakes it.
    pub server_clock: PathBuf,
    server_traces: Vec<Traces>,
    /// When the server died or was killed.
    pub server_deaths: Vec<Instant>,
    /// Deaths to be timed.
    pub deaths: Vec<Death>,
    /// What must not be, seen on the way.
    pub findings: Vec<String>,
    /// Whether two faults are at work.
    pub crowded: bool,
    /// What the run is made of.
    pub settings: Settings,
    /// Sees what Redis sees.
    pub eye: Eye,
    /// Ctrl-C.
    pub stop: Stop,
    heard: usize,
    folder: TempDir,
}

impl Stage {
    /// Starts the server and the nodes, and waits for nothing.
    pub fn new(settings: Settings, stop: Stop) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("baton-chaos-").tempdir()?;
        let server_clock = folder.path().join("server.clock");
        let server = server::start(&settings, folder.path(), &server_clock)?;
        let env: Vec<(String, String)> = BEHAVIOUR
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect();
        let get_errors = ["getErrors", "--json", "--fleet", FLEET, "--redis"]
            .map(str::to_owned)
            .into_iter()
            .chain([server.url()]);
        let mut stage = Self {
            fleet: Fleet::new(&settings.program, &[]).with_env(&env),
            drains: Fleet::of(&settings.program, get_errors.collect()),
            nodes: Vec::new(),
            drained: Vec::new(),
            wire: None,
            eye: Eye::new(server.url(), FLEET)?,
            server,
            server_clock,
            server_traces: Vec::new(),
            server_deaths: Vec::new(),
            deaths: Vec::new(),
            findings: Vec::new(),
            crowded: false,
            settings,
            stop,
            heard: 0,
            folder,
        };
        stage.note_server();
        if stage.settings.namespaces {
            stage.wire = Some(Namespace::new(stage.server_addr()?)?);
        }
        stage.fill()?;
        Ok(stage)
    }

    /// Starts the server again with the same data; on a machine that stands still for a while
    /// more than once.
    pub fn restart_server(&mut self) -> Result<()> {
        let deadline = Instant::now() + self.settings.patience;
        loop {
            match self.server.restart() {
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
        self.server_traces.extend(self.server.pid().map(Traces));
    }

    fn server_addr(&self) -> Result<SocketAddr> {
        let port = self.server.port().context("the server has no port")?;
        Ok(SocketAddr::from(([127, 0, 0, 1], port)))
    }

    /// Starts nodes until there are as many as there should be.
    pub fn fill(&mut self) -> Result<()> {
        while self.fleet.alive().len() < self.settings.nodes {
            self.start_node(&[])?;
        }
        Ok(())
    }

    /// Starts one node, with variables of its own.
    pub fn start_node(&mut self, env: &[(&str, String)]) -> Result<usize> {
        self.start(env, false)
    }

    /// Starts one node that logs to a file, and that survives a full disk as far as its own code
    /// goes: without the trap, the signal of a too large file would end it.
    pub fn start_node_with_file(&mut self) -> Result<usize> {
        self.start(&[], true)
    }

    fn start(&mut self, env: &[(&str, String)], logs_to_file: bool) -> Result<usize> {
        let number = self.nodes.len();
        let alive = self.fleet.alive();
        let taken = alive.iter().any(|copy| self.nodes[*copy].wired);
        let wire = self.wire.as_ref().filter(|_| !taken);
        let (addr, mut prefix, proxy) = match wire {
            Some(wire) => (wire.addr(), wire.command_prefix(), None),
            None => {
                let proxy = Proxy::start(self.server_addr()?)?;
                (proxy.addr(), Vec::new(), Some(proxy))
            }
        };
        let file = |kind: &str| self.folder.path().join(format!("{number}.{kind}"));
        let (time, complaints) = (file("clock"), file("err"));
        let mut all: Vec<(String, String)> = env
            .iter()
            .map(|(name, value)| (name.to_string(), value.clone()))
            .collect();
        if let Some(library) = &self.settings.faketime {
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
            args: vec!["--redis".to_owned(), format!("redis://{addr}")],
            env: all,
            stderr: Some(File::create(&complaints)?),
            group: true,
        })?;
        self.nodes.push(Node {
            label: format!("node {}", copy + 1),
            name: String::new(),
            wired: proxy.is_none(),
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

    /// Learns the nodes' names from what they told.
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

    /// Waits until a node has said its first word; false if it does not.
    pub fn wait_joined(&mut self, node: usize) -> Result<bool> {
        let deadline = Instant::now() + FIRST_WORD;
        loop {
            self.hear();
            if !self.nodes[node].name.is_empty() {
                return Ok(true);
            }
            if Instant::now() > deadline || self.fleet.ended(node)?.is_some() {
                return Ok(false);
            }
            self.stop.look_again()?;
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

    /// The living node that generates: as Redis says, or, while that cannot be asked, as the
    /// nodes told last.
    pub fn generator(&mut self) -> Option<usize> {
        let seen = self
            .eye
            .status()
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

    /// The names of nodes in the report.
    pub fn labels(&self, nodes: &[usize]) -> Vec<String> {
        nodes
            .iter()
            .map(|node| self.nodes[*node].label.clone())
            .collect()
    }

    /// Pauses one of these workers that holds messages: unlike a running one, it will still
    /// hold them when it is killed.
    pub fn pause_holder(&mut self, among: &[usize], dice: &mut Dice) -> Result<Option<usize>> {
        let deadline = Instant::now() + SEARCH;
        while Instant::now() < deadline {
            self.stop.check()?;
            let Some(worker) = dice.pick(among) else {
                return Ok(None);
            };
            self.hear();
            self.fleet.pause(worker)?;
            let name = &self.nodes[worker].name;
            let holds = self.eye.status().is_ok_and(|status| {
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

    /// What lies between a node and the server; of the dead only what others use after them.
    pub fn proxy(&self, node: usize) -> Option<&Proxy> {
        let node = &self.nodes[node];
        match node.wired {
            // The wire outlives the node: what was done to it must be undone all the same.
            true => self.wire.as_ref().map(Namespace::proxy),
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

    /// The same, for the figures: how soon do the others notice?
    pub fn kill_timed(&mut self, node: usize, generator: bool) -> Result<()> {
        let at = Instant::now();
        self.kill(node)?;
        // With another fault at work it would be that one's time as well.
        if !self.crowded {
            self.deaths.push(Death {
                node,
                at,
                generator,
            });
        }
        Ok(())
    }

    /// Notes that a node is gone.
    pub fn bury(&mut self, node: usize, at: Instant, end: End) {
        let node = &mut self.nodes[node];
        node.gone = Some((at, end));
        if let Some((_, until @ None)) = node.pauses.last_mut() {
            *until = Some(at);
        }
        // Its connections are closed with it.
        node.proxy = None;
    }

    /// Asks a node to stop, unless it is gone: its number may be another's by now.
    pub fn terminate(&mut self, node: usize) -> Result<()> {
        match self.fleet.ended(node)? {
            Some(_) => Ok(()),
            None => self.fleet.terminate(node),
        }
    }

    /// Waits for a node that was asked to stop.
    pub fn wait_stopped(&mut self, node: usize) -> Result<()> {
        let patience = self.settings.patience;
        let deadline = Instant::now() + patience;
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
                    "{} did not stop within {patience:?}",
                    self.nodes[node].label
                ));
                return self.kill(node);
            }
            self.stop.look_again()?;
        }
    }

    /// What a node said on stderr.
    pub fn last_words(&self, node: usize) -> String {
        words(&self.nodes[node].complaints)
    }

    /// Notes nodes that ended without being asked to: that must not be, unless they were to
    /// crash.
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
