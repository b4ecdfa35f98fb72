//! The `baton` program: parse → resolve → run.
//!
//! - `args` parses the command line.
//! - `target` resolves which Redis it means.
//! - `commands` has one file or folder per command, and runs it.
//!
//! It is a library so that fuzz targets can reach the parser and the printers.

mod args;
mod client;
mod commands;
mod error_line;
mod failed_filter;
mod failed_message;
mod failed_walk;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
mod hints;
mod json;
mod log;
mod runtime;
mod service_manager;
mod shutdown;
mod small_file;
mod stdout;
mod target;
mod terminal;
mod usage_error;
mod watch;
mod workload;

use std::process::ExitCode;
use std::sync::Arc;

use args::{Args, Command};
use baton_print::{errln, errln_within};
use error_line::error_line;
use signal_hook::consts::SIGXFSZ;
use usage_error::UsageError;

/// Runs the whole program, from its command line to its exit code.
pub fn main() -> ExitCode {
    survive_full_files();
    // Before the command line and the environment are read: they are its node's.
    if std::env::args_os()
        .nth(1)
        .is_some_and(|word| word == workload::SUPERVISOR)
    {
        return supervise();
    }
    let args = match args::parse(std::env::args_os().collect()) {
        Ok(args) => args,
        Err(code) => return code,
    };
    commands::execute(&args).unwrap_or_else(|error| fail(&args, &error))
}

/// From now on a write beyond the limit on the size of files (`ulimit -f`) fails, as one to a full disk
/// does. Else its signal would kill the program. It is caught and not ignored, because commands of the
/// user would inherit that it is ignored.
fn survive_full_files() {
    // If it cannot be caught, the program runs as any other does.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
}

/// Runs the supervisor of a node's commands in this process.
fn supervise() -> ExitCode {
    match baton_exec::supervise() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            errln!("baton: the supervisor of commands failed: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Reports an error on stderr and chooses the exit code for it.
fn fail(args: &Args, error: &anyhow::Error) -> ExitCode {
    let line = format!("baton: {}", error_line(error));
    match args.command {
        // A node must end even if the reader of its stderr stalls.
        Command::Run(_) => errln_within(&line, commands::run::STDERR_TIMEOUT),
        _ => errln!("{line}"),
    }
    match error.is::<UsageError>() {
        true => ExitCode::from(2),
        false => ExitCode::FAILURE,
    }
}
