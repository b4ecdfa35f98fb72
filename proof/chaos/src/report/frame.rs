//! Where things are in one strip of the picture.

/// How wide a strip is, in SVG units.
pub(super) const WIDTH: f64 = 1160.0;
/// The room left and right of the time axis: marks at its ends need some.
pub(super) const MARGIN: f64 = 16.0;
/// How high the bar of a life is.
pub(super) const BAR: f64 = 17.0;
/// How deep the messages hang below it.
pub(super) const TICKS: f64 = 12.0;
/// From the bar of one row to that of the next.
const ROW: f64 = 40.0;
/// The room below the last row, for the seconds.
const AXIS: f64 = 20.0;
/// From the top to the first flag.
const TOP: f64 = 8.0;
/// How high a flag is, with the room around it.
const LEVEL: f64 = 17.0;
/// From the last flag to the first row, with the track of faults in between.
const TRACK: f64 = 26.0;

/// One strip: some seconds of a run, its rows and the levels of its flags.
pub(super) struct Frame {
    /// When it begins.
    pub(super) from: f64,
    /// When it ends.
    pub(super) to: f64,
    /// How many rows of lives it has.
    pub(super) rows: usize,
    /// How many levels of flags it has.
    pub(super) levels: usize,
    /// Whether no other strip follows.
    pub(super) last: bool,
}

impl Frame {
    /// SVG units per second.
    pub(super) fn scale(&self) -> f64 {
        (WIDTH - 2.0 * MARGIN) / (self.to - self.from).max(f64::MIN_POSITIVE)
    }

    /// The place of a moment; of one outside the strip, that of its nearer end.
    pub(super) fn x(&self, at: f64) -> f64 {
        MARGIN + (at.clamp(self.from, self.to) - self.from) * self.scale()
    }

    /// The place of a stretch of time and its width, which is never nothing.
    pub(super) fn stretch(&self, from: f64, to: f64) -> (f64, f64) {
        let x = self.x(from);
        (x, (self.x(to) - x).max(1.0))
    }

    /// Whether a moment lies in it. Its end belongs to the next strip, if there is one.
    pub(super) fn holds(&self, at: f64) -> bool {
        self.from <= at && (at < self.to || self.last)
    }

    /// Whether any of a stretch of time lies in it.
    pub(super) fn meets(&self, from: f64, to: f64) -> bool {
        self.holds(from) || (from < self.from && self.from < to)
    }

    /// The upper edge of a level of flags.
    pub(super) fn level(&self, level: usize) -> f64 {
        TOP + level as f64 * LEVEL
    }

    /// The upper edge of the track that tells when a fault was on.
    pub(super) fn track(&self) -> f64 {
        self.level(self.levels) + 6.0
    }

    /// The upper edge of a row's bar.
    pub(super) fn row(&self, row: usize) -> f64 {
        self.level(self.levels) + TRACK + row as f64 * ROW
    }

    /// The middle of a row's bar.
    pub(super) fn middle(&self, row: usize) -> f64 {
        self.row(row) + BAR / 2.0
    }

    /// Below the messages of the last row.
    pub(super) fn bottom(&self) -> f64 {
        self.row(self.rows) - 4.0
    }

    /// How high all of it is.
    pub(super) fn height(&self) -> f64 {
        self.bottom() + AXIS
    }
}
