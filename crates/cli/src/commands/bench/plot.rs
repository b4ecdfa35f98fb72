//! Plots as SVG, drawn for the report's own style sheet.

use std::fmt::Write as _;

/// The size of a plot and the room for its labels, in SVG units.
const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 30.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 30.0;

/// One plot: x and y grow from the lower left corner.
pub(super) struct Plot {
    body: String,
    x_range: (f64, f64),
    y_max: f64,
}

impl Plot {
    pub(super) fn new(x_range: (f64, f64), y_max: f64) -> Self {
        Self {
            body: String::new(),
            x_range,
            y_max: y_max.max(f64::MIN_POSITIVE),
        }
    }

    fn x(&self, x: f64) -> f64 {
        let (from, to) = self.x_range;
        LEFT + (x - from) / (to - from).max(f64::MIN_POSITIVE) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, y: f64) -> f64 {
        HEIGHT - BOTTOM - y / self.y_max * (HEIGHT - TOP - BOTTOM)
    }

    fn add(&mut self, part: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.body.write_fmt(part);
    }

    /// A line across, with its value on the left.
    pub(super) fn y_mark(&mut self, y: f64, label: &str) {
        let (at, left, right) = (self.y(y), LEFT, WIDTH - RIGHT);
        let text = left - 8.0;
        self.add(format_args!(
            r#"<line class="grid" x1="{left}" x2="{right}" y1="{at:.1}" y2="{at:.1}"/>
<text class="axis" x="{text}" y="{at:.1}" dy="0.35em" text-anchor="end">{label}</text>
"#
        ));
    }

    /// A value below.
    pub(super) fn x_mark(&mut self, x: f64, label: &str) {
        let (at, below) = (self.x(x), HEIGHT - BOTTOM + 18.0);
        self.add(format_args!(
            r#"<text class="axis" x="{at:.1}" y="{below}" text-anchor="middle">{label}</text>
"#
        ));
    }

    /// A shaded stretch from bottom to top, with a word at its head.
    pub(super) fn band(&mut self, from: f64, to: f64, class: &str, label: &str) {
        let (x, width) = (self.x(from), (self.x(to) - self.x(from)).max(1.0));
        let height = HEIGHT - TOP - BOTTOM;
        self.add(format_args!(
            r#"<rect class="{class}" x="{x:.1}" width="{width:.1}" y="{TOP}" height="{height}"><title>{label}</title></rect>
"#
        ));
    }

    /// A line from bottom to top.
    pub(super) fn mark(&mut self, at: f64, class: &str, label: &str) {
        let (x, bottom) = (self.x(at), HEIGHT - BOTTOM);
        self.add(format_args!(
            r#"<line class="{class}" x1="{x:.1}" x2="{x:.1}" y1="{TOP}" y2="{bottom}"><title>{label}</title></line>
"#
        ));
    }

    /// A line through points.
    pub(super) fn line(&mut self, points: impl Iterator<Item = (f64, f64)>, class: &str) {
        let mut path = String::new();
        for (x, y) in points {
            let verb = if path.is_empty() { 'M' } else { 'L' };
            let _ = write!(path, "{verb}{:.1} {:.1}", self.x(x), self.y(y));
        }
        self.add(format_args!(
            r#"<path class="{class}" d="{path}"/>
"#
        ));
    }

    /// An upright bar.
    pub(super) fn bar(&mut self, from: f64, to: f64, y: f64, class: &str, label: &str) {
        let (x, top) = (self.x(from), self.y(y));
        let (width, height) = ((self.x(to) - x - 1.0).max(0.5), HEIGHT - BOTTOM - top);
        self.add(format_args!(
            r#"<rect class="{class}" x="{x:.1}" width="{width:.1}" y="{top:.1}" height="{height:.1}"><title>{label}</title></rect>
"#
        ));
    }

    pub(super) fn svg(self, title: &str) -> String {
        format!(
            r#"<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}">
{}</svg>
"#,
            self.body
        )
    }
}

/// About `count` round steps up to `max`, beginning with 0.
pub(super) fn steps(max: f64, count: f64) -> Vec<f64> {
    let raw = max / count;
    let power = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= raw)
        .unwrap_or(raw);
    if step.is_nan() || step <= 0.0 {
        return vec![0.0];
    }
    (0..)
        .map(|index| f64::from(index) * step)
        .take_while(|at| *at <= max)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round_and_do_not_exceed_the_most() {
        assert_eq!(steps(10.0, 5.0), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(
            steps(1_700_000.0, 4.0),
            [0.0, 500_000.0, 1_000_000.0, 1_500_000.0]
        );
        assert_eq!(steps(0.0, 4.0), [0.0]);
    }

    #[test]
    fn points_lie_within_the_plot() {
        let mut plot = Plot::new((0.0, 1.0), 10.0);
        plot.line([(0.0, 0.0), (1.0, 10.0)].into_iter(), "c");
        let svg = plot.svg("t");
        assert!(svg.contains(r#"d="M64.0 230.0L830.0 14.0""#), "{svg}");
    }
}
