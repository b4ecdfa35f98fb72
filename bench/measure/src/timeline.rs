//! The timeline of a run, read from its ledgers: latency, pace, and who generated when.

use std::collections::BTreeMap;

use baton_protocol::{Entry, Ledger};
use baton_report::stats::quantile_of_counts;

/// The time in which one generator published.
#[derive(Debug, Clone, PartialEq)]
pub struct Reign {
    /// Its epoch.
    pub epoch: u64,
    /// Its first publish, in seconds since the start.
    pub from: f64,
    /// Its last publish.
    pub to: f64,
}

/// How long messages took from publish to commit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Latency {
    times: Vec<(u64, u64)>,
}

impl Latency {
    /// Microseconds, and how many messages took them; shortest first.
    pub fn times(&self) -> &[(u64, u64)] {
        &self.times
    }

    /// The time in ms that this share of the messages did not exceed; `share` from 0 to 1.
    pub fn quantile_ms(&self, share: f64) -> f64 {
        quantile_of_counts(&self.times, share).unwrap_or_default() as f64 / 1000.0
    }
}

/// What happened in one slice of time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Slice {
    /// Messages published in it.
    pub published: u64,
    /// Messages that ended in it.
    pub ended: u64,
}

/// The timeline of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Timeline {
    /// How long messages took from publish to commit.
    pub latency: Latency,
    /// Length of each slice in seconds.
    pub step: f64,
    /// What happened in each.
    pub slices: Vec<Slice>,
    /// The generators, in order.
    pub reigns: Vec<Reign>,
}

impl Timeline {
    /// Reads the ledger of each partition, in slices of `step` seconds since the start.
    pub fn new(ledgers: &[Ledger], began_us: u64, step: f64) -> Self {
        let mut timeline = Self {
            latency: Latency::default(),
            step,
            slices: Vec::new(),
            reigns: Vec::new(),
        };
        for ledger in ledgers {
            timeline.add(ledger, began_us);
        }
        timeline.latency.times.sort_unstable();
        timeline.reigns.sort_by_key(|reign| reign.epoch);
        timeline
    }

    fn add(&mut self, ledger: &Ledger, began_us: u64) {
        let mut published = BTreeMap::new();
        for entry in &ledger.entries {
            let at = entry.at_us().saturating_sub(began_us) as f64 / 1e6;
            let count = entry.last() - entry.first() + 1;
            let slice = self.slice(at);
            match entry {
                Entry::Published { epoch, .. } => {
                    slice.published += count;
                    self.reign(*epoch, at);
                    published.insert(entry.first(), entry.at_us());
                }
                Entry::Ended { .. } => {
                    slice.ended += count;
                    if let Some((_, since)) = published.range(..=entry.first()).next_back() {
                        let took = entry.at_us().saturating_sub(*since);
                        self.latency.times.push((took, count));
                    }
                }
                // A message that is tried again is not new: it ends in a slice like any other.
                Entry::Retried { .. } | Entry::Delayed { .. } | Entry::Void { .. } => {}
            }
        }
    }

    fn slice(&mut self, at: f64) -> &mut Slice {
        let index = (at / self.step) as usize;
        if self.slices.len() <= index {
            self.slices.resize(index + 1, Slice::default());
        }
        &mut self.slices[index]
    }

    fn reign(&mut self, epoch: u64, at: f64) {
        match self.reigns.iter_mut().find(|reign| reign.epoch == epoch) {
            Some(reign) => {
                reign.from = reign.from.min(at);
                reign.to = reign.to.max(at);
            }
            None => self.reigns.push(Reign {
                epoch,
                from: at,
                to: at,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use baton_protocol::Digest;

    use super::*;

    fn published(epoch: u64, first: u64, last: u64, at_us: u64) -> Entry {
        Entry::Published {
            epoch,
            first,
            last,
            digest: Digest::default(),
            at_us,
        }
    }

    fn ended(first: u64, last: u64, at_us: u64) -> Entry {
        Entry::Ended {
            slot: "n:0".to_owned(),
            first,
            last,
            failed: 0,
            digest: None,
            at_us,
        }
    }

    #[test]
    fn a_timeline_counts_slices_reigns_and_times_from_publish_to_commit() {
        let entries = vec![
            published(1, 1, 10, 1_000_000),
            published(1, 11, 20, 1_100_000),
            ended(1, 10, 1_200_000),
            published(2, 21, 30, 2_600_000),
            ended(16, 20, 2_700_000),
            ended(11, 15, 2_700_000),
            ended(21, 30, 2_605_000),
        ];
        let other = vec![published(2, 1, 5, 2_500_000), ended(1, 5, 2_502_000)];
        let ledgers = [entries, other].map(|entries| Ledger { entries });
        let timeline = Timeline::new(&ledgers[..1], 1_000_000, 1.0);
        let slice = |published, ended| Slice { published, ended };
        assert_eq!(timeline.slices, [slice(20, 10), slice(10, 20)]);
        let reign = |epoch, from, to| Reign { epoch, from, to };
        assert_eq!(timeline.reigns, [reign(1, 0.0, 0.1), reign(2, 1.6, 1.6)]);
        let quantile = |share| timeline.latency.quantile_ms(share);
        assert_eq!(quantile(0.3), 5.0);
        assert_eq!(quantile(0.5), 200.0);
        assert_eq!(quantile(1.0), 1600.0);
        // Another partition has numbers of its own.
        let timeline = Timeline::new(&ledgers, 1_000_000, 1.0);
        assert_eq!(timeline.slices, [slice(20, 10), slice(15, 25)]);
        assert_eq!(timeline.reigns, [reign(1, 0.0, 0.1), reign(2, 1.5, 1.6)]);
        assert_eq!(timeline.latency.quantile_ms(0.1), 2.0);
    }
}
