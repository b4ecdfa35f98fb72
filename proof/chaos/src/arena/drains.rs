//! The drains, which take the failed messages.

use std::fs::File;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use baton_processes::Own;

use super::{Arena, words};

/// One `getErrors`.
pub struct Drain {
    /// When it was started.
    pub from: Instant,
    /// When it ended.
    pub to: Option<Instant>,
    /// Whether it succeeded: then it removed all that it printed.
    pub well: bool,
    /// Whether it was killed.
    pub killed: bool,
}

impl Arena {
    fn drain_complaints(&self) -> PathBuf {
        self.folder.path().join("drain.err")
    }

    /// Starts a `getErrors`, with these environment variables.
    pub fn start_drain(&mut self, env: &[(&str, String)]) -> Result<usize> {
        let env = env
            .iter()
            .map(|(name, value)| (name.to_string(), value.clone()));
        let drain = self.drains.start_with(Own {
            env: env.collect(),
            stderr: Some(File::create(self.drain_complaints())?),
            group: true,
            ..Own::default()
        })?;
        self.drained.push(Drain {
            from: Instant::now(),
            to: None,
            well: false,
            killed: false,
        });
        Ok(drain)
    }

    /// The stderr of the last drain.
    pub fn drain_words(&self) -> String {
        words(&self.drain_complaints())
    }

    /// Waits for the end of a drain; false if it was killed or failed.
    pub fn wait_drain(&mut self, drain: usize) -> Result<bool> {
        let timeout = self.settings.timeout;
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(status) = self.drains.ended(drain)? {
                let drain = &mut self.drained[drain];
                drain.to = Some(Instant::now());
                drain.well = status.success();
                drain.killed = status.code().is_none();
                return Ok(status.success());
            }
            if Instant::now() > deadline {
                let finding = format!("getErrors {} did not end within {timeout:?}", drain + 1);
                self.findings.push(finding);
                self.kill_drain(drain)?;
                return Ok(false);
            }
            self.stop.pause_poll()?;
        }
    }

    /// Kills a drain with -9, if it still runs.
    pub fn kill_drain(&mut self, drain: usize) -> Result<()> {
        if self.drains.ended(drain)?.is_none() {
            self.drains.kill9(drain)?;
            self.drained[drain].killed = true;
        } else {
            return self.wait_drain(drain).map(|_| ());
        }
        self.drained[drain].to = Some(Instant::now());
        Ok(())
    }

    /// How many lines a drain printed.
    pub fn printed(&self, drain: usize) -> usize {
        let told = self.drains.told();
        told.iter().filter(|told| told.copy == drain).count()
    }
}
