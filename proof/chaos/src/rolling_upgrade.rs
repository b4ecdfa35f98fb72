//! A rolling upgrade: a fleet of the former program runs at full speed, and nodes of the present program
//! replace its nodes one by one. Then the former nodes replace them again, as an operator does who rolls
//! back. While both are there, nodes of both generate. In the end each message must have ended once.

use std::fmt;
use std::fs::File;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use baton::Part;
use baton::inspect::Snapshot;
use baton_log::LogEvent;
use baton_processes::{Fleet, Own};
use baton_server::PrivateServer;

use crate::observer::Observer;
use crate::stop::Stop;

const FLEET: &str = "upgrade";
/// At full speed, so that a node always has messages in hand when it ends.
const FLAGS: [&str; 6] = [
    "--fleet",
    FLEET,
    "--interval",
    "0",
    "--max-pending",
    "20000",
];
/// How long a node may take to know its role, and a fleet to end so many messages.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Between two changes of the fleet so many messages end.
const MESSAGES_BETWEEN: u64 = 20_000;
const POLL: Duration = Duration::from_millis(20);

/// The settings of an upgrade.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The former program.
    pub former: PathBuf,
    /// The present program.
    pub present: PathBuf,
    /// The server program.
    pub server_program: PathBuf,
    /// How many nodes there are at a time.
    pub nodes: usize,
}

/// Which program a node runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// The one that the fleet ran before the upgrade.
    Former,
    /// The one that it is upgraded to.
    Present,
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Former => "former",
            Self::Present => "present",
        })
    }
}

/// What an upgrade did.
#[derive(Debug, Default)]
pub struct Upgrade {
    /// Messages that were published.
    pub published: u64,
    /// Versions that nodes gave, in the order in which they were seen.
    pub versions: Vec<String>,
    /// Why the present program does not join a fleet of the former one, in its own words.
    pub refused: Option<String>,
    /// Everything that is wrong; empty if each message ended once.
    pub findings: Vec<String>,
}

#[derive(Debug, Clone, Copy)]
struct Node {
    program: Program,
    copy: usize,
}

/// Everything that takes part. Dropping it kills every process and removes every file.
struct Arena {
    former: Fleet,
    present: Fleet,
    /// The oldest first.
    nodes: Vec<Node>,
    observer: Observer,
    stop: Stop,
    upgrade: Upgrade,
    folder: tempfile::TempDir,
    _server: PrivateServer,
}

/// Upgrades a fleet and rolls back. `say` gets a line for each step.
pub fn run(settings: &Settings, stop: Stop, mut say: impl FnMut(&str)) -> Result<Upgrade> {
    let mut arena = Arena::new(settings, stop)?;
    for _ in 0..settings.nodes {
        arena.join(Program::Former)?;
    }
    arena.wait_progress()?;
    say(&format!("{} nodes of the former program", settings.nodes));
    for (program, ends) in [
        (Program::Present, Program::Former),
        (Program::Former, Program::Present),
    ] {
        for number in 0..settings.nodes {
            if let Some(words) = arena.start(program)? {
                // Only another protocol is a reason, and only in this direction.
                let is_foreign = words.contains("speaks protocol") && program == Program::Present;
                ensure!(is_foreign, "a {program} node does not join: {words}");
                arena.upgrade.refused = Some(words);
                // The fleet goes on as if nothing had happened.
                arena.wait_progress()?;
                return arena.end();
            }
            // Every other node gets no chance to stop in good order.
            let kills = number % 2 == 1;
            arena.end_oldest(ends, kills)?;
            arena.wait_progress()?;
            let how = if kills { " that was killed" } else { "" };
            say(&format!("a {program} node instead of a {ends} one{how}"));
            if number + 1 == settings.nodes / 2 {
                arena.let_both_generate(&mut say)?;
            }
        }
    }
    arena.end()
}

impl Arena {
    fn new(settings: &Settings, stop: Stop) -> Result<Self> {
        let server = PrivateServer::builder()
            .program(&settings.server_program)
            .start()?;
        let env = [
            ("REDIS_URL".to_owned(), server.url()),
            ("BATON_AUDIT".to_owned(), "1".to_owned()),
        ];
        let fleet = |program: &PathBuf| Fleet::new(program, &FLAGS).with_env(&env);
        Ok(Self {
            former: fleet(&settings.former),
            present: fleet(&settings.present),
            nodes: Vec::new(),
            observer: Observer::new(server.url(), FLEET, 1)?,
            stop,
            upgrade: Upgrade::default(),
            folder: tempfile::Builder::new()
                .prefix("baton-upgrade-")
                .tempdir()?,
            _server: server,
        })
    }

    fn fleet(&mut self, program: Program) -> &mut Fleet {
        match program {
            Program::Former => &mut self.former,
            Program::Present => &mut self.present,
        }
    }

