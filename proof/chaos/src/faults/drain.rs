//! `getErrors`: undisturbed, and killed.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::{Fault, Note};
use crate::arena::Arena;
use crate::rng::Rng;

/// Longest wait for the first line of a drain that is to be killed.
const FIRST_LINE: Duration = Duration::from_secs(10);

/// A drain that prints and removes all failed messages. It is no fault, but without it no message
/// would be drained.
#[derive(Default)]
pub(super) struct Drain(Option<usize>);

impl Fault for Drain {
    fn inject(&mut self, arena: &mut Arena, note: &mut Note) -> Result<()> {
        let drain = arena.start_drain(&[])?;
        note.targets = vec![format!("getErrors {}", drain + 1)];
        self.0 = Some(drain);
        Ok(())
    }

    fn finish(&mut self, arena: &mut Arena, note: &mut Note) -> Result<()> {
        let Some(drain) = self.0 else { return Ok(()) };
        let well = arena.wait_drain(drain)?;
        note.over = Some(Instant::now());
        note.text = format!("printed {}", arena.printed(drain));
        // A drain gives up when Redis does not answer. The next drain prints again what this one
        // printed and could not remove. The last drain of a run must succeed.
        if !well {
            note.text
                .push_str(&format!(", then gave up: {}", arena.drain_words()));
        }
        Ok(())
    }
}

/// A drain that is killed while it prints, or a moment after its start.
pub(super) struct Killed(pub(super) Rng);

impl Fault for Killed {
    fn inject(&mut self, arena: &mut Arena, note: &mut Note) -> Result<()> {
        let mark = arena.drains.mark();
        let drain = arena.start_drain(&[])?;
        note.targets = vec![format!("getErrors {}", drain + 1)];
        if self.0.chance(50) {
            let deadline = Instant::now() + FIRST_LINE;
            let silent = |arena: &mut Arena| -> Result<bool> {
                Ok(arena.drains.mark() == mark && arena.drains.ended(drain)?.is_none())
            };
            while Instant::now() < deadline && silent(arena)? {
                arena.stop.check()?;
                std::thread::yield_now();
            }
        } else {
            arena
                .stop
                .wait(Duration::from_millis(self.0.between(1, 40)));
        }
        arena.kill_drain(drain)?;
        note.text = match arena.drained[drain].killed {
            true => format!("printed {} before", arena.printed(drain)),
            false => format!("printed {} and ended before the kill", arena.printed(drain)),
        };
        Ok(())
    }
}
