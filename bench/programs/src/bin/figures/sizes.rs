//! Ours beside the unsafe queue and a bare SET and GET, at every size of texts, on every server:
//! rates, processor time, and bytes of the append-only file.
//!
//! The results go into a JSON file, cell by cell. A cell that is measured again replaces its
//! former results, so a part can be measured in seconds; `--docs` writes the table and the plot
//! from that file.

mod cell;
mod chart;
mod goal;
mod result_file;
mod table;

use std::path::{Path, PathBuf};

use anyhow::Result;
use baton_figures::Section;
use baton_print::outln;

pub(crate) use cell::Persistence;

use crate::Rounds;
use crate::choice::Choice;
use crate::report::Report;
use cell::{Cell, Conditions};
use result_file::ResultFile;

/// Where the table and the plot are in the documents.
const SECTION: Section = Section("sizes");
/// Sizes of texts: all, and those of a quick run.
const TEXTS: [usize; 7] = [16, 64, 256, 1 << 10, 4 << 10, 16 << 10, 128 << 10];
const QUICK_TEXTS: [usize; 2] = [64, 16 << 10];
const WORKERS: [usize; 2] = [2, 1];
const QUICK_WORKERS: [usize; 1] = [2];

pub(crate) fn of_texts(
    program: &Path,
    rounds: Rounds,
    choice: &Choice,
    report: &mut Report,
) -> Result<()> {
    let path = match &choice.json {
        Some(path) => path.clone(),
        None => default_file(rounds)?,
    };
    let mut file = ResultFile::read(path)?;
    if choice.docs {
        SECTION.write(&table::document(&file.cells)?)?;
        return SECTION.write_picture(&chart::draw(&file.cells));
    }
    outln!("{}", table::HEAD);
    for conditions in conditions(choice, rounds)? {
        let cell = Cell::measure(program, &conditions)?;
        outln!("{}", table::line(&cell));
        for goal in goal::of(&cell) {
            report.judge(&goal.what, &goal.measured, &goal.words, goal.met);
        }
        file.put(cell)?;
    }
    outln!("every run is in {}", file.path.display());
    Ok(())
}

/// Every cell of the choice, in the order of the table.
fn conditions(choice: &Choice, rounds: Rounds) -> Result<Vec<Conditions>> {
    let (texts, workers) = match rounds.whole_sizes {
        true => (TEXTS.to_vec(), WORKERS.to_vec()),
        false => (QUICK_TEXTS.to_vec(), QUICK_WORKERS.to_vec()),
    };
    let texts = choice.text.clone().unwrap_or(texts);
    let workers = choice.workers.clone().unwrap_or(workers);
    let all = [Persistence::None, Persistence::Everysec].to_vec();
    let persistence = choice.persistence.clone().unwrap_or(all);
    let mut conditions = Vec::new();
    for server in choice.servers()? {
        for &persistence in &persistence {
            for &workers in &workers {
                conditions.extend(texts.iter().map(|&text_bytes| Conditions {
                    server: server.clone(),
                    persistence,
                    workers,
                    text_bytes,
                    runs: choice.runs.unwrap_or(rounds.size_runs),
                    whole: rounds.whole_sizes,
                }));
            }
        }
    }
    Ok(conditions)
}

/// Beside the programs that were built. A quick run does not touch the results of a whole one.
fn default_file(rounds: Rounds) -> Result<PathBuf> {
    let name = match rounds.whole_sizes {
        true => "sizes.json",
        false => "sizes-quick.json",
    };
    Ok(std::env::current_exe()?.with_file_name(name))
}
