//! Trouble with a node's log: a disk without room, a reader that stands still. The node goes on;
//! lines that it could not write are missing, and the ledger knows better anyhow.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::{Fault, Note, limit_files};
use crate::dice::Dice;
use crate::stage::{Node, Stage};

/// A node beats every second at the latest: one that is silent for longer stands still.
const SILENT: Duration = Duration::from_secs(2);
/// Longest wait for a log that has room again.
const NEXT_LINE: Duration = Duration::from_secs(5);

/// A node takes a worker's place whose log, and whose stderr, is on a disk that becomes full.
pub(super) struct DiskFull {
    dice: Dice,
    node: Option<usize>,
    mark: usize,
}

impl DiskFull {
    pub(super) fn new(dice: Dice) -> Self {
        Self {
            dice,
            node: None,
            mark: 0,
        }
    }
}

impl Fault for DiskFull {
    fn inject(&mut self, stage: &mut Stage, note: &mut Note) -> Result<()> {
        let worker = self
            .dice
            .pick(&stage.workers())
            .context("there is no worker")?;
        stage.kill(worker)?;
        let node = stage.start_node_with_file()?;
        note.targets = stage.labels(&[node]);
        ensure!(stage.wait_joined(node)?, "it did not join");
        limit_files(stage.fleet.pid(node), Some(0))?;
        self.node = Some(node);
        Ok(())
    }

    fn lift(&mut self, stage: &mut Stage, _note: &mut Note) -> Result<()> {
        let Some(node) = self.node else { return Ok(()) };
        self.mark = stage.fleet.mark();
        if stage.fleet.alive().contains(&node) {
            // It may have died of it just now: that is found when heads are counted.
            let _ = limit_files(stage.fleet.pid(node), None);
        }
        Ok(())
    }

    fn finish(&mut self, stage: &mut Stage, note: &mut Note) -> Result<()> {
        let Some(node) = self.node else { return Ok(()) };
        let deadline = Instant::now() + NEXT_LINE;
        while Instant::now() < deadline && stage.fleet.alive().contains(&node) {
            let told = stage.fleet.told_since(self.mark);
            if told.iter().any(|told| told.copy == node) {
                note.text = "its log went on".to_owned();
                return Ok(());
            }
            stage.stop.look_again()?;
        }
        note.text = "its log did not go on".to_owned();
        Ok(())
    }
}

/// What a node logs is not read for a while: a pipe becomes full. The node must not wait for it.
pub(super) struct Stall {
    dice: Dice,
    stalled: Option<usize>,
}

impl Stall {
    pub(super) fn new(dice: Dice) -> Self {
        Self {
            dice,
            stalled: None,
        }
    }
}

impl Fault for Stall {
    fn inject(&mut self, stage: &mut Stage, note: &mut Note) -> Result<()> {
        let node = match self.dice.chance(50) {
            true => stage.generator().context("there is no generator")?,
            false => self
                .dice
                .pick(&stage.workers())
                .context("there is no worker")?,
        };
        note.targets = stage.labels(&[node]);
        stage.fleet.stall_log(node, true);
        self.stalled = Some(node);
        Ok(())
    }

    fn lift(&mut self, stage: &mut Stage, note: &mut Note) -> Result<()> {
        let Some(node) = self.stalled else {
            return Ok(());
        };
        let status = stage.eye.status();
        stage.fleet.stall_log(node, false);
        let status = status?;
        let Node { label, name, .. } = &stage.nodes[node];
        let listed = status.nodes.iter().find(|listed| listed.node == *name);
        let silent_ms = listed.map(|listed| status.now_ms.saturating_sub(listed.seen_ms));
        note.text = match silent_ms {
            Some(ms) => format!("its last beat was {ms} ms ago"),
            None => "it was forgotten".to_owned(),
        };
        if silent_ms.is_none_or(|ms| u128::from(ms) > SILENT.as_millis()) {
            let text = &note.text;
            stage.findings.push(format!(
                "{label} stood still while its log was not read: {text}"
            ));
        }
        Ok(())
    }
}
