//! A run laid out for drawing: the row of each life, the strikes, the handovers, the messages.

use baton_report::rows;
use baton_report::stats::{quantile, sorted};
use baton_report::text::{millis, shorten};

use crate::history::{End, Fault, History, Life, Reign, Role};

/// The max letters of a process's name in a bar.
const LETTERS: usize = 24;

/// A run and its layout. Indices into `lives` name processes.
pub(super) struct Timeline<'a> {
    pub(super) lives: &'a [Life],
    /// The row of each life.
    pub(super) row_of: Vec<usize>,
    /// How many rows there are.
    pub(super) rows: usize,
    /// What each life was when, life by life.
    pub(super) bars: Vec<Bar>,
    /// Every fault, in the order in which they began.
    pub(super) strikes: Vec<Strike<'a>>,
    /// Every change of the generator.
    pub(super) handovers: Vec<(Reign, Reign)>,
    /// The usual time from one tick of messages to the next.
    pub(super) tick_s: f64,
    /// A count of messages that few ticks exceed.
    high: f64,
}

/// A life as a whole, or some time of it in one role.
pub(super) struct Bar {
    pub(super) life: usize,
    pub(super) from_s: f64,
    pub(super) to_s: f64,
    /// The class of its style.
    pub(super) class: &'static str,
    pub(super) title: String,
    /// Texts for it, the best first, and whether each has the name of the process.
    pub(super) texts: Vec<(String, bool)>,
}

/// A fault and the lives that it hit.
pub(super) struct Strike<'a> {
    /// Its number on the page.
    pub(super) number: usize,
    pub(super) fault: &'a Fault,
    pub(super) hits: Vec<usize>,
}

impl<'a> Timeline<'a> {
    /// Lays out a run. Lives in one row keep `gap_s` apart where they can.
    pub(super) fn new(run: &'a History, gap_s: f64) -> Self {
        let lives = &run.lives;
        let (row_of, rows) = pack(lives, gap_s);
        let hit = |label: &String| lives.iter().position(|life| life.label == *label);
        let strike = |(number, fault): (usize, &'a Fault)| Strike {
            number,
            fault,
            hits: fault.targets.iter().filter_map(hit).collect(),
        };
        let mut strikes: Vec<Strike<'_>> = (1..).zip(&run.faults).map(strike).collect();
        strikes.sort_by(|a, b| a.fault.from_s.total_cmp(&b.fault.from_s));
        let pairs = lives.iter().flat_map(|life| life.ticks.windows(2));
        let gaps = sorted(pairs.map(|pair| pair[1].at_s - pair[0].at_s));
        let ticks = lives.iter().flat_map(|life| &life.ticks);
        let counts = sorted(ticks.map(|tick| tick.count as f64));
        Self {
            lives,
            row_of,
            rows,
            bars: lives.iter().enumerate().flat_map(bars).collect(),
            strikes,
            handovers: run.handovers(),
            tick_s: quantile(&gaps, 0.5).unwrap_or(0.0),
            high: quantile(&counts, 0.95).unwrap_or(1.0).max(1.0),
        }
    }

    /// The length of a mark for this count, at most 1. The square root lets a reader see a worker's
    /// few messages beside a generator's many. The largest count is no measure: after a jump of
    /// the clock it may be a thousand times the others.
    pub(super) fn depth(&self, count: u64) -> f64 {
        (count as f64 / self.high).sqrt().min(1.0)
    }
}

