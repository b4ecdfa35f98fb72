//! What a node counts about itself: for its beats, for `/metrics` and for the program it runs in.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

/// How long the calls of one turn of a node's loop may take: names that no server resolves, servers that
/// do not answer.
const TURN_TIMEOUT: Duration = Duration::from_secs(60);

/// Upper bounds of the buckets of a [`Histogram`], in seconds; the last bucket has none.
pub const BOUNDS: [f64; 15] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
];
const BUCKETS: usize = BOUNDS.len() + 1;

/// How long things took, in buckets.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Histogram {
    /// How many fell into each bucket, not cumulated; empty buckets at the end are left out.
    counts: Vec<u64>,
    /// The sum of all, in seconds.
    pub sum_s: f64,
}

impl Histogram {
    /// How many fell into each bucket of [`BOUNDS`], and above the last bound.
    pub fn counts(&self) -> [u64; BUCKETS] {
        let mut counts = [0; BUCKETS];
        for (count, own) in counts.iter_mut().zip(&self.counts) {
            *count = *own;
        }
        counts
    }

    /// How many there are in all.
    pub fn count(&self) -> u64 {
        self.counts()
            .iter()
            .fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Adds all that another has.
    pub fn merge(&mut self, other: &Self) {
        self.zip(other, u64::saturating_add);
        self.sum_s += other.sum_s;
    }

    /// What came since an earlier reading of the same; nothing if it was begun anew meanwhile.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut since = self.clone();
        since.zip(earlier, u64::saturating_sub);
        since.sum_s = (self.sum_s - earlier.sum_s).max(0.0);
        since
    }

    fn zip(&mut self, other: &Self, join: impl Fn(u64, u64) -> u64) {
        let (own, other) = (self.counts(), other.counts());
        self.counts = own
            .into_iter()
            .zip(other)
            .map(|(a, b)| join(a, b))
            .collect();
    }

    /// The bound below which this share of all lies, in seconds, interpolated within its
    /// bucket; none if there is nothing. Beyond the last bound, that bound.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let counts = self.counts();
        let all = self.count();
        if all == 0 {
            return None;
        }
        let rank = share * all as f64;
        let (mut below, mut floor) = (0.0, 0.0);
        for (count, bound) in counts.iter().zip(BOUNDS) {
            let count = *count as f64;
            if count > 0.0 && below + count >= rank {
                return Some(floor + (bound - floor) * ((rank - below) / count).clamp(0.0, 1.0));
            }
            below += count;
            floor = bound;
        }
        Some(floor)
    }
}

/// A histogram to which several tasks add.
#[derive(Debug, Default)]
pub(crate) struct Clocked {
    counts: [AtomicU64; BUCKETS],
    sum_us: AtomicU64,
}

impl Clocked {
    /// Adds `times` events that took that long each.
    pub(crate) fn add(&self, took: Duration, times: u64) {
        let seconds = took.as_secs_f64();
        let bucket = BOUNDS.iter().take_while(|bound| seconds > **bound).count();
        self.counts[bucket].fetch_add(times, Ordering::Relaxed);
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.sum_us
            .fetch_add(us.saturating_mul(times), Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> Histogram {
        let counts = self
            .counts
            .each_ref()
            .map(|count| count.load(Ordering::Relaxed));
        let filled = BUCKETS - counts.iter().rev().take_while(|count| **count == 0).count();
        Histogram {
            counts: counts[..filled].to_vec(),
            sum_s: self.sum_us.load(Ordering::Relaxed) as f64 / 1e6,
        }
    }
}

/// What a node has done since it started.
#[derive(Debug, Default)]
pub struct Meter {
    published: AtomicU64,
    processed: AtomicU64,
    failed: AtomicU64,
    delayed: AtomicU64,
    lost: AtomicU64,
    latency: Clocked,
    handling: Clocked,
    redis_trouble: Mutex<Option<String>>,
    handler_trouble: Mutex<Option<String>>,
    /// By partition.
    publish_troubles: Mutex<BTreeMap<u32, String>>,
    has_joined: watch::Sender<bool>,
    next_turn_due: Mutex<Option<Instant>>,
}

/// What a [`Meter`] shows at one moment.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Counters {
    /// Messages the node has published.
    pub published: u64,
    /// Messages it has processed.
    pub processed: u64,
    /// Those of them that failed.
    pub failed: u64,
    /// Attempts that failed and left their message waiting for the next one.
    pub delayed: u64,
    /// Messages whose claim ran out before their commit: another worker has them.
    pub lost: u64,
    /// From publish to commit, on Redis's clock as far as the node knows it.
    pub latency: Histogram,
    /// How long the handler took.
    pub handling: Histogram,
    /// Why its handler cannot work, whatever the message; none if it can.
    pub handler_trouble: Option<String>,
    /// Why Redis takes no messages of it, in Redis's words; none if it does, or if the node does not
    /// generate.
    pub publish_trouble: Option<String>,
}

impl Meter {
    /// What it shows now.
    pub fn counters(&self) -> Counters {
        Counters {
            published: self.published(),
            processed: self.processed(),
            failed: self.failed(),
            delayed: self.delayed(),
            lost: self.lost(),
            latency: self.latency(),
            handling: self.handling(),
            handler_trouble: self.handler_trouble(),
            publish_trouble: self.publish_trouble(),
        }
    }

