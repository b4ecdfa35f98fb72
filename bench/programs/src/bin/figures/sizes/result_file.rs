//! The file with the results of every cell.

use std::io::ErrorKind;
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::cell::Cell;

/// The results so far, as they are in the file.
pub(super) struct ResultFile {
    pub(super) path: PathBuf,
    pub(super) cells: Vec<Cell>,
}

impl ResultFile {
    /// Reads the file. A file that does not exist has no cells.
    pub(super) fn read(path: PathBuf) -> Result<Self> {
        let cells = match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .with_context(|| format!("{} has no results of sizes", path.display()))?,
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", path.display()));
            }
        };
        Ok(Self { path, cells })
    }

    /// Puts a cell in its place, and writes the file.
    pub(super) fn put(&mut self, cell: Cell) -> Result<()> {
        match self.cells.iter_mut().find(|old| old.same_place(&cell)) {
            Some(old) => *old = cell,
            None => self.cells.push(cell),
        }
        let text = serde_json::to_string_pretty(&self.cells)?;
        std::fs::write(&self.path, text)
            .with_context(|| format!("cannot write {}", self.path.display()))
    }
}
