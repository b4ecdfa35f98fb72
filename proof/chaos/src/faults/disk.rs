//! No room for the append-only file. A server that forces every write to the disk ends itself;
//! one that does so every second refuses writes until there is room.

use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};

use super::{Fault, Note, limit_files, warned};
use crate::stage::Stage;

#[derive(Default)]
pub(super) struct Full {
    mark: usize,
}

impl Fault for Full {
    fn inject(&mut self, stage: &mut Stage, note: &mut Note) -> Result<()> {
        let size = append_only_bytes(stage.server.folder())?;
        self.mark = stage.fleet.mark();
        note.text = format!("at {size} bytes");
        limit(stage, Some(size))
    }

    fn lift(&mut self, stage: &mut Stage, note: &mut Note) -> Result<()> {
        if stage.server.is_running() {
            note.text.push_str(", ");
            note.text.push_str(&warned(stage, self.mark, "MISCONF"));
            return limit(stage, None);
        }
        // When it died is not known exactly; now is late enough.
        stage.server_deaths.push(Instant::now());
        stage.restart_server()?;
        note.text.push_str(", the server ended and was restarted");
        Ok(())
    }
}

/// The largest size a file of the server's may have.
fn limit(stage: &Stage, bytes: Option<u64>) -> Result<()> {
    limit_files(stage.server.pid().context("the server is down")?, bytes)
}

/// The size of the file that is appended to: the newest part, or the only one on old servers.
fn append_only_bytes(folder: &Path) -> Result<u64> {
    let parts = fs::read_dir(folder.join("appendonlydir"));
    let parts = parts
        .into_iter()
        .flatten()
        .flatten()
        .map(|part| part.path());
    let appended = |path: &std::path::PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.ends_with(".incr.aof") || name == "appendonly.aof"
    };
    let files = parts
        .chain([folder.join("appendonly.aof")])
        .filter(appended);
    let sizes = files.filter_map(|path| Some((path.metadata().ok()?.modified().ok()?, path)));
    let (_, newest) = sizes.max().context("there is no append-only file")?;
    Ok(newest.metadata()?.len())
}
