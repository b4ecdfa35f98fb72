//! `getErrors`, left alone and killed.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::{Fault, Note};
use crate::dice::Dice;
use crate::stage::Stage;

/// Longest wait for the first line of a drain that is to be killed.
const FIRST_LINE: Duration = Duration::from_secs(10);

/// One that prints and removes all there is. Not a fault, but without it none would be drained.
#[derive(Default)]
pub(super) struct Drain(Option<usize>);

impl Fault for Drain {
    fn inject(&mut self, stage: &mut Stage, note: &mut Note) -> Result<()> {
        let drain = stage.start_drain(&[])?;
        note.targets = vec![format!("getErrors {}", drain + 1)];
        self.0 = Some(drain);
        Ok(())
    }

    fn finish(&mut self, stage: &mut Stage, note: &mut Note) -> Result<()> {
        let Some(drain) = self.0 else { return Ok(()) };
        let well = stage.wait_drain(drain)?;
        note.over = Some(Instant::now());
        note.text = format!("printed {}", stage.printed(drain));
        // It gives up when Redis is silent for too long; what it printed and could not remove
        // is printed again. The last drain of a run must end well.
        if !well {
            note.text
                .push_str(&format!(", then gave up: {}", stage.drain_words()));
        }
        Ok(())
    }
}

/// One that is killed while it prints, or a moment after it was started.
pub(super) struct Killed(pub(super) Dice);

impl Fault for Killed {
    fn inject(&mut self, stage: &mut Stage, note: &mut Note) -> Result<()> {
        let mark = stage.drains.mark();
        let drain = stage.start_drain(&[])?;
        note.targets = vec![format!("getErrors {}", drain + 1)];
        if self.0.chance(50) {
            let deadline = Instant::now() + FIRST_LINE;
            let silent = |stage: &mut Stage| -> Result<bool> {
                Ok(stage.drains.mark() == mark && stage.drains.ended(drain)?.is_none())
            };
            while Instant::now() < deadline && silent(stage)? {
                stage.stop.check()?;
                std::thread::yield_now();
            }
        } else {
            stage
                .stop
                .wait(Duration::from_millis(self.0.between(1, 40)));
        }
        stage.kill_drain(drain)?;
        note.text = match stage.drained[drain].killed {
            true => format!("printed {} before", stage.printed(drain)),
            false => format!("printed {} and ended before the kill", stage.printed(drain)),
        };
        Ok(())
    }
}
