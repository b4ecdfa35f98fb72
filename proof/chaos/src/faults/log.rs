//! Faults of a node's log: a full disk, a reader that stalls. The node must go on. Lines that it
//! could not write are missing; the verdict relies on the ledger.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::{Fault, Note, limit_files};
use crate::arena::{Arena, Node};
use crate::rng::Rng;

/// A node beats at least once per second; a node without a beat for this long stands still.
const SILENT: Duration = Duration::from_secs(2);
/// Longest wait for a log that has room again.
const NEXT_LINE: Duration = Duration::from_secs(5);

/// Replaces a worker by a node whose log and stderr are on a disk that becomes full.
pub(super) struct DiskFull {
    rng: Rng,
    node: Option<usize>,
    mark: usize,
}

impl DiskFull {
    pub(super) fn new(rng: Rng) -> Self {
        Self {
            rng,
            node: None,
            mark: 0,
        }
    }
}

impl Fault for DiskFull {
    fn inject(&mut self, arena: &mut Arena, note: &mut Note) -> Result<()> {
        let worker = self
            .rng
            .pick(&arena.workers())
            .context("there is no worker")?;
        arena.kill(worker)?;
        let node = arena.start_node_with_file()?;
        note.targets = arena.labels(&[node]);
        ensure!(arena.wait_joined(node)?, "it did not join");
        limit_files(arena.fleet.pid(node), Some(0))?;
        self.node = Some(node);
        Ok(())
    }

    fn lift(&mut self, arena: &mut Arena, _note: &mut Note) -> Result<()> {
        let Some(node) = self.node else { return Ok(()) };
        self.mark = arena.fleet.mark();
        if arena.fleet.alive().contains(&node) {
            // The node may have died just now; the arena finds its death later.
            let _ = limit_files(arena.fleet.pid(node), None);
        }
        Ok(())
    }

    fn finish(&mut self, arena: &mut Arena, note: &mut Note) -> Result<()> {
        let Some(node) = self.node else { return Ok(()) };
        let deadline = Instant::now() + NEXT_LINE;
        while Instant::now() < deadline && arena.fleet.alive().contains(&node) {
            let told = arena.fleet.told_since(self.mark);
            if told.iter().any(|told| told.copy == node) {
                note.text = "its log went on".to_owned();
                return Ok(());
            }
            arena.stop.pause_poll()?;
        }
        note.text = "its log did not go on".to_owned();
        Ok(())
    }
}

/// The reader of a node's log stalls, and the pipe becomes full. The node must not wait.
pub(super) struct Stall {
    rng: Rng,
    stalled: Option<usize>,
}

impl Stall {
    pub(super) fn new(rng: Rng) -> Self {
        Self { rng, stalled: None }
    }
}

impl Fault for Stall {
    fn inject(&mut self, arena: &mut Arena, note: &mut Note) -> Result<()> {
        let node = match self.rng.chance(50) {
            true => arena.generator().context("there is no generator")?,
            false => self
                .rng
                .pick(&arena.workers())
                .context("there is no worker")?,
        };
        note.targets = arena.labels(&[node]);
        arena.fleet.stall_log(node, true);
        self.stalled = Some(node);
        Ok(())
    }

    fn lift(&mut self, arena: &mut Arena, note: &mut Note) -> Result<()> {
        let Some(node) = self.stalled else {
            return Ok(());
        };
        let status = arena.observer.snapshot();
        arena.fleet.stall_log(node, false);
        let status = status?;
        let Node { label, name, .. } = &arena.nodes[node];
        let listed = status.nodes.iter().find(|listed| listed.node == *name);
        // Beside the other nodes: a server whose disk is slow hears none of them for a while.
        let newest_ms = status.nodes.iter().map(|listed| listed.seen_ms).max();
        let newest_ms = newest_ms.unwrap_or_default();
        let silent_ms = listed.map(|listed| newest_ms.saturating_sub(listed.seen_ms));
        note.text = match silent_ms {
            Some(ms) => format!("its last beat was {ms} ms before that of another node"),
            None => "it was forgotten".to_owned(),
        };
        if silent_ms.is_none_or(|ms| u128::from(ms) > SILENT.as_millis()) {
            let text = &note.text;
            arena.findings.push(format!(
                "{label} stood still while its log was not read: {text}"
            ));
        }
        Ok(())
    }
}
