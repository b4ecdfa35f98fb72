//! Where the messages are: counters with their history, and whether they balance.

use baton::inspect::{Point, Snapshot};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Line;
use ratatui::widgets::{RenderDirection, Sparkline};

use super::{line, section};
use crate::app::App;
use crate::format::{latency, rate, thousands, time_left};
use crate::text::{Column, cut, row};

const COLUMNS: [Column; 3] = [Column::left(9), Column::right(13), Column::right(8)];
const BEFORE_SPARKLINE: u16 = 9 + 13 + 8 + 3;

/// A figure and its history.
struct Metric {
    name: &'static str,
    now: String,
    /// Its rate; of the pending messages, that the workers are paused; of the delayed ones, when the
    /// first is due.
    beside: String,
    /// The value of a point, scaled so that small values do not all round to 0.
    history: fn(&Point) -> f64,
    style: Style,
}

/// How many lines this section needs below its title.
pub(super) fn lines(tall: bool) -> u16 {
    if tall { 10 } else { 7 }
}

pub(super) fn draw(frame: &mut Frame<'_>, app: &App, area: Rect) {
    let Some(snapshot) = app.snapshot() else {
        return;
    };
    let title = match snapshot.partitions.len() {
        0 => "Messages".to_owned(),
        partitions => format!("Messages in {partitions} partitions (! lists them)"),
    };
    let area = section(frame, app, area, &title, None);
    let metric_lines = usize::from(area.height.saturating_sub(1));
    for (at, metric) in metrics(app, snapshot)
        .into_iter()
        .take(metric_lines)
        .enumerate()
    {
        let place = line(area, at);
        let texts = [metric.name, &metric.now, &metric.beside];
        let text = row(COLUMNS.into_iter().zip(texts));
        frame.render_widget(Line::styled(text, metric.style), place);
        let place = Rect {
            x: place.x + BEFORE_SPARKLINE.min(place.width),
            width: place.width.saturating_sub(BEFORE_SPARKLINE),
            ..place
        };
        let points = app.view.trend.points().rev().take(place.width.into());
        let history = points.map(|point| (metric.history)(point).round() as u64);
        let sparkline = Sparkline::default()
            .data(history.collect::<Vec<_>>())
            .direction(RenderDirection::RightToLeft)
            .style(metric.style);
        frame.render_widget(sparkline, place);
    }
    let (words, style) = balance(app, snapshot);
    let words = cut(&words, area.width.into());
    frame.render_widget(Line::styled(words, style), line(area, metric_lines));
}

fn metrics(app: &App, snapshot: &Snapshot) -> Vec<Metric> {
    let last = app.view.trend.points().last().copied().unwrap_or_default();
    let plain = Style::new();
    let failing = match last.failed_per_s > 0.0 {
        true => app.palette.bad(),
        false => plain,
    };
    let flow = |name, count, per_s, history, style| Metric {
        name,
        now: thousands(count),
        beside: format!("{}/s", rate(per_s)),
        history,
        style,
    };
    let level = |name, now, history| Metric {
        name,
        now,
        beside: String::new(),
        history,
        style: plain,
    };
    vec![
        flow(
            "published",
            snapshot.published,
            last.published_per_s,
            |p| p.published_per_s * 10.0,
            plain,
        ),
        flow(
            "done",
            snapshot.done,
            last.done_per_s,
            |p| p.done_per_s * 10.0,
            app.palette.good(),
        ),
        flow(
            "failed",
            snapshot.failed,
            last.failed_per_s,
            |p| p.failed_per_s * 10.0,
            failing,
        ),
        Metric {
            beside: match snapshot.paused.workers_since_ms {
                Some(_) => "paused".to_owned(),
                None => String::new(),
            },
            ..level("pending", thousands(snapshot.pending), |p| p.pending as f64)
        },
        level("claimed", thousands(snapshot.claimed), |p| p.claimed as f64),
        Metric {
            beside: next_due(app, snapshot),
            ..level("delayed", thousands(snapshot.delayed), |p| p.delayed as f64)
        },
        level("errors", thousands(snapshot.errors), |p| p.errors as f64),
        level("p50", latency(last.p50_s), |p| {
            p.p50_s.unwrap_or_default() * 1e6
        }),
        level("p99", latency(last.p99_s), |p| {
            p.p99_s.unwrap_or_default() * 1e6
        }),
    ]
}

/// When the first delayed message is due.
fn next_due(app: &App, snapshot: &Snapshot) -> String {
    match snapshot.next_due_ms {
        None => String::new(),
        Some(due_ms) => time_left(due_ms.saturating_sub(app.clock_ms())),
    }
}

/// Whether every message is in exactly one place, and the style to say so.
fn balance(app: &App, snapshot: &Snapshot) -> (String, Style) {
    let came = thousands(snapshot.published.saturating_add(snapshot.retried));
    if !snapshot.balanced {
        let places = [
            snapshot.done,
            snapshot.failed,
            snapshot.pending,
            snapshot.claimed,
            snapshot.delayed,
            snapshot.void,
        ];
        let found = thousands(places.into_iter().fold(0, u64::saturating_add));
        let words = format!("✗ NOT BALANCED: {found} of {came} found");
        return (words, app.palette.bad());
    }
    let found = if snapshot.counted {
        "found"
    } else {
        "by the counters"
    };
    if snapshot.void > 0 {
        // The window of the fleet's health says why.
        let lost = thousands(snapshot.void);
        let words = format!("! {lost} of {came} void (lost), others {found}");
        return (words, app.palette.bad());
    }
    let retried = match snapshot.retried {
        0 => String::new(),
        retried => format!(" ({} retried)", thousands(retried)),
    };
    (
        format!("✓ balanced: all {came}{retried} {found}"),
        app.palette.good(),
    )
}
