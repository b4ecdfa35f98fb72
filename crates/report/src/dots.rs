//! Measured times: one dot each, on a logarithmic scale.

use crate::labels::{Label, place};
use crate::scale::LogScale;
use crate::stats::{quantile, sorted};
use crate::svg::{Anchor, Svg};
use crate::text::{escape, millis, width};

const WIDTH: f64 = 1160.0;
const MARGIN: f64 = 24.0;
/// The room above the labels, and the height of one level of labels.
const TOP: f64 = 10.0;
const LEVEL: f64 = 16.0;
/// The highest pile of dots, and the least room for dots.
const PILE: f64 = 105.0;
const MIN_PILE: f64 = 28.0;
/// From the middle of a dot to the next.
const DOT: f64 = 7.0;
const FONT: f64 = 12.0;
/// The scale begins here: no measured time is shorter.
const MIN_MS: f64 = 0.1;

/// Times of one kind.
#[derive(Debug, Clone)]
pub struct Times<'a> {
    /// What began and what ended.
    pub caption: &'a str,
    /// The class of the dots.
    pub class: &'a str,
    /// The times, sorted.
    pub ms: Vec<f64>,
}

/// A strip of dots for each kind, all on the same scale.
pub fn dots(kinds: &[Times<'_>]) -> String {
    let kinds = || kinds.iter().filter(|times| !times.ms.is_empty());
    let all = sorted(kinds().flat_map(|times| times.ms.iter().copied()));
    let (Some(min), Some(max)) = (all.first(), all.last()) else {
        return String::new();
    };
    let places = (MARGIN, WIDTH - MARGIN);
    let scale = LogScale::new(min.max(MIN_MS), max.max(MIN_MS), places);
    kinds().map(|times| strip(times, &scale)).collect()
}

fn strip(times: &Times<'_>, scale: &LogScale) -> String {
    // Dots that would cover each other are piled up; high piles are pushed together.
    let column = |ms: f64| (scale.at(ms) / DOT) as usize;
    let middle = |column: usize| (column as f64 + 0.5) * DOT;
    let piles = || times.ms.chunk_by(|a, b| column(*a) == column(*b));
    let highest = piles().map(<[f64]>::len).max().unwrap_or(0) as f64;
    let rise = DOT.min(PILE / highest);

    let marks = marks(&times.ms);
    let label = |(ms, text): &(f64, String)| Label {
        at: middle(column(*ms)),
        whole: width(text, FONT) + 12.0,
        short: width(text, FONT) + 12.0,
    };
    let labels: Vec<Label> = marks.iter().map(label).collect();
    let flags = place(&labels, (4.0, WIDTH - 4.0));
    let levels = flags.iter().map(|flag| flag.level + 1).max().unwrap_or(0);
    let bottom = TOP + levels as f64 * LEVEL + (highest * rise).max(MIN_PILE) + 6.0;

    let mut svg = Svg::default();
    for ms in scale.marks(&[1.0, 2.0, 5.0]) {
        let text = match ms {
            ms if ms >= 999.0 => format!("{} s", (ms / 100.0).round() / 10.0),
            ms => format!("{} ms", (ms * 10.0).round() / 10.0),
        };
        let x = scale.at(ms);
        svg.line("grid", [x, TOP, x, bottom], "");
        svg.text("axis", (x, bottom + 17.0), Anchor::Middle, &text);
    }
    for pile in piles() {
        for (place, ms) in pile.iter().enumerate() {
            let y = bottom - DOT / 2.0 - place as f64 * rise;
            let class = format!("dot {}", times.class);
            svg.circle(&class, [middle(column(*ms)), y, 3.0], &millis(*ms));
        }
    }
    for ((_, text), (label, flag)) in marks.iter().zip(labels.iter().zip(&flags)) {
        let top = TOP + flag.level as f64 * LEVEL;
        svg.line("quantile", [label.at, top, label.at, bottom], "");
        svg.text("name", (flag.from + 6.0, top + 11.0), Anchor::Start, text);
    }
    let size = (WIDTH, bottom + 24.0);
    let picture = svg.picture(size, "class=\"spread\" ", times.caption);
    let (caption, count) = (escape(times.caption), times.ms.len());
    format!("<p>{caption} ({count})</p>\n<div class=\"strips\">{picture}</div>\n")
}

/// The quantiles and their labels; equal ones share a label.
fn marks(ms: &[f64]) -> Vec<(f64, String)> {
    let mut marks: Vec<(f64, String)> = Vec::new();
    for (share, name) in [(0.5, "p50"), (0.99, "p99"), (1.0, "max")] {
        match (quantile(ms, share), marks.last_mut()) {
            (Some(ms), Some((last, names))) if *last == ms => *names = format!("{names} = {name}"),
            (Some(ms), _) => marks.push((ms, name.to_owned())),
            (None, _) => {}
        }
    }
    for (ms, names) in &mut marks {
        *names = format!("{names} {}", millis(*ms));
    }
    marks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_has_a_dot_and_equal_quantiles_share_a_label() {
        let times = |ms: &[f64]| Times {
            caption: "a < b",
            class: "c",
            ms: ms.to_vec(),
        };
        let html = dots(&[times(&[4.0, 4.0, 50.0]), times(&[])]);
        assert_eq!(html.matches("class=\"dot c\"").count(), 3);
        assert!(html.contains(">p50 4.0 ms<") && html.contains(">p99 = max 50 ms<"));
        assert!(html.starts_with("<p>a &lt; b (3)</p>"));
        assert_eq!(dots(&[times(&[])]), "");
    }
}
