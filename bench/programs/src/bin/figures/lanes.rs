//! Nodes with many lanes: how busy slow handlers are kept, and what a lane costs.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use baton::{FleetName, Target};
use baton_bench::ServerProbe;
use baton_figures::{TIMEOUT, server};
use baton_processes::peak_rss_mb;
use baton_protocol::Keys;

use crate::Rounds;
use crate::quiet_node::QuietNode;
use crate::report::Report;

/// What a handler takes.
const WORK: &str = "100ms";
/// Messages that one lane can handle per second.
const LANE_RATE: f64 = 10.0;

/// One generator and one worker, with a few lanes, many, and as many as a node may have.
pub(crate) fn of_slow_handlers(program: &Path, rounds: Rounds, report: &mut Report) -> Result<()> {
    let (few, small) = rate(program, 256, rounds)?;
    report.add(
        "256 lanes, 100 ms of work each",
        &share(few, 256),
        "≥ 95 %",
        few >= 0.95 * LANE_RATE * 256.0,
    );
    let (many, _) = rate(program, 2000, rounds)?;
    report.add(
        "2,000 lanes",
        &share(many, 2000),
        "≥ 60 %",
        many >= 0.6 * LANE_RATE * 2000.0,
    );
    let (most, large) = rate(program, 10_000, rounds)?;
    report.add(
        "10,000 lanes ÷ 2,000 lanes",
        &format!("{:.2} ({most:.0} /s)", most / many),
        "≥ 1",
        most >= many,
    );
    let each = (large - small) * 1000.0 / (10_000.0 - 256.0);
    report.add(
        "  memory of a lane",
        &format!("{each:.1} kB"),
        "stated",
        true,
    );
    Ok(())
}

fn share(rate: f64, lanes: usize) -> String {
    let share = 100.0 * rate / (LANE_RATE * lanes as f64);
    format!("{rate:.0} /s, {share:.1} % of the ideal")
}

/// Messages per second in the steady state, and the worker's memory in MB.
fn rate(program: &Path, lanes: usize, rounds: Rounds) -> Result<(f64, f64)> {
    let server = server()?;
    let keys = Keys::new(&FleetName::new("default")?);
    let mut probe = ServerProbe::open(&Target::parse(&server.url())?)?;
    let deadline = Instant::now() + TIMEOUT;
    let wait = |probe: &mut ServerProbe, what: &str, enough: &dyn Fn((u64, u64)) -> bool| {
        while !enough(probe.counts(&keys)?) {
            if Instant::now() > deadline {
                bail!("{lanes} lanes: no {what} within {TIMEOUT:?}");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    };
    let args = format!("--error-rate 0 --work {WORK} --concurrency {lanes}");
    let generator = QuietNode::start(program, &server.url(), &args)?;
    wait(&mut probe, "generator", &|(published, _)| published > 0)?;
    let worker = QuietNode::start(program, &server.url(), &args)?;
    // All lanes are at work when each has ended a few.
    let warm = 3 * lanes as u64;
    wait(&mut probe, "worker at full speed", &|(_, ended)| {
        ended >= warm
    })?;
    let (began, before) = (Instant::now(), probe.counts(&keys)?.1);
    std::thread::sleep(Duration::from_secs(rounds.seconds));
    let ended = probe.counts(&keys)?.1 - before;
    let rate = ended as f64 / began.elapsed().as_secs_f64();
    let memory = peak_rss_mb(worker.pid()).context("the worker's memory is unknown")?;
    // What a worker holds when it is asked to stop, it ends or gives back.
    worker.stop()?;
    let held: u64 = redis::cmd("HLEN").arg(&keys.claims).query(probe.redis())?;
    ensure!(
        held == 0,
        "{held} claims were left when {lanes} lanes had stopped"
    );
    let failed: u64 = redis::cmd("HLEN").arg(&keys.errors).query(probe.redis())?;
    ensure!(failed == 0, "{failed} messages failed on {lanes} lanes");
    generator.stop()?;
    Ok((rate, memory))
}
