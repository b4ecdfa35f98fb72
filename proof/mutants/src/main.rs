//! Applies each mutant in turn and shows which of our checks kills it.

use std::collections::HashSet;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use baton_mutants::killer::{Killer, Word};
use baton_mutants::mutant::Mutant;
use baton_mutants::tree::{Tree, top};
use baton_print::outln;
use clap::Parser;

/// Applies deliberate breaks one by one and shows which check notices. Ends with 1 if one
/// survives them all.
#[derive(Parser)]
struct Args {
    /// Names of mutants; all if there are none
    names: Vec<String>,
    /// Only these checks: model, conformance, chaos, audit, test
    #[arg(long, value_delimiter = ',')]
    by: Vec<String>,
    /// List the mutants and end
    #[arg(long)]
    list: bool,
    /// The chaos program, built from the source as it is
    #[arg(long, value_name = "PATH")]
    chaos: Option<PathBuf>,
}

fn main() -> Result<ExitCode> {
    let args = Args::parse();
    let mut mutants = Mutant::all()?;
    for name in &args.names {
        ensure!(
            mutants.iter().any(|mutant| mutant.name == *name),
            "there is no mutant {name}: see --list"
        );
    }
    mutants.retain(|mutant| args.names.is_empty() || args.names.contains(&mutant.name));
    if args.list {
        for Mutant { name, about, .. } in &mutants {
            outln!("{name}: {about}");
        }
        return Ok(ExitCode::SUCCESS);
    }
    for name in &args.by {
        ensure!(
            Killer::ALL.iter().any(|killer| killer.name() == name),
            "there is no check {name}"
        );
    }
    let killers: Vec<Killer> = Killer::ALL
        .into_iter()
        .filter(|killer| args.by.is_empty() || args.by.iter().any(|name| killer.name() == name))
        .collect();

    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(top().join("target"), PathBuf::from);
    let chaos = args.chaos.unwrap_or(target.join("release/chaos"));
    let folder = target.join("mutants");
    let tree = Tree::new(&folder)?;

    // A check that fails on the source as it is would kill every mutant.
    for killer in &killers {
        let log = folder.join(format!("none-{}.log", killer.name()));
        let mut subjects: Vec<Option<&Mutant>> = match killer {
            Killer::Test => mutants.iter().map(Some).collect(),
            _ => vec![None],
        };
        let mut tests = HashSet::new();
        subjects.retain(|subject| tests.insert(subject.and_then(|mutant| mutant.test.clone())));
        for subject in subjects {
            let word = killer.tries(subject, &tree, &chaos, &log)?;
            ensure!(
                matches!(word, Word::Survived | Word::NotTried),
                "{} fails without any mutant: see {}",
                killer.name(),
                log.display()
            );
        }
    }

    let names: Vec<&str> = killers.iter().map(|killer| killer.name()).collect();
    outln!("| mutant | {} |", names.join(" | "));
    outln!("|---|{}", "---|".repeat(killers.len()));
    let mut survivors = 0;
    for mutant in &mutants {
        tree.break_with(mutant)?;
        baton_print::out(format_args!("| `{}`: {} |", mutant.name, mutant.about));
        let mut killed = false;
        for killer in &killers {
            let log = folder.join(format!("{}-{}.log", mutant.name, killer.name()));
            let word = killer
                .tries(Some(mutant), &tree, &chaos, &log)
                .with_context(|| format!("{} by {}", mutant.name, killer.name()))?;
            killed |= word == Word::Killed;
            let word = match word {
                Word::Killed => "killed",
                Word::Survived => "–",
                Word::NotTried => "",
                Word::Unclear => "?",
            };
            baton_print::out(format_args!(" {word} |"));
        }
        tree.mend(mutant)?;
        outln!("{}", if killed { "" } else { " **survives**" });
        survivors += u32::from(!killed);
    }
    outln!();
    outln!("{} mutants, {survivors} survive", mutants.len());
    Ok(ExitCode::from(u8::from(survivors > 0)))
}
