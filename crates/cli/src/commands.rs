//! The commands: one file or folder each.

mod acl;
pub(crate) mod bench;
mod clean;
mod completions;
mod cron;
pub(crate) mod demo;
mod doctor;
mod drain;
mod errors;
mod get_errors;
mod health;
mod man;
mod pause;
pub(crate) mod run;
mod server;
mod settle;
pub(crate) mod status;
mod top;
mod web;

use std::process::ExitCode;

use crate::args::{Args, Command};

/// Runs the command that the command line names.
pub(crate) fn execute(args: &Args) -> anyhow::Result<ExitCode> {
    #[cfg(feature = "chaos")]
    baton_protocol::crash::check().map_err(crate::usage_error::UsageError)?;
    let connection = &args.connection;
    match &args.command {
        Command::Run(args) => run::run(connection, args),
        Command::GetErrors(args) => get_errors::run(connection, args),
        Command::Errors(args) => errors::run(connection, args),
        Command::Retry(args) => settle::run(connection, args, settle::Action::Retry),
        Command::Drop(args) => settle::run(connection, args, settle::Action::Drop),
        Command::Status(args) => status::run(connection, args),
        Command::Top => top::run(connection),
        Command::Web(args) => web::run(connection, args),
        Command::Health(args) => health::run(connection, args),
        Command::Pause(args) => pause::run(connection, args, pause::Action::Pause),
        Command::Resume(args) => pause::run(connection, args, pause::Action::Resume),
        Command::Drain(args) => drain::run(connection, args),
        Command::Acl(args) => acl::run(connection, args),
        Command::Doctor(args) => doctor::run(connection, args),
        Command::Clean => clean::run(connection),
        Command::Cron(command) => cron::run(command),
        Command::Server(command) => server::run(connection, command),
        Command::Demo(args) => demo::run(args),
        Command::Bench(args) => bench::run(connection, args),
        Command::BenchNode(args) => bench::node::run(connection, args),
        Command::BenchFloor(args) => bench::floor::run(connection, args),
        Command::Completions { shell } => completions::run(*shell),
        Command::Man => man::run(),
    }
}
