//! `baton top`: the fleet as it is, live in the terminal.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use baton::inspect::{Limits, Watch};

use crate::args::ConnectionArgs;
use crate::stop::{Cause, Stop, exit_code};
use crate::{connect, runtime, terminal};

/// How often the fleet is read.
const EVERY: Duration = Duration::from_secs(1);

/// Shows the fleet until somebody leaves.
pub(crate) fn run(connection: &ConnectionArgs) -> anyhow::Result<ExitCode> {
    if !terminal::is_interactive() {
        let which = match terminal::is_dumb() {
            true => "a terminal with a screen, and TERM is dumb",
            false => "a terminal",
        };
        bail!("`baton top` needs {which}; `baton status --watch` does not");
    }
    let target = connect::for_command(connection)?;
    let place = format!("fleet {} on {target}", connection.fleet);
    let limits = Limits::default();
    let stop = Stop::on_signals().context("cannot listen for signals")?;
    runtime::block_on(async {
        connect::refuse_at_once(connection, &target).await?;
        let watch = Watch::start(target, connection.fleet.clone(), EVERY, limits);
        tokio::select! {
            shown = baton_top::run(watch, &place, None) => {
                shown.context("cannot use the terminal")?;
                Ok(ExitCode::SUCCESS)
            }
            cause = stop.asked() => Ok(match cause {
                Cause::Signal(signal) => ExitCode::from(exit_code(signal)),
                Cause::OutputClosed => ExitCode::FAILURE,
            }),
        }
    })
}
