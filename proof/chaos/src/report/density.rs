//! How many messages each process ended (or published) when, in steps that can be seen.

use super::words::{quantile, sorted};
use crate::record::Lane;

/// The messages of a run, lane by lane.
pub(super) struct Density {
    /// How long a step is, in seconds.
    pub(super) step: f64,
    lanes: Vec<Vec<Bin>>,
    /// A count that few exceed.
    much: f64,
}

/// The messages of one step.
pub(super) struct Bin {
    /// When the step begins.
    pub(super) at: f64,
    /// How many.
    pub(super) count: u64,
    /// How many of them failed.
    pub(super) failed: u64,
}

impl Density {
    /// Counts them in steps of at least this many seconds. Ticks come in buckets already, and
    /// steps that are no multiple of theirs would show a pattern that is not there.
    pub(super) fn new(lanes: &[Lane], least: f64) -> Self {
        let bucket = bucket(lanes).unwrap_or(least);
        let step = (least / bucket).ceil().max(1.0) * bucket;
        let lanes: Vec<Vec<Bin>> = lanes.iter().map(|lane| bins(lane, step)).collect();
        let counts = sorted(lanes.iter().flatten().map(|bin| bin.count as f64));
        let much = quantile(&counts, 0.95).unwrap_or(1.0).max(1.0);
        Self { step, lanes, much }
    }

    /// Those of one lane, in order.
    pub(super) fn of(&self, lane: usize) -> &[Bin] {
        &self.lanes[lane]
    }

    /// How far a mark for this count reaches, at most 1. The root of it, so that a worker's few
    /// can be seen beside a generator's many; and not measured by the largest count, because
    /// after a jump of the clock that one may be a thousand times the others.
    pub(super) fn depth(&self, count: u64) -> f64 {
        (count as f64 / self.much).sqrt().min(1.0)
    }
}

fn bins(lane: &Lane, step: f64) -> Vec<Bin> {
    let mut ticks = lane.ticks.clone();
    ticks.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    let mut bins: Vec<Bin> = Vec::new();
    for tick in ticks {
        // The small addition keeps 0.3 / 0.1 from being 2.
        let at = (tick.at_s / step + 1e-6).floor() * step;
        match bins.last_mut() {
            Some(bin) if bin.at == at => {
                bin.count += tick.count;
                bin.failed += tick.failed;
            }
            _ => bins.push(Bin {
                at,
                count: tick.count,
                failed: tick.failed,
            }),
        }
    }
    bins
}

/// The usual time from one tick of a process to its next.
fn bucket(lanes: &[Lane]) -> Option<f64> {
    let gaps = lanes
        .iter()
        .flat_map(|lane| lane.ticks.windows(2))
        .map(|pair| pair[1].at_s - pair[0].at_s);
    quantile(&sorted(gaps.filter(|gap| *gap > 1e-3)), 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{End, Tick};

    #[test]
    fn steps_are_whole_buckets_and_no_message_is_missing() {
        // One of them is out of all proportion.
        let ticks = (0..90).map(|index| Tick {
            at_s: f64::from(index) * 0.1,
            count: if index == 45 { 6000 } else { 2 },
            failed: u64::from(index % 9 == 0),
        });
        let lane = Lane {
            label: String::new(),
            node: String::new(),
            from_s: 0.0,
            to_s: 9.0,
            end: End::Alive,
            spans: Vec::new(),
            ticks: ticks.collect(),
        };
        let density = Density::new(&[lane], 0.25);
        assert!((density.step - 0.3).abs() < 1e-6);
        let bins = density.of(0);
        assert_eq!(bins.len(), 30);
        assert_eq!(bins.iter().filter(|bin| bin.count == 6).count(), 29);
        assert_eq!(bins.iter().map(|bin| bin.failed).sum::<u64>(), 10);
        assert_eq!(
            [0, 6, 6004].map(|count| density.depth(count)),
            [0.0, 1.0, 1.0]
        );
    }
}
