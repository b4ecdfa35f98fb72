//! How long the message of a worker that was killed waits until another runs it.

use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use baton_figures::{SLOW_WORK, TIMEOUT, server, slow_fleet};
use baton_print::errln;
use baton_processes::{Fleet, recovery_time};
use baton_server::PrivateServer;

use crate::peer::{Peer, Place};
use crate::process::{self, Heard, Program};
use crate::result::{Recovery, Row};
use crate::speed::{SIZE, wait_for, wait_word};

/// The worker that is killed, the one that is to take over, and who gives them the message.
const FIRST: usize = 0;
const SECOND: usize = 1;
const PRODUCER: usize = 2;

/// A peer whose first worker was killed.
struct Waiting {
    /// Kept for as long as it is needed.
    _server: PrivateServer,
    _second: Program,
    ear: Receiver<Heard>,
    killed: Instant,
}

/// Kills a worker of each peer, one peer after the other; then all wait at the same time.
pub(crate) fn of_peers(rows: &mut [Row], place: &Place, patience: Duration) {
    let mut waiting = Vec::new();
    for row in rows.iter_mut().filter(|row| row.runs_on()) {
        errln!("peers: {}, kill -9 of a worker", row.peer.name);
        match kill(row.peer, place) {
            Ok(killed) => waiting.push((row, killed)),
            Err(error) => row.fail(&error.context("recovery")),
        }
    }
    for (row, killed) in waiting {
        match killed.wait(patience) {
            Ok(recovery) => {
                errln!("peers: {} {recovery}", row.peer.name);
                row.recovery = Some(recovery);
            }
            Err(error) => row.fail(&error.context("recovery")),
        }
    }
}

/// Lets one worker begin a message and kills it when a second one listens.
fn kill(peer: &Peer, place: &Place) -> Result<Waiting> {
    let server = server()?;
    let (url, log) = (server.url(), place.log(peer));
    let (sender, ear) = channel();
    let start = |who, args: &[&str]| {
        let mut command = peer.command(place);
        Program::start(command.args(args), &log, who, &sender)
    };
    let mut first = start(FIRST, &["work", &url, "hold"])?;
    wait_word(&ear, FIRST, "ready")?;
    let mut producer = start(PRODUCER, &["enqueue", &url, "1", SIZE])?;
    wait_word(&ear, FIRST, "begun")?;
    ensure!(producer.wait()?.success(), "the producer failed");
    let second = start(SECOND, &["work", &url, "hold"])?;
    wait_word(&ear, SECOND, "ready")?;
    let early = ear
        .try_iter()
        .any(|heard| heard.line.as_deref() == Some("begun"));
    ensure!(!early, "the message ran twice before anybody was killed");
    let killed = Instant::now();
    first.kill9();
    Ok(Waiting {
        _server: server,
        _second: second,
        ear,
        killed,
    })
}

impl Waiting {
    fn wait(self, patience: Duration) -> Result<Recovery> {
        let begun = |heard: &Heard| heard.who == SECOND && heard.line.as_deref() == Some("begun");
        let deadline = self.killed + patience;
        Ok(match wait_for(&self.ear, &[SECOND], deadline, begun)? {
            // What was heard while others were waited for may have been too late.
            Some(heard) if heard.at <= deadline => Recovery::After(heard.at - self.killed),
            _ => Recovery::NotWithin(patience),
        })
    }
}

/// Kills workers of ours with a message in hand; the median of all kills.
pub(crate) fn of_ours(program: &Path, kills: usize) -> Result<Duration> {
    errln!("peers: ours, kill -9 of {kills} workers");
    let server = server()?;
    let mut fleet = slow_fleet(program, &server)?;
    let mut adopted = adopt(&fleet);
    let mut times = Vec::new();
    for _ in 0..kills {
        let kill = |fleet: &mut Fleet, copy| fleet.kill9(copy);
        times.push(recovery_time(&mut fleet, &server.url(), SLOW_WORK, kill)?);
        fleet.start_many(1, TIMEOUT)?;
        adopted.into_iter().for_each(process::release);
        adopted = adopt(&fleet);
    }
    drop(fleet);
    adopted.into_iter().for_each(process::release);
    times.sort_unstable();
    times.get(times.len() / 2).copied().context("no kills")
}

/// Lets the living copies end with this process's signals.
fn adopt(fleet: &Fleet) -> Vec<u32> {
    let pids: Vec<u32> = fleet
        .alive()
        .into_iter()
        .map(|copy| fleet.pid(copy))
        .collect();
    pids.iter().copied().for_each(process::adopt);
    pids
}
