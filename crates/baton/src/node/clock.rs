//! Redis's clock as a node knows it, and what a node does when that clock is set.
//!
//! Each beat brings a reading: Redis read its clock at some moment between the node's call and
//! its answer, and the node knows both on its own monotonic clock. So a reading is
//! not a point but two bounds for *Redis's clock − own clock*, as far apart as the round trip
//! was long. Bounds that overlap the ones before agree with them: a server or a node that was
//! paused in the middle of a call makes the bounds wide and moves nothing. Bounds that lie
//! apart by more than drift can explain are a step: an operator or NTP set the clock.
//!
//! A step is not time that passed. The schedule therefore counts in *steady* time, which is
//! Redis's time without the steps that this node saw.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use crate::source::TickCursor;

/// Bounds that lie further apart are a step. Less is drift, which a fast correction by NTP
/// can bring to some tens of milliseconds from one beat to the next.
const STEP_MS: i64 = 200;
/// What slow drift adds: a thousandth of the time since the last reading.
const DRIFT_SHARE: i64 = 1000;
/// How far two nodes' ideas of Redis's clock may differ.
const DISAGREEMENT_MS: i64 = 100;
/// How many steps a node remembers.
const STEPS: usize = 16;

/// Redis's clock as this node knows it from its beats. It decides when something happens,
/// never whether it is safe.
pub(crate) struct Clock {
    base: Instant,
    readings: Mutex<Readings>,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self {
            base: Instant::now(),
            readings: Mutex::default(),
        }
    }

    fn own_ms(&self, at: Instant) -> i64 {
        at.saturating_duration_since(self.base).as_millis() as i64
    }

    fn readings(&self) -> MutexGuard<'_, Readings> {
        self.readings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a reading: Redis's clock showed `now_ms` at some moment between the two local ones.
    /// Returns by how much the clock was set since the last reading, if it was.
    pub(crate) fn set(&self, now_ms: u64, sent: Instant, answered: Instant) -> Option<i64> {
        let (sent, answered) = (self.own_ms(sent), self.own_ms(answered));
        self.readings().read(now_ms, sent, answered)
    }

    /// Redis's time.
    pub(crate) fn now_ms(&self) -> u64 {
        let own = self.own_ms(Instant::now());
        self.readings().now_ms(own).max(0) as u64
    }

    /// Redis's time without the steps that this node saw.
    pub(crate) fn steady_ms(&self) -> i64 {
        let own = self.own_ms(Instant::now());
        self.readings().steady_ms(own)
    }

    /// Where another generator's cursor lies in steady time; nothing if the schedule begins
    /// anew.
    pub(crate) fn steady(&self, cursor: TickCursor) -> Option<i64> {
        let own = self.own_ms(Instant::now());
        self.readings().steady(cursor, own)
    }

    /// A moment of steady time as a cursor for Redis.
    pub(crate) fn cursor(&self, steady_ms: Option<i64>) -> TickCursor {
        let own = self.own_ms(Instant::now());
        self.readings().cursor(steady_ms, own)
    }
}

/// One time that Redis's clock was set.
#[derive(Debug, Clone, Copy)]
struct Step {
    /// It happened between these two readings, on the clock as it was before.
    between: (i64, i64),
    /// By how much.
    jump: i64,
}

/// What the readings say together. All in ms; the own clock counts from any moment.
#[derive(Debug, Default)]
struct Readings {
    /// Bounds of Redis's clock − own clock.
    bounds: Option<(i64, i64)>,
    /// What the own clock showed at the last reading.
    read_at: i64,
    /// All steps together, remembered ones and others.
    shift: i64,
    steps: VecDeque<Step>,
}

impl Readings {
    fn read(&mut self, now_ms: u64, sent: i64, answered: i64) -> Option<i64> {
        // Redis cuts its time off to a millisecond, and so does `own_ms`.
        let now = i64::try_from(now_ms).unwrap_or(i64::MAX / 2);
        let fresh = (now - answered - 1, now - sent + 1);
        let since = answered - self.read_at;
        let previous = self.read_at;
        self.read_at = answered;
        let known = self.bounds.replace(fresh)?;
        let both = (known.0.max(fresh.0), known.1.min(fresh.1));
        if both.0 <= both.1 {
            self.bounds = Some(both);
            return None;
        }
        if both.0 - both.1 <= STEP_MS + since / DRIFT_SHARE {
            return None;
        }
        let jump = middle(fresh) - middle(known);
        self.shift += jump;
        let old = |own: i64| own + middle(known);
        if self.steps.len() == STEPS {
            self.steps.pop_front();
        }
        self.steps.push_back(Step {
            between: (old(previous), old(answered)),
            jump,
        });
        Some(jump)
    }

    fn now_ms(&self, own: i64) -> i64 {
        own + self.bounds.map_or(0, middle)
    }

    fn steady_ms(&self, own: i64) -> i64 {
        self.now_ms(own) - self.shift
    }

    fn cursor(&self, steady_ms: Option<i64>, own: i64) -> TickCursor {
        let Some(due) = steady_ms else {
            return TickCursor::default();
        };
        TickCursor {
            due_ms: (due + self.shift).max(1) as u64,
            known_ms: self.now_ms(own).max(1) as u64,
        }
    }

    fn steady(&self, cursor: TickCursor, own: i64) -> Option<i64> {
        let due = i64::try_from(cursor.due_ms).ok().filter(|due| *due > 0)?;
        let known = match cursor.known_ms {
            0 => due,
            known => i64::try_from(known).ok()?,
        };
        // Back from the newest step to the one after which the cursor was written.
        let mut shift = self.shift;
        let mut newest = self.now_ms(own);
        for step in self.steps.iter().rev() {
            if step.is_before(known, newest) {
                break;
            }
            shift -= step.jump;
            newest = step.between.1;
        }
        Some(due - shift)
    }
}

impl Step {
    /// Whether the clock showed `time` after this step; `newest` is the latest that it can have
    /// shown since. After a step back the clock shows some times twice. They count as the later
    /// ones, because a generator writes the time with every tick.
    fn is_before(&self, time: i64, newest: i64) -> bool {
        let (earliest, latest) = self.between;
        let first_after = earliest + self.jump;
        match self.jump > 0 {
            true => time >= middle((latest.min(first_after), first_after.max(latest))),
            false => (first_after - DISAGREEMENT_MS..=newest + DISAGREEMENT_MS).contains(&time),
        }
    }
}

fn middle((low, high): (i64, i64)) -> i64 {
    low + (high - low) / 2
}

#[cfg(test)]
mod tests;