/// The bars of a life: the whole one, then one for each span.
fn bars((life, at): (usize, &Life)) -> Vec<Bar> {
    let bar = |from_s: f64, to_s: f64, class, words: &str, texts| Bar {
        life,
        from_s,
        to_s,
        class,
        title: format!("{}: {words}, {from_s:.2} to {to_s:.2} s", at.name()),
        texts,
    };
    let label = shorten(&at.label, LETTERS);
    let whole = match at.end {
        End::Killed => "lived and was killed",
        End::Stopped => "lived and stopped",
        End::Alive => "lived",
    };
    let mut bars = vec![bar(at.from_s, at.to_s, "life", whole, Vec::new())];
    for span in &at.spans {
        let named = |text: &str| vec![(text.to_owned(), true)];
        let (class, words, texts) = match span.role {
            Role::Generator { epoch } => {
                let mut texts = named(&format!("{label} · epoch {epoch}"));
                texts.extend([
                    (format!("epoch {epoch}"), false),
                    (epoch.to_string(), false),
                ]);
                ("generator", "generator", texts)
            }
            Role::Worker => ("worker", "worker", named(&label)),
            Role::Drain => ("drain", "takes failed messages", named(&label)),
            Role::Paused => ("paused", "stopped in its tracks", Vec::new()),
            Role::Service => ("service", "push service", named(&label)),
        };
        bars.push(bar(span.from_s, span.to_s, class, words, texts));
    }
    bars
}

impl Strike<'_> {
    /// The whole fault, for a tooltip.
    pub(super) fn title(&self) -> String {
        let (number, fault) = (self.number, self.fault);
        let (name, from_s, to_s) = (&fault.name, fault.from_s, fault.to_s);
        let targets = match fault.targets.is_empty() {
            true => String::new(),
            false => format!(" → {}", fault.targets.join(", ")),
        };
        let recovered = match fault.recovered_ms {
            Some(ms) => format!("all well {} later", millis(ms)),
            None => "did not settle".to_owned(),
        };
        let text = format!("{number}: {name}{targets}, {from_s:.2} to {to_s:.2} s, {recovered}");
        [text.as_str(), &fault.note]
            .join("; ")
            .trim_end_matches("; ")
            .to_owned()
    }
}

/// The row of each life, and how many rows there are. Sixty processes, five at a time, fill about
/// five rows; drains and the push service come below all nodes.
pub(super) fn pack(lives: &[Life], gap_s: f64) -> (Vec<usize>, usize) {
    let is_other = |life: &Life| {
        let mut spans = life.spans.iter();
        spans.any(|span| matches!(span.role, Role::Drain | Role::Service))
    };
    let (mut row_of, mut rows) = (vec![0; lives.len()], 0);
    for (others, spare) in [(false, 1), (true, 0)] {
        let chosen = (0..lives.len()).filter(|index| is_other(&lives[*index]) == others);
        let chosen: Vec<usize> = chosen.collect();
        let time = |index: &usize| (lives[*index].from_s, lives[*index].to_s);
        let times: Vec<(f64, f64)> = chosen.iter().map(time).collect();
        let (packed, count) = rows::pack(&times, gap_s, spare);
        for (index, row) in chosen.into_iter().zip(packed) {
            row_of[index] = rows + row;
        }
        rows += count;
    }
    (row_of, rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Span, Tick};

    fn life(from_s: f64, to_s: f64, role: Role) -> Life {
        Life {
            from_s,
            to_s,
            spans: vec![Span { from_s, to_s, role }],
            ..Life::default()
        }
    }

    #[test]
    fn drains_have_rows_of_their_own_below_the_nodes() {
        let lives = [
            life(0.0, 1.0, Role::Drain),
            life(2.0, 9.0, Role::Worker),
            life(3.0, 9.0, Role::Worker),
        ];
        assert_eq!(pack(&lives, 0.1), (vec![2, 0, 1], 3));
    }

    #[test]
    fn one_tick_out_of_all_proportion_does_not_flatten_the_others() {
        let ticks = (0..90).map(|index| Tick {
            at_s: f64::from(index) * 0.5,
            count: if index == 45 { 6000 } else { 2 },
            failed: 0,
        });
        let mut run = History::default();
        run.lives.push(Life::default());
        run.lives[0].ticks = ticks.collect();
        let timeline = Timeline::new(&run, 0.1);
        assert_eq!(timeline.tick_s, 0.5);
        let depths = [0, 2, 6000].map(|count| timeline.depth(count));
        assert_eq!(depths, [0.0, 1.0, 1.0]);
    }
}
