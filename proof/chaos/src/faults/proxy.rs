//! A bad network between nodes and the server, imitated by their proxies.

use std::time::Duration;

use anyhow::Result;

use super::{Fault, Note};
use crate::arena::Arena;
use crate::proxy::Mode;
use crate::rng::Rng;

pub(super) struct ProxyFault {
    mode: Mode,
    rng: Rng,
    hit: Vec<usize>,
}

impl ProxyFault {
    pub(super) fn new(mode: Mode, rng: Rng) -> Self {
        Self {
            mode,
            rng,
            hit: Vec::new(),
        }
    }

    pub(super) fn delay(mut rng: Rng) -> Self {
        let by = Duration::from_millis(rng.between(5, 400));
        Self::new(Mode::Delay(by), rng)
    }

    /// All nodes, or the generator, or one worker.
    fn choose(&mut self, arena: &mut Arena) -> Vec<usize> {
        let (alive, generator, workers) = (arena.fleet.alive(), arena.generator(), arena.workers());
        let one = match self.rng.between(0, 2) {
            0 => return alive,
            1 => generator.or_else(|| self.rng.pick(&alive)),
            _ => self.rng.pick(&workers),
        };
        one.into_iter().collect()
    }
}

impl Fault for ProxyFault {
    fn inject(&mut self, arena: &mut Arena, note: &mut Note) -> Result<()> {
        self.hit = self.choose(arena);
        note.targets = arena.labels(&self.hit);
        if let Mode::Delay(by) = self.mode {
            note.text = format!("by about {} ms", by.as_millis());
        }
        for node in &self.hit {
            let Some(proxy) = arena.proxy(*node) else {
                continue;
            };
            proxy.set(self.mode);
            if matches!(self.mode, Mode::Pass | Mode::Refuse) {
                proxy.cut();
            }
        }
        Ok(())
    }

    fn lift(&mut self, arena: &mut Arena, _note: &mut Note) -> Result<()> {
        for node in &self.hit {
            if let Some(proxy) = arena.proxy(*node) {
                proxy.set(Mode::Pass);
            }
        }
        Ok(())
    }
}
