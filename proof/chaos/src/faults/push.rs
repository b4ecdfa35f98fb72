//! A push service that dies, or answers badly.

use anyhow::{Context, Result};

use super::command::hit;
use super::{Fault, Note};
use crate::arena::{Arena, PushService};
use crate::handlers::Mode;

/// Kills the service with -9; lifting the fault starts it again.
pub(super) struct Die;

impl Fault for Die {
    fn inject(&mut self, arena: &mut Arena, note: &mut Note) -> Result<()> {
        let service = arena.push_service.as_mut();
        let service = service.context("there is no push service")?;
        note.targets = vec![service.label()];
        service.kill9();
        Ok(())
    }

    fn lift(&mut self, arena: &mut Arena, _note: &mut Note) -> Result<()> {
        let service = arena.push_service.as_mut();
        service.context("there is no push service")?.restart()
    }
}

/// Changes how the service answers.
pub(super) struct Answer {
    mode: Mode,
    before: u64,
}

impl Answer {
    pub(super) fn new(mode: Mode) -> Self {
        Self { mode, before: 0 }
    }
}

impl Fault for Answer {
    fn inject(&mut self, arena: &mut Arena, note: &mut Note) -> Result<()> {
        note.targets
            .extend(arena.push_service.as_ref().map(PushService::label));
        self.before = hit(arena);
        Ok(arena.shared.set_mode(self.mode)?)
    }

    fn lift(&mut self, arena: &mut Arena, note: &mut Note) -> Result<()> {
        arena.shared.set_mode(Mode::Well)?;
        note.text = match hit(arena) - self.before {
            0 => "not reached".to_owned(),
            1 => "1 message".to_owned(),
            count => format!("{count} messages"),
        };
        Ok(())
    }
}
