//! A full disk under the append-only file. A server with `appendfsync always` ends itself; one with
//! `everysec` refuses writes until there is room.

use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};

use super::{Fault, Note, limit_files, warned};
use crate::arena::Arena;

#[derive(Default)]
pub(super) struct Full {
    mark: usize,
}

impl Fault for Full {
    fn inject(&mut self, arena: &mut Arena, note: &mut Note) -> Result<()> {
        let size = append_only_bytes(arena.server()?.folder())?;
        self.mark = arena.fleet.mark();
        note.text = format!("at {size} bytes");
        limit(arena, Some(size))
    }

    fn lift(&mut self, arena: &mut Arena, note: &mut Note) -> Result<()> {
        if arena.server()?.is_running() {
            note.text.push_str(", ");
            note.text.push_str(&warned(arena, self.mark, "MISCONF"));
            return limit(arena, None);
        }
        // The exact moment of its death is unknown; this is a later one.
        arena.server_deaths.push(Instant::now());
        arena.restart_server()?;
        note.text.push_str(", the server ended and was restarted");
        Ok(())
    }
}

/// The largest size a file of the server's may have.
fn limit(arena: &mut Arena, bytes: Option<u64>) -> Result<()> {
    limit_files(arena.server()?.pid().context("the server is down")?, bytes)
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
