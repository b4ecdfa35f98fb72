//! Redis killed, restarted, paused.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::{Fault, Note};
use crate::arena::Arena;

/// Kills the server with -9; lifting the fault starts it again with the same data.
pub(super) struct Kill {
    /// Whether it rewrites its append-only file when it dies.
    pub(super) rewriting: bool,
}

impl Fault for Kill {
    fn inject(&mut self, arena: &mut Arena, _note: &mut Note) -> Result<()> {
        if self.rewriting {
            let mut redis = arena.observer.redis()?;
            redis::cmd("BGREWRITEAOF").exec(&mut redis)?;
            arena.stop.wait(Duration::from_millis(10));
        }
        arena.server_deaths.push(Instant::now());
        arena.server()?.kill9();
        Ok(())
    }

    fn lift(&mut self, arena: &mut Arena, note: &mut Note) -> Result<()> {
        // Another fault may have restarted it.
        if !arena.server()?.is_running() {
            let began = Instant::now();
            arena.restart_server()?;
            note.text = format!("back after {} ms", began.elapsed().as_millis());
        }
        Ok(())
    }
}

/// Pauses the server for longer than every time to live.
pub(super) struct Pause;

impl Fault for Pause {
    fn inject(&mut self, arena: &mut Arena, _note: &mut Note) -> Result<()> {
        Ok(arena.server()?.pause()?)
    }

    fn lift(&mut self, arena: &mut Arena, _note: &mut Note) -> Result<()> {
        match arena.server()?.resume() {
            // Another fault may have killed it; that fault restarts it.
            Err(baton_server::Error::NotRunning) => Ok(()),
            resumed => Ok(resumed?),
        }
    }
}
