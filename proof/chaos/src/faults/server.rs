//! Redis killed, restarted, paused.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::{Fault, Note};
use crate::stage::Stage;

/// Killed with -9, and started again with the same data when the fault is lifted.
pub(super) struct Kill {
    /// Whether it rewrites its append-only file when it dies.
    pub(super) rewriting: bool,
}

impl Fault for Kill {
    fn inject(&mut self, stage: &mut Stage, _note: &mut Note) -> Result<()> {
        if self.rewriting {
            let mut redis = stage.eye.redis()?;
            redis::cmd("BGREWRITEAOF").exec(&mut redis)?;
            stage.stop.wait(Duration::from_millis(10));
        }
        stage.server_deaths.push(Instant::now());
        stage.server.kill9();
        Ok(())
    }

    fn lift(&mut self, stage: &mut Stage, note: &mut Note) -> Result<()> {
        // Another fault may have restarted it.
        if !stage.server.is_running() {
            let began = Instant::now();
            stage.restart_server()?;
            note.text = format!("back after {} ms", began.elapsed().as_millis());
        }
        Ok(())
    }
}

/// Stopped in its tracks for longer than every time to live.
pub(super) struct Pause;

impl Fault for Pause {
    fn inject(&mut self, stage: &mut Stage, _note: &mut Note) -> Result<()> {
        Ok(stage.server.pause()?)
    }

    fn lift(&mut self, stage: &mut Stage, _note: &mut Note) -> Result<()> {
        match stage.server.resume() {
            // Another fault may have killed it; who did that restarts it.
            Err(baton_server::Error::NotRunning) => Ok(()),
            resumed => Ok(resumed?),
        }
    }
}
