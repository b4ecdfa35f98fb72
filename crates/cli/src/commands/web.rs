//! `baton web`: the fleet on a page, with metrics and health beside it.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use baton_web::{Listener, Options};

use crate::args::{ConnectionArgs, WebArgs};
use crate::shutdown::Shutdown;
use crate::usage_error::UsageError;
use crate::{runtime, small_file, stdout, target, watch};

/// Min characters of a token. An attacker can guess a shorter one.
const MIN_TOKEN_CHARS: usize = 16;

/// Serves the page until a shutdown is requested.
pub(crate) fn run(connection: &ConnectionArgs, args: &WebArgs) -> anyhow::Result<ExitCode> {
    let token = token(args)?;
    let target = target::for_command(connection)?;
    let place = format!("fleet {} on {target}", connection.fleet);
    let shutdown = Shutdown::on_signals()?;
    runtime::block_on(async {
        let watch = match args.allow_actions {
            true => watch::start_to_act(target, &connection.fleet).await?,
            false => watch::start(target, &connection.fleet).await?,
        };
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
        stdout::print(line.as_bytes())?;
        let options = Options {
            token,
            allow_actions: args.allow_actions,
            hosts: args.allow_host.clone(),
            public_urls: args.public_url.clone(),
        };
        tokio::select! {
            served = listener.page(watch, options) => served.context("cannot serve the page")?,
            _ = shutdown.requested() => {}
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// The token that visitors must know. Only a page for this machine alone may do without.
fn token(args: &WebArgs) -> anyhow::Result<Option<String>> {
    match &args.token_file {
        Some(file) => Ok(Some(read_token(file)?)),
        None if args.http.ip().is_loopback() => Ok(None),
        None => Err(UsageError(format!(
            "--http {}: every machine that reaches this address could read all messages; protect the \
             page with --token-file",
            args.http
        ))
        .into()),
    }
}

fn read_token(file: &Path) -> anyhow::Result<String> {
    let text = small_file::read_text(file)
        .with_context(|| format!("cannot read the token file {}", file.display()))?;
    let token = text.trim_end_matches(['\r', '\n']);
    let plain = token.chars().all(|c| c.is_ascii_graphic());
    if token.len() < MIN_TOKEN_CHARS || !plain {
        return Err(UsageError(format!(
            "--token-file {}: a token needs at least {MIN_TOKEN_CHARS} letters, digits or signs, \
             and no spaces; `openssl rand -hex 32` makes one",
            file.display()
        ))
        .into());
    }
    Ok(token.to_owned())
}
