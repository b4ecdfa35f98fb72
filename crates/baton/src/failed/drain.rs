//! Draining the errors store: claim, hand out, commit.

use std::time::Duration;

use baton_protocol::{
    ErrorsClaim, ErrorsCommit, Extend, Failure, Slot, Store, Wanted, crash, record,
};

use super::{BATCH, insist, taken_name};
use crate::{Error, FailedMessage};

/// Takes failed messages out of the errors store. A message is removed only after
/// [`Drain::commit`] says so; what a drain holds when it dies is free again.
///
/// A drain takes what was there when it started: failures that arrive meanwhile stay.
pub struct Drain {
    store: Store,
    slot: Slot,
    claim: u64,
    ttl: Duration,
    /// The highest id that was there when it started.
    last: u64,
    left: u64,
    /// For each message that was returned last, how many ids of the claim end with it.
    ends: Vec<u64>,
    /// How many ids the claim has.
    held: u64,
}

impl Drain {
    /// Starts a drain that keeps what it holds for `ttl` without a sign of life.
    pub(crate) async fn start(store: Store, ttl: Duration) -> Result<Self, Error> {
        // What a dead drain held is for this one to print.
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
            held: 0,
        })
    }

    /// About how many messages are still to come.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// The next messages, or none at the end.
    pub async fn next(&mut self) -> Result<Vec<FailedMessage>, Error> {
        loop {
            self.claim += 1;
            let (most, bytes) = BATCH;
            let last = self.last;
            let wanted = Wanted::Oldest {
                max: most,
                bytes,
                last,
            };
            let (store, slot, claim) = (&self.store, &self.slot, self.claim);
            let claim = || store.errors_claim(slot, claim, wanted, self.ttl);
            let ids = match insist(store, self.ttl, claim).await? {
                ErrorsClaim::Claimed(ids) => ids,
                ErrorsClaim::Again => continue,
                ErrorsClaim::Empty => return Ok(Vec::new()),
                ErrorsClaim::Stale => return Err(taken_name()),
            };
            crash::point("drain-after-claim");
            self.held = ids.len() as u64;
            let failures = read_all(&self.store, &ids, self.ttl).await?;
            self.left = self.left.saturating_sub(self.held);
            let mut ends = (1..).zip(&ids);
            self.ends = failures
                .iter()
                .filter_map(|failure| ends.find(|(_, id)| **id == failure.id))
                .map(|(end, _)| end)
                .collect();
            if !failures.is_empty() {
                return Ok(messages(&failures));
            }
            // A person deleted them by hand.
            let _ = self.commit(0).await?;
        }
    }

    /// Keeps what [`Drain::next`] returned while its reader is slow.
    pub async fn extend(&self) -> Result<Extend, Error> {
        let held = self
            .store
            .extend(&[(self.slot.clone(), self.claim)], self.ttl)
            .await?;
        Ok(held.first().copied().unwrap_or(Extend::Lost))
    }

    /// Removes the first `printed` of the messages that [`Drain::next`] returned last; the
    /// others are free again.
    pub async fn commit(&self, printed: u64) -> Result<ErrorsCommit, Error> {
        let ids = match usize::try_from(printed).unwrap_or(usize::MAX) {
            0 => 0,
            all if all >= self.ends.len() => self.held,
            some => self.ends.get(some - 1).copied().unwrap_or_default(),
        };
        let commit = || self.store.errors_commit(&self.slot, self.claim, ids);
        let committed = insist(&self.store, self.ttl, commit).await?;
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

/// Reads all of a claim.
async fn read_all(store: &Store, ids: &[u64], ttl: Duration) -> Result<Vec<Failure>, Error> {
    let (mut failures, mut done) = (Vec::new(), 0);
    while done < ids.len() {
        let (some, read) = insist(store, ttl, || store.errors_read(&ids[done..])).await?;
        failures.extend(some);
        done += read;
    }
    Ok(failures)
}
