//! Wall clocks that jump by a minute, and back; and one that was a day fast when all died.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::{Fault, Note};
use crate::dice::Dice;
use crate::stage::{FLEET, Stage};

pub(super) struct Jump {
    server: bool,
    dice: Dice,
    clock: Option<PathBuf>,
}

impl Jump {
    pub(super) fn of_server(dice: Dice) -> Self {
        Self {
            server: true,
            dice,
            clock: None,
        }
    }

    pub(super) fn of_node(dice: Dice) -> Self {
        Self {
            server: false,
            dice,
            clock: None,
        }
    }
}

impl Fault for Jump {
    fn inject(&mut self, stage: &mut Stage, note: &mut Note) -> Result<()> {
        let clock = match self.server {
            true => stage.server_clock.clone(),
            false => {
                let node = self.dice.pick(&stage.fleet.alive());
                let node = node.context("there is no node")?;
                note.targets = stage.labels(&[node]);
                stage.nodes[node].clock.clone()
            }
        };
        let (by, words) = match self.dice.chance(50) {
            true => ("+60", "ahead, then back"),
            false => ("-60", "back, then ahead"),
        };
        note.text = words.to_owned();
        set(&clock, by)?;
        self.clock = Some(clock);
        Ok(())
    }

    fn lift(&mut self, _stage: &mut Stage, _note: &mut Note) -> Result<()> {
        match &self.clock {
            Some(clock) => set(clock, "+0"),
            None => Ok(()),
        }
    }
}

/// How fast the clock is, and how long the fleet may take to write such times down.
const DAY: Duration = Duration::from_secs(24 * 3600);
const WRITTEN_DOWN: Duration = Duration::from_secs(5);

/// Redis's clock is a day fast; server and nodes die; the server comes back with the right time.
/// No node may wait until tomorrow for the dead.
pub(super) struct Corrected;

impl Fault for Corrected {
    fn inject(&mut self, stage: &mut Stage, note: &mut Note) -> Result<()> {
        let right_ms = stage.eye.status()?.now_ms;
        set(&stage.server_clock, &format!("+{}", DAY.as_secs()))?;
        let deadline = Instant::now() + WRITTEN_DOWN;
        let half_a_day = DAY.as_millis() as u64 / 2;
        let key = baton_protocol::Keys::new(&baton::FleetName::new(FLEET)?).generator;
        while lease_until(stage, &key)? < right_ms + half_a_day {
            ensure!(Instant::now() < deadline, "no lease was written");
            stage.stop.look_again()?;
        }
        let nodes = stage.fleet.alive();
        note.targets = stage.labels(&nodes);
        nodes.into_iter().try_for_each(|node| stage.kill(node))?;
        stage.server_deaths.push(Instant::now());
        stage.server.kill9();
        Ok(())
    }

    fn lift(&mut self, stage: &mut Stage, _note: &mut Note) -> Result<()> {
        set(&stage.server_clock, "+0")?;
        match stage.server.is_running() {
            true => Ok(()),
            false => stage.restart_server(),
        }
    }
}

/// Until when the lease is held, on Redis's clock.
fn lease_until(stage: &Stage, key: &str) -> Result<u64> {
    let mut ask = redis::cmd("HGET");
    ask.arg(key).arg("until");
    let until: Option<u64> = ask.query(&mut stage.eye.redis()?)?;
    Ok(until.unwrap_or_default())
}

/// In one step: the file is read at every look at the clock.
fn set(clock: &Path, by: &str) -> Result<()> {
    let next = clock.with_extension("next");
    fs::write(&next, by)?;
    Ok(fs::rename(next, clock)?)
}
