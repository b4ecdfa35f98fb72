//! How long the fleet is without a generator, and a message without a worker.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use baton_figures::{SLOW_WORK, TIMEOUT, fleet, server, slow_fleet};
use baton_processes::{Fleet, Told, recovery_time};

use crate::Rounds;
use crate::report::Report;

/// The defaults that the goals speak of.
const LEASE_TTL: Duration = Duration::from_millis(1500);
const CLAIM_TTL: Duration = Duration::from_secs(5);

/// Kills the generator and waits for the first message of its successor.
pub(crate) fn kill_generator(fleet: &mut Fleet) -> Result<Duration> {
    let generator = fleet.generator().context("the fleet has no generator")?;
    let mark = fleet.mark();
    let killed = Instant::now();
    fleet.kill9(generator)?;
    let next = fleet.wait_for(mark, TIMEOUT, "a message of the successor", |told| {
        told.is_published() && told.copy != generator
    })?;
    fleet.start_many(1, TIMEOUT)?;
    Ok(next.at - killed)
}

pub(crate) fn at_full_speed(program: &Path, rounds: Rounds, report: &mut Report) -> Result<()> {
    let server = server()?;
    let mut fleet = fleet(program, &server, 4, "--interval 0")?;
    let times: Result<Vec<_>> = (0..rounds.kills)
        .map(|_| kill_generator(&mut fleet))
        .collect();
    let goal = Duration::from_millis(150);
    report.times(
        "kill -9 of the generator → first message, full speed",
        &times?,
        goal,
    );
    Ok(())
}

pub(crate) fn on_the_beat(program: &Path, rounds: Rounds, report: &mut Report) -> Result<()> {
    let server = server()?;
    let mut fleet = fleet(program, &server, 4, "--interval 500ms")?;
    let mut gaps = Vec::new();
    for round in 0..rounds.kills {
        let published = Told::is_published;
        let before = fleet.wait_for(fleet.mark(), TIMEOUT, "a beat", published)?;
        // Spread over the beat, so that the worst moment is among them.
        let moment = before.at + Duration::from_millis(480) * round as u32 / rounds.kills as u32;
        std::thread::sleep(moment.saturating_duration_since(Instant::now()));
        let killed = Instant::now();
        let mark = fleet.mark();
        fleet.kill9(before.copy)?;
        let last = fleet.told()[..mark]
            .iter()
            .rev()
            .find(|told| published(told))
            .map(|told| told.at);
        let next = fleet.wait_for(mark, TIMEOUT, "the next beat", |told| {
            published(told) && told.copy != before.copy
        })?;
        gaps.push(next.at - last.unwrap_or(killed));
        fleet.start_many(1, TIMEOUT)?;
    }
    let goal = Duration::from_millis(600);
    report.times(
        "gap between two messages across a kill, interval 500 ms",
        &gaps,
        goal,
    );
    Ok(())
}

pub(crate) fn of_a_paused_generator(
    program: &Path,
    rounds: Rounds,
    report: &mut Report,
) -> Result<()> {
    let server = server()?;
    let fleet = fleet(program, &server, 4, "--interval 20ms")?;
    let mut times = Vec::new();
    for _ in 0..rounds.pauses {
        let generator = fleet.generator().context("the fleet has no generator")?;
        fleet.pause(generator)?;
        let paused = Instant::now();
        let next = fleet.wait_for(fleet.mark(), TIMEOUT, "the successor", |told| {
            told.is_published() && told.copy != generator
        })?;
        times.push(next.at - paused);
        fleet.resume(generator)?;
    }
    let goal = LEASE_TTL + Duration::from_millis(300);
    report.times(
        "SIGSTOP of the generator → first message (TTL path)",
        &times,
        goal,
    );
    Ok(())
}

pub(crate) fn of_a_dead_worker(program: &Path, rounds: Rounds, report: &mut Report) -> Result<()> {
    let times = recoveries(program, rounds.kills, Fleet::kill9)?;
    let what = "kill -9 of a worker with a message → begun by another";
    report.times(what, &times, Duration::from_millis(250));
    Ok(())
}

pub(crate) fn of_a_paused_worker(
    program: &Path,
    rounds: Rounds,
    report: &mut Report,
) -> Result<()> {
    let times = recoveries(program, rounds.pauses, |fleet, copy| fleet.pause(copy))?;
    let what = "SIGSTOP of a worker with a message (TTL path)";
    report.times(what, &times, CLAIM_TTL + Duration::from_secs(1));
    Ok(())
}

/// Hurts busy workers, one after the other. Returns how long each one's message waited.
fn recoveries(
    program: &Path,
    rounds: usize,
    hurt: fn(&mut Fleet, usize) -> Result<()>,
) -> Result<Vec<Duration>> {
    let server = server()?;
    let mut fleet = slow_fleet(program, &server)?;
    let mut times = Vec::new();
    for _ in 0..rounds {
        times.push(recovery_time(&mut fleet, &server.url(), SLOW_WORK, hurt)?);
        fleet.start_many(1, TIMEOUT)?;
    }
    Ok(times)
}
