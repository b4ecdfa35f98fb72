//! `baton cron`: what a cron expression means.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use baton::CronSpec;

use crate::args::CronCommand;
use crate::stdout;

/// Runs `baton cron next`.
pub(crate) fn run(command: &CronCommand) -> anyhow::Result<ExitCode> {
    let CronCommand::Next { count, spec } = command;
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let table = table(spec, *count, now.as_millis() as u64);
    stdout::print(table.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// One line per tick: in UTC, and as the clocks of the zone show it.
fn table(spec: &CronSpec, count: u16, now_ms: u64) -> String {
    let ticks = std::iter::successors(spec.next_after(now_ms), |tick| spec.next_after(*tick));
    let mut table = String::new();
    for tick in ticks.take(count.into()) {
        let utc = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_millis(tick));
        // Writing to a string cannot fail.
        let _ = writeln!(table, "{utc}  {}  {}", spec.local(tick), spec.zone());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_shown_in_utc_and_in_their_zone() {
        let spec = CronSpec::new("30 2 * * *", "europe/vienna").unwrap();
        // 2026-03-27T12:00:00Z, two days before the clocks are put forward.
        let table = table(&spec, 3, 1_774_612_800_000);
        assert_eq!(
            table,
            "2026-03-28T01:30:00Z  2026-03-28T02:30:00+01:00  Europe/Vienna\n\
             2026-03-29T01:00:00Z  2026-03-29T03:00:00+02:00  Europe/Vienna\n\
             2026-03-30T00:30:00Z  2026-03-30T02:30:00+02:00  Europe/Vienna\n"
        );
    }
}
