//! Measures what README promises about time and size: takeover, recovery, latency, idle cost,
//! wake-up, speed, many nodes, long queues, looking on.
//!
//! `make figures` runs it all (about six minutes). `--quick` takes a few rounds of each, and
//! then only completeness counts, not the times; names take some figures only. Every figure
//! comes from real processes and a private server on this machine; compare figures within one
//! run only.

mod backlog;
mod growth;
mod idle;
mod lanes;
mod latency;
mod line;
mod report;
mod snapshot;
mod takeover;
mod thousand;
mod wake;
mod work;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use baton_print::errln;

use report::Report;

/// How many rounds of each experiment.
#[derive(Clone, Copy)]
struct Rounds {
    kills: usize,
    pauses: usize,
    messages: usize,
    idle_nodes: usize,
    seconds: u64,
    crowd: usize,
    crowd_kills: usize,
    backlog: u64,
    groups: usize,
    growth: usize,
}

const FULL: Rounds = Rounds {
    kills: 30,
    pauses: 5,
    messages: 1000,
    idle_nodes: 100,
    seconds: 10,
    crowd: 1000,
    crowd_kills: 10,
    backlog: 10_000_000,
    groups: 1000,
    growth: 15,
};
const QUICK: Rounds = Rounds {
    kills: 2,
    pauses: 1,
    messages: 50,
    idle_nodes: 10,
    seconds: 2,
    crowd: 50,
    crowd_kills: 2,
    backlog: 100_000,
    groups: 20,
    growth: 1,
};

type Experiment = fn(&Path, Rounds, &mut Report) -> Result<()>;

const EXPERIMENTS: [(&str, Experiment); 15] = [
    ("kill", takeover::at_full_speed),
    ("beat", takeover::on_the_beat),
    ("pause", takeover::of_a_paused_generator),
    ("worker-kill", takeover::of_a_dead_worker),
    ("worker-pause", takeover::of_a_paused_worker),
    ("latency", latency::publish_to_handler),
    ("idle", idle::cost),
    ("wake", wake::cost),
    ("speed", idle::full_speed),
    ("thousand", thousand::nodes),
    ("snapshot", snapshot::cost),
    ("backlog", backlog::cost),
    ("growth", growth::cost),
    ("work", work::of_a_millisecond),
    ("lanes", lanes::of_slow_handlers),
];

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
    let mut wanted: Vec<String> = std::env::args().skip(1).collect();
    let quick = wanted.iter().any(|arg| arg == "--quick");
    wanted.retain(|arg| arg != "--quick");
    let names = EXPERIMENTS.map(|(name, _)| name);
    if let Some(unknown) = wanted.iter().find(|arg| !names.contains(&arg.as_str())) {
        bail!(
            "unknown figure {unknown:?}; there are --quick and {}",
            names.join(", ")
        );
    }
    let rounds = if quick { QUICK } else { FULL };
    let program = baton_figures::program()?;
    let mut report = Report::new(quick);
    for (name, experiment) in EXPERIMENTS {
        if wanted.is_empty() || wanted.iter().any(|arg| arg == name) {
            experiment(&program, rounds, &mut report)?;
        }
    }
    report.finish()
}
