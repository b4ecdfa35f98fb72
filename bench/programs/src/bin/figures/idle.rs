//! What a fleet costs when it has nothing to do, and what it does at full speed.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use baton_log::LogEvent;
use baton_processes::{Fleet, Info};

use crate::report::Report;
use crate::{Rounds, server};

const PATIENCE: Duration = Duration::from_secs(60);
/// Commands that nodes send, as opposed to those that scripts run inside the server.
const TOP_LEVEL: [&str; 8] = [
    "evalsha",
    "eval",
    "blpop",
    "hello",
    "info",
    "subscribe",
    "client|setinfo",
    "ping",
];

pub(crate) fn cost(program: &Path, rounds: Rounds, report: &mut Report) -> Result<()> {
    let server = server()?;
    let mut fleet = Fleet::new(program, &["--redis", &server.url(), "--messages", "1"]);
    fleet.start_many(rounds.idle_nodes + 1, PATIENCE)?;
    fleet.wait_for(0, PATIENCE, "the only message", |told| {
        matches!(told.event(), LogEvent::Processed { .. })
    })?;
    let mut redis = redis::Client::open(server.url())?.get_connection()?;
    let worker = fleet
        .alive()
        .into_iter()
        .find(|copy| Some(*copy) != fleet.generator());
    let pid = fleet.pid(worker.context("no worker")?);

    let window = Duration::from_secs(rounds.seconds);
    let (began, commands, cpu) = (Instant::now(), top_level(&mut redis)?, cpu(pid)?);
    std::thread::sleep(window);
    let seconds = began.elapsed().as_secs_f64();
    let rate = (top_level(&mut redis)? - commands) as f64 / seconds;
    report.add(
        &format!("{} idle workers: commands at the server", rounds.idle_nodes),
        &format!("{rate:.0} /s"),
        "< 200 /s",
        rate < 200.0,
    );
    let share = 100.0 * (self::cpu(pid)? - cpu) / seconds;
    report.add(
        "idle node: share of a core",
        &format!("{share:.2} %"),
        "< 0.5 %",
        share < 0.5,
    );
    let rss = rss_mb(pid)?;
    report.add(
        "idle node: memory",
        &format!("{rss:.1} MB"),
        "< 10 MB",
        rss < 10.0,
    );
    Ok(())
}

pub(crate) fn full_speed(program: &Path, rounds: Rounds, report: &mut Report) -> Result<()> {
    let server = server()?;
    let mut fleet = Fleet::new(program, &["--redis", &server.url(), "--interval", "0"]);
    fleet.start_many(3, PATIENCE)?;
    let keys = baton_protocol::Keys::new(&baton::FleetName::new("default")?);
    let mut redis = redis::Client::open(server.url())?.get_connection()?;
    let mut ended = || -> Result<u64> {
        let (done, failed): (Option<u64>, Option<u64>) = redis::cmd("HMGET")
            .arg(&keys.stats)
            .arg("done")
            .arg("failed")
            .query(&mut redis)?;
        Ok(done.unwrap_or(0) + failed.unwrap_or(0))
    };
    let (began, before) = (Instant::now(), ended()?);
    std::thread::sleep(Duration::from_secs(rounds.seconds));
    let rate = (ended()? - before) as f64 / began.elapsed().as_secs_f64();
    report.add(
        "full speed, one generator and two workers",
        &format!("{rate:.0} messages/s"),
        "> 200000 /s",
        rate > 200_000.0,
    );
    Ok(())
}

/// How many commands nodes have sent so far.
pub(crate) fn top_level(redis: &mut redis::Connection) -> Result<u64> {
    let stats: String = redis::cmd("INFO").arg("commandstats").query(redis)?;
    let calls = stats.lines().filter_map(|line| {
        let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        let calls = rest.split(',').next()?.parse::<u64>().ok()?;
        TOP_LEVEL.contains(&name).then_some(calls)
    });
    Ok(calls.sum())
}

/// How many commands the server has run so far, those inside of scripts included.
pub(crate) fn total(redis: &mut redis::Connection) -> Result<f64> {
    Info::read(redis, "stats")?.number("total_commands_processed")
}

/// Seconds of processor time that a process has used.
fn cpu(pid: u32) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    let ticks: u64 = fields
        .get(11..13)
        .context("no times in stat")?
        .iter()
        .flat_map(|field| field.parse::<u64>())
        .sum();
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

fn rss_mb(pid: u32) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .context("no VmRSS")?;
    let kb: f64 = line.split_whitespace().next().unwrap_or_default().parse()?;
    Ok(kb / 1024.0)
}
