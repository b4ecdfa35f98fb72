//! The janitor: a part of the generator that drops failed messages after the time for which the
//! fleet keeps them.
//!
//! # Age
//!
//! A record has the time of its failure on Redis's clock. It is old when both Redis's clock and
//! this node's own clock say so: if one of the two is set far ahead, nothing is lost.
//!
//! A record without a usable time has foreign bytes, or a time that is still to come. Ids grow, so
//! such a record is older than the ones behind it. It goes together with the next record that has
//! a time and is old.
//!
//! # The walk
//!
//! The janitor walks from the oldest record to the first one that is too young, a page at a time.
//! It names each record to the byte, and Redis counts a drop in the step that deletes the record.
//! So two nodes that both believe they generate drop each record once. A record that a drain holds
//! stays; if the drain gives it back, a later walk finds it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use baton_protocol::Settle;
use tokio::time::Instant;

use crate::failed::{FailedCursor, FailedId, FailedPage, Settlement};
use crate::node::partition::Partition;
use crate::{Error, Event};

/// Max records that one step of a walk reads and drops.
const PAGE_RECORDS: u64 = 500;
/// Pause between two steps, in which Redis serves others.
const STEP_PAUSE: Duration = Duration::from_millis(20);
/// Shortest and longest pause between two walks, and its share of the time to keep.
const WALK_PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
const WALK_SHARE: u32 = 100;
/// A long walk logs what it has dropped so far this often.
const LOG_EVERY: Duration = Duration::from_secs(10);
/// Max records without a usable time that a walk remembers. It leaves further ones in the store.
const MAX_UNDATED: usize = 10_000;

/// Drops what is older than `keep` while this node generates, until the node stops.
pub(crate) async fn run(partition: &Partition, keep: Duration) -> Result<(), Error> {
    let mut janitor = Janitor {
        partition,
        keep,
        walk: Walk::default(),
        dropped: 0,
        logged: Instant::now(),
    };
    while !partition.stopping() {
        let pause = janitor.step().await?;
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = partition.stopped() => {}
        }
    }
    janitor.log();
    Ok(())
}

struct Janitor<'a> {
    partition: &'a Partition,
    keep: Duration,
    walk: Walk,
    /// How many messages it has dropped and not yet logged.
    dropped: u64,
    logged: Instant,
}

/// How far a walk has come.
struct Walk {
    cursor: FailedCursor,
    /// Records without a usable time since the last one that has a time.
    undated: Vec<FailedId>,
}

impl Default for Walk {
    fn default() -> Self {
        Self {
            cursor: FailedCursor::OLDEST,
            undated: Vec::new(),
        }
    }
}

impl Janitor<'_> {
    /// Deals with one page. Returns how long to pause.
    async fn step(&mut self) -> Result<Duration, Error> {
        if self.partition.role.borrow().epoch().is_none() {
            self.end_walk();
            let generates = self.partition.role_is(|role| role.epoch().is_some());
            tokio::select! {
                () = generates => {}
                () = self.partition.stopped() => {}
            }
            return Ok(Duration::ZERO);
        }
        match self.drop_page().await {
            Ok(true) => {
                if self.logged.elapsed() >= LOG_EVERY {
                    self.log();
                }
                Ok(STEP_PAUSE)
            }
            Ok(false) => {
                self.end_walk();
                Ok((self.keep / WALK_SHARE).clamp(WALK_PAUSE.0, WALK_PAUSE.1))
            }
            Err(error) if error.is_transient() => {
                self.end_walk();
                tokio::select! {
                    () = self.partition.pause_after(&error) => {}
                    () = self.partition.stopped() => {}
                }
                Ok(WALK_PAUSE.0)
            }
            Err(error) => Err(error),
        }
    }

    /// Reads the next page and drops what is old in it. Returns whether the walk goes on.
    async fn drop_page(&mut self) -> Result<bool, Error> {
        let store = &self.partition.store;
        let page = FailedPage::read(store, self.walk.cursor, PAGE_RECORDS).await?;
        let clocks = Clocks {
            redis_ms: self.partition.clock.now_ms(),
            own_ms: own_ms(),
        };
        let times = page
            .messages
            .iter()
            .map(|failed| (failed.id, failed.message.at_ms));
        let (old, is_over) = self.walk.sort(times, clocks, self.keep);
        let settlement = Settlement::of(store, Settle::Drop, &old).await;
        self.dropped += settlement.dropped;
        if let Some(error) = settlement.error {
            return Err(error);
        }
        match page.next.filter(|_| !is_over) {
            Some(next) => {
                self.walk.cursor = next;
                Ok(true)
            }
            None => Ok(false),
        }
    }

    fn end_walk(&mut self) {
        self.walk = Walk::default();
        self.log();
    }

    /// Logs what it has dropped since the last time.
    fn log(&mut self) {
        self.logged = Instant::now();
        match std::mem::take(&mut self.dropped) {
            0 => {}
            count => self.partition.emit(Event::Dropped { count }),
        }
    }
}

