//! `baton top`: the fleet live in the terminal.

use std::process::ExitCode;

use anyhow::{Context, bail};

use crate::args::ConnectionArgs;
use crate::shutdown::Shutdown;
use crate::{runtime, target, terminal, watch};

/// Draws the fleet until the user leaves.
pub(crate) fn run(connection: &ConnectionArgs) -> anyhow::Result<ExitCode> {
    if !terminal::is_interactive() {
        let which = match terminal::is_dumb() {
            true => "a terminal with a screen, and TERM is dumb",
            false => "a terminal",
        };
        bail!("`baton top` needs {which}; `baton status --watch` does not");
    }
    let target = target::for_command(connection)?;
    let place = format!("fleet {} on {target}", connection.fleet);
    let shutdown = Shutdown::on_signals()?;
    runtime::block_on(async {
        let watch = watch::start(target, &connection.fleet).await?;
        tokio::select! {
            left = baton_top::run(watch, &place, None) => {
                left.context("cannot use the terminal")?;
                Ok(ExitCode::SUCCESS)
            }
            cause = shutdown.requested() => Ok(cause.exit_code()),
        }
    })
}
