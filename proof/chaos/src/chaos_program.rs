//! The program `baton` as it is tested: built with the feature `chaos`, with crash points and a ledger.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// The given program, or `baton` beside this one.
pub fn find(given: Option<&Path>) -> Result<PathBuf> {
    let exe = std::env::current_exe().context("cannot find this program")?;
    let program = given.map_or_else(|| exe.with_file_name("baton"), Path::to_owned);
    let bytes = std::fs::read(&program)
        .with_context(|| format!("cannot read {}; see --program", program.display()))?;
    let has_points = bytes.windows(14).any(|word| word == b"BATON_CRASH_AT");
    ensure!(
        has_points,
        "{} has no crash points: build it with `cargo build -p baton-cli --features chaos`",
        program.display()
    );
    Ok(program.canonicalize()?)
}
