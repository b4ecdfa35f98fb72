//! Commands that are killed or hang.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::{Fault, Note};
use crate::arena::Arena;
use crate::handlers::Entry;
use crate::process_scan::{Found, Kind, Process, scan};
use crate::rng::Rng;

/// Pause between two kills.
const PAUSE: Duration = Duration::from_millis(10);

/// Kills one running command after the other.
pub(super) struct Kill {
    rng: Rng,
    over: Arc<AtomicBool>,
    killing: Option<JoinHandle<Killed>>,
}

/// How many were killed, and the process ids of their nodes.
type Killed = (u64, BTreeSet<i32>);

impl Kill {
    pub(super) fn new(rng: Rng) -> Self {
        Self {
            rng,
            over: Arc::default(),
            killing: None,
        }
    }
}

impl Fault for Kill {
    fn inject(&mut self, arena: &mut Arena, _note: &mut Note) -> Result<()> {
        let (over, run, mut rng) = (Arc::clone(&self.over), arena.mark(), self.rng.clone());
        let kill = move || {
            let mut killed = Killed::default();
            while !over.load(Ordering::Relaxed) {
                if let Some(node) = kill_one(&scan(&run), &mut rng) {
                    killed.0 += 1;
                    killed.1.insert(node);
                }
                std::thread::sleep(PAUSE);
            }
            killed
        };
        self.killing = Some(std::thread::spawn(kill));
        Ok(())
    }

    fn lift(&mut self, arena: &mut Arena, note: &mut Note) -> Result<()> {
        self.over.store(true, Ordering::Relaxed);
        if let Some(killing) = self.killing.take() {
            let (count, pids) = killing.join().unwrap_or_default();
            let nodes = pids.into_iter().filter_map(|pid| arena.with_pid(pid));
            note.targets = arena.labels(&nodes.collect::<Vec<_>>());
            note.text = hits(count, "killed");
        }
        Ok(())
    }
}

/// Kills one of the commands that a supervisor has started. Returns the node's process id.
fn kill_one(found: &[Found], rng: &mut Rng) -> Option<i32> {
    let (command, node) = rng.pick(&children(found, Kind::Command))?;
    command.kill9().then_some(node)
}

/// The processes of this kind that a supervisor has started, each with the process id of its node.
pub(super) fn children(found: &[Found], kind: Kind) -> Vec<(Process, i32)> {
    let supervisor = |command: &Found| {
        let mut nodes = found.iter().filter(|of| of.kind == Kind::Node);
        nodes.find(|of| of.process.pid == command.parent)
    };
    let commands = found.iter().filter(|of| of.kind == kind);
    let pairs = commands.filter_map(|of| Some((of.process, supervisor(of)?.parent)));
    pairs.collect()
}

/// Kills the supervisor of one node. Alone: if the node died, too, nothing would be left to end its
/// commands.
pub(super) struct KillSupervisor(pub(super) Rng);

impl Fault for KillSupervisor {
    fn inject(&mut self, arena: &mut Arena, note: &mut Note) -> Result<()> {
        let found = scan(&arena.mark()).into_iter();
        let found = found.filter(|of| of.kind == Kind::Node);
        let supervisors = found.filter_map(|of| Some((of.process, arena.with_pid(of.parent)?)));
        let victim = self.0.pick(&supervisors.collect::<Vec<_>>());
        let (supervisor, node) = victim.context("there is none")?;
        ensure!(supervisor.kill9(), "it has ended");
        note.targets = arena.labels(&[node]);
        Ok(())
    }
}

/// Half of the commands hang, and half of those ignore SIGTERM.
#[derive(Default)]
pub(super) struct Hang {
    before: u64,
}

impl Fault for Hang {
    fn inject(&mut self, arena: &mut Arena, note: &mut Note) -> Result<()> {
        let workers = arena.workers();
        note.targets = arena.labels(&workers);
        self.before = hit(arena);
        Ok(arena.shared.set_hang(true)?)
    }

    fn lift(&mut self, arena: &mut Arena, note: &mut Note) -> Result<()> {
        arena.shared.set_hang(false)?;
        note.text = hits(hit(arena) - self.before, "hung");
        Ok(())
    }
}

/// How many attempts the journal calls hit.
pub(super) fn hit(arena: &Arena) -> u64 {
    let journal = arena.shared.journal();
    journal.iter().filter(|of| **of == Entry::Hit).count() as u64
}

fn hits(count: u64, what: &str) -> String {
    match count {
        0 => "not reached".to_owned(),
        1 => format!("1 command {what}"),
        _ => format!("{count} commands {what}"),
    }
}