    /// Why it cannot use Redis at this moment; none if it can.
    pub fn redis_trouble(&self) -> Option<String> {
        let trouble = self.redis_trouble.lock();
        trouble.unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_redis_trouble(&self, reason: Option<String>) {
        let trouble = self.redis_trouble.lock();
        *trouble.unwrap_or_else(PoisonError::into_inner) = reason;
    }

    /// Why its handler cannot work at this moment, whatever the message; none if it can.
    pub fn handler_trouble(&self) -> Option<String> {
        let trouble = self.handler_trouble.lock();
        trouble.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns whether that is news: there was no trouble before, or there is none now.
    pub(crate) fn set_handler_trouble(&self, reason: Option<String>) -> bool {
        let trouble = self.handler_trouble.lock();
        let mut trouble = trouble.unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *trouble, reason);
        before.is_some() != trouble.is_some()
    }

    /// Why Redis takes no messages of this node at this moment, in Redis's words; none if it does, or if
    /// the node does not generate.
    pub fn publish_trouble(&self) -> Option<String> {
        self.publish_troubles().values().next().cloned()
    }

    /// Why a partition does not take the node's messages; none if it does.
    pub(crate) fn set_publish_trouble(&self, partition: u32, reason: Option<String>) {
        let mut troubles = self.publish_troubles();
        match reason {
            Some(reason) => drop(troubles.insert(partition, reason)),
            None => drop(troubles.remove(&partition)),
        }
    }

    /// The node publishes nothing any more, or begins anew.
    pub(crate) fn clear_publish_troubles(&self) {
        self.publish_troubles().clear();
    }

    fn publish_troubles(&self) -> MutexGuard<'_, BTreeMap<u32, String>> {
        let troubles = self.publish_troubles.lock();
        troubles.unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the node has joined its fleet: Redis has answered its first beat.
    pub async fn joined(&self) {
        // An error would mean that the sender is gone, but `self` keeps it alive.
        let _ = self.has_joined.subscribe().wait_for(|joined| *joined).await;
    }

    pub(crate) fn has_joined(&self) {
        self.has_joined
            .send_if_modified(|joined| !std::mem::replace(joined, true));
    }

    /// The time before which the node's loop turns again, whether Redis answers or not: a node that is
    /// late hangs. None before its first turn.
    pub fn next_turn_due(&self) -> Option<Instant> {
        let due = self.next_turn_due.lock();
        *due.unwrap_or_else(PoisonError::into_inner)
    }

    /// The loop turns, and turns again after this pause.
    pub(crate) fn turns_again_after(&self, pause: Duration) {
        let due = Instant::now().checked_add(pause.saturating_add(TURN_TIMEOUT));
        let next = self.next_turn_due.lock();
        *next.unwrap_or_else(PoisonError::into_inner) = due;
    }

    /// Messages it has published.
    pub fn published(&self) -> u64 {
        self.published.load(Ordering::Relaxed)
    }

    /// Messages it has processed.
    pub fn processed(&self) -> u64 {
        self.processed.load(Ordering::Relaxed)
    }

    /// Those of them that failed.
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// Attempts that failed and left their message waiting for the next one.
    pub fn delayed(&self) -> u64 {
        self.delayed.load(Ordering::Relaxed)
    }

    /// Messages whose claim ran out before their commit: another worker has them.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// From publish to commit, on Redis's clock as far as the node knows it.
    pub fn latency(&self) -> Histogram {
        self.latency.read()
    }

    /// How long the handler took.
    pub fn handling(&self) -> Histogram {
        self.handling.read()
    }

    pub(crate) fn has_published(&self, count: u64) {
        self.published.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn has_processed(&self, count: u64, failed: u64) {
        self.processed.fetch_add(count, Ordering::Relaxed);
        self.failed.fetch_add(failed, Ordering::Relaxed);
    }

    pub(crate) fn has_delayed(&self, count: u64) {
        self.delayed.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn has_lost(&self, count: u64) {
        self.lost.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn took(&self, latency: Duration, count: u64) {
        self.latency.add(latency, count);
    }

    pub(crate) fn handled(&self, each: Duration, count: u64) {
        self.handling.add(each, count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_that_takes_messages_does_not_hide_one_that_refuses_them() {
        let meter = Meter::default();
        let full = Some("OOM".to_owned());
        meter.set_publish_trouble(3, full.clone());
        meter.set_publish_trouble(0, None);
        assert_eq!(meter.publish_trouble(), full);
        meter.set_publish_trouble(3, None);
        assert_eq!(meter.publish_trouble(), None);
        meter.set_publish_trouble(2, full);
        meter.clear_publish_troubles();
        assert_eq!(meter.publish_trouble(), None);
    }

    #[test]
    fn a_histogram_counts_adds_and_subtracts() {
        let clocked = Clocked::default();
        clocked.add(Duration::from_micros(500), 3);
        clocked.add(Duration::from_millis(1), 1);
        clocked.add(Duration::from_millis(7), 4);
        let first = clocked.read();
        assert_eq!((first.count(), &first.counts[..]), (8, &[4, 0, 0, 4][..]));
        assert!((first.sum_s - 0.0305).abs() < 1e-9);
        clocked.add(Duration::from_secs(3600), 2);
        let second = clocked.read();
        assert_eq!(second.counts()[15], 2);
        let since = second.since(&first);
        assert_eq!((since.count(), since.counts()[15]), (2, 2));
        let mut sum = first.clone();
        sum.merge(&since);
        assert_eq!(sum.counts(), second.counts());
        // A node that was started anew under the same name has seen less than before.
        assert_eq!(first.since(&second).count(), 0);
    }

    #[test]
    fn a_quantile_lies_within_its_bucket() {
        let clocked = Clocked::default();
        assert_eq!(clocked.read().quantile(0.5), None);
        clocked.add(Duration::from_millis(7), 100);
        let half = clocked.read().quantile(0.5).unwrap();
        assert!((half - 0.0075).abs() < 1e-9, "{half}");
        clocked.add(Duration::from_secs(100), 900);
        assert_eq!(clocked.read().quantile(0.99), Some(60.0));
    }
}
