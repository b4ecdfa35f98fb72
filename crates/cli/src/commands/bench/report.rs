//! The report of a bench: figures, messages per second, latency.

use std::fmt::Write as _;

use baton_bench::Timeline;
use baton_print::thousands;
use baton_report::Plot;
use baton_report::scale::steps;
use baton_report::stats::Spread;
use baton_report::text::escape;

use super::MAX_FINDINGS;
use super::summary::{Measured, Summary, whole};

/// Bars of the latency plot per power of ten.
const BARS: f64 = 8.0;

const STYLE: &str = include_str!("report.css");

/// The whole page.
pub(super) fn page(summary: &Summary) -> String {
    let mut body = String::new();
    let verdict = match summary.findings().next() {
        None => "each exactly once",
        Some(_) => "and the audit failed",
    };
    // Writing to a string cannot fail.
    let _ = write!(
        body,
        "<h1>{} messages, {verdict}</h1>\n<p class=\"lead\">One generator and {} workers \
         as real processes, {} bytes of random text each, on {}. Every message was accounted for \
         within the time.</p>\n{}",
        thousands(summary.messages),
        summary.workers,
        summary.size,
        escape(&summary.server()),
        tiles(summary),
    );
    if let Some(shown) = summary.middle_run() {
        body.push_str(&pace(shown));
        body.push_str(&latency(&shown.timeline));
    }
    body.push_str(&table(summary));
    baton_report::page("Baton bench", STYLE, &body)
}

fn tiles(summary: &Summary) -> String {
    let (rate, seconds) = (summary.rate().median, summary.seconds().median);
    let mut tiles = vec![
        (whole(rate), "messages per second", ""),
        (format!("{seconds:.2} s"), "audit included", ""),
    ];
    if let Some(ratio) = summary.ratio() {
        tiles.push((format!("{:.2} ×", ratio.median), "an unsafe queue", ""));
    }
    let p99 = summary.quantile_ms(0.99).median;
    tiles.push((format!("{p99:.1} ms"), "publish → commit, p99", ""));
    if summary.kills() > 0 {
        tiles.push((summary.kills().to_string(), "killed with -9", ""));
    }
    let (verdict, class) = match summary.findings().next() {
        None => ("clean", "good"),
        Some(_) => ("FAILED", "bad"),
    };
    tiles.push((verdict.to_owned(), "audit", class));
    baton_report::tiles(&tiles)
}

/// Messages per second over time, with the reigns and the kills.
fn pace(shown: &Measured) -> String {
    let (run, timeline) = (&shown.run, &shown.timeline);
    let rate = |count: u64| count as f64 / timeline.step;
    let slices = timeline.slices.iter();
    let counts = slices.map(|slice| slice.published.max(slice.ended));
    let y_max = rate(counts.max().unwrap_or_default()) * 1.05;
    let x_max = timeline.step * timeline.slices.len() as f64;
    let mut plot = Plot::new((0.0, x_max), y_max);
    for (index, reign) in timeline.reigns.iter().enumerate() {
        let class = if index % 2 == 0 {
            "reign"
        } else {
            "reign other"
        };
        let label = format!("generator of epoch {}", reign.epoch);
        plot.band(reign.from, reign.to, class, &label);
    }
    for y in steps(y_max, 4.0) {
        plot.y_mark(y, &short(y));
    }
    for x in steps(x_max, 8.0) {
        plot.x_mark(x, &format!("{} s", (x * 1000.0).round() / 1000.0));
    }
    let middle = |index: usize| (index as f64 + 0.5) * timeline.step;
    let slices = || timeline.slices.iter().enumerate();
    let published = slices().map(|(index, slice)| (middle(index), rate(slice.published)));
    plot.line(published, "published");
    let ended = slices().map(|(index, slice)| (middle(index), rate(slice.ended)));
    plot.line(ended, "ended");
    for kill in &run.kills {
        let (class, who) = match kill.generator {
            true => ("kill", "the generator"),
            false => ("kill worker", "a worker"),
        };
        plot.mark(kill.at, class, &format!("{who} killed at {:.3} s", kill.at));
    }
    let mut legend = "<span class=\"key published\">published</span> \
                      <span class=\"key ended\">committed</span>"
        .to_owned();
    if !run.kills.is_empty() {
        legend.push_str(
            " <span class=\"key kill\">generator killed</span> \
             <span class=\"key worker\">worker killed</span> \
             <span class=\"key reign\">one generator's reign</span>",
        );
    }
    format!(
        "<section>\n<h2>Messages per second</h2>\n<p>{legend}</p>\n{}{}</section>\n",
        plot.picture("Messages per second over time"),
        gaps(timeline)
    )
}

