//! Settling failed messages: retrying or dropping them.

use baton_protocol::{Failure, Partitions, Settle, Settled, Store};

use super::FailedId;
use crate::Error;

/// What became of the failed messages of one [`Inspector::retry`](crate::Inspector::retry) or
/// [`Inspector::drop`](crate::Inspector::drop).
#[derive(Debug, Default)]
#[non_exhaustive]
#[must_use]
pub struct Settlement {
    /// Messages that were removed for good.
    pub dropped: u64,
    /// Messages that wait for a worker again.
    pub retried: u64,
    /// Messages that were gone or had changed, or that a drain or take has claimed.
    pub missing: u64,
    /// Records that are not messages of this fleet, so they cannot be retried; they are still in
    /// the store.
    pub unfit: u64,
    /// Why it stopped early; the counts say what it had done by then.
    pub error: Option<Error>,
}

impl Settlement {
    /// Settles messages of all partitions, one partition after the other. It stops at the first error.
    pub(crate) async fn of_all(partitions: &Partitions, settle: Settle, ids: &[FailedId]) -> Self {
        let mut all = Self::default();
        let mut unknown = ids.len();
        for store in partitions.all() {
            let own = FailedId::only_of(store, ids);
            unknown -= own.len();
            if own.is_empty() && partitions.are_several() {
                continue;
            }
            all.error = all.settle_all(store, settle, &own).await.err();
            if all.error.is_some() {
                return all;
            }
        }
        // They name partitions that this fleet does not have.
        all.missing += unknown as u64;
        all
    }

    pub(crate) async fn of(store: &Store, settle: Settle, ids: &[FailedId]) -> Self {
        let mut settlement = Self::default();
        settlement.error = settlement.settle_all(store, settle, ids).await.err();
        settlement
    }

    async fn settle_all(
        &mut self,
        store: &Store,
        settle: Settle,
        mut ids: &[FailedId],
    ) -> Result<(), Error> {
        store.preflight_to_act().await?;
        // Frees what dead processes had claimed: readers list it.
        store.reclaim().await?;
        while !ids.is_empty() {
            let (failures, done) = FailedId::read(store, ids).await?;
            self.missing += (done - failures.len()) as u64;
            ids = &ids[done..];
            self.settle_some(store, settle, &failures).await?;
        }
        Ok(())
    }

    async fn settle_some(
        &mut self,
        store: &Store,
        settle: Settle,
        mut failures: &[Failure],
    ) -> Result<(), Error> {
        while !failures.is_empty() {
            let settled = store.errors_settle_some(settle, failures).await?;
            failures = &failures[settled.len().min(failures.len())..];
            for one in settled {
                match one {
                    Settled::Dropped => self.dropped += 1,
                    Settled::Retried => self.retried += 1,
                    Settled::Missing => self.missing += 1,
                    Settled::Unfit => self.unfit += 1,
                }
            }
        }
        Ok(())
    }
}
