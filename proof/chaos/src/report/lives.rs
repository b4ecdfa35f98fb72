//! The lives of the processes in one strip: what they were, what they did, how they ended.

use std::fmt::Write as _;

use super::density::{Bin, Density};
use super::frame::{BAR, Frame, MARGIN, TICKS};
use super::rows::Rows;
use super::words::{at, cut, escape, thousands, width};
use crate::record::{End, Lane, Role, Span};

/// The size of the words in a bar.
const FONT: f64 = 11.0;
/// The most letters of a name in a bar.
const LETTERS: usize = 24;
/// How deep the mark of failed messages hangs.
const FAILED: f64 = 3.5;
/// How far a handover's curve swings out.
const SWING: f64 = 14.0;

/// All lives that a strip meets, as SVG.
pub(super) fn draw(frame: &Frame, lanes: &[Lane], rows: &Rows, density: &Density) -> String {
    let mut svg = String::new();
    let lives = || lanes.iter().zip(&rows.of).enumerate();
    for (index, (lane, row)) in lives().filter(|(_, (lane, _))| met(frame, lane)) {
        life(&mut svg, frame, lane, *row);
        messages(&mut svg, frame, lane, *row, density, density.of(index));
    }
    pass_on(&mut svg, frame, lanes, rows);
    for (_, (lane, row)) in lives() {
        end(&mut svg, frame, lane, *row);
    }
    svg
}

/// Whether any of a life is in a strip, be it its end alone.
pub(super) fn met(frame: &Frame, lane: &Lane) -> bool {
    frame.meets(lane.from_s, lane.to_s) || frame.holds(lane.to_s)
}

/// How many rows a strip needs: those of the lives in it, and of the hands that the baton
/// comes from.
pub(super) fn height(frame: &Frame, lanes: &[Lane], rows: &Rows) -> usize {
    let here = (0..lanes.len()).filter(|index| met(frame, &lanes[*index]));
    let before = handovers(lanes).into_iter();
    let before = before.filter(|(_, new)| frame.holds(new.from));
    let before = before.map(|(old, _)| old.lane);
    let needed = here.chain(before).map(|index| rows.of[index] + 1);
    needed.max().unwrap_or(0)
}

/// The name of a process, with the one in Redis.
pub(super) fn who(lane: &Lane) -> String {
    match lane.node.as_str() {
        "" => escape(&lane.label),
        node => format!("{} ({})", escape(&lane.label), escape(node)),
    }
}

/// The bar of a life: its roles, and names where they fit.
fn life(svg: &mut String, frame: &Frame, lane: &Lane, row: usize) {
    let (x, wide) = frame.stretch(lane.from_s, lane.to_s);
    let y = frame.row(row);
    let (from, to) = (at(lane.from_s), at(lane.to_s));
    let name = who(lane);
    let fate = match lane.end {
        End::Killed => "killed at",
        End::Stopped => "stopped at",
        End::Alive => "alive until",
    };
    // Writing to a string cannot fail.
    let _ = writeln!(
        svg,
        r#"<rect class="life" x="{x:.1}" y="{y}" width="{wide:.1}" height="{BAR}" rx="2"><title>{name}: started at {from}, {fate} {to}</title></rect>"#
    );
    let mut named = false;
    for span in &lane.spans {
        if frame.meets(span.from_s, span.to_s) {
            named |= role(svg, frame, lane, span, y, named);
        }
    }
}

