//! A long run at a glance: the way of the baton, the deaths, the faults of the server.

use baton_report::Svg;

use super::timeline::Timeline;
use super::window::{WIDTH, Window};
use crate::history::End;

/// The room above and below the rows.
const EDGE: f64 = 10.0;
/// From one row to the next.
const ROW: f64 = 13.0;
/// The height of a bar.
const BAR: f64 = 8.0;

/// A long run in one small picture without words. Dotted lines mark where its strips begin.
pub(super) fn overview(timeline: &Timeline<'_>, whole_s: f64, strips: usize) -> String {
    let window = Window::new(0.0, whole_s, true);
    let height = 2.0 * EDGE + ROW * timeline.rows as f64;
    let (low, high) = (EDGE / 2.0, height - EDGE / 2.0);
    let top = |life: usize| EDGE + timeline.row_of[life] as f64 * ROW;
    let mut svg = Svg::default();
    let faults = timeline.strikes.iter().map(|strike| strike.fault);
    for fault in faults.filter(|fault| fault.targets.is_empty()) {
        let (x, wide) = window.stretch(fault.from_s, fault.to_s);
        svg.rect("band", [x, low, wide, high - low], "");
    }
    for bar in timeline.bars.iter().filter(|bar| bar.class != "life") {
        let (x, wide) = window.stretch(bar.from_s, bar.to_s);
        svg.rect(bar.class, [x, top(bar.life), wide, BAR], &bar.title);
    }
    for (old, new) in &timeline.handovers {
        let ends = [(old.to_s.min(new.from_s), old.life), (new.from_s, new.life)];
        let points = ends.map(|(at_s, life)| (window.x(at_s), top(life) + BAR / 2.0));
        svg.path("pass", points, "");
    }
    for (index, life) in timeline.lives.iter().enumerate() {
        if life.end == End::Killed {
            let place = [window.x(life.to_s), top(index) + BAR / 2.0, 2.0];
            svg.circle("death", place, "");
        }
    }
    for strip in 1..strips {
        let x = window.x(whole_s * strip as f64 / strips as f64);
        svg.line("edge", [x, low, x, high], "");
    }
    svg.picture((WIDTH, height), "class=\"overview\" ", "The whole run")
}
