//! The picture of a run: strips of time, one row per life, faults above and across.

use baton_report::labels::{Flag, Label, place};
use baton_report::text::{shorten, width};
use baton_report::{Anchor, Svg};

use super::moment;
use super::overview::overview;
use super::timeline::{Bar, Strike, Timeline};
use super::window::{MARGIN, WIDTH, Window};
use crate::history::{End, History, Reign};

/// From the top to the first flag, in SVG units as all sizes here.
const TOP: f64 = 8.0;
/// The height of a flag, with the room around it.
const LEVEL: f64 = 17.0;
/// From the last flag to the first row, with the track of faults in between.
const TRACK: f64 = 26.0;
/// From the bar of one row to that of the next, and the height of a bar.
const ROW: f64 = 40.0;
const BAR: f64 = 17.0;
/// The longest mark of messages below a bar.
const MESSAGES: f64 = 12.0;
/// The room below the last row, for the seconds.
const AXIS: f64 = 20.0;
/// The size of all texts, and the max letters of a fault's name.
const FONT: f64 = 11.0;
const LETTERS: usize = 40;
/// The gap between two lives in a row.
const GAP: f64 = 14.0;

/// The shortest and the longest strip, in seconds; a short run has one that is shorter.
const STRIP_S: (f64, f64) = (30.0, 60.0);
/// Faults that a strip has room for, names and all.
const FAULTS: f64 = 18.0;
/// A run with more strips also has an overview.
const FEW: usize = 3;

/// The whole picture of a run.
pub(super) fn draw(run: &History) -> String {
    let lives = run.lives.iter().map(|life| life.to_s);
    let faults = run.faults.iter().map(|fault| fault.to_s);
    let whole_s = lives.chain(faults).fold(run.seconds, f64::max);
    if whole_s <= 0.0 {
        return "<p>Nothing happened.</p>\n".to_owned();
    }
    let roomy_s = FAULTS * whole_s / run.faults.len().max(1) as f64;
    let strip_s = roomy_s.clamp(STRIP_S.0, STRIP_S.1);
    let count = (whole_s / strip_s).ceil().max(1.0) as usize;
    let each_s = whole_s / count as f64;
    let timeline = Timeline::new(run, GAP * each_s / (WIDTH - 2.0 * MARGIN));
    let mut html = match count > FEW {
        true => overview(&timeline, whole_s, count),
        false => String::new(),
    };
    html.push_str("<div class=\"strips\">\n");
    for index in 0..count {
        let from_s = index as f64 * each_s;
        let window = Window::new(from_s, from_s + each_s, index + 1 == count);
        html.push_str(&Strip::new(&timeline, window).draw());
    }
    html + "</div>\n"
}

/// One strip: a window of a timeline, with room for its flags and its rows.
struct Strip<'a> {
    timeline: &'a Timeline<'a>,
    window: Window,
    flags: Vec<(&'a Strike<'a>, Flag)>,
    /// The upper edge of the first row's bar, and the lower edge of the last row.
    rows_top: f64,
    bottom: f64,
}

