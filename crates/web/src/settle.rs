//! Doing something with the records of a look, and with no others.

use baton::{Error, FailedMessage};
use baton_protocol::record;
use baton_protocol::{Failure, Settle, Settled, Store};
use serde::Serialize;

use crate::look::Chosen;

/// Most records that are read in one step.
const READ_AT_ONCE: usize = 500;

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
    chosen: &[Chosen],
) -> (Outcome, Result<(), Error>) {
    let mut outcome = Outcome::default();
    let result = settle_all(store, settle, chosen, &mut outcome).await;
    (outcome, result)
}

async fn settle_all(
    store: &Store,
    settle: Settle,
    mut chosen: &[Chosen],
    outcome: &mut Outcome,
) -> Result<(), Error> {
    // A script that lacks a permission halfway is not rolled back.
    store.preflight(true).await?;
    while !chosen.is_empty() {
        let (failures, done) = read(store, chosen).await?;
        outcome.missing += (done - failures.len()) as u64;
        chosen = &chosen[done..];
        settle_some(store, settle, &failures, outcome).await?;
    }
    Ok(())
}

/// Reads the first of these records, about a megabyte: those that are what they were. Returns
/// how many are done with, too.
async fn read(store: &Store, chosen: &[Chosen]) -> Result<(Vec<Failure>, usize), Error> {
    let some = &chosen[..chosen.len().min(READ_AT_ONCE)];
    let ids: Vec<u64> = some.iter().map(|chosen| chosen.id).collect();
    let (mut failures, done) = store.errors_read(&ids).await?;
    let mut there = some.iter();
    failures.retain(|failure| {
        let known = there.find(|chosen| chosen.id == failure.id);
        known.is_some_and(|chosen| chosen.is(failure))
    });
    Ok((failures, done))
}

/// The ids of those records that are what they were.
pub(crate) async fn still_there(store: &Store, mut chosen: &[Chosen]) -> Result<Vec<u64>, Error> {
    let mut ids = Vec::new();
    while !chosen.is_empty() {
        let (failures, done) = read(store, chosen).await?;
        ids.extend(failures.iter().map(|failure| failure.id));
        chosen = &chosen[done..];
    }
    Ok(ids)
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
pub(crate) async fn find(store: &Store, chosen: Chosen) -> Result<Option<FailedMessage>, Error> {
    let (failures, _) = read(store, &[chosen]).await?;
    let record = failures.first().map(|failure| &failure.record);
    Ok(record.map(|record| record::decode(record)))
}
