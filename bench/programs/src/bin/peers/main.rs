//! Measures job queues that run on Redis beside Baton, on this machine: speed, what it costs
//! Redis, memory, and how long a message of a killed worker waits.
//!
//! `bench/peers/setup` installs the peers, `bench/peers/README.md` has the rules. `--quick` takes
//! a short look, names take some peers only; both print the table. A whole run writes it into
//! docs/performance.md and draws docs/peers.svg.

mod chart;
mod findings;
mod peer;
mod process;
mod recovery;
mod report;
mod result;
mod speed;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use baton::Target;
use baton_bench::ServerProbe;
use baton_print::{errln, outln};

use peer::{PEERS, Peer, Place};
use result::Row;

/// How much of everything.
#[derive(Clone, Copy)]
struct Effort {
    runs: usize,
    /// Messages for every peer, instead of what its class says.
    messages: Option<u64>,
    /// Longest wait for a killed worker's message.
    patience: Duration,
    /// Kills of a worker of ours.
    kills: usize,
}

const FULL: Effort = Effort {
    runs: 3,
    messages: None,
    patience: Duration::from_secs(150),
    kills: 5,
};
const QUICK: Effort = Effort {
    runs: 1,
    messages: Some(2000),
    patience: Duration::from_secs(5),
    kills: 1,
};

fn main() -> ExitCode {
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            errln!("peers: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn measure() -> Result<()> {
    let mut wanted: Vec<String> = std::env::args().skip(1).collect();
    let quick = wanted.iter().any(|arg| arg == "--quick");
    wanted.retain(|arg| arg != "--quick");
    let effort = if quick { QUICK } else { FULL };
    let peers = select(&wanted)?;
    let whole = peers.len() == PEERS.len() && !quick;

    let place = Place::find()?;
    if whole {
        report::SECTION.check()?;
    }
    process::end_with_signals()?;
    let (program, server) = (baton_figures::program()?, server_version()?);
    let mut rows: Vec<Row> = peers
        .into_iter()
        .map(|peer| Row::new(peer, &place, &server, effort))
        .collect();
    for row in &rows {
        // Complaints of an earlier time would be taken for today's.
        let _ = std::fs::remove_file(place.log(row.peer));
        if let Some(obstacle) = &row.obstacle {
            errln!("peers: {}: {obstacle}", row.peer.name);
        }
    }
    for round in 1..=effort.runs {
        for row in rows.iter_mut().filter(|row| row.runs_on()) {
            run(
                row,
                &program,
                &place,
                &format!("{round} of {}", effort.runs),
            );
        }
    }
    recovery::of_peers(&mut rows, &place, effort.patience);
    let ours = recovery::of_ours(&program, effort.kills)?;

    let table = report::table(&rows, ours, &server, effort.runs)?;
    outln!("{table}");
    if whole {
        report::write(&table)?;
        report::SECTION.write_picture(&chart::draw(&rows))?;
        errln!("peers: wrote docs/performance.md and docs/peers.svg");
    }
    match rows.iter().filter(|row| row.failure.is_some()).count() {
        0 => Ok(()),
        failed => bail!("{failed} of {} peers failed", rows.len()),
    }
}

/// The peers of these names; all if there are none.
fn select(wanted: &[String]) -> Result<Vec<&'static Peer>> {
    let names = PEERS.each_ref().map(|peer| peer.name);
    if let Some(unknown) = wanted.iter().find(|name| !names.contains(&name.as_str())) {
        bail!(
            "unknown peer {unknown:?}; there are --quick and {}",
            names.join(", ")
        );
    }
    let chosen = |peer: &&Peer| wanted.is_empty() || wanted.iter().any(|name| name == peer.name);
    Ok(PEERS.iter().filter(chosen).collect())
}

/// One run of a peer, and right after it one of ours.
fn run(row: &mut Row, program: &Path, place: &Place, round: &str) {
    let name = row.peer.name;
    errln!("peers: {name}, {} messages, run {round}", row.messages);
    match speed::of_peer(row.peer, place, row.messages) {
        Ok(speed) => row.theirs.push(speed),
        Err(error) => return row.fail(&error),
    }
    match speed::of_ours(program, row.messages) {
        Ok(speed) => row.ours.push(speed),
        Err(error) => return row.fail(&error.context("ours beside it")),
    }
    if let (Some(theirs), Some(ours)) = (row.theirs.last(), row.ours.last()) {
        errln!(
            "peers: {name} {} /s, ours {} /s",
            report::number(theirs.rate),
            report::number(ours.rate)
        );
    }
}

/// What private servers are, by name and version.
fn server_version() -> Result<String> {
    let server = baton_figures::server()?;
    ServerProbe::open(&Target::parse(&server.url())?)?.version()
}
