//! The demo in a terminal: the live view over a fleet of real processes, and keys that hurt it.

mod crew;
mod errors;
mod hands;
mod keys;
mod tally;

use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use baton::Inspector;
use baton::inspect::{Limits, Watch};
use baton::{FleetName, Target};
use baton_protocol::Store;
use baton_protocol::new_name;
use baton_server::{Fsync, PrivateServer};
use signal_hook::consts::SIGHUP;
use signal_hook::iterator::Signals;

use crate::output::Output;
use crate::runtime;
use crate::stop::{Cause, Stop, exit_code};
use hands::Hands;
use keys::{Board, Keys};

/// How often the fleet is read.
const EVERY: Duration = Duration::from_millis(250);
/// Keys that may wait for their turn.
const ORDERS: usize = 16;
/// Longest wait for the last reading.
const PATIENCE: Duration = Duration::from_secs(2);

/// What the help says about the keys.
pub(super) fn help() -> String {
    let mut help =
        "In a terminal: a live view of the fleet, with keys beside the view's own:\n".to_owned();
    for (key, does) in keys::HELP {
        // Writing to a string cannot fail.
        let _ = writeln!(help, "  {key}  {does}");
    }
    help + "  q  quit: every process and every file is gone then\n\n\
            Elsewhere: about 20 s of a fleet that is hurt, told line by line."
}

/// Opens the view and keeps it until the user quits or a signal comes; then leaves nothing
/// behind but a few lines of what happened.
pub(super) fn run(stop: &Stop, program: PathBuf) -> Result<ExitCode> {
    leave_with_the_terminal(stop).context("cannot listen to signals")?;
    // A small file is read again quickly after a restart.
    let server = PrivateServer::builder()
        .appendonly(Fsync::EverySec)
        .config("auto-aof-rewrite-min-size", "16mb")
        // In a folder that no other user can enter.
        .unix_socket()
        .start()?;
    let fleet = FleetName::new("default")?;
    let target = Target::parse(&server.url())?;
    let board = Arc::new(Board::default());
    let (shown, hired) = runtime::block_on(async {
        let limits = Limits::default();
        let watch = Watch::start(target.clone(), fleet.clone(), EVERY, limits);
        let hands = Hands::new(program, server, watch.views(), Arc::clone(&board));
        let (orders, taken) = mpsc::sync_channel(ORDERS);
        let hired = Hired::new(Arc::clone(&board), move || hands.work(&taken))?;
        let place = format!("fleet {fleet} on {target}");
        let view = baton_top::run(watch, &place, Some(Box::new(Keys { orders, board })));
        let shown = tokio::select! {
            shown = view => shown,
            _ = stop.asked() => Ok(()),
        };
        Ok((shown, hired))
    })?;
    let words = end(hired, &target, &fleet);
    if let Some(Cause::Signal(signal)) = stop.cause() {
        // The terminal may be gone, and then nobody misses the words.
        let _ = Output::stdout().write(words?.as_bytes());
        return Ok(ExitCode::from(exit_code(signal)));
    }
    shown.context("cannot use this terminal")?;
    crate::print(&Output::stdout(), words?.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// A closed terminal is a wish to stop, too: killed by it, the demo would leave nodes that look
/// for their server for a while.
fn leave_with_the_terminal(stop: &Stop) -> io::Result<()> {
    let mut signals = Signals::new([SIGHUP])?;
    let stop = stop.clone();
    let hear = move || {
        if let Some(signal) = signals.forever().next() {
            stop.ask(Cause::Signal(signal));
        }
    };
    thread::Builder::new()
        .name("hangup".to_owned())
        .spawn(hear)?;
    Ok(())
}

/// The thread that owns the fleet. It ends with this, and the fleet with it, also if the view
/// panics.
struct Hired {
    board: Arc<Board>,
    thread: Option<JoinHandle<Hands>>,
}

impl Hired {
    fn new(board: Arc<Board>, work: impl FnOnce() -> Hands + Send + 'static) -> io::Result<Self> {
        let thread = thread::Builder::new()
            .name("orders".to_owned())
            .spawn(work)?;
        Ok(Self {
            board,
            thread: Some(thread),
        })
    }

    /// Ends the thread, but not yet the fleet.
    fn dismiss(&mut self) -> Option<Hands> {
        self.board.leave();
        self.thread.take()?.join().ok()
    }
}

impl Drop for Hired {
    fn drop(&mut self) {
        self.dismiss();
    }
}

/// Reads the books while the fleet still runs, which must not matter to them, then ends it.
fn end(mut hired: Hired, target: &Target, fleet: &FleetName) -> Result<String> {
    let hands = hired.dismiss();
    let mut hands = hands.context("the fleet's owner panicked")?;
    let snapshot = runtime::block_on(async {
        let read = async {
            let store = Store::open(target, fleet, &new_name(), |_| {}).await?;
            Inspector::over(store.clone()).snapshot().await
        };
        let read = tokio::time::timeout(PATIENCE, read).await;
        Ok(read.context("no answer")??)
    })
    .context("cannot read the books at the end")?;
    hands.tally().read(&snapshot);
    let words = hands.tally().words(&snapshot);
    drop(hands);
    ensure!(snapshot.balanced, "{words}");
    Ok(words)
}
