//! `baton demo`: a fleet of real processes on a private server. In a terminal the user kills and
//! pauses them by keys; elsewhere the demo does it and narrates.

mod live;
mod narrator;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use baton_processes::Fleet;
use baton_server::{Fsync, PrivateServer, PrivateServerBuilder};

use crate::shutdown::Shutdown;
use crate::{runtime, terminal};
use narrator::Narrator;

/// Flags of the demo: it has none.
#[derive(clap::Args, Debug)]
#[command(after_help = live::help())]
pub(crate) struct DemoArgs {}

/// How many nodes the demo starts with.
const COPIES: usize = 5;
/// How many messages the fleet of the narrated demo publishes, and how fast.
const MESSAGES: u64 = 170;
const INTERVAL: Duration = Duration::from_millis(100);
/// How long a worker pretends to handle a message: long enough to kill it meanwhile.
const WORK: Duration = Duration::from_millis(150);

/// Runs the demo. It leaves no process and no file behind, also on Ctrl-C.
pub(crate) fn run(_args: &DemoArgs) -> anyhow::Result<ExitCode> {
    let shutdown = Shutdown::on_signals()?;
    let program = std::env::current_exe().context("cannot find this program")?;
    match terminal::is_interactive() {
        true => live::run(&shutdown, program),
        false => narrate(&shutdown, program),
    }
}

/// The server of a demo. Its socket is in a folder that no other user can enter.
fn server() -> PrivateServerBuilder {
    PrivateServer::builder()
        .appendonly(Fsync::EverySec)
        .unix_socket()
}

fn narrate(shutdown: &Shutdown, program: PathBuf) -> anyhow::Result<ExitCode> {
    let server = server().start()?;
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
    let requests = shutdown.clone();
    std::thread::spawn(move || {
        let requested = runtime::block_on(async { Ok(requests.requested().await) });
        if requested.is_ok() {
            interrupt.interrupt();
        }
    });
    match (
        Narrator::new(program, server, fleet).run(),
        shutdown.cause(),
    ) {
        (Ok(()), _) => Ok(ExitCode::SUCCESS),
        (Err(_), Some(cause)) => Ok(cause.exit_code()),
        (Err(error), None) => Err(error),
    }
}
