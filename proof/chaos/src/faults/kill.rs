//! kill -9 of nodes.

use anyhow::{Context, Result};

use super::{Fault, Note};
use crate::dice::Dice;
use crate::stage::Stage;

pub(super) enum Whom {
    Generator,
    Worker,
    /// A worker that certainly holds messages when it dies.
    Holder,
    All,
}

pub(super) struct Kill {
    whom: Whom,
    dice: Dice,
}

impl Kill {
    pub(super) fn new(whom: Whom, dice: Dice) -> Self {
        Self { whom, dice }
    }
}

impl Fault for Kill {
    fn inject(&mut self, stage: &mut Stage, note: &mut Note) -> Result<()> {
        let generator = stage.generator();
        let victims = match self.whom {
            Whom::Generator => vec![generator.context("nobody generates")?],
            Whom::Worker => vec![self.dice.pick(&stage.workers()).context("nobody works")?],
            Whom::Holder => {
                let workers = stage.workers();
                let holder = stage.pause_holder(&workers, &mut self.dice)?;
                vec![holder.context("nobody holds messages")?]
            }
            Whom::All => stage.fleet.alive(),
        };
        note.targets = stage.labels(&victims);
        match (&self.whom, &victims[..]) {
            (Whom::All, all) => all.iter().try_for_each(|victim| stage.kill(*victim)),
            (_, [victim]) => stage.kill_timed(*victim, generator == Some(*victim)),
            _ => Ok(()),
        }
    }
}
