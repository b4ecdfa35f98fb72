//! A long run at one glance: the way of the baton, the deaths, the server's bad moments.

use std::fmt::Write as _;

use super::frame::{Frame, WIDTH};
use super::lives::{handovers, who};
use super::rows::Rows;
use super::words::at;
use crate::record::{End, Record, Role};

/// The room above and below the rows.
const EDGE: f64 = 10.0;
/// From one row to the next.
const ROW: f64 = 13.0;
/// How high a bar is.
const BAR: f64 = 8.0;

/// The whole run in one picture without words. Dotted lines show where its strips begin.
pub(super) fn overview(record: &Record, rows: &Rows, whole: f64, strips: usize) -> String {
    let frame = Frame {
        from: 0.0,
        to: whole,
        rows: rows.count,
        levels: 0,
        last: true,
    };
    let height = 2.0 * EDGE + ROW * rows.count as f64;
    let top = |row: usize| EDGE + row as f64 * ROW;
    let middle = |row: usize| top(row) + BAR / 2.0;
    let (low, high) = (EDGE / 2.0, height - EDGE / 2.0);
    let mut svg = String::new();
    for fault in record
        .faults
        .iter()
        .filter(|fault| fault.targets.is_empty())
    {
        let (x, wide) = frame.stretch(fault.from_s, fault.to_s);
        let tall = high - low;
        // Writing to a string cannot fail.
        let _ = writeln!(
            svg,
            r#"<rect class="band" x="{x:.1}" y="{low}" width="{wide:.1}" height="{tall}"/>"#
        );
    }
    for (lane, row) in record.lanes.iter().zip(&rows.of) {
        let y = top(*row);
        for span in &lane.spans {
            let class = match span.role {
                Role::Generator { .. } => "generator",
                Role::Worker | Role::Paused => "worker",
                Role::Drain => "drain",
            };
            let (x, wide) = frame.stretch(span.from_s, span.to_s);
            let (name, from, to) = (who(lane), at(span.from_s), at(span.to_s));
            let _ = writeln!(
                svg,
                r#"<rect class="{class}" x="{x:.1}" y="{y}" width="{wide:.1}" height="{BAR}"><title>{name}: {from} to {to}</title></rect>"#
            );
        }
    }
    for (old, new) in handovers(&record.lanes) {
        let (x1, x2) = (frame.x(old.to.min(new.from)), frame.x(new.from));
        let (y1, y2) = (middle(rows.of[old.lane]), middle(rows.of[new.lane]));
        let _ = writeln!(
            svg,
            r#"<g class="handover"><path d="M{x1:.1} {y1}L{x2:.1} {y2}"/></g>"#
        );
    }
    for (lane, row) in record.lanes.iter().zip(&rows.of) {
        if lane.end == End::Killed {
            let (x, y) = (frame.x(lane.to_s), middle(*row));
            let _ = writeln!(svg, r#"<circle class="death" cx="{x:.1}" cy="{y}" r="2"/>"#);
        }
    }
    for strip in 1..strips {
        let x = frame.x(whole * strip as f64 / strips as f64);
        let _ = writeln!(
            svg,
            r#"<line class="edge" x1="{x:.1}" x2="{x:.1}" y1="{low}" y2="{high}"/>"#
        );
    }
    format!(
        "<svg class=\"overview\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-label=\"The whole run\">\n{svg}</svg>\n"
    )
}
