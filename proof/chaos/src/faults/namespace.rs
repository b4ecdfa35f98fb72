//! A wire that is really cut: packets vanish without an error at either end.

use anyhow::{Context, Result};

use super::{Fault, Note};
use crate::arena::Arena;
use crate::rng::Rng;

pub(super) enum How {
    Down,
    OneWay,
}

pub(super) struct Wire {
    how: How,
    rng: Rng,
}

impl Wire {
    pub(super) fn new(how: How, rng: Rng) -> Self {
        Self { how, rng }
    }
}

impl Fault for Wire {
    fn inject(&mut self, arena: &mut Arena, note: &mut Note) -> Result<()> {
        let alive = arena.fleet.alive();
        let wired = alive.into_iter().find(|node| arena.nodes[*node].wired);
        let wire = arena.wire.as_ref().context("there is no wire")?;
        note.targets = arena.labels(wired.as_slice());
        match self.how {
            How::Down => wire.cut()?,
            How::OneWay if self.rng.chance(50) => {
                note.text = "to the server nothing passes".to_owned();
                wire.lose_calls()?;
            }
            How::OneWay => {
                note.text = "from the server nothing passes".to_owned();
                wire.lose_replies()?;
            }
        }
        // A machine without power: it dies, and its sockets stay open at the other end.
        if let (How::Down, Some(node), true) = (&self.how, wired, self.rng.chance(50)) {
            note.text = "and it died".to_owned();
            arena.kill(node)?;
        }
        Ok(())
    }

    fn lift(&mut self, arena: &mut Arena, _note: &mut Note) -> Result<()> {
        match &arena.wire {
            Some(wire) => wire.mend(),
            None => Ok(()),
        }
    }
}
