//! Wall clocks that jump by a minute, and back.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{Fault, Note};
use crate::dice::Dice;
use crate::stage::Stage;

pub(super) struct Jump {
    server: bool,
    dice: Dice,
    clock: Option<PathBuf>,
}

impl Jump {
    pub(super) fn of_server(dice: Dice) -> Self {
        Self {
            server: true,
            dice,
            clock: None,
        }
    }

    pub(super) fn of_node(dice: Dice) -> Self {
        Self {
            server: false,
            dice,
            clock: None,
        }
    }
}

impl Fault for Jump {
    fn inject(&mut self, stage: &mut Stage, note: &mut Note) -> Result<()> {
        let clock = match self.server {
            true => stage.server_clock.clone(),
            false => {
                let node = self.dice.pick(&stage.fleet.alive());
                let node = node.context("there is no node")?;
                note.targets = stage.labels(&[node]);
                stage.nodes[node].clock.clone()
            }
        };
        let (by, words) = match self.dice.chance(50) {
            true => ("+60", "ahead, then back"),
            false => ("-60", "back, then ahead"),
        };
        note.text = words.to_owned();
        set(&clock, by)?;
        self.clock = Some(clock);
        Ok(())
    }

    fn lift(&mut self, _stage: &mut Stage, _note: &mut Note) -> Result<()> {
        match &self.clock {
            Some(clock) => set(clock, "+0"),
            None => Ok(()),
        }
    }
}

/// In one step: the file is read at every look at the clock.
fn set(clock: &Path, by: &str) -> Result<()> {
    let next = clock.with_extension("next");
    fs::write(&next, by)?;
    Ok(fs::rename(next, clock)?)
}
