//! How long things took: one dot for each time, on a logarithmic scale.

use std::fmt::Write as _;

use super::flags::{Wish, hoist};
use super::words::{escape, millis, quantile, sorted, width};

const WIDTH: f64 = 1160.0;
const MARGIN: f64 = 24.0;
/// The room for labels above the dots, per level.
const LEVEL: f64 = 16.0;
/// The room above the labels.
const TOP: f64 = 10.0;
/// The highest pile of dots, and the least room for them.
const PILE: f64 = 105.0;
const LEAST: f64 = 28.0;
/// How far apart dots are.
const DOT: f64 = 7.0;
const FONT: f64 = 12.0;

/// Some times and what they are.
pub(super) struct Times<'a> {
    /// What began and ended.
    pub(super) what: &'a str,
    /// A class for its colour.
    pub(super) class: &'a str,
    /// The times, in ms.
    pub(super) ms: Vec<f64>,
}

/// One strip of dots for each kind of time, under each other on the same scale.
pub(super) fn spread(kinds: &[Times<'_>]) -> String {
    let all = sorted(kinds.iter().flat_map(|times| times.ms.iter().copied()));
    let (Some(least), Some(most)) = (all.first(), all.last()) else {
        return String::new();
    };
    let from = place(*least).floor();
    let scale = Scale {
        from,
        to: place(*most).ceil().max(from + 1.0),
    };
    let known = kinds.iter().filter(|times| !times.ms.is_empty());
    known.map(|times| strip(times, &scale)).collect()
}

/// Powers of ten from edge to edge.
struct Scale {
    from: f64,
    to: f64,
}

impl Scale {
    fn x(&self, ms: f64) -> f64 {
        let share = (place(ms) - self.from) / (self.to - self.from);
        MARGIN + share.clamp(0.0, 1.0) * (WIDTH - 2.0 * MARGIN)
    }

    /// The column of dots that a time belongs to.
    fn column(&self, ms: f64) -> usize {
        (self.x(ms) / DOT) as usize
    }
}

/// The middle of a column.
fn middle(column: usize) -> f64 {
    (column as f64 + 0.5) * DOT
}

/// Nothing takes less than a tenth of a millisecond on this scale.
fn place(ms: f64) -> f64 {
    ms.max(0.1).log10()
}

fn strip(times: &Times<'_>, scale: &Scale) -> String {
    let ms = sorted(times.ms.iter().copied());
    let mut marks: Vec<(f64, String)> = Vec::new();
    for (share, name) in [(0.5, "p50"), (0.99, "p99"), (1.0, "max")] {
        match (quantile(&ms, share), marks.last_mut()) {
            (Some(ms), Some((last, names))) if *last == ms => *names = format!("{names} = {name}"),
            (Some(ms), _) => marks.push((ms, name.to_owned())),
            (None, _) => {}
        }
    }
    for (ms, names) in &mut marks {
        *names = format!("{names} {}", millis(*ms));
    }
    let wishes: Vec<Wish> = marks
        .iter()
        .map(|(ms, text)| Wish {
            at: middle(scale.column(*ms)),
            whole: width(text, FONT) + 12.0,
            short: width(text, FONT) + 12.0,
        })
        .collect();
    let flags = hoist(&wishes, (4.0, WIDTH - 4.0));
    let levels = flags.iter().map(|flag| flag.level + 1).max().unwrap_or(0);
    let piles = Piles::new(scale, &ms);
    let bottom = TOP + levels as f64 * LEVEL + piles.height() + 6.0;
    let height = bottom + 24.0;

    let mut svg = String::new();
    axis(&mut svg, scale, bottom);
    piles.draw(&mut svg, bottom, times.class);
    for ((ms, text), flag) in marks.iter().zip(&flags) {
        let (x, top) = (middle(scale.column(*ms)), TOP + flag.level as f64 * LEVEL);
        let (left, base) = (flag.from + 6.0, top + 11.0);
        // Writing to a string cannot fail.
        let _ = writeln!(
            svg,
            r#"<line class="quantile" x1="{x:.1}" x2="{x:.1}" y1="{top}" y2="{bottom}"/><text class="name" x="{left:.1}" y="{base}">{text}</text>"#
        );
    }
    let what = escape(times.what);
    format!(
        "<p>{what} ({})</p>\n<div class=\"strips\"><svg class=\"spread\" \
         viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{what}\">\n{svg}</svg></div>\n",
        ms.len()
    )
}

fn axis(svg: &mut String, scale: &Scale, bottom: f64) {
    let below = bottom + 17.0;
    let mut power = scale.from;
    while power <= scale.to {
        for factor in [1.0, 2.0, 5.0] {
            let ms = factor * 10f64.powf(power);
            if place(ms) > scale.to + 1e-9 {
                continue;
            }
            let x = scale.x(ms);
            let label = match ms {
                ms if ms >= 999.0 => format!("{} s", (ms / 100.0).round() / 10.0),
                ms => format!("{} ms", (ms * 10.0).round() / 10.0),
            };
            let _ = writeln!(
                svg,
                r#"<line class="grid" x1="{x:.1}" x2="{x:.1}" y1="{TOP}" y2="{bottom}"/><text class="axis" x="{x:.1}" y="{below}" text-anchor="middle">{label}</text>"#
            );
        }
        power += 1.0;
    }
}

/// Dots that would cover each other, piled up; high piles are pushed together.
struct Piles {
    /// The times of each column, in order.
    columns: Vec<Vec<f64>>,
    /// From one dot of a pile to the next.
    rise: f64,
}

impl Piles {
    fn new(scale: &Scale, ms: &[f64]) -> Self {
        let mut columns = vec![Vec::new(); (WIDTH / DOT) as usize + 1];
        for ms in ms {
            columns[scale.column(*ms)].push(*ms);
        }
        let highest = columns.iter().map(Vec::len).max().unwrap_or(0);
        let rise = DOT.min(PILE / highest.max(1) as f64);
        Self { columns, rise }
    }

    fn height(&self) -> f64 {
        let highest = self.columns.iter().map(Vec::len).max().unwrap_or(0);
        (highest as f64 * self.rise).max(LEAST)
    }

    fn draw(&self, svg: &mut String, bottom: f64, class: &str) {
        for (column, times) in self.columns.iter().enumerate() {
            let x = middle(column);
            for (place, ms) in times.iter().enumerate() {
                let (y, words) = (bottom - DOT / 2.0 - place as f64 * self.rise, millis(*ms));
                let _ = writeln!(
                    svg,
                    r#"<circle class="dot {class}" cx="{x:.1}" cy="{y:.1}" r="3"><title>{words}</title></circle>"#
                );
            }
        }
    }
}
