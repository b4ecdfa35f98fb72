//! A source with the ticks of a crontab.

mod crontab;
mod fields;
mod spec;
#[cfg(test)]
mod tests;

use std::time::{Duration, UNIX_EPOCH};

use self::crontab::{Crontab, Step, Tick};
pub use self::spec::{CronError, CronSpec};
use super::batch::LeftOut;
use super::{Batch, FleetClock, Flow, Missed, Position, Source, SourceError};

/// Max bytes of an entry's name.
const MAX_NAME_BYTES: usize = 128;
/// Max ticks that one batch makes or leaves out: to count what is left out takes a while.
const MAX_STEPS: usize = 1000;
/// A wait ends after this time at the latest: an operator may have set the clock back.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
const TEXT: &str = "{name}@{time}";

/// A source with one message for each tick of a crontab: neither lost nor doubled when the generator dies.
///
/// Its cursor is the last tick, so a successor goes on behind it, whatever the ticks are. Time is Redis's
/// clock. A crontab without a cursor begins when the first generator does.
///
/// ```
/// # fn main() -> Result<(), baton::CronError> {
/// let source = baton::Cron::new()
///     .entry("report", "0 10 * * MON-FRI", "Europe/Vienna")?
///     .entry("cleanup", "@hourly", "UTC")?;
/// # Ok(()) }
/// ```
#[derive(Debug, Default)]
pub struct Cron {
    crontab: Crontab,
    /// None is the usual one.
    text: Option<String>,
    clock: Option<FleetClock>,
    /// Whether the stored cursor is no tick, and the node has not heard of it.
    begins_anew: bool,
}

impl Cron {
    /// A crontab without entries.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an entry. [`CronSpec::new`] says what an expression and a zone are.
    ///
    /// # Errors
    ///
    /// If the expression or the zone is wrong, if the name is empty or has a space or a control
    /// character, or if another entry has it.
    pub fn entry(mut self, name: &str, spec: &str, zone: &str) -> Result<Self, CronError> {
        let bad = |why: &str| Err(CronError(format!("'{}' {why}", name.escape_debug())));
        if name.is_empty() {
            return Err(CronError("an entry needs a name".to_owned()));
        }
        if name.len() > MAX_NAME_BYTES {
            return bad("is longer than the 128 bytes that a name may have");
        }
        if name.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return bad("is no name: it has a space or a control character");
        }
        if !self.crontab.add(name, CronSpec::new(spec, zone)?) {
            return bad("is the name of two entries");
        }
        Ok(self)
    }

    /// What becomes of ticks that passed while no node generated. The generator makes up for the last
    /// ten minutes unless set.
    pub fn missed(mut self, missed: Missed) -> Self {
        self.crontab.set_missed(missed);
        self
    }

    /// The text of all messages, in which `{name}` is the entry's name and `{time}` the time of the tick.
    /// It is `{name}@{time}` unless set, such as `report@2026-11-15T10:00:00Z`.
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.text = Some(text.into());
        self
    }

    /// Makes what is due. Returns what to wait for if nothing is.
    fn fill(&mut self, now_ms: u64, batch: &mut Batch) -> Option<Step> {
        let since_ms = self.crontab.position().map_or(now_ms, |tick| tick.at_ms);
        for steps in 0..MAX_STEPS {
            if !batch.has_room() {
                break;
            }
            match self.crontab.step(now_ms) {
                Step::Due(tick) => {
                    let key = written(TEXT, &tick);
                    match &self.text {
                        None => batch.push_keyed(&key, key.as_bytes()),
                        Some(text) => batch.push_keyed(&key, written(text, &tick).as_bytes()),
                    }
                }
                Step::LeftOut(tick) => {
                    batch.left_out = LeftOut {
                        count: batch.left_out.count + 1,
                        of_ms: tick.at_ms.saturating_sub(since_ms),
                        at_most_ms: self.crontab.at_most().as_millis() as u64,
                    }
                }
                idle if steps == 0 => return Some(idle),
                _ => break,
            }
        }
        batch.is_scheduled = batch.count() > 0;
        None
    }
}

/// A text with the name and the time of a tick.
fn written(text: &str, tick: &Tick) -> String {
    let at = UNIX_EPOCH + Duration::from_millis(tick.at_ms);
    let time = humantime::format_rfc3339_seconds(at).to_string();
    // The name last: it may have braces.
    text.replace("{time}", &time).replace("{name}", &tick.name)
}

impl Source for Cron {
    async fn open(&mut self, from: Position<'_>) -> Result<(), SourceError> {
        let position = from.cursor.and_then(Tick::parse);
        self.begins_anew = from.cursor.is_some() && position.is_none();
        self.crontab.resume(position);
        self.clock = Some(from.clock.clone());
        Ok(())
    }

    async fn next(&mut self, batch: &mut Batch) -> Result<Flow, SourceError> {
        let Some(clock) = self.clock.clone() else {
            return Err(SourceError::fatal("the source is not open"));
        };
        loop {
            let now_ms = clock.now_ms();
            // Redis has the beginning before the first tick: a generator killed until then misses none.
            if !self.crontab.begins(now_ms) {
                match self.fill(now_ms, batch) {
                    None => {}
                    Some(Step::Wait(at_ms)) => {
                        let due = clock.sleep_until(at_ms);
                        let _ = tokio::time::timeout(LOOK_AGAIN, due).await;
                        continue;
                    }
                    Some(_) => return Ok(Flow::End),
                }
            }
            if let Some(position) = self.crontab.position() {
                batch.set_cursor(position.cursor());
            }
            batch.begins_anew = std::mem::take(&mut self.begins_anew);
            return Ok(Flow::More);
        }
    }

    fn kind(&self) -> &str {
        "cron"
    }
}
