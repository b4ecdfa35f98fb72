//! One process per message, beside `xargs -P` with the same command and the same concurrency.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use baton_processes::{Fleet, Own, wait_status};
use baton_server::PrivateServer;

use crate::Rounds;
use crate::report::{Report, quartiles};

/// A command that does next to nothing: all that is measured is the cost of a process.
const COMMAND: &str = "/bin/true";
/// How many run at once.
const CONCURRENCY: usize = 4;
const TIMEOUT: Duration = Duration::from_secs(120);

/// The rate of one worker as a share of that of xargs, in rounds that follow each other.
pub(crate) fn beside_xargs(program: &Path, rounds: Rounds, report: &mut Report) -> Result<()> {
    let messages = rounds.commands;
    let mut shares = Vec::new();
    let mut rates = Vec::new();
    for _ in 0..rounds.command_rounds {
        let floor = xargs(messages)?;
        let ours = worker(program, messages)?;
        shares.push(ours / floor);
        rates.push(ours);
    }
    let ([low, share, high], [_, rate, _]) = (quartiles(&shares), quartiles(&rates));
    report.add(
        "one process per message ÷ xargs -P 4",
        &format!("{share:.2} ({low:.2} to {high:.2}), {rate:.0} /s"),
        "≥ 0.80",
        share >= 0.8,
    );
    Ok(())
}

/// Commands per second of xargs.
fn xargs(commands: u64) -> Result<f64> {
    let began = Instant::now();
    let mut xargs = Command::new("xargs")
        .args(["-P", &CONCURRENCY.to_string(), "-n", "1", COMMAND])
        .stdin(Stdio::piped())
        .spawn()
        .context("cannot start xargs")?;
    let mut stdin = xargs.stdin.take().context("xargs has no stdin")?;
    for number in 0..commands {
        writeln!(stdin, "{number}")?;
    }
    drop(stdin);
    ensure!(xargs.wait()?.success(), "xargs failed");
    Ok(commands as f64 / began.elapsed().as_secs_f64())
}

/// Messages per second of one worker, from the first that is done. All messages wait already, and the
/// generator has nothing to do any more.
fn worker(program: &Path, messages: u64) -> Result<f64> {
    let server = PrivateServer::builder().start()?;
    let url = server.url();
    let (count, lanes) = (messages.to_string(), CONCURRENCY.to_string());
    let args = [
        "--redis",
        &url,
        "--interval",
        "0",
        "--messages",
        &count,
        "--concurrency",
        &lanes,
    ];
    let mut fleet = Fleet::new(program, &args);
    let command = || Own {
        args: vec!["--".to_owned(), COMMAND.to_owned()],
        ..Own::default()
    };
    fleet.start_with(command())?;
    fleet.wait_generator(TIMEOUT)?;
    wait_status(&url, "default", TIMEOUT, "all messages", |status| {
        status.pending == messages
    })?;
    let mark = fleet.mark();
    fleet.start_with(command())?;
    let mut done = 0;
    let mut began = None;
    let mut at = mark;
    loop {
        let told = fleet.wait_for(at, TIMEOUT, "messages to end", |told| told.is_processed())?;
        // The line may have come behind others.
        at = fleet
            .told_since(at)
            .iter()
            .position(|line| line.is_processed())
            .map_or(at, |place| at + place + 1);
        let ended = told
            .event()
            .messages()
            .map_or(0, |range| range.count() as u64);
        match began {
            None => began = Some((told.at, ended)),
            Some((since, first)) if done + ended == messages => {
                let took = told.at.duration_since(since).as_secs_f64();
                return Ok((messages - first) as f64 / took);
            }
            Some(_) => {}
        }
        done += ended;
    }
}
