//! Doing something with the records of a look, and with no others.

use baton::protocol::{Failure, Settle, Settled, Store};
use baton::{Error, FailedMessage};
use serde::Serialize;

/// What became of the records.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Outcome {
    dropped: u64,
    retried: u64,
    /// Others had them first, or hold them.
    missing: u64,
    /// No messages of this fleet; they are still there.
    unfit: u64,
}

/// Drops or retries records. What it did before an error is in the outcome, too.
pub(crate) async fn settle(
    store: &Store,
    settle: Settle,
    ids: &[u64],
) -> (Outcome, Result<(), Error>) {
    let mut outcome = Outcome::default();
    let result = settle_all(store, settle, ids, &mut outcome).await;
    (outcome, result)
}

async fn settle_all(
    store: &Store,
    settle: Settle,
    mut ids: &[u64],
    outcome: &mut Outcome,
) -> Result<(), Error> {
    // A script that lacks a permission halfway is not rolled back.
    store.preflight(true).await?;
    while !ids.is_empty() {
        let (failures, done) = store.errors_read(ids).await?;
        outcome.missing += (done - failures.len()) as u64;
        ids = &ids[done..];
        settle_some(store, settle, &failures, outcome).await?;
    }
    Ok(())
}

async fn settle_some(
    store: &Store,
    settle: Settle,
    mut failures: &[Failure],
    outcome: &mut Outcome,
) -> Result<(), Error> {
    while !failures.is_empty() {
        let settled = store.errors_settle_some(settle, failures).await?;
        failures = &failures[settled.len().min(failures.len())..];
        for one in settled {
            match one {
                Settled::Dropped => outcome.dropped += 1,
                Settled::Retried => outcome.retried += 1,
                Settled::Missing => outcome.missing += 1,
                Settled::Unfit => outcome.unfit += 1,
            }
        }
    }
    Ok(())
}

/// One record; none if it is gone.
pub(crate) async fn find(store: &Store, id: u64) -> Result<Option<FailedMessage>, Error> {
    let (failures, _) = store.errors_read(&[id]).await?;
    let record = failures.first().map(|failure| &failure.record);
    Ok(record.map(|record| FailedMessage::decode(record)))
}
