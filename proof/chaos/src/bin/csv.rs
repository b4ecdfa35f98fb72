//! The program `csv`: imports a CSV file with a fleet under fire, and compares every line.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use baton_chaos::chaos_program;
use baton_chaos::csv_import::{self, Settings, Victim};
use baton_chaos::stop::Stop;
use baton_print::{errln as eprintln, outln as println};
use clap::Parser;

/// Imports a CSV file with `baton run --source 'tail -n +"$BATON_NEXT" orders.csv'`, kills the generator,
/// the source, workers and Redis with -9, and compares every line.
#[derive(Parser, Debug)]
#[command(name = "csv", version, max_term_width = 100)]
struct Args {
    /// How many lines the file has
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(10_000..))]
    lines: u64,
    /// How many generators are killed; and as many sources, workers, servers
    #[arg(long, value_name = "N", default_value_t = 10)]
    kills: u64,
    /// How many nodes there are at a time
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(2..=50))]
    nodes: u16,
    /// Decides which workers die [default: a random one]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// The program, built with the feature `chaos` [default: baton beside this program]
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
    /// The server program [default: as `baton` finds it]
    #[arg(long, value_name = "PATH")]
    server_program: Option<PathBuf>,
}

fn main() -> ExitCode {
    match import(Args::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("csv: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn import(args: Args) -> Result<ExitCode> {
    let settings = Settings {
        program: chaos_program::find(args.program.as_deref())?,
        server_program: match args.server_program {
            Some(program) => program.canonicalize()?,
            None => baton_server::find_program()?,
        },
        lines: args.lines,
        kills: args.kills,
        nodes: usize::from(args.nodes),
        seed: args.seed.unwrap_or_else(rand::random),
    };
    let lines = settings.lines;
    let done = csv_import::run(settings, Stop::on_signals()?, |line| println!("{line}"))?;
    println!(
        "\n{lines} lines in {:.0} s on {}, appendfsync always",
        done.seconds, done.server
    );
    for victim in Victim::ALL {
        let count = done.killed.iter().filter(|of| **of == victim).count();
        println!("  killed {:13} {count:>8} times", victim.to_string());
    }
    println!("  lines handled        {:>8}", done.handled);
    println!("  lines imported       {:>8}", done.imported);
    if done.findings.is_empty() {
        println!(
            "\nEvery line was committed once, and the file that the effects wrote is the same."
        );
        return Ok(ExitCode::SUCCESS);
    }
    println!("\nNOT WELL:");
    for finding in &done.findings {
        println!("- {finding}");
    }
    Ok(ExitCode::FAILURE)
}
