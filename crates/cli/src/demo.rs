//! `baton demo`: a fleet of real processes on a private server, hurt and counted. In a terminal
//! the user does the hurting; elsewhere the demo does it, and tells.

mod live;
mod story;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use baton_processes::Fleet;
use baton_server::{Fsync, PrivateServer};

use crate::stop::{Cause, Stop, exit_code};
use crate::terminal;
use story::Story;

/// Flags of the demo: it has none.
#[derive(clap::Args, Debug)]
#[command(after_help = live::help())]
pub(crate) struct DemoArgs {}

/// How many copies are started.
const COPIES: usize = 5;
/// How many messages the narrated demo's fleet makes, and how fast.
const MESSAGES: u64 = 170;
const INTERVAL: Duration = Duration::from_millis(100);
/// How long a worker pretends to handle one: long enough to be killed meanwhile.
const WORK: Duration = Duration::from_millis(150);

/// Shows a fleet at work on a private server. Leaves nothing behind, also on Ctrl-C.
pub(crate) fn run(_args: &DemoArgs) -> anyhow::Result<ExitCode> {
    let stop = Stop::on_signals().context("cannot listen to signals")?;
    let program = std::env::current_exe().context("cannot find this program")?;
    match terminal::is_interactive() {
        true => live::run(&stop, program),
        false => tell(&stop, program),
    }
}

/// The narrated run.
fn tell(stop: &Stop, program: PathBuf) -> anyhow::Result<ExitCode> {
    let server = PrivateServer::builder()
        .appendonly(Fsync::EverySec)
        // In a folder that no other user can enter.
        .unix_socket()
        .start()?;
    let url = server.url();
    let fleet = Fleet::new(
        &program,
        &[
            "--redis",
            &url,
            "--messages",
            &MESSAGES.to_string(),
            "--interval",
            &humantime::format_duration(INTERVAL).to_string(),
            "--work",
            &humantime::format_duration(WORK).to_string(),
        ],
    );
    let interrupt = fleet.interrupt();
    let heard = stop.clone();
    std::thread::spawn(move || {
        let asked = crate::runtime::block_on(async { Ok(heard.asked().await) });
        if asked.is_ok() {
            interrupt.interrupt();
        }
    });
    match Story::new(program, server, fleet).tell() {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => match stop.cause() {
            Some(Cause::Signal(signal)) => Ok(ExitCode::from(exit_code(signal))),
            _ => Err(error),
        },
    }
}