/// One span of a bar. Tells whether the name of the process is in it.
fn role(svg: &mut String, frame: &Frame, lane: &Lane, span: &Span, y: f64, named: bool) -> bool {
    let (x, wide) = frame.stretch(span.from_s, span.to_s);
    let label = cut(&lane.label, LETTERS);
    // What to write, the best first, and whether it has the name.
    let (class, words, texts) = match span.role {
        Role::Generator { epoch } => (
            "generator",
            format!("generator, epoch {epoch}"),
            vec![
                (format!("{label} · epoch {epoch}"), true),
                (format!("epoch {epoch}"), false),
                (epoch.to_string(), false),
            ],
        ),
        Role::Worker => ("worker", "worker".to_owned(), vec![(label, true)]),
        Role::Drain => (
            "drain",
            "takes failed messages".to_owned(),
            vec![(label, true)],
        ),
        Role::Paused => ("paused", "stopped in its tracks".to_owned(), Vec::new()),
    };
    let (name, from, to) = (who(lane), at(span.from_s), at(span.to_s));
    let _ = writeln!(
        svg,
        r#"<rect class="{class}" x="{x:.1}" y="{y}" width="{wide:.1}" height="{BAR}" rx="2"><title>{name}: {words}, {from} to {to}</title></rect>"#
    );
    let fits = |text: &str| width(text, FONT) + 13.0 <= wide;
    let mut texts = texts.into_iter();
    let Some((text, names)) = texts.find(|(text, names)| fits(text) && !(*names && named)) else {
        return false;
    };
    let (left, base, safe) = (x + 7.0, y + BAR - 5.0, escape(&text));
    let _ = writeln!(
        svg,
        r#"<text class="in {class}" x="{left:.1}" y="{base}">{safe}</text>"#
    );
    names
}

/// What a process did, as marks that hang below its bar: longer is more.
fn messages(
    svg: &mut String,
    frame: &Frame,
    lane: &Lane,
    row: usize,
    density: &Density,
    bins: &[Bin],
) {
    let top = frame.row(row) + BAR + 1.5;
    let wide = (density.step * frame.scale() - 1.0).clamp(2.0, MARGIN);
    let (mut made, mut ended, mut failed) = (Marks::default(), Marks::default(), Marks::default());
    for bin in bins.iter().filter(|bin| frame.holds(bin.at)) {
        let middle = bin.at + density.step / 2.0;
        let x = frame.x(middle);
        let generates = lane.spans.iter().any(|span| {
            matches!(span.role, Role::Generator { .. })
                && span.from_s <= middle
                && middle < span.to_s
        });
        let marks = if generates { &mut made } else { &mut ended };
        marks.add(x, top, density.depth(bin.count) * TICKS, bin.count);
        if bin.failed > 0 {
            failed.add(x, top, FAILED, bin.failed);
        }
    }
    let name = who(lane);
    for (class, marks, wide, verb) in [
        ("made", made, wide, "published"),
        ("ended", ended, wide, "ended"),
        ("failed", failed, wide.min(2.0), "failed"),
    ] {
        if marks.count > 0 {
            let (path, count) = (marks.path, thousands(marks.count));
            let _ = writeln!(
                svg,
                r#"<path class="{class}" stroke-width="{wide:.1}" d="{path}"><title>{name}: {count} {verb} in this strip</title></path>"#
            );
        }
    }
}

/// Upright marks of one kind, and how many messages they stand for.
#[derive(Default)]
struct Marks {
    path: String,
    count: u64,
}

impl Marks {
    fn add(&mut self, x: f64, top: f64, depth: f64, count: u64) {
        let _ = write!(self.path, "M{x:.1} {top}V{:.1}", top + depth);
        self.count += count;
    }
}

/// The way of the baton: from the end of each reign to the start of the next.
fn pass_on(svg: &mut String, frame: &Frame, lanes: &[Lane], rows: &Rows) {
    for (old, new) in handovers(lanes) {
        if !frame.holds(new.from) {
            continue;
        }
        let (x1, x2) = (frame.x(old.to.min(new.from)), frame.x(new.from));
        let (y1, y2) = (
            frame.middle(rows.of[old.lane]),
            frame.middle(rows.of[new.lane]),
        );
        let (right, left) = (x1 + SWING, x2 - SWING);
        let gap = (new.from - old.to).max(0.0) * 1000.0;
        let _ = writeln!(
            svg,
            r#"<g class="handover"><path d="M{x1:.1} {y1}C{right:.1} {y1} {left:.1} {y2} {x2:.1} {y2}"/><circle cx="{x2:.1}" cy="{y2}" r="3.5"/><title>the baton goes from {} (epoch {}) to {} (epoch {}); {gap:.0} ms between them</title></g>"#,
            who(&lanes[old.lane]),
            old.epoch,
            who(&lanes[new.lane]),
            new.epoch,
        );
    }
}

