//! What the command line chooses of the figures that have many cells.

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context, Result, bail};
use baton_figures::ServerProgram;

use crate::sizes::Persistence;

/// The flags, each `--name=value`; a value may be several, with commas between them.
pub(crate) const FLAGS: &str = "--servers=valkey-9.1,… --text=64,4k,… \
    --persistence=none,everysec --workers=1,2 --runs=N --messages=N --json=FILE --docs";

/// A part of the figures. `None` stands for the default.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Choice {
    servers: Option<Vec<String>>,
    /// Bytes of the texts.
    pub(crate) text: Option<Vec<usize>>,
    pub(crate) persistence: Option<Vec<Persistence>>,
    pub(crate) workers: Option<Vec<usize>>,
    /// Runs of each cell.
    pub(crate) runs: Option<usize>,
    /// Messages of each run of `partitions-cost` and `partitions-ceiling`.
    pub(crate) messages: Option<u64>,
    /// Where the results of `sizes` are kept.
    pub(crate) json: Option<PathBuf>,
    /// Write the documents from earlier results, and measure nothing.
    pub(crate) docs: bool,
}

impl Choice {
    /// Takes a flag of the command line.
    pub(crate) fn take(&mut self, flag: &str) -> Result<()> {
        let (name, value) = flag.split_once('=').unwrap_or((flag, ""));
        match name {
            "--servers" => self.servers = Some(value.split(',').map(str::to_owned).collect()),
            "--text" => self.text = Some(list(value, bytes)?),
            "--persistence" => self.persistence = Some(list(value, Persistence::from_str)?),
            "--workers" => self.workers = Some(list(value, count)?),
            "--runs" => self.runs = Some(count(value)?),
            "--messages" => self.messages = Some(count(value)? as u64),
            "--json" => self.json = Some(value.into()),
            "--docs" => self.docs = true,
            _ => bail!("unknown flag {flag:?}; there are --quick and {FLAGS}"),
        }
        Ok(())
    }

    /// The servers to measure on.
    pub(crate) fn servers(&self) -> Result<Vec<ServerProgram>> {
        ServerProgram::find(self.servers.as_deref())
    }
}

fn list<T>(values: &str, parse: impl Fn(&str) -> Result<T>) -> Result<Vec<T>> {
    values.split(',').map(parse).collect()
}

fn count(text: &str) -> Result<usize> {
    match text.parse() {
        Ok(count) if count > 0 => Ok(count),
        _ => bail!("{text:?} is not a count"),
    }
}

/// Bytes, or KiB with a `k` behind the number.
fn bytes(text: &str) -> Result<usize> {
    let (number, unit) = match text.strip_suffix(['k', 'K']) {
        Some(number) => (number, 1 << 10),
        None => (text, 1),
    };
    let number = count(number).with_context(|| format!("{text:?} is not a size"))?;
    Ok(number * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_has_what_its_flags_say() {
        let mut choice = Choice::default();
        for flag in [
            "--text=64,4k",
            "--persistence=everysec",
            "--workers=2",
            "--runs=3",
            "--messages=5000",
        ] {
            choice.take(flag).unwrap();
        }
        assert_eq!(choice.text, Some(vec![64, 4096]));
        assert_eq!(choice.persistence, Some(vec![Persistence::Everysec]));
        assert_eq!(choice.workers, Some(vec![2]));
        assert_eq!(choice.runs, Some(3));
        assert_eq!(choice.messages, Some(5000));
        for flag in [
            "--text=0",
            "--text=x",
            "--persistence=always",
            "--runs=",
            "--run=3",
        ] {
            assert!(choice.take(flag).is_err(), "{flag}");
        }
    }
}
