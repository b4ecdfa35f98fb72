//! Redis's memory is full: publishes are refused, everything else goes on.

use anyhow::Result;
use baton_processes::Info;

use super::{Fault, Note, warned};
use crate::arena::Arena;

/// The limit as a share of the used memory; below 1, because the server does not count all of it.
const SHARE: f64 = 0.9;

#[derive(Default)]
pub(super) struct Full {
    mark: usize,
}

impl Fault for Full {
    fn inject(&mut self, arena: &mut Arena, _note: &mut Note) -> Result<()> {
        let mut redis = arena.observer.redis()?;
        let used = Info::read(&mut redis, "memory")?.number("used_memory")?;
        self.mark = arena.fleet.mark();
        set(&mut redis, (used * SHARE) as u64)
    }

    fn lift(&mut self, arena: &mut Arena, note: &mut Note) -> Result<()> {
        note.text = warned(arena, self.mark, "OOM");
        match arena.server()?.is_running() {
            true => set(&mut arena.observer.redis()?, 0),
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
