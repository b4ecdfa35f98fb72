//! The command that makes messages is killed, or hangs.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::command::children;
use super::{Fault, Note};
use crate::arena::Arena;
use crate::process_scan::{Kind, Process, scan};

/// Longest search for a source: the generator may just have started one.
const SEARCH: Duration = Duration::from_secs(3);

/// Does something to the source that runs, and notes the label of its node. A source that ends at that
/// moment has a successor: its generator has lost the lease.
fn hurt(arena: &Arena, note: &mut Note, does: impl Fn(&Process) -> bool) -> Result<Process> {
    let deadline = Instant::now() + SEARCH;
    loop {
        if let Some((source, node)) = children(&scan(&arena.mark()), Kind::Source).pop()
            && does(&source)
        {
            note.targets = arena.labels(&Vec::from_iter(arena.with_pid(node)));
            return Ok(source);
        }
        ensure!(Instant::now() < deadline, "no source runs");
        arena.stop.pause_poll()?;
    }
}

/// Kills it with -9.
pub(super) struct Kill;

impl Fault for Kill {
    fn inject(&mut self, arena: &mut Arena, note: &mut Note) -> Result<()> {
        hurt(arena, note, Process::kill9).map(drop)
    }
}

/// Stops it for longer than every time to live: its node must neither lose the lease nor fall silent.
#[derive(Default)]
pub(super) struct Pause {
    paused: Option<Process>,
}

impl Fault for Pause {
    fn inject(&mut self, arena: &mut Arena, note: &mut Note) -> Result<()> {
        self.paused = Some(hurt(arena, note, Process::pause)?);
        Ok(())
    }

    fn lift(&mut self, _arena: &mut Arena, note: &mut Note) -> Result<()> {
        // Another fault may have ended its node, and the node's end ends it.
        if self.paused.is_some_and(|source| !source.resume()) {
            note.text = "ended meanwhile".to_owned();
        }
        Ok(())
    }
}