/// The time without a publish at each change of the generator.
fn gaps(timeline: &Timeline) -> String {
    let pairs = timeline.reigns.windows(2);
    let gaps = pairs.map(|pair| (pair[1].from - pair[0].to) * 1000.0);
    let Some(gaps) = Spread::of(gaps) else {
        return String::new();
    };
    let Spread {
        median,
        min,
        max,
        count,
    } = gaps;
    format!(
        "<p>The generator changed hands {count} times; from the last message of one to the first of \
         the next it took {median:.0} ms in the middle case ({min:.0} to {max:.0} ms).</p>\n"
    )
}

/// How many messages took how long, on a logarithmic scale.
fn latency(timeline: &Timeline) -> String {
    let times = timeline.latency.times();
    let all: u64 = times.iter().map(|(_, count)| count).sum();
    let place = |us: u64| (us.max(1) as f64 / 1000.0).log10();
    let (Some((shortest, _)), Some((longest, _))) = (times.first(), times.last()) else {
        return String::new();
    };
    let (from, to) = (place(*shortest).floor(), place(*longest).ceil());
    let to = to.max(from + 1.0);
    let mut shares = vec![0.0; ((to - from) * BARS) as usize];
    let last = shares.len() - 1;
    for (us, count) in times {
        let index = ((place(*us) - from) * BARS) as usize;
        shares[index.min(last)] += 100.0 * *count as f64 / all as f64;
    }
    let y_max = shares.iter().copied().fold(0.0, f64::max) * 1.05;
    let mut plot = Plot::new((from, to), y_max);
    for y in steps(y_max, 4.0) {
        plot.y_mark(y, &format!("{y} %"));
    }
    let mut power = from;
    while power <= to {
        plot.x_mark(power, &format!("{} ms", 10f64.powf(power)));
        power += 1.0;
    }
    for (index, share) in shares.iter().enumerate() {
        let x = from + index as f64 / BARS;
        let label = format!("{share:.1} % up to {:.2} ms", 10f64.powf(x + 1.0 / BARS));
        plot.bar(x, x + 1.0 / BARS, *share, "bar", &label);
    }
    for (share, name) in [(0.5, "p50"), (0.99, "p99"), (0.999, "p99.9")] {
        let ms = timeline.latency.quantile_ms(share);
        plot.mark(
            ms.max(0.001).log10(),
            "quantile",
            &format!("{name}: {ms:.2} ms"),
        );
    }
    format!(
        "<section>\n<h2>From publish to commit</h2>\n<p>Share of messages by the time they took, \
         on Redis's clock; the lines are p50, p99 and p99.9. At full speed most of it is waiting \
         in the queue.</p>\n{}</section>\n",
        plot.picture("Distribution of the time from publish to commit")
    )
}

fn table(summary: &Summary) -> String {
    let mut html = "<section>\n<h2>Figures</h2>\n<table>\n<tbody>\n".to_owned();
    for (what, words) in summary.lines() {
        let _ = writeln!(
            html,
            "<tr><th scope=\"row\">{}</th><td>{}</td></tr>",
            escape(what),
            escape(&words)
        );
    }
    html.push_str("</tbody>\n</table>\n");
    let findings: Vec<String> = summary
        .findings()
        .take(MAX_FINDINGS)
        .map(|finding| format!("<li>{}</li>\n", escape(&finding.to_string())))
        .collect();
    if !findings.is_empty() {
        let _ = write!(
            html,
            "<h2>Findings</h2>\n<ul>\n{}</ul>\n",
            findings.concat()
        );
    }
    html + "</section>\n"
}

/// A large number in few characters.
fn short(figure: f64) -> String {
    match figure {
        figure if figure >= 1e6 => format!("{} M/s", (figure / 1e5).round() / 10.0),
        figure if figure >= 1e3 => format!("{} k/s", (figure / 1e2).round() / 10.0),
        figure => format!("{figure:.0} /s"),
    }
}
