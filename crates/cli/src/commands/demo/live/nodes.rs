//! The node processes of the live demo.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use baton::inspect::{NodeRole, NodeStatus, Snapshot, Views};
use baton_processes::{Fleet, Own};

use super::notice_board::NoticeBoard;

/// The flags of a node that people can follow, and of a node at full speed. At full speed the
/// backlog and the failed messages stay few enough to be worked off at the slow speed later.
const SLOW: [&str; 4] = ["--interval", "200ms", "--work", "50ms"];
const FULL_SPEED: [&str; 6] = [
    "--interval",
    "0",
    "--max-pending",
    "5000",
    "--error-rate",
    "0.001",
];
/// Max wait for a node to join, and for one to stop in good order.
const JOIN_TIMEOUT: Duration = Duration::from_secs(30);
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// Max wait for a generator: twice as long as the lease of a silent one.
const GENERATOR_TIMEOUT: Duration = Duration::from_secs(3);
/// Pause between two checks of a wait.
const POLL: Duration = Duration::from_millis(10);

/// The nodes. A copy is the number of a process, which has a node name once it has joined.
pub(super) struct Nodes {
    fleet: Fleet,
    stderr: PathBuf,
    views: Views,
    board: Arc<NoticeBoard>,
    paused: Vec<usize>,
    full_speed: bool,
}

impl Nodes {
    /// No nodes yet. Their stderr will go to a file in this folder.
    pub(super) fn new(
        program: &Path,
        url: &str,
        folder: &Path,
        views: Views,
        board: Arc<NoticeBoard>,
    ) -> Self {
        // The fleet keeps JSON lines in memory, which they would fill at full speed. It drops text
        // lines, and the snapshots have all that is needed here.
        let args = ["run", "--log", "text", "--redis", url];
        Self {
            fleet: Fleet::of(program, args.map(str::to_owned).to_vec()),
            stderr: folder.join("nodes.err"),
            views,
            board,
            paused: Vec::new(),
            full_speed: false,
        }
    }

    /// Starts a node at the present speed. It leads a process group, so that no key of the
    /// terminal reaches it. Its stderr goes to a file, because the view owns the screen.
    pub(super) fn start(&mut self) -> Result<usize> {
        let stderr = File::options()
            .create(true)
            .append(true)
            .open(&self.stderr)?;
        let args = match self.full_speed {
            true => &FULL_SPEED[..],
            false => &SLOW[..],
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
        let joined = |nodes: &mut Self| {
            if let Some(status) = nodes.fleet.ended(copy)? {
                let stderr = fs::read(&nodes.stderr).unwrap_or_default();
                let stderr = String::from_utf8_lossy(&stderr);
                let last = stderr.lines().last().unwrap_or_default();
                bail!("process {pid} ended with {status}: {last}");
            }
            Ok(nodes
                .node(copy)
                .is_some_and(|node| node.role != NodeRole::Dead)
                .then_some(()))
        };
        self.wait(JOIN_TIMEOUT, joined)?
            .with_context(|| format!("process {pid} has not joined yet"))
    }

    /// Changes the speed of nodes that start from now on. Returns whether it is full speed.
    pub(super) fn change_speed(&mut self) -> bool {
        self.full_speed = !self.full_speed;
        self.full_speed
    }

    /// Kills a node with -9.
    pub(super) fn kill(&mut self, copy: usize) -> Result<()> {
        self.fleet.kill9(copy)
    }

    /// The node that was paused last, of those that still are.
    pub(super) fn last_paused(&mut self) -> Option<usize> {
        let living = self.living();
        self.paused.retain(|copy| living.contains(copy));
        self.paused.last().copied()
    }

    /// Pauses a node, or resumes it if it is paused. Returns whether it is paused now.
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
        let ended = self.wait(STOP_TIMEOUT, |nodes| nodes.fleet.ended(copy))?;
        if ended.is_none() {
            let name = self.name(copy);
            self.fleet.kill9(copy)?;
            bail!("{name} did not stop within {STOP_TIMEOUT:?} and was killed");
        }
        Ok(())
    }

    /// The copies that run, in the order of their starts.
    pub(super) fn living(&mut self) -> Vec<usize> {
        let mut living = self.fleet.alive();
        // Another program may have killed one, or it has ended by itself.
        living.retain(|copy| !matches!(self.fleet.ended(*copy), Ok(Some(_))));
        living
    }

    /// The copies that do not generate. Waits for a generator: between two generators, the next
    /// one would count as a worker.
    pub(super) fn workers(&mut self) -> Vec<usize> {
        let generator = self.wait_generator();
        let mut workers = self.living();
        workers.retain(|copy| Some(*copy) != generator);
        workers
    }

    /// The copy that generates, as of the latest snapshot.
    pub(super) fn generator(&mut self) -> Option<usize> {
        let snapshot = self.snapshot()?;
        self.find(snapshot.generator.node.as_deref())
    }

    /// Waits for a copy that generates.
    pub(super) fn wait_generator(&mut self) -> Option<usize> {
        if self.living().is_empty() {
            return None;
        }
        let found = self.wait(GENERATOR_TIMEOUT, |nodes| Ok(nodes.generator()));
        found.ok().flatten()
    }

    /// The copy of a node, if it runs.
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

    /// The node of a copy, as of the latest snapshot.
    fn node(&self, copy: usize) -> Option<NodeStatus> {
        let pid = u64::from(self.fleet.pid(copy));
        let snapshot = self.snapshot()?;
        snapshot.nodes.iter().find(|node| node.pid == pid).cloned()
    }

    /// The name of a copy: its node's, or its pid before it has joined.
    pub(super) fn name(&self, copy: usize) -> String {
        match self.node(copy) {
            Some(node) => node.node,
            None => format!("process {}", self.fleet.pid(copy)),
        }
    }

    /// The latest snapshot.
    pub(super) fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.views.latest().snapshot.clone()
    }

    /// Repeats a check until it finds something. `None` at the timeout.
    fn wait<T>(
        &mut self,
        timeout: Duration,
        mut check: impl FnMut(&mut Self) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let deadline = Instant::now() + timeout;
        loop {
            let found = check(self)?;
            if found.is_some() || Instant::now() > deadline {
                return Ok(found);
            }
            ensure!(!self.board.has_left(), "the demo ends");
            std::thread::sleep(POLL);
        }
    }
}
