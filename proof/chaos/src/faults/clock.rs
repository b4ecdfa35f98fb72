//! Wall clocks that jump by a minute and back, and a clock that was a day fast when all nodes died.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::{Fault, Note};
use crate::arena::{Arena, FLEET};
use crate::rng::Rng;

pub(super) struct Jump {
    server: bool,
    rng: Rng,
    clock: Option<PathBuf>,
}

impl Jump {
    pub(super) fn of_server(rng: Rng) -> Self {
        Self {
            server: true,
            rng,
            clock: None,
        }
    }

    pub(super) fn of_node(rng: Rng) -> Self {
        Self {
            server: false,
            rng,
            clock: None,
        }
    }
}

impl Fault for Jump {
    fn inject(&mut self, arena: &mut Arena, note: &mut Note) -> Result<()> {
        let clock = match self.server {
            true => arena.server_clock.clone(),
            false => {
                let node = self.rng.pick(&arena.fleet.alive());
                let node = node.context("there is no node")?;
                note.targets = arena.labels(&[node]);
                arena.nodes[node].clock.clone()
            }
        };
        let (by, words) = match self.rng.chance(50) {
            true => ("+60", "ahead, then back"),
            false => ("-60", "back, then ahead"),
        };
        note.text = words.to_owned();
        set(&clock, by)?;
        self.clock = Some(clock);
        Ok(())
    }

    fn lift(&mut self, _arena: &mut Arena, _note: &mut Note) -> Result<()> {
        match &self.clock {
            Some(clock) => set(clock, "+0"),
            None => Ok(()),
        }
    }
}

/// How far the clock is ahead, and the timeout for a lease with such a time.
const DAY: Duration = Duration::from_secs(24 * 3600);
const WRITTEN_DOWN: Duration = Duration::from_secs(5);

/// Redis's clock is a day fast; server and nodes die; the server comes back with the right time.
/// No node may wait until tomorrow for the lease of a dead one.
pub(super) struct Corrected;

impl Fault for Corrected {
    fn inject(&mut self, arena: &mut Arena, note: &mut Note) -> Result<()> {
        let right_ms = arena.observer.snapshot()?.now_ms;
        set(&arena.server_clock, &format!("+{}", DAY.as_secs()))?;
        let deadline = Instant::now() + WRITTEN_DOWN;
        let half_a_day = DAY.as_millis() as u64 / 2;
        let key = baton_protocol::Keys::new(&baton::FleetName::new(FLEET)?).generator;
        while lease_until(arena, &key)? < right_ms + half_a_day {
            ensure!(Instant::now() < deadline, "no lease was written");
            arena.stop.pause_poll()?;
        }
        let nodes = arena.fleet.alive();
        note.targets = arena.labels(&nodes);
        nodes.into_iter().try_for_each(|node| arena.kill(node))?;
        arena.server_deaths.push(Instant::now());
        arena.server()?.kill9();
        Ok(())
    }

    fn lift(&mut self, arena: &mut Arena, _note: &mut Note) -> Result<()> {
        set(&arena.server_clock, "+0")?;
        match arena.server()?.is_running() {
            true => Ok(()),
            false => arena.restart_server(),
        }
    }
}

/// Until when the lease is held, on Redis's clock.
fn lease_until(arena: &Arena, key: &str) -> Result<u64> {
    let mut ask = redis::cmd("HGET");
    ask.arg(key).arg("until");
    let until: Option<u64> = ask.query(&mut arena.observer.redis()?)?;
    Ok(until.unwrap_or_default())
}

/// Replaces the file in one step: a process reads it whenever it reads its clock.
fn set(clock: &Path, by: &str) -> Result<()> {
    let next = clock.with_extension("next");
    fs::write(&next, by)?;
    Ok(fs::rename(next, clock)?)
}
