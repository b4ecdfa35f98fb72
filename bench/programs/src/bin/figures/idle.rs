//! What a fleet costs when it has nothing to do, and what it does at full speed.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use baton::{FleetName, Target};
use baton_bench::ServerProbe;
use baton_figures::{TIMEOUT, fleet, server};
use baton_processes::{Info, Told, process_cpu_us};
use baton_protocol::Keys;

use crate::Rounds;
use crate::report::Report;

/// Commands that nodes send, as opposed to those that scripts run inside the server.
const TOP_LEVEL: [&str; 7] = [
    "evalsha",
    "eval",
    "hello",
    "info",
    "subscribe",
    "client|setinfo",
    "ping",
];

pub(crate) fn cost(program: &Path, rounds: Rounds, report: &mut Report) -> Result<()> {
    let server = server()?;
    let fleet = fleet(program, &server, rounds.idle_nodes + 1, "--messages 1")?;
    fleet.wait_for(0, TIMEOUT, "the only message", Told::is_processed)?;
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
    let _fleet = fleet(program, &server, 3, "--interval 0")?;
    let keys = Keys::new(&FleetName::new("default")?);
    let mut probe = ServerProbe::open(&Target::parse(&server.url())?)?;
    let (began, before) = (Instant::now(), probe.counts(&keys)?.1);
    std::thread::sleep(Duration::from_secs(rounds.seconds));
    let rate = (probe.counts(&keys)?.1 - before) as f64 / began.elapsed().as_secs_f64();
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
    Ok(process_cpu_us(pid).context("no processor time")? / 1e6)
}

/// The memory of a process that is in use now.
pub(crate) fn rss_mb(pid: u32) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .context("no VmRSS")?;
    let kb: f64 = line.split_whitespace().next().unwrap_or_default().parse()?;
    Ok(kb / 1024.0)
}
