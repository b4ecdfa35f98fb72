//! The table of figures.

use std::time::Duration;

use anyhow::{Result, bail};
use baton_print::outln;
use baton_report::stats::{quantile, sorted};

/// Collects figures, prints each as it comes, and knows at the end whether all goals are met.
pub(crate) struct Report {
    quick: bool,
    missed: usize,
}

impl Report {
    pub(crate) fn new(quick: bool) -> Self {
        outln!("{:<58} {:>34}  goal", "figure", "measured");
        Self { quick, missed: 0 }
    }

    /// A figure with its measured value in words and whether the goal is met.
    pub(crate) fn add(&mut self, what: &str, measured: &str, goal: &str, met: bool) {
        let verdict = if met { "ok" } else { "MISSED" };
        outln!("{what:<58} {measured:>34}  {goal}: {verdict}");
        self.missed += usize::from(!met);
    }

    /// A goal of a figure that is already printed: only a miss gets a line.
    pub(crate) fn judge(&mut self, what: &str, measured: &str, goal: &str, met: bool) {
        if !met {
            self.add(&format!("  {what}"), measured, goal, met);
        }
    }

    /// A figure without a goal, to judge the others by.
    pub(crate) fn tell(&mut self, what: &str, measured: &str) {
        outln!("{what:<58} {measured:>34}");
    }

    /// A distribution of times; the goal is on its 99th percentile.
    pub(crate) fn times(&mut self, what: &str, times: &[Duration], goal: Duration) {
        let p99 = percentile(times, 99);
        let measured = format!(
            "p50 {:.0} p99 {:.0} ms of {}",
            ms(percentile(times, 50)),
            ms(p99),
            times.len()
        );
        self.add(
            what,
            &measured,
            &format!("p99 < {:.0} ms", ms(goal)),
            p99 < goal,
        );
    }

    /// Fails if a goal was missed; a quick run has too few rounds to judge.
    pub(crate) fn finish(self) -> Result<()> {
        match (self.missed, self.quick) {
            (0, _) => Ok(()),
            (missed, true) => {
                outln!("{missed} goals missed; a quick run does not judge");
                Ok(())
            }
            (missed, false) => bail!("{missed} goals missed"),
        }
    }
}

pub(crate) fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// The smallest value that `percent` of all do not exceed.
pub(crate) fn percentile(times: &[Duration], percent: u8) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    quantile(&sorted, f64::from(percent) / 100.0).unwrap_or_default()
}

/// The value that a quarter, a half and three quarters of all do not exceed.
pub(crate) fn quartiles(values: &[f64]) -> [f64; 3] {
    let sorted = sorted(values.iter().copied());
    [0.25, 0.5, 0.75].map(|share| quantile(&sorted, share).unwrap_or(f64::NAN))
}