/// A time as the generator.
#[derive(Clone, Copy)]
pub(super) struct Reign {
    pub(super) lane: usize,
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) epoch: u64,
}

/// Whenever the generator became another process: the last reign before and the first after.
pub(super) fn handovers(lanes: &[Lane]) -> Vec<(Reign, Reign)> {
    let mut all = Vec::new();
    for (lane, life) in lanes.iter().enumerate() {
        for span in &life.spans {
            if let Role::Generator { epoch } = span.role {
                let (from, to) = (span.from_s, span.to_s);
                all.push(Reign {
                    lane,
                    from,
                    to,
                    epoch,
                });
            }
        }
    }
    all.sort_by(|a, b| a.from.total_cmp(&b.from));
    let mut reigns: Vec<Reign> = Vec::new();
    for reign in all {
        let same = |other: &Reign| (other.lane, other.epoch) == (reign.lane, reign.epoch);
        match reigns.iter().rposition(same) {
            None => reigns.push(reign),
            // Nobody else had it meanwhile: it was paused for a moment only.
            Some(index) if index + 1 == reigns.len() => reigns[index].to = reign.to,
            // Whoever wakes up believes in its old epoch until the fence tells it.
            Some(_) => {}
        }
    }
    let pairs = reigns.windows(2).map(|pair| (pair[0], pair[1]));
    pairs.filter(|(old, new)| old.lane != new.lane).collect()
}

/// How a life ended, where it ended.
fn end(svg: &mut String, frame: &Frame, lane: &Lane, row: usize) {
    if !frame.holds(lane.to_s) {
        return;
    }
    let (x, y, name, to) = (
        frame.x(lane.to_s),
        frame.middle(row),
        who(lane),
        at(lane.to_s),
    );
    let _ = match lane.end {
        End::Killed => writeln!(
            svg,
            r#"<g class="kill"><path d="M{:.1} {}L{:.1} {}M{:.1} {}L{:.1} {}"/><title>{name}: killed at {to}</title></g>"#,
            x - 5.0,
            y - 5.0,
            x + 5.0,
            y + 5.0,
            x - 5.0,
            y + 5.0,
            x + 5.0,
            y - 5.0,
        ),
        End::Stopped => writeln!(
            svg,
            r#"<circle class="stop" cx="{x:.1}" cy="{y}" r="4"><title>{name}: stopped in good order at {to}</title></circle>"#
        ),
        End::Alive => Ok(()),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(reigns: &[(f64, f64, u64)]) -> Lane {
        let span = |(from_s, to_s, epoch): &(f64, f64, u64)| Span {
            from_s: *from_s,
            to_s: *to_s,
            role: Role::Generator { epoch: *epoch },
        };
        Lane {
            label: String::new(),
            node: String::new(),
            from_s: 0.0,
            to_s: 9.0,
            end: End::Alive,
            spans: reigns.iter().map(span).collect(),
            ticks: Vec::new(),
        }
    }

    #[test]
    fn whoever_wakes_up_in_an_old_epoch_has_not_got_the_baton_back() {
        let lanes = [
            lane(&[(0.0, 1.0, 1), (1.2, 2.0, 1), (4.0, 4.1, 1)]),
            lane(&[(3.0, 6.0, 2)]),
            lane(&[(6.5, 7.0, 3), (7.0, 9.0, 4)]),
        ];
        let seen: Vec<(u64, f64, u64, f64)> = handovers(&lanes)
            .iter()
            .map(|(old, new)| (old.epoch, old.to, new.epoch, new.from))
            .collect();
        assert_eq!(seen, [(1, 2.0, 2, 3.0), (2, 6.0, 3, 6.5)]);
    }
}
