//! The entries of a crontab, and where they stand together.

use std::time::Duration;

use baton_protocol::exact;

use super::CronSpec;
use crate::source::missed::{Missed, ON_TIME};

/// A position that is further ahead of the clock comes from before the clock was set back.
const MAX_AHEAD_MS: u64 = 3 * 3600 * 1000;

#[derive(Debug)]
struct Entry {
    name: String,
    spec: CronSpec,
    /// Its next tick; none if it has no more.
    next_ms: Option<u64>,
}

/// One tick of an entry. Ticks are in order of time, and of name at one time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Tick {
    pub(super) at_ms: u64,
    /// Empty at the beginning, before all ticks of that time.
    pub(super) name: String,
}

impl Tick {
    /// Reads a cursor; none if it is something else.
    pub(super) fn parse(cursor: &[u8]) -> Option<Self> {
        let cursor = str::from_utf8(cursor).ok()?;
        let (at, name) = cursor.split_once(' ').unwrap_or((cursor, ""));
        Some(Self {
            at_ms: exact(at).filter(|_| !at.is_empty())?,
            name: name.to_owned(),
        })
    }

    pub(super) fn cursor(&self) -> String {
        let Self { at_ms, name } = self;
        match name.as_str() {
            "" => at_ms.to_string(),
            name => format!("{at_ms} {name}"),
        }
    }
}

/// What is next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A message.
    Due(Tick),
    /// A tick that is too old.
    LeftOut(Tick),
    /// Nothing before this time.
    Wait(u64),
    /// Nothing ever.
    End,
}

/// All entries, by name.
#[derive(Debug, Default)]
pub(super) struct Crontab {
    entries: Vec<Entry>,
    missed: Missed,
    /// The last tick that was made or left out; none before the beginning.
    position: Option<Tick>,
}

impl Crontab {
    /// Adds an entry, unless there is one of that name.
    pub(super) fn add(&mut self, name: &str, spec: CronSpec) -> bool {
        let place = self
            .entries
            .binary_search_by(|entry| entry.name.as_str().cmp(name));
        let Err(place) = place else {
            return false;
        };
        let (name, next_ms) = (name.to_owned(), None);
        self.entries.insert(
            place,
            Entry {
                name,
                spec,
                next_ms,
            },
        );
        true
    }

    pub(super) fn set_missed(&mut self, missed: Missed) {
        self.missed = missed;
    }

    /// How much missed time it makes up for.
    pub(super) fn at_most(&self) -> Duration {
        match self.missed {
            Missed::CatchUp { at_most } => at_most.max(ON_TIME),
            Missed::Skip | Missed::Last => ON_TIME,
        }
    }

    /// Where it stands.
    pub(super) fn position(&self) -> Option<&Tick> {
        self.position.as_ref()
    }

    /// Goes on behind this tick, or begins with the next step.
    pub(super) fn resume(&mut self, position: Option<Tick>) {
        if let Some(Tick { at_ms, name }) = &position {
            for entry in &mut self.entries {
                let is_behind = entry.name > *name;
                let after_ms = at_ms.saturating_sub(is_behind.into());
                entry.next_ms = entry.spec.next_after(after_ms);
            }
        }
        self.position = position;
    }

    /// Begins now if it stands nowhere, or too far ahead. Whether it did.
    pub(super) fn begins(&mut self, now_ms: u64) -> bool {
        let latest = now_ms.saturating_add(MAX_AHEAD_MS);
        let stands = self.position.as_ref();
        if stands.is_some_and(|position| position.at_ms <= latest) {
            return false;
        }
        self.resume(Some(Tick {
            at_ms: now_ms,
            name: String::new(),
        }));
        true
    }

    /// Takes the next step.
    pub(super) fn step(&mut self, now_ms: u64) -> Step {
        let oldest_ms = now_ms.saturating_sub(self.at_most().as_millis() as u64);
        loop {
            let waiting = self.entries.iter_mut();
            let waiting = waiting.filter_map(|entry| entry.next_ms.map(|at_ms| (at_ms, entry)));
            // The first of those at one time: they are in order of their names.
            let Some((at_ms, entry)) = waiting.min_by_key(|(at_ms, _)| *at_ms) else {
                return Step::End;
            };
            if at_ms > now_ms {
                return Step::Wait(at_ms);
            }
            let is_late = at_ms < oldest_ms;
            if is_late && !matches!(self.missed, Missed::CatchUp { .. }) {
                let on_time = entry.spec.next_after(oldest_ms.saturating_sub(1));
                let next_ms = match self.missed {
                    Missed::Last if on_time.is_none_or(|tick| tick > now_ms) => {
                        Some(entry.spec.last_until(at_ms, now_ms))
                    }
                    _ => on_time,
                };
                if next_ms != Some(at_ms) {
                    entry.next_ms = next_ms;
                    continue;
                }
            }
            let is_left_out = is_late && matches!(self.missed, Missed::CatchUp { .. });
            entry.next_ms = entry.spec.next_after(at_ms);
            let tick = Tick {
                at_ms,
                name: entry.name.clone(),
            };
            self.position = Some(tick.clone());
            return match is_left_out {
                true => Step::LeftOut(tick),
                false => Step::Due(tick),
            };
        }
    }
}
