//! The report: one HTML file that needs nothing else, in light and dark.
//!
//! Its heart is the picture of who lived when in which role, and how the baton went from hand
//! to hand while one fault after the other hit the fleet.

mod density;
mod faults;
mod flags;
mod frame;
mod lives;
mod overview;
mod rows;
mod spread;
mod strikes;
mod timeline;
mod words;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::record::{End, Record, Verdict};
use words::{escape, many, millis, quantile, sorted, thousands};

const STYLE: &str = include_str!("report/report.css");

/// The stripes of whoever was stopped in its tracks, for all pictures of the page.
const HATCH: &str = r#"<svg class="defs" width="0" height="0" aria-hidden="true"><defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="ground" width="6" height="6"/><rect class="stripe" width="2.5" height="6"/></pattern></defs></svg>"#;

/// What stands behind the verdict.
const CHECKED: &str = "Every publish and every commit writes a line into a ledger in Redis, in \
    the very step that it tells of and with a digest of its texts; everything else is held \
    against that ledger. Each number up to the last must have been accepted once and ended once, \
    as done or as failed and with the text that was generated: less is lost, more is duplicated, \
    and an end without a beginning is a phantom. The logs of all processes and what the drains \
    printed must agree with it, so that nothing is told that did not happen and no failed message \
    is gone that nobody has seen. After each fault the fleet must find back to one generator, no \
    backlog and balanced books, or that is a finding too.";

/// The whole page, about one run or several.
pub fn page(records: &[Record]) -> String {
    let sum = sum(records);
    let (title, clean) = title(records, &sum);
    let class = if clean { "" } else { " class=\"bad\"" };
    let mut body = format!(
        "<h1{class}>{title}</h1>\n<p class=\"lead\">{}</p>\n{}{}",
        lead(records),
        tiles(records, &sum),
        findings(records),
    );
    body.push_str(HATCH);
    let mut first = 1;
    for record in records {
        let head = match records.len() {
            1 => "The run".to_owned(),
            _ => format!("Seed {}", record.seed),
        };
        // Once is enough.
        let legend = if first == 1 {
            timeline::legend()
        } else {
            String::new()
        };
        // Writing to a string cannot fail.
        let _ = write!(
            body,
            "<section>\n<h2>{head}</h2>\n{}{legend}{}</section>\n",
            facts(records, record),
            timeline::timeline(record, first),
        );
        first += record.faults.len();
    }
    body.push_str(&times(records));
    if first > 1 {
        let _ = write!(
            body,
            "<section>\n<h2>Faults by kind</h2>\n<p>Settled: from the end of the fault until \
             somebody generated, the backlog was gone and the books balanced.</p>\n{}</section>\n\
             <section>\n<h2>Every fault</h2>\n{}</section>\n",
            faults::kinds(records),
            faults::table(records),
        );
    }
    let _ = write!(
        body,
        "<section>\n<h2>What is checked</h2>\n<p>{CHECKED}</p>\n</section>\n"
    );
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Baton chaos: {title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
         {body}</main>\n</body>\n</html>\n"
    )
}

/// One verdict over all runs. Its findings say in which run they were made if there are several.
fn sum(records: &[Record]) -> Verdict {
    let mut sum = Verdict::default();
    for record in records {
        let verdict = &record.verdict;
        sum.published += verdict.published;
        sum.done += verdict.done;
        sum.failed += verdict.failed;
        sum.drained += verdict.drained;
        sum.lost += verdict.lost;
        sum.duplicated += verdict.duplicated;
        sum.phantom += verdict.phantom;
        let seed = match records.len() {
            1 => String::new(),
            _ => format!("seed {}: ", record.seed),
        };
        let told = verdict.findings.iter();
        sum.findings
            .extend(told.map(|finding| format!("{seed}{finding}")));
    }
    sum
}

/// The verdict in words, and whether it is a good one.
fn title(records: &[Record], sum: &Verdict) -> (String, bool) {
    let faults: usize = records.iter().map(|record| record.faults.len()).sum();
    let mut wrong = Vec::new();
    for (count, what) in [
        (sum.lost, "lost"),
        (sum.duplicated, "duplicated"),
        (sum.phantom, "never published"),
    ] {
        match wrong.is_empty() {
            _ if count == 0 => {}
            true => wrong.push(format!("{} {what}", many(count, "message", "messages"))),
            false => wrong.push(format!("{} {what}", thousands(count))),
        }
    }
    let ended = sum.done + sum.failed;
    if wrong.is_empty() && !sum.findings.is_empty() {
        wrong.push(many(sum.findings.len() as u64, "finding", "findings"));
    } else if wrong.is_empty() && ended != sum.published {
        wrong.push(format!("{} ended", thousands(ended)));
    }
    let faults = many(faults as u64, "fault", "faults");
    let messages = many(sum.published, "message", "messages");
    match wrong.is_empty() {
        // Nothing proves nothing.
        true if sum.published == 0 => (format!("{faults}, {messages}: nothing was tried"), false),
        true => (
            format!("{faults}, {messages}: every one ended exactly once"),
            true,
        ),
        false => (
            format!("{} after {faults} and {messages}", wrong.join(", ")),
            false,
        ),
    }
}

