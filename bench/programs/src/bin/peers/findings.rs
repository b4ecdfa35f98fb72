//! What the table says, in words: where a peer wins, and by how much.

use std::time::Duration;

use crate::report::number;
use crate::result::{Recovery, Row};

/// How many times the fastest peer's rate ours is meant to be.
const GOAL: f64 = 10.0;

/// One line for each finding.
pub(crate) fn of(rows: &[Row], recovery: Duration) -> Vec<String> {
    let mut lines: Vec<String> = rows.iter().flat_map(|row| wins(row, recovery)).collect();
    if lines.is_empty() {
        lines.push("No peer wins a column.".to_owned());
    }
    lines.extend(rows.iter().filter_map(repeats));
    lines.extend(fastest(rows));
    lines
}

/// The columns that a peer wins.
fn wins(row: &Row, recovery: Duration) -> Vec<String> {
    let name = row.peer.name;
    let mut lines = Vec::new();
    if let Some((theirs, ours)) = row.rate()
        && theirs.median > ours.median
    {
        let by = theirs.median / ours.median;
        lines.push(format!("{name} wins messages/s by {by:.1} ×."));
    }
    let costs = [
        ("Redis CPU", "µs", row.redis_us()),
        ("worker memory", "MB", row.rss_mb()),
    ];
    for (what, unit, values) in costs {
        if let Some((theirs, ours)) = values
            && theirs.median < ours.median
        {
            lines.push(format!(
                "{name} wins {what} by {:.1} × ({} against {} {unit}).",
                ours.median / theirs.median,
                number(theirs.median),
                number(ours.median),
            ));
        }
    }
    if let Some(Recovery::After(time)) = row.recovery
        && time < recovery
    {
        let by = recovery.as_secs_f64() / time.as_secs_f64();
        lines.push(format!("{name} wins kill -9 → runs again by {by:.1} ×."));
    }
    lines
}

/// Whether a peer handled messages twice although nobody was killed.
fn repeats(row: &Row) -> Option<String> {
    let extra: u64 = row.theirs.iter().map(|speed| speed.extra).sum();
    let handled = row.messages * row.theirs.len() as u64;
    (extra > 0).then(|| {
        format!(
            "{} ran its handler {extra} times too often for {handled} messages, with nothing killed.",
            row.peer.name
        )
    })
}

/// Whether ours is as much faster than the fastest as it is meant to be.
fn fastest(rows: &[Row]) -> Option<String> {
    let rates = rows.iter().filter_map(|row| Some((row, row.rate()?)));
    let (row, (theirs, ours)) = rates.max_by(|a, b| a.1.0.median.total_cmp(&b.1.0.median))?;
    let times = ours.median / theirs.median;
    let verdict = if times >= GOAL {
        "holds"
    } else {
        "does not hold"
    };
    Some(format!(
        "At least {GOAL} × the fastest: {verdict} (the fastest of these is {}; ours is {times:.1} × that).",
        row.peer.name
    ))
}
