//! Draining the errors store: claim, hand out, commit.

use std::time::Duration;

use baton_protocol::{
    ErrorsClaim, ErrorsCommit, Extend, Failure, Slot, Store, Wanted, crash, record,
};

use super::{MAX_CLAIM_BYTES, MAX_CLAIM_RECORDS, name_in_use, retry_while_claimed};
use crate::{Error, FailedMessage};

/// Takes all failed messages out of the errors store, batch by batch: claim, hand out, commit.
///
/// A message leaves the store only with [`Drain::commit`]. If the process dies before, Redis frees
/// the batch. Messages that fail after the drain has started stay in the store.
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
///     let _committed = drain.commit(batch.len() as u64).await?;
/// }
/// # }
/// ```
pub struct Drain {
    store: Store,
    slot: Slot,
    claim: u64,
    ttl: Duration,
    /// The highest id in the store when the drain started.
    last: u64,
    left: u64,
    /// For each message of the current batch, how many ids of the claim end with it.
    ends: Vec<u64>,
    /// How many ids the current claim has.
    claimed: u64,
}

impl Drain {
    /// Starts a drain whose claims last for `ttl`.
    pub(crate) async fn start(store: Store, ttl: Duration) -> Result<Self, Error> {
        // Frees what dead drains had claimed, so that this one takes it.
        store.reclaim().await?;
        let last = store.errors_last().await?;
        let left = store.errors_len().await?;
        let slot = Slot::new(store.node(), "errors");
        Ok(Self {
            store,
            slot,
            claim: 0,
            ttl,
            last,
            left,
            ends: Vec::new(),
            claimed: 0,
        })
    }

    /// About how many messages are left to take.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Claims and reads the next batch; an empty one is the end.
    pub async fn next(&mut self) -> Result<Vec<FailedMessage>, Error> {
        loop {
            self.claim += 1;
            let wanted = Wanted::Oldest {
                max: MAX_CLAIM_RECORDS,
                bytes: MAX_CLAIM_BYTES,
                last: self.last,
            };
            let (store, slot, claim) = (&self.store, &self.slot, self.claim);
            let claim = || store.errors_claim(slot, claim, wanted, self.ttl);
            let ids = match retry_while_claimed(store, self.ttl, claim).await? {
                ErrorsClaim::Claimed(ids) => ids,
                ErrorsClaim::Again => continue,
                ErrorsClaim::Empty => return Ok(Vec::new()),
                ErrorsClaim::Stale => return Err(name_in_use()),
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
            if !failures.is_empty() {
                return Ok(messages(&failures));
            }
            // An operator deleted all of these by hand.
            let _ = self.commit(0).await?;
        }
    }

    /// Extends the claim on the current batch for another `ttl`.
    pub async fn extend(&self) -> Result<Extend, Error> {
        let extended = self
            .store
            .extend(&[(self.slot.clone(), self.claim)], self.ttl)
            .await?;
        Ok(extended.first().copied().unwrap_or(Extend::Lost))
    }

    /// Removes the first `count` messages of the current batch from the store, and frees the rest.
    pub async fn commit(&self, count: u64) -> Result<ErrorsCommit, Error> {
        let ids = match usize::try_from(count).unwrap_or(usize::MAX) {
            0 => 0,
            all if all >= self.ends.len() => self.claimed,
            some => self.ends.get(some - 1).copied().unwrap_or_default(),
        };
        let commit = || self.store.errors_commit(&self.slot, self.claim, ids);
        let committed = retry_while_claimed(&self.store, self.ttl, commit).await?;
        crash::point("drain-after-commit");
        Ok(committed)
    }
}

fn messages(failures: &[Failure]) -> Vec<FailedMessage> {
    let messages = failures.iter();
    messages
        .map(|failure| record::decode(&failure.record))
        .collect()
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
