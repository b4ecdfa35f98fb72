//! Redis's memory is full: publishes are refused, everything else goes on.

use anyhow::Result;
use baton_processes::Info;

use super::{Fault, Note, warned};
use crate::stage::Stage;

/// The limit as a share of what is used: below 1, because the server does not count all of it.
const SHARE: f64 = 0.9;

#[derive(Default)]
pub(super) struct Full {
    mark: usize,
}

impl Fault for Full {
    fn inject(&mut self, stage: &mut Stage, _note: &mut Note) -> Result<()> {
        let mut redis = stage.eye.redis()?;
        let used = Info::read(&mut redis, "memory")?.number("used_memory")?;
        self.mark = stage.fleet.mark();
        set(&mut redis, (used * SHARE) as u64)
    }

    fn lift(&mut self, stage: &mut Stage, note: &mut Note) -> Result<()> {
        note.text = warned(stage, self.mark, "OOM");
        match stage.server.is_running() {
            true => set(&mut stage.eye.redis()?, 0),
            // A restart forgets it.
            false => Ok(()),
        }
    }
}

fn set(redis: &mut redis::Connection, bytes: u64) -> Result<()> {
    let mut command = redis::cmd("CONFIG");
    command.arg("SET").arg("maxmemory").arg(bytes);
    Ok(command.exec(redis)?)
}
