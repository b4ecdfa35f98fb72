//! A message every so often, or at full speed.

use std::fmt;
use std::time::Duration;

use super::schedule::Schedule;
use super::{Batch, FleetClock, Flow, Missed, Position, Source, SourceError, TickCursor};

/// A source with a tick every interval, and one message a tick. [`interval`] makes it.
///
/// Its cursor is the next tick. A successor makes up for ticks that no node saw.
pub struct Interval<F> {
    make: F,
    schedule: Schedule,
    clock: Option<FleetClock>,
    /// Whether the stored cursor is no tick, and the node has not heard of it.
    begins_anew: bool,
    text: Vec<u8>,
}

/// A source that makes a message every `every`; zero is full speed. `make` appends the text of a message,
/// given its sequence number, to an empty buffer. It is not called for ticks that are left out.
///
/// An interval has whole milliseconds; a part of one is cut off.
pub fn interval<F>(every: Duration, make: F) -> Interval<F>
where
    F: FnMut(u64, &mut Vec<u8>) + Send + 'static,
{
    Interval {
        make,
        schedule: Schedule::new(every, Missed::default()),
        clock: None,
        begins_anew: false,
        text: Vec::new(),
    }
}

impl<F> Interval<F> {
    /// What becomes of ticks that passed while no node generated. The generator makes up for the last
    /// ten minutes unless set.
    pub fn missed(mut self, missed: Missed) -> Self {
        self.schedule.set_missed(missed);
        self
    }
}

impl<F> fmt::Debug for Interval<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Interval").field(&self.schedule).finish()
    }
}

impl<F: FnMut(u64, &mut Vec<u8>) + Send + 'static> Source for Interval<F> {
    async fn open(&mut self, from: Position<'_>) -> Result<(), SourceError> {
        let cursor = from.cursor.and_then(|bytes| str::from_utf8(bytes).ok());
        let cursor = cursor.and_then(TickCursor::parse);
        self.begins_anew = from.cursor.is_some() && cursor.is_none();
        let clock = from.clock.clock();
        self.schedule
            .resume(cursor.and_then(|cursor| clock.steady(cursor)));
        self.clock = Some(from.clock.clone());
        Ok(())
    }

    async fn next(&mut self, batch: &mut Batch) -> Result<Flow, SourceError> {
        let Some(fleet_clock) = &self.clock else {
            return Err(SourceError::fatal("the source is not open"));
        };
        let clock = fleet_clock.clock();
        let due = loop {
            let due = self.schedule.due(clock.steady_ms());
            if due.count > 0 {
                batch.left_out = self.schedule.left_out(due);
                break due.count;
            }
            let wait = self.schedule.wait(clock.steady_ms());
            tokio::time::sleep(wait.unwrap_or_default()).await;
        };
        while batch.count() < due && batch.has_room() {
            self.text.clear();
            (self.make)(batch.next_seq(), &mut self.text);
            batch.push(&self.text);
        }
        self.schedule.advance(batch.count());
        if batch.ends_the_fleet() {
            // A fleet whose limit an operator raises later has missed nothing until then.
            self.schedule.begin_anew();
        }
        batch.is_scheduled = self.schedule.next().is_some();
        batch.begins_anew = std::mem::take(&mut self.begins_anew);
        batch.set_cursor(clock.cursor(self.schedule.next()).to_string());
        Ok(Flow::More)
    }

    fn kind(&self) -> &str {
        "interval"
    }
}
