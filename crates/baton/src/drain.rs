//! Draining the errors store: claim, hand out, commit.

use std::time::Duration;

use crate::protocol::{ErrorsClaim, ErrorsCommit, Extend, Slot, Store};
use crate::{Error, FailedMessage, crash};

/// Most records and bytes in a drain's hands.
const BATCH: (u64, u64) = (256, 1 << 20);

/// Takes failed messages out of the errors store. A message is removed only after
/// [`Drain::commit`] says so; what a drain holds when it dies returns to the store.
///
/// A drain takes what was there when it started: failures that arrive meanwhile stay.
pub struct Drain {
    store: Store,
    slot: Slot,
    claim: u64,
    ttl: Duration,
    left: u64,
}

impl Drain {
    /// Starts a drain that keeps what it holds for `ttl` without a sign of life.
    pub async fn start(store: Store, ttl: Duration) -> Result<Self, Error> {
        // What a dead drain held is for this one to print.
        store.reclaim().await?;
        let left = store.errors_len().await?;
        let slot = Slot::new(store.node(), "errors");
        Ok(Self {
            store,
            slot,
            claim: 0,
            ttl,
            left,
        })
    }

    /// How many messages are still to come, at most.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// The next messages, or none at the end.
    pub async fn next(&mut self) -> Result<Vec<FailedMessage>, Error> {
        self.claim += 1;
        let (records, bytes) = BATCH;
        let most = records.min(self.left);
        if most == 0 {
            return Ok(Vec::new());
        }
        let mut records = match self
            .insist(|| {
                self.store
                    .errors_claim(&self.slot, self.claim, most, bytes, self.ttl)
            })
            .await?
        {
            ErrorsClaim::Claimed(records) => {
                crash::point("drain-after-claim");
                records
            }
            ErrorsClaim::Empty => Vec::new(),
            ErrorsClaim::Stale => {
                return Err(Error::Refused(
                    "another drain uses this drain's name".to_owned(),
                ));
            }
        };
        self.left -= (records.len() as u64).min(self.left);
        Ok(records
            .drain(..)
            .map(|record| FailedMessage::decode(&record))
            .collect())
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
    /// others return to the store.
    pub async fn commit(&self, printed: u64) -> Result<ErrorsCommit, Error> {
        let committed = self
            .insist(|| self.store.errors_commit(&self.slot, self.claim, printed))
            .await?;
        crash::point("drain-after-commit");
        Ok(committed)
    }

    /// Repeats a call until Redis answers, for as long as the claim may last.
    async fn insist<T, F: Future<Output = Result<T, Error>>>(
        &self,
        call: impl Fn() -> F,
    ) -> Result<T, Error> {
        let end = tokio::time::Instant::now() + self.ttl;
        loop {
            match call().await {
                Err(error) if error.is_passing() && tokio::time::Instant::now() < end => {
                    let pause = Duration::from_millis(50);
                    let _ = tokio::time::timeout_at(end, self.store.wait_up()).await;
                    tokio::time::sleep(pause).await;
                }
                answer => return answer,
            }
        }
    }
}
