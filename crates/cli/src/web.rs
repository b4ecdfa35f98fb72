//! `baton web`: the fleet on a page, and metrics and health beside it.

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use baton::inspect::{Limits, Watch};
use baton_web::{Listener, Options};

use crate::args::{ConnectionArgs, WebArgs};
use crate::output::Output;
use crate::stop::Stop;
use crate::usage::Usage;
use crate::{connect, runtime};

/// How often the fleet is read.
pub(crate) const EVERY: Duration = Duration::from_secs(1);
/// Fewer characters can be guessed.
const TOKEN_CHARS: usize = 16;

/// Serves the page until it is asked to stop.
pub(crate) fn run(connection: &ConnectionArgs, args: &WebArgs) -> anyhow::Result<ExitCode> {
    let token = match &args.token_file {
        Some(file) => Some(token(file)?),
        None if args.http.ip().is_loopback() => None,
        None => {
            return Err(Usage(format!(
                "--http {}: every machine that reaches this address could read all messages; \
                 protect the page with --token-file",
                args.http
            ))
            .into());
        }
    };
    let target = connect::for_command(connection)?;
    let place = format!("fleet {} on {target}", connection.fleet);
    let limits = Limits::default();
    let stop = Stop::on_signals().context("cannot listen for signals")?;
    runtime::block_on(async {
        connect::refuse_at_once(connection, &target).await?;
        let listener =
            Listener::bind(args.http).with_context(|| format!("cannot listen on {}", args.http))?;
        let may = match args.allow_actions {
            true => "failed messages can be taken, retried and dropped",
            false => "read-only",
        };
        let line = format!(
            "http://{}/ shows {place} ({may}; Ctrl-C ends it)\n",
            listener.addr()?
        );
        crate::print(&Output::stdout(), line.as_bytes())?;
        let options = Options {
            token,
            allow_actions: args.allow_actions,
            hosts: args.allow_host.clone(),
            public_urls: args.public_url.clone(),
        };
        let start = match args.allow_actions {
            true => Watch::start_to_act,
            false => Watch::start,
        };
        let watch = start(target, connection.fleet.clone(), EVERY, limits);
        tokio::select! {
            served = listener.page(watch, options) => served.context("cannot serve the page")?,
            _ = stop.asked() => {}
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// The token of a file.
fn token(file: &Path) -> anyhow::Result<String> {
    let text = fs::read_to_string(file)
        .with_context(|| format!("cannot read the token file {}", file.display()))?;
    let token = text.trim_end_matches(['\r', '\n']);
    let plain = token.chars().all(|c| c.is_ascii_graphic());
    if token.len() < TOKEN_CHARS || !plain {
        return Err(Usage(format!(
            "--token-file {}: a token needs at least {TOKEN_CHARS} letters, digits or signs, and no \
             spaces; `openssl rand -hex 32` makes one",
            file.display()
        ))
        .into());
    }
    Ok(token.to_owned())
}