impl<'a> Strip<'a> {
    fn new(timeline: &'a Timeline<'a>, window: Window) -> Self {
        let strikes = timeline.strikes.iter();
        let strikes = strikes.filter(|at| window.meets(at.fault.from_s, at.fault.to_s));
        let strikes: Vec<&Strike<'_>> = strikes.collect();
        let label = |strike: &&Strike<'_>| Label {
            at: window.x(strike.fault.from_s),
            whole: pill(strike) + width(&shorten(&strike.fault.name, LETTERS), FONT) + 14.0,
            short: pill(strike) + 4.0,
        };
        let labels: Vec<Label> = strikes.iter().map(label).collect();
        let flags = place(&labels, (MARGIN / 2.0, WIDTH - MARGIN / 2.0));
        let levels = flags.iter().map(|flag| flag.level + 1).max().unwrap_or(0);
        let lives = (0..timeline.lives.len()).filter(|life| window.shares(&timeline.lives[*life]));
        // A handover's curve may begin in a row whose life is over.
        let handovers = timeline.handovers.iter();
        let handovers = handovers.filter(|(_, new)| window.holds(new.from_s));
        let lives = lives.chain(handovers.map(|(old, _)| old.life));
        let rows = lives.map(|life| timeline.row_of[life] + 1).max();
        let rows_top = TOP + levels as f64 * LEVEL + TRACK;
        Self {
            timeline,
            flags: strikes.into_iter().zip(flags).collect(),
            window,
            rows_top,
            bottom: rows_top + rows.unwrap_or(0) as f64 * ROW - 4.0,
        }
    }

    /// The upper edge of a life's bars.
    fn top(&self, life: usize) -> f64 {
        self.rows_top + self.timeline.row_of[life] as f64 * ROW
    }

    /// The upper edge of the track of faults.
    fn track(&self) -> f64 {
        self.rows_top - TRACK + 6.0
    }

    fn draw(&self) -> String {
        let mut svg = Svg::default();
        let (flags, lives) = (|| self.flags.iter(), 0..self.timeline.lives.len());
        self.axis(&mut svg);
        flags().for_each(|(strike, _)| self.band(&mut svg, strike));
        self.bars(&mut svg);
        lives.clone().for_each(|life| self.messages(&mut svg, life));
        let handovers = self.timeline.handovers.iter();
        handovers.for_each(|(old, new)| self.handover(&mut svg, old, new));
        lives.for_each(|life| self.end(&mut svg, life));
        flags().for_each(|(strike, flag)| self.hits(&mut svg, strike, flag));
        flags().for_each(|(strike, flag)| self.flag(&mut svg, strike, flag));
        let (from, to) = (moment(self.window.from_s), moment(self.window.to_s));
        let size = (WIDTH, self.bottom + AXIS);
        svg.picture(size, "", &format!("From {from} to {to}"))
    }

    /// Seconds below, and thin lines to read them off.
    fn axis(&self, svg: &mut Svg) {
        let mut steps = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0].into_iter();
        let wide = |step: &f64| step * self.window.scale.unit() >= 52.0;
        let step = steps.find(wide).unwrap_or(20.0);
        let mut index = (self.window.from_s / step).ceil();
        while index * step <= self.window.to_s + 1e-9 {
            let seconds = index * step;
            let x = self.window.x(seconds);
            let label = format!("{} s", (seconds * 10.0).round() / 10.0);
            svg.line("grid", [x, self.track(), x, self.bottom], "");
            let below = (x, self.bottom + AXIS - 6.0);
            svg.text("axis", below, Anchor::Middle, &label);
            index += 1.0;
        }
    }

    /// When a fault was on and when all was well again; over all rows if it hit the server.
    fn band(&self, svg: &mut Svg, strike: &Strike<'_>) {
        let (fault, track, title) = (strike.fault, self.track(), strike.title());
        let (x, wide) = self.window.stretch(fault.from_s, fault.to_s);
        if let Some(ms) = fault.recovered_ms {
            let (x, wide) = self.window.stretch(fault.to_s, fault.to_s + ms / 1000.0);
            svg.rect("settling", [x, track, wide, 5.0], &title);
        }
        if fault.targets.is_empty() {
            svg.rect("band", [x, track, wide, self.bottom - track], &title);
        }
        svg.rect("on", [x, track, wide, 5.0], &title);
    }

    /// Every life: its roles, and once its name, where that fits.
    fn bars(&self, svg: &mut Svg) {
        let mut named = None;
        let here = |bar: &&Bar| {
            let is_whole = bar.class == "life";
            self.window.meets(bar.from_s, bar.to_s) || (is_whole && self.window.holds(bar.to_s))
        };
        for bar in self.timeline.bars.iter().filter(here) {
            let (x, wide) = self.window.stretch(bar.from_s, bar.to_s);
            let y = self.top(bar.life);
            svg.rect(bar.class, [x, y, wide, BAR], &bar.title);
            let fits = |(text, has_name): &&(String, bool)| {
                width(text, FONT) + 13.0 <= wide && !(*has_name && named == Some(bar.life))
            };
            if let Some((text, has_name)) = bar.texts.iter().find(fits) {
                let class = format!("in {}", bar.class);
                svg.text(&class, (x + 7.0, y + BAR - 5.0), Anchor::Start, text);
                named = has_name.then_some(bar.life).or(named);
            }
        }
    }

    /// The messages of a life, as marks that hang below its bars: longer is more.
    fn messages(&self, svg: &mut Svg, index: usize) {
        let (life, top) = (&self.timeline.lives[index], self.top(index) + BAR + 1.5);
        let tick = self.timeline.tick_s * self.window.scale.unit();
        let wide = (tick - 1.0).clamp(2.0, MARGIN);
        for tick in life
            .ticks
            .iter()
            .filter(|tick| self.window.holds(tick.at_s))
        {
            let class = match life.is_generator_at(tick.at_s) {
                true => "published",
                false => "ended",
            };
            let (x, depth) = (self.window.x(tick.at_s), self.timeline.depth(tick.count));
            let title = format!(
                "{}: {} {class}, {} failed",
                life.label, tick.count, tick.failed
            );
            svg.rect(class, [x - wide / 2.0, top, wide, depth * MESSAGES], &title);
            if tick.failed > 0 {
                svg.rect("failed", [x - 1.0, top, 2.0, 3.5], "");
            }
        }
    }

    /// The way of the baton, from the end of one reign to the start of the next.
    fn handover(&self, svg: &mut Svg, old: &Reign, new: &Reign) {
        if !self.window.holds(new.from_s) {
            return;
        }
        let x1 = self.window.x(old.to_s.min(new.from_s));
        let x2 = self.window.x(new.from_s);
        let [y1, y2] = [old, new].map(|reign| self.top(reign.life) + BAR / 2.0);
        let [from, to] = [old, new].map(|reign| {
            let name = self.timeline.lives[reign.life].name();
            format!("{name} (epoch {})", reign.epoch)
        });
        let gap_ms = (new.from_s - old.to_s).max(0.0) * 1000.0;
        let title = format!("the baton goes from {from} to {to}; {gap_ms:.0} ms between them");
        svg.group("g class=\"handover\"", &title, |svg| {
            let (right, left) = (x1 + 14.0, x2 - 14.0);
            let curve = format!("d=\"M{x1:.1} {y1}C{right:.1} {y1} {left:.1} {y2} {x2:.1} {y2}\"");
            svg.shape("path", "way", &curve, "");
            svg.circle("hand", [x2, y2, 3.5], "");
        });
    }

    /// How a life ended, where it ended.
    fn end(&self, svg: &mut Svg, index: usize) {
        let life = &self.timeline.lives[index];
        if !self.window.holds(life.to_s) {
            return;
        }
        let (x, y) = (self.window.x(life.to_s), self.top(index) + BAR / 2.0);
        let (name, to) = (life.name(), moment(life.to_s));
        if life.end == End::Killed {
            let (left, right, top, low) = (x - 5.0, x + 5.0, y - 5.0, y + 5.0);
            let cross =
                format!("d=\"M{left:.1} {top}L{right:.1} {low}M{left:.1} {low}L{right:.1} {top}\"");
            svg.shape("path", "kill", &cross, &format!("{name}: killed at {to}"));
        } else if life.end == End::Stopped {
            let title = format!("{name}: stopped in good order at {to}");
            svg.circle("stop", [x, y, 4.0], &title);
        }
    }

    /// The lives that a fault hit, and the pole from its flag down to them.
    fn hits(&self, svg: &mut Svg, strike: &Strike<'_>, flag: &Flag) {
        let (x, wide) = self.window.stretch(strike.fault.from_s, strike.fault.to_s);
        let mut end = match strike.fault.targets.is_empty() {
            true => self.bottom,
            false => self.track(),
        };
        let lives = strike.hits.iter().copied();
        for life in lives.filter(|life| self.window.shares(&self.timeline.lives[*life])) {
            let y = self.top(life);
            end = f64::max(end, y - 6.0);
            svg.group("g class=\"hit\"", &strike.title(), |svg| {
                svg.rect("", [x, y - 1.5, wide, 2.5], "");
                let arrow = [(x - 4.0, y - 7.0), (x + 4.0, y - 7.0), (x, y - 1.0)];
                svg.path("", arrow, "");
            });
        }
        svg.line("pole", [x, TOP + flag.level as f64 * LEVEL, x, end], "");
    }

    /// The number of a fault, and its name where there is room. It leads to the table.
    fn flag(&self, svg: &mut Svg, strike: &Strike<'_>, flag: &Flag) {
        let (number, fault) = (strike.number.to_string(), strike.fault);
        let (pole, wide) = (self.window.x(fault.from_s), pill(strike));
        let top = TOP + flag.level as f64 * LEVEL;
        // Near the right edge a flag hangs to the left of its pole.
        let hangs_left = flag.from < pole - 1.0;
        let left = if hangs_left { pole - wide } else { flag.from };
        let (x, anchor) = match hangs_left {
            true => (left - 5.0, Anchor::End),
            false => (left + wide + 5.0, Anchor::Start),
        };
        let class = match fault.recovered_ms {
            Some(_) => "name",
            None => "name open",
        };
        // The table leads back to the strip in which the fault began.
        let id = match self.window.holds(fault.from_s) {
            true => format!(" id=\"p{number}\""),
            false => String::new(),
        };
        let link = format!("a href=\"#f{number}\"{id}");
        svg.group(&link, &strike.title(), |svg| {
            let base = top + 11.0;
            svg.rect("flag", [left, top, wide, 14.0], "");
            svg.text("number", (left + wide / 2.0, base), Anchor::Middle, &number);
            if flag.whole {
                let name = shorten(&fault.name, LETTERS);
                svg.text(class, (x, base), anchor, &name);
            }
        });
    }
}

/// The width of the box around a fault's number.
fn pill(strike: &Strike<'_>) -> f64 {
    width(&strike.number.to_string(), FONT) + 7.0
}
