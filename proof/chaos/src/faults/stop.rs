//! Nodes asked to stop: they resign, finish or give back what they hold, and leave.

use std::time::Instant;

use anyhow::{Context, Result};

use super::{Fault, Note};
use crate::arena::Arena;
use crate::rng::Rng;

pub(super) struct Ask {
    generator: bool,
    rng: Rng,
    asked: Option<usize>,
}

impl Ask {
    pub(super) fn new(generator: bool, rng: Rng) -> Self {
        Self {
            generator,
            rng,
            asked: None,
        }
    }
}

impl Fault for Ask {
    fn inject(&mut self, arena: &mut Arena, note: &mut Note) -> Result<()> {
        let node = match self.generator {
            true => arena.generator().context("no node generates")?,
            false => self.rng.pick(&arena.workers()).context("no node works")?,
        };
        note.targets = arena.labels(&[node]);
        arena.terminate(node)?;
        self.asked = Some(node);
        Ok(())
    }

    fn finish(&mut self, arena: &mut Arena, note: &mut Note) -> Result<()> {
        match self.asked {
            // Another fault may have killed it meanwhile.
            Some(node) if arena.fleet.alive().contains(&node) => arena.wait_stopped(node)?,
            _ => return Ok(()),
        }
        note.over = Some(Instant::now());
        Ok(())
    }
}