/// Two clocks at one moment.
#[derive(Debug, Clone, Copy)]
struct Clocks {
    redis_ms: u64,
    own_ms: u64,
}

impl Walk {
    /// Finds the records of a page that are old. Also returns whether a record is too young, which
    /// ends the walk.
    fn sort(
        &mut self,
        page: impl Iterator<Item = (FailedId, u64)>,
        clocks: Clocks,
        keep: Duration,
    ) -> (Vec<FailedId>, bool) {
        let keep_ms = u64::try_from(keep.as_millis()).unwrap_or(u64::MAX);
        let now_ms = clocks.redis_ms.min(clocks.own_ms);
        let mut old = Vec::new();
        for (id, at_ms) in page {
            if at_ms == 0 || at_ms > clocks.redis_ms {
                if self.undated.len() < MAX_UNDATED {
                    self.undated.push(id);
                }
            } else if at_ms.saturating_add(keep_ms) <= now_ms {
                old.append(&mut self.undated);
                old.push(id);
            } else {
                return (old, true);
            }
        }
        (old, false)
    }
}

/// This node's own clock, in ms.
fn own_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEEP: Duration = Duration::from_millis(100);
    /// Both clocks at 1000: a record of 900 is old.
    const CLOCKS: Clocks = Clocks {
        redis_ms: 1000,
        own_ms: 1000,
    };

    /// The numbers of the old records among those with these times, and whether the walk is over.
    fn sort(walk: &mut Walk, first: u64, times: &[u64], clocks: Clocks) -> (Vec<u64>, bool) {
        let page = (first..).zip(times).map(|(number, at_ms)| {
            let id: FailedId = format!("{number}-0").parse().unwrap();
            (id, *at_ms)
        });
        let (old, is_over) = walk.sort(page, clocks, KEEP);
        (old.iter().map(|id| id.number()).collect(), is_over)
    }

    #[test]
    fn a_walk_ends_at_the_first_record_that_is_too_young() {
        let sorted = |times: &[u64]| sort(&mut Walk::default(), 1, times, CLOCKS);
        assert_eq!(sorted(&[1, 900]), (vec![1, 2], false));
        assert_eq!(sorted(&[900, 901, 1]), (vec![1], true));
        assert_eq!(sorted(&[]), (vec![], false));
    }

    #[test]
    fn a_record_without_a_usable_time_goes_with_the_next_old_one() {
        let sorted = |times: &[u64]| sort(&mut Walk::default(), 1, times, CLOCKS);
        assert_eq!(sorted(&[0, 1001, u64::MAX, 5]), (vec![1, 2, 3, 4], false));
        assert_eq!(sorted(&[0, 1001]), (vec![], false));
        assert_eq!(sorted(&[0, 950]), (vec![], true));
        // Also if that one is on the next page.
        let mut walk = Walk::default();
        assert_eq!(sort(&mut walk, 1, &[5, 0, 0], CLOCKS), (vec![1], false));
        assert_eq!(
            sort(&mut walk, 4, &[0, 5], CLOCKS),
            (vec![2, 3, 4, 5], false)
        );
        assert_eq!(sort(&mut walk, 6, &[5], CLOCKS), (vec![6], false));
    }

    #[test]
    fn one_clock_that_is_ahead_drops_nothing() {
        let ahead = 1_000_000;
        for (redis_ms, own_ms) in [(ahead, 1000), (1000, ahead)] {
            let clocks = Clocks { redis_ms, own_ms };
            let sorted = sort(&mut Walk::default(), 1, &[950], clocks);
            assert_eq!(sorted, (vec![], true), "{clocks:?}");
        }
    }
}
