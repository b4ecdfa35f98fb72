//! The report: one HTML file about a run.
//!
//! [`timeline`] lays the run out: the row of each life, the strikes, the handovers. [`strip`] and
//! [`overview`] draw that, and [`tables`] lists the faults.

mod overview;
mod strip;
mod tables;
mod timeline;
mod window;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;

use baton_print::thousands;
use baton_report::Times;
use baton_report::stats::{quantile, sorted};
use baton_report::text::{escape, millis};

use crate::history::{End, History};

const STYLE: &str = include_str!("report/report.css");
const LEGEND: &str = include_str!("report/legend.html");
const TAKEOVER: &str = "Takeover: from the death of a generator to its successor's seal";
const RECOVERY: &str =
    "Recovery: from the death of a worker to its messages being back in the queue";
const RECOVERED: &str = "Settled: from the end of the fault until a node generated, the backlog was \
    gone and the books balanced.";
/// What stands behind the verdict.
const CHECKED: &str = "Every publish and every commit writes an entry into a ledger in Redis, in \
    the same atomic step and with a digest of its texts. The verdict compares everything else with \
    that ledger. Redis must have accepted each number up to the last once, and each message must \
    have ended once, as done or as failed, with the text that was generated. Fewer ends are lost \
    messages, more are duplicates, and an end without a publish is a phantom. The logs of all \
    processes and the output of the drains must agree with the ledger: no log line about something \
    that did not happen, no failed message that is gone and was never printed. After each fault \
    the fleet must return to one generator, no backlog and balanced books; otherwise that is a \
    finding, too. A command or a service that handles messages lets each one count in Redis when it \
    is done: that counter must be the number of messages that are done, after every fault. No \
    command may be left at the end, nor run on beside the next attempt of its message after its \
    node is dead. A group of servers may forget what its master had acknowledged: then the ledger is \
    that of the timeline that survived. Nothing that was confirmed by all replicas may be gone, every \
    other number that is gone must be named by a node, unless all who knew it are dead, and no \
    number that a living node knew may get another text.";

/// The whole page.
pub fn page(run: &History) -> String {
    let (title, is_good) = title(run);
    let class = if is_good { "" } else { " class=\"bad\"" };
    let findings: String = run.verdict.findings.iter().map(finding).collect();
    let times = baton_report::dots(&[
        times(TAKEOVER, "takeover", &run.takeovers_ms),
        times(RECOVERY, "recovery", &run.recoveries_ms),
    ]);
    let kinds = match run.faults.is_empty() {
        true => String::new(),
        false => format!("<p>{RECOVERED}</p>\n{}", tables::kinds(run)),
    };
    let body = [
        format!(
            "<h1{class}>{title}</h1>\n<p class=\"lead\">{}</p>\n",
            lead(run)
        ),
        tiles(run),
        section("<h2 class=\"bad\">Findings</h2>", &findings),
        section("<h2>The run</h2>", &format!("{LEGEND}{}", strip::draw(run))),
        section("<h2>How fast the fleet gets over a death</h2>", &times),
        section("<h2>Faults by kind</h2>", &kinds),
        section("<h2>Every fault</h2>", &tables::faults(run)),
        section("<h2>What is checked</h2>", &format!("<p>{CHECKED}</p>\n")),
    ];
    baton_report::page(&format!("Baton chaos: {title}"), STYLE, &body.concat())
}

/// A part of the page; nothing if it is empty.
fn section(heading: &str, content: &str) -> String {
    match content {
        "" => String::new(),
        content => format!("<section>\n{heading}\n{content}</section>\n"),
    }
}

fn finding(text: impl AsRef<str>) -> String {
    format!("<pre class=\"finding\">{}</pre>\n", escape(text.as_ref()))
}

fn times<'a>(caption: &'a str, class: &'a str, ms: &[f64]) -> Times<'a> {
    let ms = sorted(ms.iter().copied());
    Times { caption, class, ms }
}

