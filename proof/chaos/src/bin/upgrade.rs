//! The program `upgrade`: replaces the nodes of a running fleet by nodes of another program, and back.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use baton_chaos::chaos_program;
use baton_chaos::rolling_upgrade::{self, Settings};
use baton_chaos::stop::Stop;
use baton_print::{errln as eprintln, outln as println};
use clap::Parser;

/// How many findings it prints.
const MAX_FINDINGS: usize = 20;

/// Upgrades a running fleet node by node, rolls back, and audits every message.
#[derive(Parser, Debug)]
#[command(name = "upgrade", version, max_term_width = 100)]
struct Args {
    /// The program that the fleet runs before, built with the feature `chaos`
    #[arg(long, value_name = "PATH")]
    former: PathBuf,
    /// The program that the fleet is upgraded to, built so, too [default: baton beside this program]
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
    /// How many nodes there are at a time
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(2..=50))]
    nodes: u16,
    /// The server program [default: as `baton` finds it]
    #[arg(long, value_name = "PATH")]
    server_program: Option<PathBuf>,
}

fn main() -> ExitCode {
    match upgrade(&Args::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("upgrade: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn upgrade(args: &Args) -> Result<ExitCode> {
    let settings = Settings {
        former: chaos_program::find(Some(&args.former))?,
        present: chaos_program::find(args.program.as_deref())?,
        server_program: match &args.server_program {
            Some(program) => program.canonicalize()?,
            None => baton_server::find_program()?,
        },
        nodes: usize::from(args.nodes),
    };
    let done = rolling_upgrade::run(&settings, Stop::on_signals()?, |line| println!("  {line}"))?;
    let versions = done.versions.join(", ");
    println!("\n{} messages; versions: {versions}", done.published);
    if let Some(words) = &done.refused {
        println!(
            "The present program does not join a fleet of the former one: {}",
            words.trim()
        );
    }
    if done.findings.is_empty() {
        println!("Each message ended once.");
        return Ok(ExitCode::SUCCESS);
    }
    println!("NOT WELL:");
    for finding in done.findings.iter().take(MAX_FINDINGS) {
        println!("- {finding}");
    }
    if done.findings.len() > MAX_FINDINGS {
        println!("- and {} more", done.findings.len() - MAX_FINDINGS);
    }
    Ok(ExitCode::FAILURE)
}
