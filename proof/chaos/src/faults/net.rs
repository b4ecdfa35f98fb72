//! A wire that is really cut: packets vanish, and nobody is told.

use anyhow::{Context, Result};

use super::{Fault, Note};
use crate::dice::Dice;
use crate::stage::Stage;

pub(super) enum How {
    Down,
    OneWay,
}

pub(super) struct Wire {
    how: How,
    dice: Dice,
}

impl Wire {
    pub(super) fn new(how: How, dice: Dice) -> Self {
        Self { how, dice }
    }
}

impl Fault for Wire {
    fn inject(&mut self, stage: &mut Stage, note: &mut Note) -> Result<()> {
        let alive = stage.fleet.alive();
        let wired = alive.into_iter().find(|node| stage.nodes[*node].wired);
        let wire = stage.wire.as_ref().context("there is no wire")?;
        note.targets = stage.labels(wired.as_slice());
        match self.how {
            How::Down => wire.cut()?,
            How::OneWay if self.dice.chance(50) => {
                note.text = "to the server nothing passes".to_owned();
                wire.lose_calls()?;
            }
            How::OneWay => {
                note.text = "from the server nothing passes".to_owned();
                wire.lose_replies()?;
            }
        }
        // A machine without power: it dies, and its sockets stay open at the other end.
        if let (How::Down, Some(node), true) = (&self.how, wired, self.dice.chance(50)) {
            note.text = "and it died".to_owned();
            stage.kill(node)?;
        }
        Ok(())
    }

    fn lift(&mut self, stage: &mut Stage, _note: &mut Note) -> Result<()> {
        match &stage.wire {
            Some(wire) => wire.mend(),
            None => Ok(()),
        }
    }
}
