//! Doing something with the records of a look, and with no others.

use std::collections::HashMap;

use baton::protocol::{Failure, Settle, Settled, Store};
use baton::{Error, FailedMessage};
use serde::Serialize;

use crate::record::{self, Id};
use crate::walk::Walk;

/// Most bytes of an answer that has all records in full.
const READ_BYTES: usize = 64 << 20;

/// What became of the records.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Outcome {
    dropped: u64,
    retried: u64,
    /// Somebody else had them first.
    missing: u64,
    /// No messages of this fleet; they are still there.
    unfit: u64,
}

impl Outcome {
    fn add(&mut self, settled: Settled) {
        match settled {
            Settled::Dropped => self.dropped += 1,
            Settled::Retried => self.retried += 1,
            Settled::Missing => self.missing += 1,
            Settled::Unfit => self.unfit += 1,
        }
    }
}

/// Drops or retries the chosen records. What it did before an error, it tells too.
pub(crate) async fn settle(
    store: &Store,
    settle: Settle,
    mut chosen: HashMap<Id, u64>,
) -> (Outcome, Result<(), Error>) {
    let mut outcome = Outcome::default();
    let result = settle_all(store, settle, &mut chosen, &mut outcome).await;
    outcome.missing += chosen.values().sum::<u64>();
    (outcome, result)
}

async fn settle_all(
    store: &Store,
    settle: Settle,
    chosen: &mut HashMap<Id, u64>,
    outcome: &mut Outcome,
) -> Result<(), Error> {
    // A script that lacks a permission halfway is not rolled back.
    store.preflight(true).await?;
    let mut found = true;
    // Records that return to the store while it is walked through may be passed by.
    while found && !chosen.is_empty() {
        found = false;
        let mut walk = Walk::start(store);
        while !chosen.is_empty()
            && let Some(page) = walk.next(u64::MAX).await?
        {
            let picked = pick(page, chosen);
            found |= !picked.is_empty();
            let mut rest = &picked[..];
            while !rest.is_empty() {
                let settled = store.errors_settle_some(settle, rest).await?;
                rest = &rest[settled.len()..];
                settled.into_iter().for_each(|settled| outcome.add(settled));
            }
        }
    }
    Ok(())
}

/// The chosen records of a page; they are no longer to be found then.
fn pick(page: Vec<Failure>, chosen: &mut HashMap<Id, u64>) -> Vec<Failure> {
    let mut picked = Vec::new();
    for failure in page {
        let id = Id::of(&failure.record);
        let Some(count) = chosen.get_mut(&id) else {
            continue;
        };
        *count -= 1;
        if *count == 0 {
            chosen.remove(&id);
        }
        picked.push(failure);
    }
    picked
}

/// The chosen records in full, a line each, oldest first; none if they are too much.
pub(crate) async fn read(
    store: &Store,
    mut chosen: HashMap<Id, u64>,
) -> Result<Option<Vec<Vec<u8>>>, Error> {
    let mut walk = Walk::start(store);
    let (mut pages, mut bytes) = (Vec::new(), 0);
    while !chosen.is_empty()
        && let Some(page) = walk.next(u64::MAX).await?
    {
        let mut lines = Vec::new();
        for failure in pick(page, &mut chosen).into_iter().rev() {
            let line = record::line(&FailedMessage::decode(&failure.record));
            bytes += line.len();
            if bytes > READ_BYTES {
                return Ok(None);
            }
            lines.extend(line);
        }
        pages.push(lines);
    }
    pages.reverse();
    Ok(Some(pages))
}

/// One record; none if it is gone.
pub(crate) async fn find(store: &Store, id: Id) -> Result<Option<FailedMessage>, Error> {
    let mut walk = Walk::start(store);
    while let Some(page) = walk.next(u64::MAX).await? {
        let found = page.iter().find(|failure| Id::of(&failure.record) == id);
        if let Some(failure) = found {
            return Ok(Some(FailedMessage::decode(&failure.record)));
        }
    }
    Ok(None)
}
