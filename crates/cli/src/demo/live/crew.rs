//! The processes of the live demo, and which node each of them is.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use baton::inspect::{NodeRole, NodeStatus, Snapshot, Views};
use baton_processes::{Fleet, Own};

use super::keys::Board;

/// How a node goes: slowly enough to be watched, or as fast as it can. At full speed the backlog
/// and the failed messages stay small enough to be worked off at the slow pace again.
const LIVELY: [&str; 4] = ["--interval", "200ms", "--work", "50ms"];
const FULL_SPEED: [&str; 6] = [
    "--interval",
    "0",
    "--max-pending",
    "5000",
    "--error-rate",
    "0.001",
];
/// Longest wait for a node to join, and for one to stop in good order.
const JOIN_PATIENCE: Duration = Duration::from_secs(30);
const STOP_PATIENCE: Duration = Duration::from_secs(10);
/// Longest wait for somebody to generate: a silent generator's lease runs for half of it.
const GENERATOR_PATIENCE: Duration = Duration::from_secs(3);
/// Pause between two looks at whatever is waited for.
const POLL: Duration = Duration::from_millis(10);

/// The nodes. A copy is one of them by its number, whether it is known by name yet or not.
pub(super) struct Crew {
    fleet: Fleet,
    complaints: PathBuf,
    views: Views,
    board: Arc<Board>,
    paused: Vec<usize>,
    full_speed: bool,
}

impl Crew {
    /// Nobody yet. What nodes complain about goes to a file in this folder.
    pub(super) fn new(
        program: &Path,
        url: &str,
        folder: &Path,
        views: Views,
        board: Arc<Board>,
    ) -> Self {
        // Lines for people are read and forgotten; the snapshots tell all that is needed here,
        // and at full speed a log would fill the memory.
        let args = ["run", "--log", "text", "--redis", url];
        Self {
            fleet: Fleet::of(program, args.map(str::to_owned).to_vec()),
            complaints: folder.join("nodes.err"),
            views,
            board,
            paused: Vec::new(),
            full_speed: false,
        }
    }

    /// Starts a node at the present speed. It leads a process group, so that no key of the
    /// terminal reaches it, and its complaints go to a file, because the screen is the view's.
    pub(super) fn launch(&mut self) -> Result<usize> {
        let stderr = File::options()
            .create(true)
            .append(true)
            .open(&self.complaints)?;
        let args = match self.full_speed {
            true => &FULL_SPEED[..],
            false => &LIVELY[..],
        };
        self.fleet.start_with(Own {
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            stderr: Some(stderr),
            group: true,
            ..Own::default()
        })
    }

    /// Waits until a copy is a node of the fleet.
    pub(super) fn wait_joined(&mut self, copy: usize) -> Result<()> {
        let pid = self.fleet.pid(copy);
        let here = |crew: &mut Self| {
            if let Some(status) = crew.fleet.ended(copy)? {
                let complaints = fs::read(&crew.complaints).unwrap_or_default();
                let complaints = String::from_utf8_lossy(&complaints);
                let last = complaints.lines().last().unwrap_or_default();
                bail!("process {pid} ended with {status}: {last}");
            }
            Ok(crew
                .node(copy)
                .is_some_and(|node| node.role != NodeRole::Dead)
                .then_some(()))
        };
        self.wait(JOIN_PATIENCE, here)?
            .with_context(|| format!("process {pid} has not joined yet"))
    }

    /// From now on nodes are started at the other speed. Returns whether that is the full one.
    pub(super) fn change_speed(&mut self) -> bool {
        self.full_speed = !self.full_speed;
        self.full_speed
    }

    /// Kills a node with -9.
    pub(super) fn kill(&mut self, copy: usize) -> Result<()> {
        self.fleet.kill9(copy)
    }

    /// The node that was paused last and still is.
    pub(super) fn last_paused(&mut self) -> Option<usize> {
        let living = self.living();
        self.paused.retain(|copy| living.contains(copy));
        self.paused.last().copied()
    }

    /// Pauses a node, or lets it go on if it is paused. Returns whether it is paused now.
    pub(super) fn pause(&mut self, copy: usize) -> Result<bool> {
        if let Some(at) = self.paused.iter().position(|paused| *paused == copy) {
            self.fleet.resume(copy)?;
            self.paused.remove(at);
            return Ok(false);
        }
        self.fleet.pause(copy)?;
        self.paused.push(copy);
        Ok(true)
    }

    /// Stops a node in good order, also one that is paused.
    pub(super) fn stop(&mut self, copy: usize) -> Result<()> {
        if !self.living().contains(&copy) {
            return Ok(());
        }
        self.fleet.terminate(copy)?;
        self.fleet.resume(copy)?;
        let ended = self.wait(STOP_PATIENCE, |crew| crew.fleet.ended(copy))?;
        if ended.is_none() {
            let name = self.name(copy);
            self.fleet.kill9(copy)?;
            bail!("{name} did not stop within {STOP_PATIENCE:?} and was killed");
        }
        Ok(())
    }

    /// The nodes whose processes run, in the order they were started.
    pub(super) fn living(&mut self) -> Vec<usize> {
        let mut living = self.fleet.alive();
        // Somebody else may have killed one, or it has ended by itself.
        living.retain(|copy| !matches!(self.fleet.ended(*copy), Ok(Some(_))));
        living
    }

    /// Those that do not generate. Waits for a generator, so that none is taken for a worker
    /// in the moment between two.
    pub(super) fn workers(&mut self) -> Vec<usize> {
        let generator = self.wait_generator();
        let mut workers = self.living();
        workers.retain(|copy| Some(*copy) != generator);
        workers
    }

    /// Who generates, as far as known.
    pub(super) fn generator(&mut self) -> Option<usize> {
        let snapshot = self.snapshot()?;
        self.find(snapshot.generator.node.as_deref())
    }

    /// The same, if need be a moment later.
    pub(super) fn wait_generator(&mut self) -> Option<usize> {
        if self.living().is_empty() {
            return None;
        }
        let found = self.wait(GENERATOR_PATIENCE, |crew| Ok(crew.generator()));
        found.ok().flatten()
    }

    /// The copy that is this node, if it runs.
    pub(super) fn find(&mut self, node: Option<&str>) -> Option<usize> {
        let snapshot = self.snapshot()?;
        let node = snapshot
            .nodes
            .iter()
            .find(|listed| Some(listed.node.as_str()) == node)?;
        let living = self.living();
        living
            .into_iter()
            .find(|copy| u64::from(self.fleet.pid(*copy)) == node.pid)
    }

    /// What the latest snapshot says about a copy.
    fn node(&self, copy: usize) -> Option<NodeStatus> {
        let pid = u64::from(self.fleet.pid(copy));
        let snapshot = self.snapshot()?;
        snapshot.nodes.iter().find(|node| node.pid == pid).cloned()
    }

    /// What to call a copy.
    pub(super) fn name(&self, copy: usize) -> String {
        match self.node(copy) {
            Some(node) => node.node,
            None => format!("process {}", self.fleet.pid(copy)),
        }
    }

    /// The fleet, as it was read last.
    pub(super) fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.views.latest().snapshot.clone()
    }

    /// Looks again and again until there is something; none if it takes too long.
    fn wait<T>(
        &mut self,
        longest: Duration,
        mut look: impl FnMut(&mut Self) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let deadline = Instant::now() + longest;
        loop {
            let found = look(self)?;
            if found.is_some() || Instant::now() > deadline {
                return Ok(found);
            }
            ensure!(!self.board.is_left(), "the demo ends");
            std::thread::sleep(POLL);
        }
    }
}
