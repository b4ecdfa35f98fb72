//! Measures what README promises about time: takeover, recovery, latency, idle cost, speed.
//!
//! `make figures` runs it all (about five minutes); `--quick` takes a few rounds of each, and
//! then only completeness counts, not the times. Every figure comes from real processes and a
//! private server on this machine; compare figures within one run only.

mod idle;
mod latency;
mod report;
mod takeover;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use baton_server::PrivateServer;

use report::Report;

/// How many rounds of each experiment.
#[derive(Clone, Copy)]
struct Rounds {
    kills: usize,
    pauses: usize,
    messages: usize,
    idle_nodes: usize,
    seconds: u64,
}

const FULL: Rounds = Rounds {
    kills: 30,
    pauses: 5,
    messages: 1000,
    idle_nodes: 100,
    seconds: 10,
};
const QUICK: Rounds = Rounds {
    kills: 2,
    pauses: 1,
    messages: 50,
    idle_nodes: 10,
    seconds: 2,
};

fn main() -> Result<()> {
    let quick = match std::env::args().nth(1).as_deref() {
        None => false,
        Some("--quick") => true,
        Some(other) => bail!("unknown argument {other:?}; there is only --quick"),
    };
    let rounds = if quick { QUICK } else { FULL };
    let program = program()?;
    let mut report = Report::new(quick);
    takeover::at_full_speed(&program, rounds, &mut report)?;
    takeover::on_the_beat(&program, rounds, &mut report)?;
    takeover::of_a_paused_generator(&program, rounds, &mut report)?;
    takeover::of_a_dead_worker(&program, rounds, &mut report)?;
    takeover::of_a_paused_worker(&program, rounds, &mut report)?;
    latency::publish_to_handler(rounds, &mut report)?;
    idle::cost(&program, rounds, &mut report)?;
    idle::full_speed(&program, rounds, &mut report)?;
    report.finish()
}

/// The `baton` that was built beside this program.
fn program() -> Result<PathBuf> {
    let beside = std::env::current_exe()?.with_file_name("baton");
    if !beside.exists() {
        bail!(
            "{} is missing: build the whole workspace first",
            beside.display()
        );
    }
    Ok(beside)
}

/// A private server without persistence.
fn server() -> Result<PrivateServer> {
    PrivateServer::builder()
        .start()
        .context("cannot start a private server")
}
