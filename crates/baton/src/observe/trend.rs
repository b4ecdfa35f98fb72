//! How a fleet develops: rates and latencies, from the differences between snapshots.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use baton_protocol::bounds::{BEAT_MS_PER_NODE, MAX_BEAT_MS, SILENT_BEATS};
use serde::Serialize;

use crate::node::meter::Histogram;
use crate::observe::partitions::PartitionSnapshot;
use crate::observe::snapshot::{NodeRole, NodeStatus, Snapshot};

/// A trend keeps this many points: a quarter of an hour at one per second.
const MAX_POINTS: usize = 900;
/// A point's latency covers this many points, because nodes send theirs only with their beats.
const LATENCY_POINTS: usize = 10;

/// A fleet between two snapshots: its rates in that time, and its state at the end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Point {
    /// The time of the second snapshot, in ms on Redis's clock.
    pub at_ms: u64,
    /// Messages published per second.
    pub published_per_s: f64,
    /// Messages done per second.
    pub done_per_s: f64,
    /// Messages failed per second.
    pub failed_per_s: f64,
    /// Messages that waited for a worker.
    pub pending: u64,
    /// Messages that workers had claimed.
    pub claimed: u64,
    /// Messages that waited for their next attempt.
    pub delayed: u64,
    /// Failed messages in the errors store, those included that a drain or take had claimed.
    pub errors: u64,
    /// Half of the latest messages took less from publish to commit, in seconds.
    pub p50_s: Option<f64>,
    /// 99 % of the latest messages took less from publish to commit, in seconds.
    pub p99_s: Option<f64>,
}

/// How fast a node went between its last two beats.
#[derive(Debug, Clone, Default)]
struct NodeRate {
    seen_ms: u64,
    messages: u64,
    per_s: f64,
}

/// The points of the last quarter of an hour, and the rate of each node.
#[derive(Debug, Clone, Default)]
pub struct Trend {
    points: VecDeque<Point>,
    /// For each of the latest points, how long the messages took that ended.
    latencies: VecDeque<Histogram>,
    rates: HashMap<String, NodeRate>,
    last: Option<Arc<Snapshot>>,
}

impl Trend {
    /// The points, oldest first.
    pub fn points(&self) -> impl DoubleEndedIterator<Item = &Point> + ExactSizeIterator {
        self.points.iter()
    }

    /// Messages that a node publishes or processes per second; 0 for an unknown node.
    pub fn per_s(&self, node: &str) -> f64 {
        self.rates.get(node).map_or(0.0, |rate| rate.per_s)
    }

    /// Takes the next snapshot. A [`Watch`](crate::inspect::Watch) does so by itself.
    pub fn add(&mut self, snapshot: &Arc<Snapshot>) {
        if let Some(last) = self.last.replace(Arc::clone(snapshot)) {
            let ms = match snapshot.now_ms.checked_sub(last.now_ms) {
                // The server's clock was set back, or this is another server.
                None => return self.forget(),
                Some(0) => {
                    self.last = Some(last);
                    return;
                }
                Some(ms) => ms,
            };
            self.latencies.push_back(latency(&last, snapshot));
            if self.latencies.len() > LATENCY_POINTS {
                self.latencies.pop_front();
            }
            self.points.push_back(self.point(&last, snapshot, ms));
            if self.points.len() > MAX_POINTS {
                self.points.pop_front();
            }
        }
        let nodes = snapshot.nodes.len() as u64;
        // The rate of a worker that missed its beats is 0. The nodes of a large fleet beat more rarely.
        let silent_ms = SILENT_BEATS * MAX_BEAT_MS.max(BEAT_MS_PER_NODE * nodes);
        let silent_since = snapshot.now_ms.saturating_sub(silent_ms);
        let rates = snapshot
            .nodes
            .iter()
            .map(|node| (node.node.clone(), self.rate(node, silent_since)));
        self.rates = rates.collect();
    }

    fn forget(&mut self) {
        let last = self.last.take();
        *self = Self {
            last,
            ..Self::default()
        };
    }

    fn point(&self, last: &Snapshot, next: &Snapshot, ms: u64) -> Point {
        let per_s = |count: u64| count as f64 * 1000.0 / ms as f64;
        let [published, done, failed] = counted_between(last, next);
        let mut latency = Histogram::default();
        for part in &self.latencies {
            latency.merge(part);
        }
        Point {
            at_ms: next.now_ms,
            published_per_s: per_s(published),
            done_per_s: per_s(done),
            failed_per_s: per_s(failed),
            pending: next.pending,
            claimed: next.claimed,
            delayed: next.delayed,
            errors: next.errors,
            p50_s: latency.quantile(0.5),
            p99_s: latency.quantile(0.99),
        }
    }

