//! Measures what README promises about time and size: takeover, recovery, latency, idle cost,
//! wake-up, speed, many nodes, long queues, looking on, partitions.
//!
//! `make figures` runs all but `sizes` (about half an hour). `--quick` takes a few rounds of each, and
//! then only completeness counts, not the times; names take some figures only, and `partitions` takes all
//! whose names begin with it. Some figures
//! are measured on several servers; flags choose a part of these (`choice.rs`). Every figure comes
//! from real processes and a private server on this machine; compare figures within one run only.

mod backlog;
mod bursts;
mod choice;
mod durability;
mod exec;
mod failover;
mod growth;
mod idle;
mod lanes;
mod latency;
mod line;
mod partitions;
mod push;
mod quiet_node;
mod report;
mod retries;
mod sizes;
mod snapshot;
mod takeover;
mod thousand;
mod ticks;
mod wake;
mod work;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use baton_print::errln;

use choice::Choice;
use report::Report;

/// How many rounds of each experiment.
#[derive(Clone, Copy)]
struct Rounds {
    kills: usize,
    tick_kills: usize,
    pauses: usize,
    failovers: usize,
    messages: usize,
    idle_nodes: usize,
    seconds: u64,
    crowd: usize,
    crowd_kills: usize,
    /// Whether `partitions-crowd` is measured on all servers, and beside a fleet of few nodes.
    whole_crowd: bool,
    backlog: u64,
    groups: usize,
    growth: usize,
    bursts: usize,
    storm: u64,
    commands: u64,
    command_rounds: usize,
    partition_messages: u64,
    shard_kills: usize,
    /// Whether all sizes are measured, in runs that are long enough to compare.
    whole_sizes: bool,
    size_runs: usize,
}

const FULL: Rounds = Rounds {
    kills: 30,
    tick_kills: 1000,
    pauses: 5,
    failovers: 20,
    messages: 1000,
    idle_nodes: 100,
    seconds: 10,
    crowd: 1000,
    crowd_kills: 10,
    whole_crowd: true,
    backlog: 10_000_000,
    groups: 1000,
    growth: 15,
    bursts: 20,
    storm: 100_000,
    commands: 5000,
    command_rounds: 5,
    partition_messages: 1_000_000,
    shard_kills: 9,
    whole_sizes: true,
    size_runs: 5,
};
const QUICK: Rounds = Rounds {
    kills: 2,
    tick_kills: 5,
    pauses: 1,
    failovers: 2,
    messages: 50,
    idle_nodes: 10,
    seconds: 2,
    crowd: 50,
    crowd_kills: 2,
    whole_crowd: false,
    backlog: 100_000,
    groups: 20,
    growth: 1,
    bursts: 2,
    storm: 2_000,
    commands: 200,
    command_rounds: 1,
    partition_messages: 20_000,
    shard_kills: 3,
    whole_sizes: false,
    size_runs: 1,
};

type Experiment = fn(&Path, Rounds, &mut Report) -> Result<()>;

const EXPERIMENTS: [(&str, Experiment); 17] = [
    ("kill", takeover::at_full_speed),
    ("beat", takeover::on_the_beat),
    ("ticks", ticks::around_kills),
    ("pause", takeover::of_a_paused_generator),
    ("worker-kill", takeover::of_a_dead_worker),
    ("worker-pause", takeover::of_a_paused_worker),
    ("idle", idle::cost),
    ("wake", wake::cost),
    ("speed", idle::full_speed),
    ("thousand", thousand::nodes),
    ("snapshot", snapshot::cost),
    ("backlog", backlog::cost),
    ("growth", growth::cost),
    ("work", work::of_a_millisecond),
    ("lanes", lanes::of_slow_handlers),
    ("exec", exec::beside_xargs),
    ("push", push::beside_its_client),
];

/// The figures of this group have its name in front of theirs.
const PARTITIONS: &str = "partitions";

type OnServers = fn(&Path, Rounds, &Choice, &mut Report) -> Result<()>;

/// What is measured on each of several servers.
const ON_SERVERS: [(&str, OnServers); 12] = [
    ("failover", failover::of_a_master),
    ("latency", latency::publish_to_handler),
    ("bursts", bursts::at_an_idle_fleet),
    ("retries", retries::of_many_messages),
    ("durability", durability::at_full_speed),
    ("partitions-cost", partitions::per_message),
    ("partitions-idle", partitions::of_many_nodes),
    ("partitions-crowd", partitions::of_a_thousand_nodes),
    ("partitions-latency", partitions::publish_to_handler),
    ("partitions-failover", partitions::of_a_shard),
    ("partitions-ceiling", partitions::of_one_generator),
    (SIZES, sizes::of_texts),
];

/// It takes half an hour: a whole run leaves it out.
const SIZES: &str = "sizes";

fn main() -> ExitCode {
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            errln!("figures: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn measure() -> Result<()> {
    let args = std::env::args().skip(1);
    let (flags, wanted): (Vec<_>, Vec<_>) = args.partition(|arg| arg.starts_with("--"));
    let mut quick = false;
    let mut choice = Choice::default();
    for flag in flags {
        match flag.as_str() {
            "--quick" => quick = true,
            flag => choice.take(flag)?,
        }
    }
    let on_servers = ON_SERVERS.map(|(name, _)| name);
    let names: Vec<&str> = EXPERIMENTS
        .iter()
        .map(|(name, _)| *name)
        .chain(on_servers)
        .collect();
    let is_known = |arg: &String| names.iter().any(|name| is_named(name, arg));
    if let Some(unknown) = wanted.iter().find(|arg| !is_known(arg)) {
        bail!("unknown figure {unknown:?}; there are {}", names.join(", "));
    }
    let is_wanted = |name: &str| match wanted.is_empty() {
        true => quick || name != SIZES,
        false => wanted.iter().any(|arg| is_named(name, arg)),
    };
    let rounds = if quick { QUICK } else { FULL };
    let program = baton_figures::program()?;
    let mut report = Report::new(quick);
    for (name, experiment) in EXPERIMENTS {
        if is_wanted(name) {
            experiment(&program, rounds, &mut report)?;
        }
    }
    for (name, experiment) in ON_SERVERS {
        if is_wanted(name) {
            experiment(&program, rounds, &choice, &mut report)?;
        }
    }
    report.finish()
}

/// Whether a word of the command line names this figure, or the group that it is in.
fn is_named(figure: &str, word: &str) -> bool {
    figure == word || word == PARTITIONS && figure.starts_with(PARTITIONS)
}