    /// Starts a node, which must join the fleet.
    fn join(&mut self, program: Program) -> Result<()> {
        match self.start(program)? {
            Some(words) => bail!("a {program} node does not join the fleet: {words}"),
            None => Ok(()),
        }
    }

    /// Starts a node, and waits until it knows its role. If it ends instead, returns why, in its words.
    fn start(&mut self, program: Program) -> Result<Option<String>> {
        let stderr = self.folder.path().join("stderr");
        let own = Own {
            stderr: Some(File::create(&stderr)?),
            ..Own::default()
        };
        let fleet = self.fleet(program);
        let mark = fleet.mark();
        let copy = fleet.start_with(own)?;
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let fleet = self.fleet(program);
            let has_role = fleet.told_since(mark).iter().any(|told| {
                let event = told.event();
                told.copy == copy
                    && matches!(event, LogEvent::Generator { .. } | LogEvent::Worker { .. })
            });
            if has_role {
                self.nodes.push(Node { program, copy });
                return Ok(None);
            }
            if fleet.ended(copy)?.is_some() {
                return Ok(Some(std::fs::read_to_string(&stderr)?));
            }
            ensure!(
                Instant::now() < deadline,
                "a {program} node does not join the fleet"
            );
            std::thread::sleep(POLL);
        }
    }

    /// Ends the node of this program that has been there longest, with -9 or in good order.
    fn end_oldest(&mut self, program: Program, kills: bool) -> Result<()> {
        let oldest = self.nodes.iter().position(|node| node.program == program);
        let oldest = oldest.with_context(|| format!("no {program} node is left"))?;
        let copy = self.nodes.remove(oldest).copy;
        let fleet = self.fleet(program);
        if kills {
            return fleet.kill9(copy);
        }
        fleet.terminate(copy)?;
        let code = fleet.wait(copy)?;
        if code != Some(0) {
            let finding = format!("a {program} node ended with the code {code:?}");
            self.upgrade.findings.push(finding);
        }
        Ok(())
    }

    /// Waits until the fleet has ended more messages. Notes the versions of its nodes.
    fn wait_progress(&mut self) -> Result<Snapshot> {
        let goal = self.observer.snapshot()?.done + MESSAGES_BETWEEN;
        let snapshot = self.wait(|snapshot| snapshot.done >= goal)?;
        for node in &snapshot.nodes {
            if !self.upgrade.versions.contains(&node.version) {
                self.upgrade.versions.push(node.version.clone());
            }
        }
        Ok(snapshot)
    }

    fn wait(&self, fits: impl Fn(&Snapshot) -> bool) -> Result<Snapshot> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let snapshot = self.observer.snapshot()?;
            if fits(&snapshot) {
                return Ok(snapshot);
            }
            self.stop.check()?;
            if self.stop.asked() {
                bail!("interrupted");
            }
            ensure!(Instant::now() < deadline, "the fleet stands still");
            std::thread::sleep(POLL);
        }
    }

    /// Kills generators, and starts a node of the same program for each, until one of each program has
    /// generated beside nodes of the other.
    fn let_both_generate(&mut self, say: &mut impl FnMut(&str)) -> Result<()> {
        let mut generated = Vec::new();
        for _ in 0..4 * self.nodes.len() {
            let snapshot = self.wait_progress()?;
            let name = snapshot.generator.node.context("there is no generator")?;
            let generator = self.position_of(&name)?;
            let program = self.nodes[generator].program;
            if !generated.contains(&program) {
                generated.push(program);
                say(&format!("a {program} node generates beside the others"));
            }
            if generated.len() == 2 {
                return Ok(());
            }
            let node = self.nodes.remove(generator);
            self.fleet(node.program).kill9(node.copy)?;
            self.join(program)?;
        }
        bail!("only nodes of one program generated: {generated:?}")
    }

    /// Which of the nodes has this name.
    fn position_of(&mut self, name: &str) -> Result<usize> {
        for at in 0..self.nodes.len() {
            let Node { program, copy } = self.nodes[at];
            let told = self.fleet(program).told();
            if told
                .iter()
                .any(|told| told.copy == copy && told.line.node == name)
            {
                return Ok(at);
            }
        }
        bail!("no node of this run has the name {name}")
    }

    /// Lets the fleet end its messages, stops it and compares.
    fn end(mut self) -> Result<Upgrade> {
        self.observer.pause(&[Part::Generator])?;
        let is_at_rest = |s: &Snapshot| s.pending + s.claimed + s.delayed == 0;
        let snapshot = self.wait(is_at_rest)?;
        while let Some(node) = self.nodes.first() {
            self.end_oldest(node.program, false)?;
        }
        let audit = self.observer.audit()?;
        self.upgrade.published = snapshot.published;
        let findings = audit.findings.iter().map(ToString::to_string);
        self.upgrade.findings.extend(findings);
        Ok(self.upgrade)
    }
}
