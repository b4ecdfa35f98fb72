//! How a fleet went on: what several snapshots tell that one cannot.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use serde::Serialize;

use crate::{Histogram, NodeStatus, Snapshot};

/// Points that are kept: a quarter of an hour at one per second.
const POINTS: usize = 900;
/// Latency is told over so many points: nodes tell theirs only with their beats.
const LATENCY_POINTS: usize = 10;

/// A fleet between two snapshots.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Point {
    /// When it ended, in ms on Redis's clock.
    pub at_ms: u64,
    /// Messages published per second.
    pub published_per_s: f64,
    /// Messages done per second.
    pub done_per_s: f64,
    /// Messages failed per second.
    pub failed_per_s: f64,
    /// Waiting.
    pub pending: u64,
    /// In workers' hands.
    pub claimed: u64,
    /// Failed messages waiting to be taken.
    pub errors: u64,
    /// From publish to commit, in seconds: half of the latest messages took less.
    pub p50_s: Option<f64>,
    /// 99 % of the latest messages took less.
    pub p99_s: Option<f64>,
}

/// What a node did when, as its last two beats told.
#[derive(Debug, Clone, Default)]
struct Pulse {
    seen_ms: u64,
    messages: u64,
    per_s: f64,
}

/// The latest points of a fleet, and how fast each node goes.
#[derive(Debug, Clone, Default)]
pub struct Trend {
    points: VecDeque<Point>,
    /// Of each of the latest points: how long the messages took that ended.
    latencies: VecDeque<Histogram>,
    pulses: HashMap<String, Pulse>,
    last: Option<Arc<Snapshot>>,
}

impl Trend {
    /// The points, oldest first.
    pub fn points(&self) -> impl DoubleEndedIterator<Item = &Point> + ExactSizeIterator {
        self.points.iter()
    }

    /// Messages that a node publishes or processes per second.
    pub fn per_s(&self, node: &str) -> f64 {
        self.pulses.get(node).map_or(0.0, |pulse| pulse.per_s)
    }

    /// Takes the next snapshot.
    pub fn add(&mut self, snapshot: &Arc<Snapshot>) {
        if let Some(last) = self.last.replace(Arc::clone(snapshot)) {
            // A clock that was set back, or another server.
            let Some(ms @ 1..) = snapshot.now_ms.checked_sub(last.now_ms) else {
                self.forget();
                return;
            };
            self.latencies.push_back(latency(&last, snapshot));
            if self.latencies.len() > LATENCY_POINTS {
                self.latencies.pop_front();
            }
            self.points.push_back(self.point(&last, snapshot, ms));
            if self.points.len() > POINTS {
                self.points.pop_front();
            }
        }
        let pulses = snapshot
            .nodes
            .iter()
            .map(|node| (node.node.clone(), self.pulse(node)));
        self.pulses = pulses.collect();
    }

    fn forget(&mut self) {
        let last = self.last.take();
        *self = Self {
            last,
            ..Self::default()
        };
    }

    fn point(&self, last: &Snapshot, next: &Snapshot, ms: u64) -> Point {
        // Counters that went back were begun anew.
        let per_s = |last: u64, next: u64| next.saturating_sub(last) as f64 * 1000.0 / ms as f64;
        let mut latency = Histogram::default();
        for part in &self.latencies {
            latency.merge(part);
        }
        Point {
            at_ms: next.now_ms,
            published_per_s: per_s(last.published, next.published),
            done_per_s: per_s(last.done, next.done),
            failed_per_s: per_s(last.failed, next.failed),
            pending: next.pending,
            claimed: next.claimed,
            errors: next.errors,
            p50_s: latency.quantile(0.5),
            p99_s: latency.quantile(0.99),
        }
    }

    fn pulse(&self, node: &NodeStatus) -> Pulse {
        let (seen_ms, messages) = (node.seen_ms, node.published.saturating_add(node.processed));
        let per_s = match self.pulses.get(&node.node) {
            // Not a beat later; a dead node does nothing.
            Some(last) if last.seen_ms == seen_ms && node.role != "dead" => last.per_s,
            Some(last) if last.seen_ms < seen_ms => {
                let ms = (seen_ms - last.seen_ms) as f64;
                messages.saturating_sub(last.messages) as f64 * 1000.0 / ms
            }
            _ => 0.0,
        };
        Pulse {
            seen_ms,
            messages,
            per_s,
        }
    }
}

/// How long the messages took that ended between two snapshots, as far as nodes have told.
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
