//! The command that makes messages is killed, or hangs.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::command::children;
use super::{Fault, Note};
use crate::arena::Arena;
use crate::process_scan::{Kind, Process, scan};

/// Longest search for a source: the generator may just have started one.
const SEARCH: Duration = Duration::from_secs(3);

/// The source that runs, and the label of its node.
fn find(arena: &Arena, note: &mut Note) -> Result<Process> {
    let deadline = Instant::now() + SEARCH;
    loop {
        if let Some((source, node)) = children(&scan(&arena.mark()), Kind::Source).pop() {
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
        ensure!(find(arena, note)?.kill9(), "it has ended");
        Ok(())
    }
}

/// Stops it for longer than every time to live: its node must neither lose the lease nor fall silent.
#[derive(Default)]
pub(super) struct Pause {
    paused: Option<Process>,
}

impl Fault for Pause {
    fn inject(&mut self, arena: &mut Arena, note: &mut Note) -> Result<()> {
        let source = find(arena, note)?;
        ensure!(source.pause(), "it has ended");
        self.paused = Some(source);
        Ok(())
    }

    fn lift(&mut self, _arena: &mut Arena, note: &mut Note) -> Result<()> {
        let source = self.paused.context("none was paused")?;
        // Another fault may have ended its node, and the node's end ends it.
        if !source.resume() {
            note.text = "ended meanwhile".to_owned();
        }
        Ok(())
    }
}
