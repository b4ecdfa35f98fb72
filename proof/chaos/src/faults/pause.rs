//! Nodes paused for longer than every time to live.

use std::time::Instant;

use anyhow::{Context, Result};

use super::{Fault, Note};
use crate::arena::Arena;
use crate::rng::Rng;

pub(super) enum Whom {
    Generator,
    Worker,
    All,
}

pub(super) struct Pause {
    whom: Whom,
    rng: Rng,
    paused: Vec<usize>,
}

impl Pause {
    pub(super) fn new(whom: Whom, rng: Rng) -> Self {
        Self {
            whom,
            rng,
            paused: Vec::new(),
        }
    }
}

impl Fault for Pause {
    fn inject(&mut self, arena: &mut Arena, note: &mut Note) -> Result<()> {
        self.paused = match self.whom {
            Whom::Generator => vec![arena.generator().context("no node generates")?],
            Whom::Worker => vec![self.rng.pick(&arena.workers()).context("no node works")?],
            Whom::All => arena.fleet.alive(),
        };
        note.targets = arena.labels(&self.paused);
        for node in &self.paused {
            arena.fleet.pause(*node)?;
            arena.nodes[*node].pauses.push((Instant::now(), None));
        }
        Ok(())
    }

    fn lift(&mut self, arena: &mut Arena, _note: &mut Note) -> Result<()> {
        let alive = arena.fleet.alive();
        for node in self.paused.iter().filter(|node| alive.contains(node)) {
            arena.fleet.resume(*node)?;
            if let Some((_, until)) = arena.nodes[*node].pauses.last_mut() {
                *until = Some(Instant::now());
            }
        }
        Ok(())
    }
}
