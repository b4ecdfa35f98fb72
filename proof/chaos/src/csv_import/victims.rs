//! Who is killed, and what must follow.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::Arena;

/// Longest wait for a successor.
const SUCCESSOR: Duration = Duration::from_secs(30);

/// What is killed with -9.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Victim {
    /// The node that generates.
    Generator,
    /// The command that prints the lines.
    Source,
    /// A node that works.
    Worker,
    /// The server.
    Redis,
}

impl Victim {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Generator, Self::Source, Self::Worker, Self::Redis];
}

impl fmt::Display for Victim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Generator => "the generator",
            Self::Source => "the source",
            Self::Worker => "a worker",
            Self::Redis => "Redis",
        })
    }
}

impl Arena {
    /// Kills, and waits until a successor is there. Fails if there was nothing to kill.
    pub(super) fn kill(&mut self, victim: Victim) -> Result<()> {
        match victim {
            Victim::Generator => {
                let generator = self.generator()?;
                let mark = self.fleet.mark();
                self.fleet.kill9(generator)?;
                self.start_node()?;
                self.fleet
                    .wait_for(mark, SUCCESSOR, "a generator", |told| told.is_generator())?;
            }
            Victim::Source => {
                let killed = self
                    .source()
                    .context("no source runs; a larger file takes longer")?;
                ensure!(killed.kill9(), "the source has ended");
                let deadline = Instant::now() + SUCCESSOR;
                while self.source().is_none_or(|source| source == killed) {
                    ensure!(Instant::now() < deadline, "no other source runs");
                    self.stop.pause_poll()?;
                }
            }
            Victim::Worker => {
                let generator = self.generator()?;
                let mut workers = self.fleet.alive();
                workers.retain(|node| *node != generator);
                let worker = self.rng.pick(&workers).context("no node works")?;
                self.fleet.kill9(worker)?;
                self.start_node()?;
            }
            Victim::Redis => {
                self.server.kill9();
                self.server.restart()?;
            }
        }
        Ok(())
    }

    /// The node that generates, as the logs say.
    fn generator(&self) -> Result<usize> {
        let generator = self.fleet.wait_generator(SUCCESSOR)?;
        ensure!(self.fleet.alive().contains(&generator), "no node generates");
        Ok(generator)
    }
}
