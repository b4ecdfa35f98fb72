//! Nodes asked to stop: they resign, finish or give back what they hold, and leave.

use std::time::Instant;

use anyhow::{Context, Result};

use super::{Fault, Note};
use crate::dice::Dice;
use crate::stage::Stage;

pub(super) struct Ask {
    generator: bool,
    dice: Dice,
    asked: Option<usize>,
}

impl Ask {
    pub(super) fn new(generator: bool, dice: Dice) -> Self {
        Self {
            generator,
            dice,
            asked: None,
        }
    }
}

impl Fault for Ask {
    fn inject(&mut self, stage: &mut Stage, note: &mut Note) -> Result<()> {
        let node = match self.generator {
            true => stage.generator().context("nobody generates")?,
            false => self.dice.pick(&stage.workers()).context("nobody works")?,
        };
        note.targets = stage.labels(&[node]);
        stage.terminate(node)?;
        self.asked = Some(node);
        Ok(())
    }

    fn finish(&mut self, stage: &mut Stage, note: &mut Note) -> Result<()> {
        match self.asked {
            // Another fault may have killed it meanwhile.
            Some(node) if stage.fleet.alive().contains(&node) => stage.wait_stopped(node)?,
            _ => return Ok(()),
        }
        note.over = Some(Instant::now());
        Ok(())
    }
}