/// What was done to whom, in one sentence.
fn lead(records: &[Record]) -> String {
    let lanes = || records.iter().flat_map(|record| &record.lanes);
    let killed = lanes().filter(|lane| lane.end == End::Killed).count();
    let handovers: usize = records
        .iter()
        .map(|record| lives::handovers(&record.lanes).len())
        .sum();
    let seconds: f64 = records.iter().map(|record| record.seconds).sum();
    let runs = match records.len() {
        1 => String::new(),
        count => format!("{}, ", many(count as u64, "run", "runs")),
    };
    format!(
        "{runs}{}, {seconds:.0} s: {} with kill -9, and the baton changed hands {}.",
        many(lanes().count() as u64, "real process", "real processes"),
        many(killed as u64, "was killed", "were killed"),
        many(handovers as u64, "time", "times"),
    )
}

fn tiles(records: &[Record], sum: &Verdict) -> String {
    let bad = |count: u64| if count > 0 { "bad" } else { "good" };
    let faults: usize = records.iter().map(|record| record.faults.len()).sum();
    let takeovers = sorted(records.iter().flat_map(|r| r.takeovers_ms.iter().copied()));
    let recoveries = sorted(records.iter().flat_map(|r| r.recoveries_ms.iter().copied()));
    let pair = |ms: &[f64]| match (quantile(ms, 0.5), quantile(ms, 0.99)) {
        (Some(p50), Some(p99)) => format!("{} / {}", millis(p50), millis(p99)),
        _ => "none".to_owned(),
    };
    let drained = format!("failed, {} drained", thousands(sum.drained));
    let mut html = "<section class=\"tiles\">\n".to_owned();
    for (figure, what, class) in [
        (thousands(sum.published), "messages", ""),
        (thousands(sum.done), "done", ""),
        (thousands(sum.failed), drained.as_str(), ""),
        (thousands(sum.lost), "lost", bad(sum.lost)),
        (thousands(sum.duplicated), "duplicated", bad(sum.duplicated)),
        (thousands(sum.phantom), "phantom", bad(sum.phantom)),
        (thousands(faults as u64), "faults", ""),
        (pair(&takeovers), "takeover, p50 / p99", "two"),
        (pair(&recoveries), "recovery, p50 / p99", "two"),
        (
            each(records, |record| record.server.clone()),
            "server",
            "words",
        ),
        (
            each(records, |record| record.durability.clone()),
            "durability",
            "words",
        ),
        (
            each(records, |record| record.seed.to_string()),
            "seed",
            "words",
        ),
    ] {
        let _ = writeln!(
            html,
            "<div class=\"tile {class}\"><strong>{figure}</strong><span>{what}</span></div>"
        );
    }
    if let [record] = records {
        let _ = writeln!(
            html,
            "<div class=\"tile again\"><code>{}</code><span>runs it again</span></div>",
            escape(&record.command)
        );
    }
    html + "</section>\n"
}

/// What the runs have in common, or how many there are of it.
fn each(records: &[Record], of: impl Fn(&Record) -> String) -> String {
    let all: BTreeSet<String> = records.iter().map(of).collect();
    match all.iter().next() {
        Some(one) if all.len() == 1 && !one.is_empty() => escape(one),
        Some(_) if all.len() > 1 => format!("{} different", all.len()),
        _ => "unknown".to_owned(),
    }
}

/// What tells one run from the others.
fn facts(records: &[Record], record: &Record) -> String {
    if records.len() == 1 {
        return String::new();
    }
    format!(
        "<p>{}, {}, {:.0} s: <code>{}</code></p>\n",
        escape(&record.server),
        escape(&record.durability),
        record.seconds,
        escape(&record.command)
    )
}

/// Everything that must not be, in full.
fn findings(records: &[Record]) -> String {
    let findings = sum(records).findings;
    if findings.is_empty() {
        return String::new();
    }
    let mut html = "<section>\n<h2 class=\"bad\">Findings</h2>\n".to_owned();
    for finding in &findings {
        let _ = writeln!(html, "<pre class=\"finding\">{}</pre>", escape(finding));
    }
    html + "</section>\n"
}

/// How long takeovers and recoveries took.
fn times(records: &[Record]) -> String {
    let takeovers = records.iter().flat_map(|record| &record.takeovers_ms);
    let recoveries = records.iter().flat_map(|record| &record.recoveries_ms);
    let strips = spread::spread(&[
        spread::Times {
            what: "Takeover: from the death of a generator to its successor's seal",
            class: "takeover",
            ms: takeovers.copied().collect(),
        },
        spread::Times {
            what: "Recovery: from the death of a worker to its messages being back in the queue",
            class: "recovery",
            ms: recoveries.copied().collect(),
        },
    ]);
    if strips.is_empty() {
        return String::new();
    }
    format!("<section>\n<h2>How fast the fleet gets over a death</h2>\n{strips}</section>\n")
}
