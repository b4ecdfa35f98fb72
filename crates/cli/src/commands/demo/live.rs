//! The demo in a terminal: the live view over a fleet of real processes, and keys that kill,
//! pause and start them.

mod get_errors;
mod key_bindings;
mod nodes;
mod notice_board;
mod operator;
mod summary;

use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use baton::inspect::{Limits, Snapshot, Watch};
use baton::{FleetName, Target};
use signal_hook::consts::SIGHUP;
use signal_hook::iterator::Signals;

use crate::shutdown::{Cause, Shutdown};
use crate::{client, runtime, stdout};
use key_bindings::KeyBindings;
use notice_board::NoticeBoard;
use operator::Operator;

/// How often the fleet is read.
const EVERY: Duration = Duration::from_millis(250);
/// Max orders that wait for the operator.
const MAX_ORDERS: usize = 16;
/// Max wait for the last snapshot.
const READ_TIMEOUT: Duration = Duration::from_secs(2);

/// The help's text about the keys.
pub(super) fn help() -> String {
    let mut help =
        "In a terminal: a live view of the fleet, with keys beside the view's own:\n".to_owned();
    for (key, does) in key_bindings::HELP {
        // Writing to a string cannot fail.
        let _ = writeln!(help, "  {key}  {does}");
    }
    help + "  q  quit: every process and every file is gone then\n\n\
            Elsewhere: about 20 s of a fleet that is hurt, told line by line."
}

/// Runs the view until the user quits or a signal comes, then prints a summary.
pub(super) fn run(shutdown: &Shutdown, program: PathBuf) -> Result<ExitCode> {
    request_on_hangup(shutdown).context("cannot listen for signals")?;
    // A restarted server reads a small file quickly.
    let server = super::server()
        .config("auto-aof-rewrite-min-size", "16mb")
        .start()?;
    let fleet = FleetName::new("default")?;
    let target = Target::parse(&server.url())?;
    let board = Arc::new(NoticeBoard::default());
    let (left, operator) = runtime::block_on(async {
        let watch = Watch::start(target.clone(), fleet.clone(), EVERY, Limits::default());
        let operator = Operator::new(program, server, watch.views(), Arc::clone(&board));
        let (orders, received) = mpsc::sync_channel(MAX_ORDERS);
        let operator = OperatorThread::start(Arc::clone(&board), move || operator.run(&received))?;
        let place = format!("fleet {fleet} on {target}");
        let keys = KeyBindings { orders, board };
        let left = tokio::select! {
            left = baton_top::run(watch, &place, Some(Box::new(keys))) => left,
            _ = shutdown.requested() => Ok(()),
        };
        Ok((left, operator))
    })?;
    let summary = end(operator, &target, &fleet);
    if let Some(cause) = shutdown.cause() {
        // If the terminal is gone, so is the reader of the summary.
        let _ = stdout::print(summary?.as_bytes());
        return Ok(cause.exit_code());
    }
    left.context("cannot use this terminal")?;
    stdout::print(summary?.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Requests a shutdown when the terminal closes. If SIGHUP killed the demo, its nodes would
/// search their server for a while.
fn request_on_hangup(shutdown: &Shutdown) -> io::Result<()> {
    let mut signals = Signals::new([SIGHUP])?;
    let shutdown = shutdown.clone();
    let wait = move || {
        if let Some(signal) = signals.forever().next() {
            shutdown.request(Cause::Signal(signal));
        }
    };
    thread::Builder::new()
        .name("hangup".to_owned())
        .spawn(wait)?;
    Ok(())
}

/// The thread of the operator. Dropping it ends the thread and the fleet, also if the view panics.
struct OperatorThread {
    board: Arc<NoticeBoard>,
    thread: Option<JoinHandle<Operator>>,
}

impl OperatorThread {
    fn start(
        board: Arc<NoticeBoard>,
        run: impl FnOnce() -> Operator + Send + 'static,
    ) -> io::Result<Self> {
        let thread = thread::Builder::new()
            .name("operator".to_owned())
            .spawn(run)?;
        Ok(Self {
            board,
            thread: Some(thread),
        })
    }

    /// Ends the thread. The fleet lives until the operator is dropped.
    fn join(&mut self) -> Option<Operator> {
        self.board.leave();
        self.thread.take()?.join().ok()
    }
}

impl Drop for OperatorThread {
    fn drop(&mut self) {
        self.join();
    }
}

/// Reads the books, then ends the fleet. The fleet still runs while it reads, and the books
/// balance all the same.
fn end(mut operator: OperatorThread, target: &Target, fleet: &FleetName) -> Result<String> {
    let operator = operator.join();
    let mut operator = operator.context("the fleet's operator panicked")?;
    let snapshot = runtime::block_on(async {
        let read = async {
            let reader = client::reader(target, fleet).await?;
            Ok(reader.snapshot().await?)
        };
        let read: Result<Result<Snapshot>, _> = tokio::time::timeout(READ_TIMEOUT, read).await;
        read.context("no answer")?
    })
    .context("cannot read the books at the end")?;
    operator.summary().count(&snapshot);
    let summary = operator.summary().text(&snapshot);
    drop(operator);
    ensure!(snapshot.balanced, "{summary}");
    Ok(summary)
}
