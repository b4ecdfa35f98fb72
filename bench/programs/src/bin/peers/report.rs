//! The table, on the screen and in docs/performance.md.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Result;
use baton_figures::Section;
use baton_print::thousands;
use baton_report::stats::Spread;

use crate::findings;
use crate::result::Row;
use crate::speed::SIZE;

/// Where the table and the chart are.
pub(crate) const SECTION: Section = Section("peers");

const HEAD: &str = "\
| peer | version | language | messages | messages/s | ours ÷ it | Redis CPU µs/message | ours | worker RSS MB | ours | kill -9 → runs again |
|---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|
";

/// The whole text between the markers, but for the chart.
pub(crate) fn table(rows: &[Row], recovery: Duration, server: &str, runs: usize) -> Result<String> {
    let mut text = conditions(server, runs)?;
    text.push_str("\n\n");
    text.push_str(HEAD);
    for row in rows {
        let _ = writeln!(text, "{}", line(row));
    }
    let _ = writeln!(text, "\n{}", ours(rows, recovery));
    for finding in findings::of(rows, recovery) {
        let _ = write!(text, "\n- {finding}");
    }
    Ok(text)
}

/// On what, and how.
fn conditions(server: &str, runs: usize) -> Result<String> {
    let cores = std::thread::available_parallelism()?;
    Ok(format!(
        "{server} without persistence on {cores} cores, texts of {SIZE} bytes, one producer and \
         two workers each; the median of {runs} and, in parentheses, the least and the most."
    ))
}

fn line(row: &Row) -> String {
    let (name, language) = (row.peer.name, row.peer.language());
    let version = row.version.as_deref().unwrap_or_default();
    let failure = row.failure.as_ref().map(|why| format!("failed: {why}"));
    if let Some(why) = row.obstacle.as_ref().or(failure.as_ref()) {
        let why = why.replace(['|', '\n'], " ");
        return format!("| {name} | {version} | {language} | | {why} | | | | | | |");
    }
    let pair = |values: Option<(Spread, Spread)>| {
        values.map_or((String::new(), String::new()), |(theirs, ours)| {
            (number(theirs.median), number(ours.median))
        })
    };
    let (rate, ratio) = row
        .rate()
        .map_or((String::new(), String::new()), |(theirs, ours)| {
            let ratio = format!("{} ×", number(ours.median / theirs.median));
            (words(theirs), ratio)
        });
    let ((redis, our_redis), (rss, our_rss)) = (pair(row.redis_us()), pair(row.rss_mb()));
    let recovery = row
        .recovery
        .map_or(String::new(), |recovery| recovery.to_string());
    let messages = thousands(row.messages);
    format!(
        "| {name} | {version} | {language} | {messages} | {rate} | {ratio} | {redis} | {our_redis} \
         | {rss} | {our_rss} | {recovery} |"
    )
}

/// Ours on a line of its own: it ran beside every peer, with as many messages.
fn ours(rows: &[Row], recovery: Duration) -> String {
    let mut counts: Vec<u64> = rows.iter().map(|row| row.messages).collect();
    counts.sort_unstable();
    counts.dedup();
    let rates: Vec<String> = counts
        .into_iter()
        .filter_map(|count| {
            let rate = words(our_rate(rows, count)?);
            Some(format!(
                "{rate} messages/s at {} messages",
                thousands(count)
            ))
        })
        .collect();
    format!(
        "Ours: {}; kill -9 → runs again {:.2} s.",
        rates.join(", "),
        recovery.as_secs_f64()
    )
}

/// Our rate over all runs of so many messages.
pub(crate) fn our_rate(rows: &[Row], messages: u64) -> Option<Spread> {
    let rows = rows.iter().filter(|row| row.messages == messages);
    Spread::of(rows.flat_map(|row| &row.ours).map(|speed| speed.rate))
}

fn words(spread: Spread) -> String {
    let [median, min, max] = [spread.median, spread.min, spread.max].map(number);
    if min == max {
        return median;
    }
    format!("{median} ({min}–{max})")
}

/// About three digits: more would not be the same in the next run.
pub(crate) fn number(value: f64) -> String {
    if value < 99.95 {
        return format!("{value:.1}");
    }
    let unit = 10f64.powi(value.log10() as i32 - 2).max(1.0);
    thousands(((value / unit).round() * unit) as u64)
}

/// Puts the table and the chart into the document.
pub(crate) fn write(table: &str) -> Result<()> {
    let picture = "![messages/s of every peer, on a logarithmic scale](peers.svg)";
    SECTION.write(&format!("{picture}\n\n{table}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_about_three_digits_and_thousands_are_marked() {
        let numbers = [0.44, 7.25, 99.99, 123.4, 5734.0, 1_234_567.0].map(number);
        assert_eq!(numbers, ["0.4", "7.2", "100", "123", "5,730", "1,230,000"]);
    }
}