    fn rate(&self, node: &NodeStatus, silent_since: u64) -> NodeRate {
        let (seen_ms, messages) = (node.seen_ms, node.published.saturating_add(node.processed));
        // A generator beats as often as its lease needs, and loses its role when it does not.
        let idle = match node.role {
            NodeRole::Generator => false,
            NodeRole::Worker => seen_ms < silent_since,
            _ => true,
        };
        let per_s = match self.rates.get(&node.node) {
            _ if idle => 0.0,
            // No beat since.
            Some(last) if last.seen_ms == seen_ms => last.per_s,
            Some(last) if last.seen_ms < seen_ms => {
                let ms = (seen_ms - last.seen_ms) as f64;
                messages.saturating_sub(last.messages) as f64 * 1000.0 / ms
            }
            _ => 0.0,
        };
        NodeRate {
            seen_ms,
            messages,
            per_s,
        }
    }
}

/// How many messages were published, done and failed between two snapshots. A counter that fell began at 0
/// again: the fleet lost its data. Of a partition that one of the two lacks, no difference is known.
fn counted_between(last: &Snapshot, next: &Snapshot) -> [u64; 3] {
    let between = |last: [u64; 3], next: [u64; 3]| {
        std::array::from_fn(|at| next[at].saturating_sub(last[at]))
    };
    if next.partitions.is_empty() {
        let counts = |fleet: &Snapshot| [fleet.published, fleet.done, fleet.failed];
        return between(counts(last), counts(next));
    }
    let counts = |one: &PartitionSnapshot| [one.published, one.done, one.failed];
    let pairs = last.partitions.iter().zip(&next.partitions);
    let pairs = pairs.filter(|(last, next)| last.trouble.is_none() && next.trouble.is_none());
    pairs.fold([0; 3], |sums, (last, next)| {
        let counts: [u64; 3] = between(counts(last), counts(next));
        std::array::from_fn(|at| sums[at] + counts[at])
    })
}

