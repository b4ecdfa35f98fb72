//! kill -9 of nodes.

use anyhow::{Context, Result};

use super::{Fault, Note};
use crate::arena::Arena;
use crate::rng::Rng;

pub(super) enum Whom {
    Generator,
    Worker,
    /// A worker that certainly holds messages when it dies.
    Holder,
    All,
}

pub(super) struct Kill {
    whom: Whom,
    rng: Rng,
}

impl Kill {
    pub(super) fn new(whom: Whom, rng: Rng) -> Self {
        Self { whom, rng }
    }
}

impl Fault for Kill {
    fn inject(&mut self, arena: &mut Arena, note: &mut Note) -> Result<()> {
        let generator = arena.generator();
        let victims = match self.whom {
            Whom::Generator => vec![generator.context("no node generates")?],
            Whom::Worker => vec![self.rng.pick(&arena.workers()).context("no node works")?],
            Whom::Holder => {
                let workers = arena.workers();
                let holder = arena.pause_holder(&workers, &mut self.rng)?;
                vec![holder.context("no worker holds messages")?]
            }
            Whom::All => arena.fleet.alive(),
        };
        note.targets = arena.labels(&victims);
        match (&self.whom, &victims[..]) {
            (Whom::All, all) => all.iter().try_for_each(|victim| arena.kill(*victim)),
            (_, [victim]) => arena.kill_timed(*victim, generator == Some(*victim)),
            _ => Ok(()),
        }
    }
}
