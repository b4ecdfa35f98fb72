//! The picture: a run as strips of time, one row per life, faults above and across.

use std::fmt::Write as _;

use super::density::Density;
use super::frame::{Frame, MARGIN, WIDTH};
use super::lives;
use super::overview::overview;
use super::rows::{Rows, pack};
use super::strikes::Strikes;
use super::words::at;
use crate::record::Record;

/// No strip is shorter than this many seconds, unless the run is.
const SHORTEST: f64 = 30.0;
/// Nor longer than this.
const LONGEST: f64 = 60.0;
/// Faults that a strip has room for, names and all.
const FAULTS: f64 = 18.0;
/// The least width of a message mark, in SVG units.
const MARK: f64 = 4.0;
/// What a life leaves free behind the one before it in its row, in SVG units.
const GAP: f64 = 14.0;
/// With more strips than these, the run is shown as a whole as well.
const FEW: usize = 3;

/// The strips of a run. Its faults are numbered from `first`.
pub(super) fn timeline(record: &Record, first: usize) -> String {
    let whole = length(record);
    if whole <= 0.0 {
        return "<p>Nothing happened.</p>\n".to_owned();
    }
    let count = strips(whole, record.faults.len());
    let each = whole / count as f64;
    let per_unit = each / (WIDTH - 2.0 * MARGIN);
    let rows = pack(&record.lanes, GAP * per_unit);
    let density = Density::new(&record.lanes, MARK * per_unit);
    let mut html = String::new();
    if count > FEW {
        html.push_str(&overview(record, &rows, whole, count));
    }
    html.push_str("<div class=\"strips\">\n");
    for index in 0..count {
        let from = index as f64 * each;
        let frame = Frame {
            from,
            to: from + each,
            rows: rows.count,
            levels: 0,
            last: index + 1 == count,
        };
        html.push_str(&strip(record, first, frame, &rows, &density));
    }
    html + "</div>\n"
}

/// When the last thing happened.
fn length(record: &Record) -> f64 {
    let lives = record.lanes.iter().map(|lane| lane.to_s);
    let faults = record.faults.iter().map(|fault| fault.to_s);
    lives.chain(faults).fold(record.seconds, f64::max)
}

/// How many strips of equal length keep the flags readable.
fn strips(seconds: f64, faults: usize) -> usize {
    let roomy = FAULTS * seconds / faults.max(1) as f64;
    let longest = roomy.clamp(SHORTEST, LONGEST);
    (seconds / longest).ceil().max(1.0) as usize
}

fn strip(
    record: &Record,
    first: usize,
    mut frame: Frame,
    rows: &Rows,
    density: &Density,
) -> String {
    frame.rows = lives::height(&frame, &record.lanes, rows);
    let strikes = Strikes::new(&mut frame, &record.faults, first);
    let mut svg = String::new();
    axis(&mut svg, &frame);
    strikes.bands(&mut svg, &frame);
    svg.push_str(&lives::draw(&frame, &record.lanes, rows, density));
    strikes.poles(&mut svg, &frame, &record.lanes, rows);
    strikes.flags(&mut svg, &frame);
    let (height, from, to) = (frame.height(), at(frame.from), at(frame.to));
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"From {from} to {to}\">\n\
         {svg}</svg>\n"
    )
}

/// Seconds below, and thin lines to read them off.
fn axis(svg: &mut String, frame: &Frame) {
    let step = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .find(|step| step * frame.scale() >= 52.0)
        .unwrap_or(20.0);
    let (top, bottom, below) = (frame.track(), frame.bottom(), frame.height() - 6.0);
    let mut index = (frame.from / step).ceil();
    while index * step <= frame.to + 1e-9 {
        let seconds = index * step;
        let x = frame.x(seconds);
        let label = (seconds * 10.0).round() / 10.0;
        // Writing to a string cannot fail.
        let _ = writeln!(
            svg,
            r#"<line class="grid" x1="{x:.1}" x2="{x:.1}" y1="{top}" y2="{bottom}"/><text class="axis" x="{x:.1}" y="{below}" text-anchor="middle">{label} s</text>"#
        );
        index += 1.0;
    }
}

/// What the marks of the picture mean.
pub(super) fn legend() -> String {
    let bar = |class: &str, words: &str| {
        format!(
            r#"<span class="key"><svg viewBox="0 0 26 14" width="26" height="14"><rect class="{class}" x="1" y="1" width="24" height="12" rx="2"/></svg>{words}</span>"#
        )
    };
    let mark = |shape: &str, words: &str| {
        format!(
            r#"<span class="key"><svg viewBox="0 0 26 14" width="26" height="14">{shape}</svg>{words}</span>"#
        )
    };
    let keys = [
        bar("generator", "generator, with its epoch"),
        mark(
            r#"<g class="handover"><path d="M3 3C20 3 6 11 23 11"/><circle cx="22" cy="11" r="3"/></g>"#,
            "the baton passes on",
        ),
        bar("worker", "worker"),
        bar("paused", "stopped in its tracks"),
        bar("drain", "takes failed messages"),
        mark(
            r#"<g class="kill"><path d="M8 2L18 12M8 12L18 2"/></g>"#,
            "killed with -9",
        ),
        mark(
            r#"<circle class="stop" cx="13" cy="7" r="4"/>"#,
            "stopped in good order",
        ),
        mark(
            r#"<g class="hit"><path d="M8 3L18 3L13 11Z"/></g>"#,
            "fault on a process",
        ),
        bar("band", "fault on the server"),
        bar("settling", "until all was well again"),
        mark(
            r#"<path class="ended" stroke-width="3" d="M5 1V8M9 1V11M13 1V6M17 1V12M21 1V9"/>"#,
            "messages",
        ),
        mark(
            r#"<path class="ended" stroke-width="3" d="M9 1V11M13 1V9M17 1V12"/><path class="failed" stroke-width="3" d="M13 1V5"/>"#,
            "some of them failed",
        ),
    ];
    format!("<p class=\"legend\">{}</p>\n", keys.concat())
}
