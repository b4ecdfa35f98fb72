//! A plot with two axes.

use crate::scale::Scale;
use crate::svg::{Anchor, Svg};

/// The size of a plot and the room for its labels, in SVG units.
const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = WIDTH - 30.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = HEIGHT - 30.0;

/// One plot: x and y grow from the lower left corner.
#[derive(Debug)]
pub struct Plot {
    svg: Svg,
    x: Scale,
    y: Scale,
}

impl Plot {
    /// An empty plot of these values of x, and of y from 0 to `y_max`.
    pub fn new(x: (f64, f64), y_max: f64) -> Self {
        Self {
            svg: Svg::default(),
            x: Scale::new(x, (LEFT, RIGHT)),
            y: Scale::new((0.0, y_max), (BOTTOM, TOP)),
        }
    }

    /// A line across, with its value on the left.
    pub fn y_mark(&mut self, y: f64, label: &str) {
        let y = self.y.at(y);
        self.svg.line("grid", [LEFT, y, RIGHT, y], "");
        let place = (LEFT - 8.0, y + 4.2);
        self.svg.text("axis", place, Anchor::End, label);
    }

    /// A value below.
    pub fn x_mark(&mut self, x: f64, label: &str) {
        let place = (self.x.at(x), BOTTOM + 18.0);
        self.svg.text("axis", place, Anchor::Middle, label);
    }

    /// A shaded stretch from bottom to top.
    pub fn band(&mut self, from: f64, to: f64, class: &str, title: &str) {
        let (from, to) = (self.x.at(from), self.x.at(to));
        let area = [from, TOP, (to - from).max(1.0), BOTTOM - TOP];
        self.svg.rect(class, area, title);
    }

    /// A line from bottom to top.
    pub fn mark(&mut self, x: f64, class: &str, title: &str) {
        let x = self.x.at(x);
        self.svg.line(class, [x, TOP, x, BOTTOM], title);
    }

    /// A line through points.
    pub fn line(&mut self, points: impl Iterator<Item = (f64, f64)>, class: &str) {
        let places = points.map(|(x, y)| (self.x.at(x), self.y.at(y)));
        self.svg.path(class, places, "");
    }

    /// An upright bar.
    pub fn bar(&mut self, from: f64, to: f64, y: f64, class: &str, title: &str) {
        let (from, to, top) = (self.x.at(from), self.x.at(to), self.y.at(y));
        let area = [from, top, (to - from - 1.0).max(0.5), BOTTOM - top];
        self.svg.rect(class, area, title);
    }

    /// The finished picture.
    pub fn picture(self, label: &str) -> String {
        self.svg.picture((WIDTH, HEIGHT), "", label)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_lie_within_the_plot() {
        let mut plot = Plot::new((0.0, 1.0), 10.0);
        plot.line([(0.0, 0.0), (1.0, 10.0)].into_iter(), "c");
        let svg = plot.picture("t");
        assert!(svg.contains(r#"d="M64 230L830 14""#), "{svg}");
    }
}
