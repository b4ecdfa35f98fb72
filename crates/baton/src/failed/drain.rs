//! Draining the errors stores, one partition after the other: claim, hand out, commit.

use std::time::Duration;

use baton_protocol::{
    ErrorsClaim, ErrorsCommit, Extend, Failure, Partitions, Slot, Store, Wanted, crash,
};
use futures_util::future::try_join_all;

use super::{
    MAX_CLAIM_BYTES, MAX_CLAIM_RECORDS, message, name_in_use, new_slot, retry_while_claimed,
};
use crate::{Error, FailedMessage};

/// Takes all failed messages out of the errors store, batch by batch: claim, hand out, commit. Of a fleet
/// of several partitions it takes those of the first one, then those of the next one, and so on; within a
/// partition in the order of their failure.
///
/// A message leaves the store only with [`Drain::commit`]. If the process dies before, Redis frees
/// the batch; if the drain is dropped, Redis frees it when the claim runs out. Messages that fail
/// after the drain has started stay in the store.
///
/// ```no_run
/// # use std::time::Duration;
/// # async fn drain(inspector: &baton::Inspector) -> Result<(), baton::Error> {
/// let mut drain = inspector.drain(Duration::from_secs(30)).await?;
/// loop {
///     let batch = drain.next().await?;
///     if batch.is_empty() {
///         return Ok(());
///     }
///     for failed in &batch {
///         println!("{}: {}", failed.seq, failed.reason);
///     }
///     let _committed = drain.commit(batch.len()).await?;
/// }
/// # }
/// ```
#[derive(Debug)]
#[must_use]
pub struct Drain {
    /// One for each partition; there is one at least.
    drains: Vec<PartitionDrain>,
    /// Which of them is at work.
    current: usize,
}

impl Drain {
    /// Starts a drain whose claims last for `ttl`.
    pub(crate) async fn start(partitions: &Partitions, ttl: Duration) -> Result<Self, Error> {
        let drains = partitions.all().iter();
        let drains = drains.map(|store| PartitionDrain::start(store.clone(), ttl));
        Ok(Self {
            drains: try_join_all(drains).await?,
            current: 0,
        })
    }

    /// About how many messages are left to take.
    pub fn left(&self) -> u64 {
        self.drains.iter().map(|drain| drain.left).sum()
    }

    /// Claims and reads the next batch; an empty one is the end. The batch before must be
    /// committed, if only with 0. After an error it may be called again.
    pub async fn next(&mut self) -> Result<Vec<FailedMessage>, Error> {
        loop {
            let batch = self.drains[self.current].next().await?;
            if !batch.is_empty() || self.current + 1 == self.drains.len() {
                return Ok(batch);
            }
            self.current += 1;
        }
    }

    /// Extends the claim on the current batch for another `ttl`.
    pub async fn extend(&self) -> Result<Extend, Error> {
        self.drains[self.current].extend().await
    }

    /// Removes the first `count` messages of the current batch from the store, and frees the rest.
    /// After an error it may be called again.
    pub async fn commit(&mut self, count: usize) -> Result<ErrorsCommit, Error> {
        self.drains[self.current].commit(count).await
    }
}

/// The drain of one partition.
#[derive(Debug)]
struct PartitionDrain {
    store: Store,
    slot: Slot,
    /// The number of the current claim.
    number: u64,
    claim: Claim,
    ttl: Duration,
    /// The highest id in the store when the drain started.
    last: u64,
    left: u64,
    /// For each message of the current batch, how many ids of the claim end with it.
    ends: Vec<u64>,
    /// How many ids the current claim has.
    claimed: u64,
}

/// What became of the claim with the current number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Claim {
    /// It has ended, or there was none: the next one gets a new number.
    Ended,
    /// It may have taken effect, and the caller has no batch of it: the next one repeats it.
    Unknown,
    /// The caller has its batch.
    HandedOut,
}

impl PartitionDrain {
    async fn start(store: Store, ttl: Duration) -> Result<Self, Error> {
        // Frees what dead drains had claimed, so that this one takes it.
        store.reclaim().await?;
        let last = store.errors_last().await?;
        let left = store.errors_len().await?;
        let slot = new_slot(&store, "drain");
        Ok(Self {
            store,
            slot,
            number: 0,
            claim: Claim::Ended,
            ttl,
            last,
            left,
            ends: Vec::new(),
            claimed: 0,
        })
    }

    async fn next(&mut self) -> Result<Vec<FailedMessage>, Error> {
        loop {
            match self.claim {
                Claim::Ended => self.number += 1,
                Claim::Unknown => {}
                Claim::HandedOut => {
                    let why = "the batch before is not committed: commit it, if only with 0";
                    return Err(Error::Refused(why.to_owned()));
                }
            }
            self.claim = Claim::Unknown;
            let wanted = Wanted::Oldest {
                max: MAX_CLAIM_RECORDS,
                bytes: MAX_CLAIM_BYTES,
                last: self.last,
            };
            let (store, slot, number) = (&self.store, &self.slot, self.number);
            let claim = || store.errors_claim(slot, number, wanted, self.ttl);
            let answer = retry_while_claimed(store, self.ttl, claim).await?;
            let ErrorsClaim::Claimed(ids) = answer else {
                self.claim = Claim::Ended;
                match answer {
                    ErrorsClaim::Stale => return Err(name_in_use()),
                    ErrorsClaim::Empty => return Ok(Vec::new()),
                    _ => continue,
                }
            };
            crash::point("drain-after-claim");
            self.claimed = ids.len() as u64;
            let failures = read_all(&self.store, &ids, self.ttl).await?;
            self.left = self.left.saturating_sub(self.claimed);
            let mut ends = (1..).zip(&ids);
            self.ends = failures
                .iter()
                .filter_map(|failure| ends.find(|(_, id)| **id == failure.id))
                .map(|(end, _)| end)
                .collect();
            self.claim = Claim::HandedOut;
            if !failures.is_empty() {
                let messages = failures.iter();
                return Ok(messages
                    .map(|failure| message(&self.store, failure))
                    .collect());
            }
            // An operator deleted all of these by hand.
            let _ = self.commit(0).await?;
        }
    }

    async fn extend(&self) -> Result<Extend, Error> {
        let extended = self
            .store
            .extend(&[(self.slot.clone(), self.number)], self.ttl)
            .await?;
        Ok(extended.first().copied().unwrap_or(Extend::Lost))
    }

    async fn commit(&mut self, count: usize) -> Result<ErrorsCommit, Error> {
        let ids = match count {
            0 => 0,
            all if all >= self.ends.len() => self.claimed,
            some => self.ends.get(some - 1).copied().unwrap_or_default(),
        };
        let commit = || self.store.errors_commit(&self.slot, self.number, ids);
        let committed = retry_while_claimed(&self.store, self.ttl, commit).await?;
        self.claim = Claim::Ended;
        crash::point("drain-after-commit");
        Ok(committed)
    }
}

/// Reads all records of a claim.
async fn read_all(store: &Store, ids: &[u64], ttl: Duration) -> Result<Vec<Failure>, Error> {
    let (mut failures, mut done) = (Vec::new(), 0);
    while done < ids.len() {
        let read = || store.errors_read(&ids[done..]);
        let (batch, read) = retry_while_claimed(store, ttl, read).await?;
        failures.extend(batch);
        done += read;
    }
    Ok(failures)
}
