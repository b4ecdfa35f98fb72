//! When an entry of a crontab is due.

use std::fmt;

use croner::errors::CronError as ParseError;
use croner::parser::{CronParser, Seconds, Year};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{Timestamp, Zoned};

use super::fields;

/// Words that stand for an expression.
const NICKNAMES: [&str; 7] = [
    "@hourly",
    "@daily",
    MIDNIGHT,
    "@weekly",
    "@monthly",
    "@yearly",
    "@annually",
];

/// Another word for `@daily`, which the parser does not know.
const MIDNIGHT: &str = "@midnight";

/// The ticks of a cron expression in a time zone.
///
/// A tick is a moment of whole seconds. Which ticks there are depends on nothing but the expression and
/// the zone, whose rules come with this crate, not from the machine.
#[derive(Debug, Clone)]
pub struct CronSpec {
    cron: croner::Cron,
    zone: TimeZone,
}

/// What is wrong with an entry of a crontab, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CronError(pub(super) String);

impl fmt::Display for CronError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CronError {}

impl CronSpec {
    /// Reads an expression: minute, hour, day of the month, month and weekday, with seconds in front if
    /// there are six fields; or `@hourly`, `@daily`, `@midnight`, `@weekly`, `@monthly`, `@yearly`. The
    /// zone is a name such as `Europe/Vienna`, or `UTC`.
    ///
    /// # Errors
    ///
    /// If it is no such expression, if it has no tick at all, or if there is no such zone.
    pub fn new(spec: &str, zone: &str) -> Result<Self, CronError> {
        let bad = |why: &str| CronError(format!("'{spec}' is no cron expression: {why}"));
        let fields = spec.split_whitespace().count();
        match spec.trim_start().starts_with('@') {
            true if !NICKNAMES.contains(&spec.trim().to_ascii_lowercase().as_str()) => {
                return Err(bad(&format!("write one of {}", NICKNAMES.join(", "))));
            }
            false if fields != 5 && fields != 6 => {
                return Err(bad(
                    "write minute, hour, day, month and weekday, with seconds in front if you like",
                ));
            }
            _ => {}
        }
        if let Some(why) = fields::complaint(spec) {
            return Err(bad(&why));
        }
        let pattern = match spec.trim().eq_ignore_ascii_case(MIDNIGHT) {
            true => "@daily",
            false => spec,
        };
        let parser = CronParser::builder()
            .seconds(Seconds::Optional)
            .year(Year::Disallowed)
            .build();
        let cron = parser.parse(pattern).map_err(|error| bad(&words(error)))?;
        let zone = TimeZoneDatabase::bundled()
            .get(zone)
            .map_err(|_| CronError(format!("there is no time zone '{zone}'")))?;
        let spec_of_zone = Self { cron, zone };
        match spec_of_zone.next_after(0) {
            Some(_) => Ok(spec_of_zone),
            None => Err(CronError(format!("'{spec}' never fires"))),
        }
    }

    /// The first tick after a time; both in ms since 1970. None if there is none.
    pub fn next_after(&self, after_ms: u64) -> Option<u64> {
        // Ticks are whole seconds: behind a second and behind a moment within it are the same ticks.
        let after = self.at(after_ms)?;
        let next = self.cron.find_next_occurrence(&after, false).ok()?;
        let next = u64::try_from(next.timestamp().as_second()).ok()? * 1000;
        Some(next).filter(|next| *next > after_ms)
    }

    /// The last tick until `now_ms`, given an earlier one.
    pub(super) fn last_until(&self, tick_ms: u64, now_ms: u64) -> u64 {
        let until_now = |after_ms| self.next_after(after_ms).filter(|tick| *tick <= now_ms);
        // Looks back twice as far each time, so it walks few ticks, however many there are.
        let mut span = 1000;
        let mut last = loop {
            let after = now_ms.saturating_sub(span);
            if after <= tick_ms {
                break tick_ms;
            }
            match until_now(after) {
                Some(tick) => break tick,
                None => span *= 2,
            }
        };
        while let Some(tick) = until_now(last) {
            last = tick;
        }
        last
    }

    /// A time in ms since 1970 as the clocks of the zone show it, such as `2026-11-15T11:00:00+01:00`.
    /// Empty for a time after the year 9999.
    pub fn local(&self, at_ms: u64) -> String {
        let local = self.at(at_ms);
        local.map_or_else(String::new, |local| {
            local.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()
        })
    }

    /// The name of the zone.
    pub fn zone(&self) -> &str {
        self.zone.iana_name().unwrap_or("UTC")
    }

    fn at(&self, ms: u64) -> Option<Zoned> {
        let second = i64::try_from(ms / 1000).ok()?;
        let at = Timestamp::from_second(second).ok()?;
        Some(at.to_zoned(self.zone.clone()))
    }
}

/// The reason without the parser's names for it.
fn words(error: ParseError) -> String {
    match error {
        ParseError::InvalidPattern(why)
        | ParseError::IllegalCharacters(why)
        | ParseError::ComponentError(why) => why.trim_end_matches('.').to_owned(),
        error => error.to_string(),
    }
}