/// How long the messages took that ended between two snapshots, as far as the nodes' beats tell.
fn latency(last: &Snapshot, next: &Snapshot) -> Histogram {
    let before: HashMap<&str, &Histogram> = last
        .nodes
        .iter()
        .map(|node| (node.node.as_str(), &node.latency))
        .collect();
    let mut all = Histogram::default();
    for node in &next.nodes {
        match before.get(node.node.as_str()) {
            Some(before) => all.merge(&node.latency.since(before)),
            None => all.merge(&node.latency),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fleet of one node at this time.
    fn fleet(now_ms: u64, done: u64, node: NodeStatus) -> Arc<Snapshot> {
        Arc::new(Snapshot {
            now_ms,
            published: done * 2,
            done,
            failed: done / 10,
            pending: 7,
            claimed: 3,
            delayed: 2,
            errors: 1,
            nodes: vec![node],
            ..Snapshot::default()
        })
    }

    fn node(role: NodeRole, seen_ms: u64, processed: u64) -> NodeStatus {
        NodeStatus {
            node: "w".to_owned(),
            role,
            seen_ms,
            processed,
            ..NodeStatus::default()
        }
    }

    /// So many messages below 1 ms, and so many between 5 and 10 ms.
    fn latency(quick: u64, slow: u64) -> Histogram {
        let text = format!(r#"{{"counts":[{quick},0,0,{slow}],"sum_s":1.0}}"#);
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn a_point_has_the_rates_between_two_snapshots() {
        let mut trend = Trend::default();
        trend.add(&fleet(10_000, 100, node(NodeRole::Worker, 10_000, 100)));
        assert_eq!(trend.points().len(), 0);
        trend.add(&fleet(10_500, 300, node(NodeRole::Worker, 10_500, 300)));
        let point = Point {
            at_ms: 10_500,
            published_per_s: 800.0,
            done_per_s: 400.0,
            failed_per_s: 40.0,
            pending: 7,
            claimed: 3,
            delayed: 2,
            errors: 1,
            p50_s: None,
            p99_s: None,
        };
        assert_eq!(trend.points().collect::<Vec<_>>(), [&point]);
        assert_eq!(trend.per_s("w"), 400.0);
        assert_eq!(trend.per_s("unknown"), 0.0);
        // A fleet that lost its data counts from 0 again.
        trend.add(&fleet(11_000, 5, node(NodeRole::Worker, 11_000, 5)));
        assert_eq!(trend.points().last().unwrap().done_per_s, 0.0);
        assert_eq!(trend.per_s("w"), 0.0);
    }

    #[test]
    fn a_partition_that_was_away_makes_no_leap_when_it_is_back() {
        let partition = |published, trouble: Option<&str>| PartitionSnapshot {
            published,
            trouble: trouble.map(str::to_owned),
            ..PartitionSnapshot::default()
        };
        let mut trend = Trend::default();
        let mut add = |second: u64, partitions: [PartitionSnapshot; 2]| {
            trend.add(&Arc::new(Snapshot {
                now_ms: second * 1000,
                published: partitions.iter().map(|one| one.published).sum(),
                partitions: partitions.to_vec(),
                ..Snapshot::default()
            }));
            trend.points().last().map(|point| point.published_per_s)
        };
        let both = |one, two| [partition(one, None), partition(two, None)];
        assert_eq!(add(1, both(100, 1_000_000)), None);
        assert_eq!(add(2, both(110, 1_000_020)), Some(30.0));
        let away = [partition(130, None), partition(0, Some("refused"))];
        assert_eq!(add(3, away), Some(20.0));
        assert_eq!(add(4, both(140, 1_000_090)), Some(10.0));
        assert_eq!(add(5, both(150, 1_000_100)), Some(20.0));
    }

    #[test]
    fn two_snapshots_of_one_millisecond_count_as_one() {
        let mut trend = Trend::default();
        trend.add(&fleet(10_000, 100, node(NodeRole::Worker, 10_000, 0)));
        trend.add(&fleet(10_500, 200, node(NodeRole::Worker, 10_000, 0)));
        trend.add(&fleet(10_500, 250, node(NodeRole::Worker, 10_000, 0)));
        trend.add(&fleet(11_000, 300, node(NodeRole::Worker, 10_000, 0)));
        let rates: Vec<f64> = trend.points().map(|point| point.done_per_s).collect();
        assert_eq!(rates, [200.0, 200.0]);
    }

    #[test]
    fn after_the_clock_was_set_back_the_points_begin_anew() {
        let mut trend = Trend::default();
        for second in [10, 11, 12, 5] {
            trend.add(&fleet(second * 1000, second, node(NodeRole::Worker, 0, 0)));
        }
        assert_eq!(trend.points().len(), 0);
        trend.add(&fleet(6000, 8, node(NodeRole::Worker, 0, 0)));
        let rates: Vec<f64> = trend.points().map(|point| point.done_per_s).collect();
        assert_eq!(rates, [3.0]);
    }

    #[test]
    fn a_trend_keeps_a_quarter_of_an_hour() {
        let mut trend = Trend::default();
        for second in 0..2000 {
            trend.add(&fleet(second * 1000, 0, node(NodeRole::Worker, 0, 0)));
        }
        let points: Vec<&Point> = trend.points().collect();
        assert_eq!((points.len(), points[0].at_ms), (900, 1_100_000));
    }

    #[test]
    fn the_latency_is_that_of_the_latest_messages_and_not_of_all() {
        let mut trend = Trend::default();
        let mut add = |second: u64, latency| {
            let node = NodeStatus {
                latency,
                ..node(NodeRole::Worker, second * 1000, 0)
            };
            trend.add(&fleet(second * 1000, 0, node));
            trend
                .points()
                .last()
                .map(|point| (point.p50_s, point.p99_s))
        };
        assert_eq!(add(1, latency(1_000_000, 0)), None);
        assert_eq!(add(2, latency(1_000_000, 0)), Some((None, None)));
        let (p50, p99) = add(3, latency(1_000_000, 100)).unwrap();
        // All of these took 5 to 10 ms.
        assert_eq!(p50, Some(0.0075));
        assert!((p99.unwrap() - 0.00995).abs() < 1e-9, "{p99:?}");
        for second in 4..=12 {
            assert!(add(second, latency(1_000_000, 100)).unwrap().0.is_some());
        }
        // Ten points later, those are no longer the latest messages.
        assert_eq!(add(13, latency(1_000_000, 100)), Some((None, None)));
    }

    #[test]
    fn all_latencies_of_a_node_that_joins_count() {
        let mut trend = Trend::default();
        trend.add(&Arc::new(Snapshot {
            now_ms: 1000,
            ..Snapshot::default()
        }));
        let node = NodeStatus {
            latency: latency(4, 0),
            ..node(NodeRole::Worker, 2000, 4)
        };
        trend.add(&fleet(2000, 4, node));
        assert_eq!(trend.points().last().unwrap().p50_s, Some(0.0005));
    }

    #[test]
    fn a_node_has_the_rate_between_its_last_two_beats_until_it_is_silent() {
        let mut trend = Trend::default();
        let mut add = |now_ms, role, seen_ms, processed| {
            trend.add(&fleet(now_ms, 0, node(role, seen_ms, processed)));
            trend.per_s("w")
        };
        assert_eq!(add(1000, NodeRole::Worker, 1000, 100), 0.0);
        assert_eq!(add(2000, NodeRole::Worker, 1500, 200), 200.0);
        // No beat since.
        assert_eq!(add(7500, NodeRole::Worker, 1500, 200), 200.0);
        assert_eq!(add(7501, NodeRole::Worker, 1500, 200), 0.0);
        assert_eq!(add(9000, NodeRole::Worker, 9000, 950), 100.0);
        // A generator with a long lease beats rarely.
        assert_eq!(add(60_000, NodeRole::Generator, 9000, 950), 100.0);
        // A dead node does nothing, whatever its last beat said.
        assert_eq!(add(61_000, NodeRole::Dead, 60_500, 2000), 0.0);
    }
}
