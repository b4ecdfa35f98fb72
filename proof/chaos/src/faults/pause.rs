//! Nodes stopped in their tracks for longer than every time to live: as if a plug were pulled
//! and put back.

use std::time::Instant;

use anyhow::{Context, Result};

use super::{Fault, Note};
use crate::dice::Dice;
use crate::stage::Stage;

pub(super) enum Whom {
    Generator,
    Worker,
    All,
}

pub(super) struct Pause {
    whom: Whom,
    dice: Dice,
    paused: Vec<usize>,
}

impl Pause {
    pub(super) fn new(whom: Whom, dice: Dice) -> Self {
        Self {
            whom,
            dice,
            paused: Vec::new(),
        }
    }
}

impl Fault for Pause {
    fn inject(&mut self, stage: &mut Stage, note: &mut Note) -> Result<()> {
        self.paused = match self.whom {
            Whom::Generator => vec![stage.generator().context("nobody generates")?],
            Whom::Worker => vec![self.dice.pick(&stage.workers()).context("nobody works")?],
            Whom::All => stage.fleet.alive(),
        };
        note.targets = stage.labels(&self.paused);
        for node in &self.paused {
            stage.fleet.pause(*node)?;
            stage.nodes[*node].pauses.push((Instant::now(), None));
        }
        Ok(())
    }

    fn lift(&mut self, stage: &mut Stage, _note: &mut Note) -> Result<()> {
        let alive = stage.fleet.alive();
        for node in self.paused.iter().filter(|node| alive.contains(node)) {
            stage.fleet.resume(*node)?;
            if let Some((_, until)) = stage.nodes[*node].pauses.last_mut() {
                *until = Some(Instant::now());
            }
        }
        Ok(())
    }
}
