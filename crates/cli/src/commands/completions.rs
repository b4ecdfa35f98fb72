//! `baton completions`: the completion script of a shell, made from the definition of the command
//! line.

use std::process::ExitCode;

use crate::{args, stdout};

/// Prints the script.
pub(crate) fn run(shell: clap_complete::Shell) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut args::definition(), "baton", &mut script);
    stdout::print(&script)?;
    Ok(ExitCode::SUCCESS)
}
