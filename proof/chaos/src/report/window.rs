//! Some seconds of a run, from the left edge of a picture to the right.

use baton_report::scale::Scale;

use crate::history::Life;

/// The width of a picture, in SVG units.
pub(super) const WIDTH: f64 = 1160.0;
/// The room left and right of the time axis, for marks at its ends.
pub(super) const MARGIN: f64 = 16.0;

/// From a moment to another one.
pub(super) struct Window {
    pub(super) from_s: f64,
    pub(super) to_s: f64,
    /// Whether no other window follows.
    last: bool,
    pub(super) scale: Scale,
}

impl Window {
    pub(super) fn new(from_s: f64, to_s: f64, last: bool) -> Self {
        let scale = Scale::new((from_s, to_s), (MARGIN, WIDTH - MARGIN));
        Self {
            from_s,
            to_s,
            last,
            scale,
        }
    }

    /// The place of a moment; outside the window, that of the nearer end.
    pub(super) fn x(&self, at_s: f64) -> f64 {
        self.scale.at(at_s)
    }

    /// The place of some time and its width, at least 1.
    pub(super) fn stretch(&self, from_s: f64, to_s: f64) -> (f64, f64) {
        let x = self.x(from_s);
        (x, (self.x(to_s) - x).max(1.0))
    }

    /// Whether a moment lies in the window. Its end belongs to the next window.
    pub(super) fn holds(&self, at_s: f64) -> bool {
        self.from_s <= at_s && (at_s < self.to_s || self.last)
    }

    /// Whether any of some time lies in the window.
    pub(super) fn meets(&self, from_s: f64, to_s: f64) -> bool {
        self.holds(from_s) || (from_s < self.from_s && self.from_s < to_s)
    }

    /// Whether any of a life lies in the window, be it its end alone.
    pub(super) fn shares(&self, life: &Life) -> bool {
        self.meets(life.from_s, life.to_s) || self.holds(life.to_s)
    }
}
