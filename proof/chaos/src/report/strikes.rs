//! The faults in one strip: flags above the rows, poles down to whom they hit, bands across.

use std::fmt::Write as _;

use super::flags::{Flag, Wish, hoist};
use super::frame::{Frame, MARGIN, WIDTH};
use super::lives::met;
use super::rows::Rows;
use super::words::{at, cut, escape, millis, width};
use crate::record::{Fault, Lane};

/// The size of the words on a flag.
const FONT: f64 = 11.0;
/// The most letters on a flag.
const LETTERS: usize = 40;

/// A fault with its number.
type Numbered<'a> = (usize, &'a Fault);

/// The faults that a strip meets, and where their flags found room.
pub(super) struct Strikes<'a> {
    all: Vec<(Numbered<'a>, Flag)>,
}

impl<'a> Strikes<'a> {
    /// Picks them out of all faults, which are numbered from `first`, and gives the strip as
    /// many levels as their flags need.
    pub(super) fn new(frame: &mut Frame, faults: &'a [Fault], first: usize) -> Self {
        let numbered = (first..).zip(faults);
        let mut met: Vec<Numbered<'a>> = numbered
            .filter(|(_, fault)| frame.meets(fault.from_s, fault.to_s))
            .collect();
        met.sort_by(|a, b| a.1.from_s.total_cmp(&b.1.from_s));
        let wishes: Vec<Wish> = met
            .iter()
            .map(|(number, fault)| Wish {
                at: frame.x(fault.from_s),
                whole: pill(*number) + width(&cut(&fault.name, LETTERS), FONT) + 14.0,
                short: pill(*number) + 4.0,
            })
            .collect();
        let flags = hoist(&wishes, (MARGIN / 2.0, WIDTH - MARGIN / 2.0));
        frame.levels = flags.iter().map(|flag| flag.level + 1).max().unwrap_or(0);
        Self {
            all: met.into_iter().zip(flags).collect(),
        }
    }

    /// When each fault was on.
    pub(super) fn bands(&self, svg: &mut String, frame: &Frame) {
        for (fault, _) in &self.all {
            band(svg, frame, *fault);
        }
    }

    /// Whom each fault hit.
    pub(super) fn poles(&self, svg: &mut String, frame: &Frame, lanes: &[Lane], rows: &Rows) {
        for (fault, flag) in &self.all {
            pole(svg, frame, lanes, rows, *fault, flag.level);
        }
    }

    /// What each fault was.
    pub(super) fn flags(&self, svg: &mut String, frame: &Frame) {
        for (fault, flag) in &self.all {
            hang(svg, frame, *fault, flag);
        }
    }
}

/// The width of the box around a fault's number.
fn pill(number: usize) -> f64 {
    width(&number.to_string(), FONT) + 7.0
}

/// What a tooltip says about a fault.
fn story((number, fault): Numbered<'_>) -> String {
    // Writing to a string cannot fail.
    let mut words = format!("{number}: {}", escape(&fault.name));
    if !fault.targets.is_empty() {
        let _ = write!(words, " → {}", escape(&fault.targets.join(", ")));
    }
    let _ = write!(words, ", {} to {}", at(fault.from_s), at(fault.to_s));
    match fault.settled_ms {
        Some(ms) => {
            let _ = write!(words, ", all well {} later", millis(ms));
        }
        None => words.push_str(", did not settle"),
    }
    if !fault.note.is_empty() {
        let _ = write!(words, "; {}", escape(&fault.note));
    }
    words
}

/// When the fault was on and when all was well again; over all rows if it hit the server.
fn band(svg: &mut String, frame: &Frame, fault: Numbered<'_>) {
    let (from, to, title) = (fault.1.from_s, fault.1.to_s, story(fault));
    let (x, wide) = frame.stretch(from, to);
    let (track, height) = (frame.track(), frame.bottom() - frame.track());
    if let Some(ms) = fault.1.settled_ms {
        let (x, wide) = frame.stretch(to, to + ms / 1000.0);
        let _ = writeln!(
            svg,
            r#"<rect class="settling" x="{x:.1}" y="{track}" width="{wide:.1}" height="5"><title>{title}</title></rect>"#
        );
    }
    if fault.1.targets.is_empty() {
        let _ = writeln!(
            svg,
            r#"<rect class="band" x="{x:.1}" y="{track}" width="{wide:.1}" height="{height}"><title>{title}</title></rect>"#
        );
    }
    let _ = writeln!(
        svg,
        r#"<rect class="on" x="{x:.1}" y="{track}" width="{wide:.1}" height="5"><title>{title}</title></rect>"#
    );
}

