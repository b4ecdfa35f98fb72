//! The `baton` program: parses the command line, resolves which Redis to use, runs a command.
//! A library, so that fuzz targets can reach what reads the command line.

mod args;
mod bench;
#[cfg(feature = "chaos")]
mod chaos;
mod clean;
mod compat;
mod connect;
mod demo;
mod errors;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
mod handler;
mod hints;
mod json;
mod log;
mod man;
mod output;
mod record;
mod run;
mod runtime;
mod server;
mod status;
mod stop;
mod terminal;
mod top;
mod usage;
mod web;

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;

use args::{Args, Command};
use baton_print::{errln, errln_within};
use baton_protocol::text::is_unsafe;
use output::Output;
use usage::Usage;

/// How long the last words of a node wait for their reader.
const STDERR_TIMEOUT: Duration = Duration::from_secs(1);

/// What a server means that answers NOAUTH.
const WANTS_PASSWORD: &str = "NOAUTH, the server wants a password: --password-file or REDIS_PASSWORD gives \
     it. If another user's `baton run` started this server, it lets in that user alone: name a \
     Redis of your own with --redis";

/// The whole program, from its command line to its exit code.
pub fn main() -> ExitCode {
    let args = match args::parse(std::env::args_os().collect()) {
        Ok(args) => args,
        Err(code) => return code,
    };
    command(&args).unwrap_or_else(|error| {
        let text = format!("baton: {}", words(&error));
        match args.command {
            // A node must end also where its log was piped and the reader stalls.
            Command::Run(_) => errln_within(&text, STDERR_TIMEOUT),
            _ => errln!("{text}"),
        }
        match error.downcast_ref::<Usage>() {
            Some(_) => ExitCode::from(2),
            None => ExitCode::FAILURE,
        }
    })
}

fn command(args: &Args) -> anyhow::Result<ExitCode> {
    #[cfg(feature = "chaos")]
    baton_protocol::crash::check().map_err(Usage)?;
    let connection = &args.connection;
    match &args.command {
        Command::Run(args) => run::run(connection, args),
        Command::GetErrors(format) => errors::take(connection, format),
        Command::Errors(format) => errors::look(connection, format),
        Command::Status(args) => status::run(connection, args),
        Command::Top => top::run(connection),
        Command::Web(args) => web::run(connection, args),
        Command::Clean => clean::run(connection),
        Command::Server(command) => server::run(connection, command),
        Command::Demo(args) => demo::run(args),
        Command::Bench(args) => bench::run(connection, args),
        Command::BenchNode(args) => bench::node::run(connection, args),
        Command::BenchFloor(args) => bench::floor::run(connection, args),
        Command::Completions { shell } => {
            print(&Output::stdout(), &man::completions(*shell))?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Man => {
            print(&Output::stdout(), &man::page()?)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Prints something that is not lost if nobody reads it: a reader that is gone is no failure.
fn print(output: &Output, bytes: &[u8]) -> anyhow::Result<()> {
    match output.write(bytes) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to stdout")
        }
        _ => Ok(()),
    }
}

/// The error and its causes in one line, safe to print.
fn words(error: &anyhow::Error) -> String {
    let mut words = String::new();
    for cause in error.chain() {
        let cause = match cause.downcast_ref::<baton::Error>() {
            Some(error) => hints::words(error),
            None => cause.to_string(),
        };
        // Some errors tell their cause themselves.
        if words.is_empty() {
            words = cause;
        } else if !words.contains(&cause) {
            words = format!("{words}: {cause}");
        }
    }
    let words = match words.split_once("NOAUTH ") {
        // The server's words are about its protocol, not about what to do.
        Some((place, _)) => format!("{place}{WANTS_PASSWORD}"),
        None => words,
    };
    let words = words.replace(|c: char| is_unsafe(c) && c != '\n', "?");
    // The end of a server's log has lines of its own.
    match error.downcast_ref::<baton_server::Error>() {
        Some(_) => words,
        None => words.split_whitespace().collect::<Vec<_>>().join(" "),
    }
}
