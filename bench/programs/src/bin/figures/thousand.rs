//! A thousand nodes on one server: one generator, little noise, a quick successor.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use baton::inspect::NodeRole;
use baton_figures::{TIMEOUT, server};
use baton_log::LogEvent;
use baton_processes::{Fleet, History, Told, status};
use rustix::process::{Resource, getrlimit, setrlimit};

use crate::Rounds;
use crate::idle::{top_level, total};
use crate::report::Report;
use crate::takeover::kill_generator;

/// How many nodes start at a time: all at once would wait for each other, one by one for nothing.
const BATCH: usize = 25;
/// What a node may take, by the goal of the idle figures, and what is left for everybody else.
const NODE_MB: u64 = 10;
const SPARE_MB: u64 = 1024;

pub(crate) fn nodes(program: &Path, rounds: Rounds, report: &mut Report) -> Result<()> {
    raise_file_limit()?;
    let count = rounds.crowd.min(affordable()?);
    if count < rounds.crowd {
        report.tell(
            &format!("memory for {} nodes is not there", rounds.crowd),
            &format!("measured with {count}"),
        );
    }
    at_rest(program, rounds, count, report)?;
    takeovers(program, rounds, count, report)
}

/// Who is here, and what the server has to do for them, at the default pace.
fn at_rest(program: &Path, rounds: Rounds, count: usize, report: &mut Report) -> Result<()> {
    let server = server()?;
    let began = Instant::now();
    let fleet = crowd(program, &server.url(), "500ms", count)?;
    report.tell(
        &format!("{count} nodes: all started"),
        &format!("{:.0} s", began.elapsed().as_secs_f64()),
    );
    one_generator(&fleet, &server.url(), count, report)?;

    let mut redis = redis::Client::open(server.url())?.get_connection()?;
    let (began, sent, run) = (Instant::now(), top_level(&mut redis)?, total(&mut redis)?);
    std::thread::sleep(Duration::from_secs(rounds.seconds));
    let seconds = began.elapsed().as_secs_f64();
    let rate = (top_level(&mut redis)? - sent) as f64 / seconds;
    report.add(
        &format!("{count} nodes, interval 500 ms: commands at the server"),
        &format!("{rate:.0} /s"),
        "≤ 3000 /s",
        rate <= 3000.0,
    );
    let rate = (total(&mut redis)? - run) / seconds;
    report.tell(
        "the same with the commands that scripts run inside",
        &format!("{rate:.0} /s"),
    );
    Ok(())
}

/// Kills one generator after the other. A message every 10 ms shows the successor soon enough;
/// at full speed the figure would be about the cores that the workers share, not about the line.
fn takeovers(program: &Path, rounds: Rounds, count: usize, report: &mut Report) -> Result<()> {
    let server = server()?;
    let mut fleet = crowd(program, &server.url(), "10ms", count)?;
    let times: Result<Vec<_>> = (0..rounds.crowd_kills)
        .map(|_| kill_generator(&mut fleet))
        .collect();
    report.times(
        &format!("{count} nodes: kill -9 of the generator → first message"),
        &times?,
        Duration::from_millis(150),
    );
    one_generator(&fleet, &server.url(), count, report)?;

    let told = fleet.told();
    let reigns = told.iter().filter(|told| told.is_generator());
    let history = History::new(&told);
    let twice = history.published_twice().len() + history.duplicated().len();
    let reigns = reigns.count();
    report.add(
        &format!("{count} nodes: reigns, messages told twice"),
        &format!("{reigns}, {twice}"),
        &format!("{}, 0", rounds.crowd_kills + 1),
        (reigns, twice) == (rounds.crowd_kills + 1, 0),
    );
    Ok(())
}

/// Starts the nodes, a few at a time; each knows its role when this returns.
fn crowd(program: &Path, url: &str, interval: &str, count: usize) -> Result<Fleet> {
    let mut fleet = Fleet::new(program, &["--redis", url, "--interval", interval]);
    while fleet.alive().len() < count {
        let batch = BATCH.min(count - fleet.alive().len());
        fleet.start_many(batch, TIMEOUT)?;
    }
    Ok(fleet)
}

/// Redis must see one generator and all others as workers, each of them present, and only one
/// node may believe that it generates.
fn one_generator(fleet: &Fleet, url: &str, count: usize, report: &mut Report) -> Result<()> {
    let status = status(url, "default")?;
    let seen = |role: NodeRole| status.nodes.iter().filter(|node| node.role == role).count();
    let (generators, workers) = (seen(NodeRole::Generator), seen(NodeRole::Worker));
    let told = fleet.told();
    let believes = |copy: &usize| {
        let role = told.iter().rev().find(|told| {
            told.copy == *copy
                && matches!(
                    told.event(),
                    LogEvent::Generator { .. } | LogEvent::Worker { .. } | LogEvent::Fenced { .. }
                )
        });
        role.is_some_and(Told::is_generator)
    };
    let believers = fleet.alive().iter().filter(|copy| believes(copy)).count();
    report.add(
        &format!("{count} nodes: generators, workers, who believes to generate"),
        &format!("{generators}, {workers}, {believers}"),
        &format!("1, {}, 1", count - 1),
        (generators, workers, believers) == (1, count - 1, 1),
    );
    Ok(())
}

/// How many nodes the memory at hand allows.
pub(crate) fn affordable() -> Result<usize> {
    let info = std::fs::read_to_string("/proc/meminfo")?;
    let kb: u64 = info
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))
        .and_then(|rest| rest.split_whitespace().next())
        .context("no MemAvailable")?
        .parse()?;
    let nodes = (kb / 1024).saturating_sub(SPARE_MB) / NODE_MB;
    Ok(usize::try_from(nodes)?.max(2))
}

/// A node is a pipe here and two connections at the server, which inherits the limit.
pub(crate) fn raise_file_limit() -> Result<()> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    Ok(setrlimit(Resource::Nofile, limit)?)
}