/// A count and the word for what is counted.
fn counted(count: usize, one: &str, more: &str) -> String {
    let word = if count == 1 { one } else { more };
    format!("{} {word}", thousands(count as u64))
}

/// A moment, in seconds since the run began.
fn moment(at_s: f64) -> String {
    format!("{at_s:.2} s")
}

/// The verdict in words, and whether it is a good one.
fn title(run: &History) -> (String, bool) {
    let verdict = &run.verdict;
    let mut wrong: Vec<String> = Vec::new();
    for (count, what) in [
        (verdict.lost, "lost"),
        (verdict.duplicated, "duplicated"),
        (verdict.phantom, "never published"),
    ] {
        match wrong.len() {
            _ if count == 0 => {}
            0 => wrong.push(counted(count as usize, "message", "messages") + " " + what),
            _ => wrong.push(format!("{} {what}", thousands(count))),
        }
    }
    let ended = verdict.done + verdict.failed;
    if wrong.is_empty() && !verdict.findings.is_empty() {
        wrong.push(counted(verdict.findings.len(), "finding", "findings"));
    } else if wrong.is_empty() && ended != verdict.published {
        wrong.push(format!("{} ended", thousands(ended)));
    }
    let faults = counted(run.faults.len(), "fault", "faults");
    let messages = counted(verdict.published as usize, "message", "messages");
    if !wrong.is_empty() {
        let wrong = wrong.join(", ");
        return (format!("{wrong} after {faults} and {messages}"), false);
    }
    // A run without messages proves nothing.
    let is_good = verdict.published > 0;
    let words = match is_good {
        true => "every one ended exactly once",
        false => "nothing was tried",
    };
    (format!("{faults}, {messages}: {words}"), is_good)
}

/// The run in one sentence.
fn lead(run: &History) -> String {
    let killed = run.lives.iter().filter(|life| life.end == End::Killed);
    format!(
        "{}, {:.0} s: {} with kill -9, and the baton changed hands {}.",
        counted(run.lives.len(), "real process", "real processes"),
        run.seconds,
        counted(killed.count(), "was killed", "were killed"),
        counted(run.handovers().len(), "time", "times"),
    )
}

fn tiles(run: &History) -> String {
    let verdict = &run.verdict;
    let alarm = |count, what| {
        (
            thousands(count),
            what,
            if count > 0 { "bad" } else { "good" },
        )
    };
    let pair = |ms: &[f64]| {
        let ms = sorted(ms.iter().copied());
        let quantiles = quantile(&ms, 0.5).zip(quantile(&ms, 0.99));
        let words = quantiles.map(|(p50, p99)| format!("{} / {}", millis(p50), millis(p99)));
        words.unwrap_or_else(|| "none".to_owned())
    };
    let known = |text: &str| if text.is_empty() { "unknown" } else { text }.to_owned();
    let done = match verdict.counted {
        Some(counted) => format!("done, {} counted", thousands(counted)),
        None => "done".to_owned(),
    };
    let failed = format!("failed, {} drained", thousands(verdict.drained));
    baton_report::tiles(&[
        (thousands(verdict.published), "messages", ""),
        (thousands(verdict.done), done.as_str(), ""),
        (thousands(verdict.failed), failed.as_str(), ""),
        alarm(verdict.lost, "lost"),
        alarm(verdict.duplicated, "duplicated"),
        alarm(verdict.phantom, "phantom"),
        (thousands(run.faults.len() as u64), "faults", ""),
        (pair(&run.takeovers_ms), "takeover, p50 / p99", "two"),
        (pair(&run.recoveries_ms), "recovery, p50 / p99", "two"),
        (known(&run.server), "server", "words"),
        (known(&run.durability), "durability", "words"),
        (run.seed.to_string(), "seed", "words"),
        (run.command.clone(), "runs it again", "again"),
    ])
}