/// From the flag down to what was hit.
fn pole(
    svg: &mut String,
    frame: &Frame,
    lanes: &[Lane],
    rows: &Rows,
    fault: Numbered<'_>,
    level: usize,
) {
    let (x, wide) = frame.stretch(fault.1.from_s, fault.1.to_s);
    let title = story(fault);
    let mut end = if fault.1.targets.is_empty() {
        frame.bottom()
    } else {
        frame.track()
    };
    let hit = hit(lanes, fault.1).into_iter();
    for lane in hit.filter(|lane| met(frame, &lanes[*lane])) {
        let y = frame.row(rows.of[lane]);
        end = f64::max(end, y - 6.0);
        let (left, right, above) = (x - 4.0, x + 4.0, y - 7.0);
        let _ = writeln!(
            svg,
            r#"<g class="hit"><rect x="{x:.1}" y="{:.1}" width="{wide:.1}" height="2.5"/><path d="M{left:.1} {above}L{right:.1} {above}L{x:.1} {}Z"/><title>{title}</title></g>"#,
            y - 1.5,
            y - 1.0,
        );
    }
    let top = frame.level(level);
    let _ = writeln!(
        svg,
        r#"<line class="pole" x1="{x:.1}" x2="{x:.1}" y1="{top}" y2="{end}"/>"#
    );
}

/// The lanes that a fault hit. Of several with the same label, the one that lived then.
fn hit(lanes: &[Lane], fault: &Fault) -> Vec<usize> {
    let named = |label: &String| {
        let lanes = lanes.iter().enumerate();
        let lanes = lanes.filter(|(_, lane)| lane.label == *label);
        let far = |from: f64, to: f64| (from - fault.from_s).max(fault.from_s - to).max(0.0);
        let near =
            lanes.min_by(|(_, a), (_, b)| far(a.from_s, a.to_s).total_cmp(&far(b.from_s, b.to_s)));
        near.map(|(index, _)| index)
    };
    fault.targets.iter().filter_map(named).collect()
}

/// The flag itself: the fault's number, and its name where there is room. It leads to the table.
fn hang(svg: &mut String, frame: &Frame, fault: Numbered<'_>, flag: &Flag) {
    let (number, pole) = (fault.0, frame.x(fault.1.from_s));
    let (top, wide) = (frame.level(flag.level), pill(number));
    // Near the right edge a flag hangs to the left of its pole.
    let left = if flag.from < pole - 1.0 {
        pole - wide
    } else {
        flag.from
    };
    let (middle, base) = (left + wide / 2.0, top + 11.0);
    // A strip that goes on with an older fault is not the place to come back to.
    let id = match frame.holds(fault.1.from_s) {
        true => format!(r#" id="p{number}""#),
        false => String::new(),
    };
    let _ = write!(
        svg,
        r##"<a href="#f{number}"{id}><title>{}</title><rect class="flag" x="{left:.1}" y="{top}" width="{wide:.1}" height="14" rx="3"/><text class="number" x="{middle:.1}" y="{base}">{number}</text>"##,
        story(fault)
    );
    if flag.whole {
        let (x, anchor) = if left > flag.from {
            (left - 5.0, "end")
        } else {
            (left + wide + 5.0, "start")
        };
        let class = match fault.1.settled_ms {
            Some(_) => "name",
            None => "name open",
        };
        let _ = write!(
            svg,
            r#"<text class="{class}" x="{x:.1}" y="{base}" text-anchor="{anchor}">{}</text>"#,
            escape(&cut(&fault.1.name, LETTERS))
        );
    }
    svg.push_str("</a>\n");
}
