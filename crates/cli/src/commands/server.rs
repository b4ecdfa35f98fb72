//! `baton server`: the state and the end of the embedded server.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::bail;
use baton_server::{EmbeddedState, EmbeddedStatus, Stopped};

use crate::args::{ConnectionArgs, ServerCommand};
use crate::{stdout, target};

/// Runs `baton server status` or `baton server stop`.
pub(crate) fn run(
    connection: &ConnectionArgs,
    command: &ServerCommand,
) -> anyhow::Result<ExitCode> {
    target::check_embedded(connection)?;
    let port = connection.embedded_port;
    let embedded = target::embedded(port)?;
    match command {
        ServerCommand::Status => {
            let status = embedded.status();
            stdout::print(table(&status).as_bytes())?;
            Ok(match status.is_running() {
                true => ExitCode::SUCCESS,
                false => ExitCode::FAILURE,
            })
        }
        ServerCommand::Stop => {
            match embedded.stop()? {
                Stopped::Ended { pid } => {
                    stdout::print(format!("stopped the server, pid {pid}\n").as_bytes())?;
                }
                Stopped::NotRunning => stdout::print(b"the server is not running\n")?,
                Stopped::NotOurs => bail!(
                    "`baton run` of this user did not start the server on port {port}: it was left \
                     alone"
                ),
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// How the user reaches the running server with redis-cli. It never has the password itself.
fn access(status: &EmbeddedStatus) -> Option<String> {
    match (&status.state, &status.password_file) {
        (EmbeddedState::Running { .. }, Some(file)) => Some(format!(
            "REDISCLI_AUTH=\"$(cat {})\" redis-cli -p {}",
            quoted(file),
            status.port
        )),
        (EmbeddedState::Running { .. }, None) => Some(
            "open to every user of this machine: an older version started it without a password; \
             `baton server stop` and the next `baton run` give it one"
                .to_owned(),
        ),
        _ => None,
    }
}

/// A path, quoted as one word for a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

fn table(status: &EmbeddedStatus) -> String {
    let state = match &status.state {
        EmbeddedState::Running { pid } => format!("running, pid {pid}"),
        EmbeddedState::NotAnswering { pid } => format!("pid {pid} does not answer"),
        EmbeddedState::Down => "not running".to_owned(),
        EmbeddedState::NotOurs => "not running; another server answers on its port".to_owned(),
    };
    let program = match &status.program {
        Some(program) => program.display().to_string(),
        None => "none found".to_owned(),
    };
    let mut table = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(table, "server   {state}");
    let _ = writeln!(table, "address  127.0.0.1:{}", status.port);
    let _ = writeln!(table, "program  {program}");
    let _ = writeln!(table, "data     {}", status.data_dir.display());
    let _ = writeln!(table, "size     {} bytes", status.aof_bytes);
    if let Some(access) = access(status) {
        let _ = writeln!(table, "access   {access}");
    }
    table
}
