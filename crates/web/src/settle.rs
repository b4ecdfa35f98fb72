//! Doing something with the records of a look, and with no others.

use std::collections::HashMap;

use baton::protocol::{Seen, Settle, Settled, Store};
use baton::{Error, FailedMessage};
use serde::Serialize;

use crate::record::{self, Id};
use crate::walk::{Page, Walk};

/// Most bytes that are settled in one step: Redis does nothing else meanwhile.
const STEP_BYTES: usize = 1 << 20;
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
        let mut walk = Walk::start(store).await?;
        while !chosen.is_empty()
            && let Some(page) = walk.next(u64::MAX).await?
        {
            let seen = pick(page, chosen);
            found |= !seen.is_empty();
            // From the last: what is removed does not move what is still to be.
            for step in steps(&seen).rev() {
                for settled in store.errors_settle(settle, step).await? {
                    match settled {
                        Settled::Dropped => outcome.dropped += 1,
                        Settled::Retried => outcome.retried += 1,
                        Settled::Missing => outcome.missing += 1,
                        Settled::Unfit => outcome.unfit += 1,
                    }
                }
            }
        }
    }
    Ok(())
}

/// The chosen records of a page; they are no longer to be found then.
fn pick(page: Page, chosen: &mut HashMap<Id, u64>) -> Vec<Seen> {
    let mut picked = Vec::new();
    for (index, record) in (page.from..).zip(page.records) {
        let id = Id::of(&record);
        let Some(count) = chosen.get_mut(&id) else {
            continue;
        };
        *count -= 1;
        if *count == 0 {
            chosen.remove(&id);
        }
        picked.push(Seen { index, record });
    }
    picked
}

/// Cuts records into parts that are settled in one step each.
fn steps(seen: &[Seen]) -> impl DoubleEndedIterator<Item = &[Seen]> {
    let mut bytes = 0;
    let steps: Vec<_> = seen
        .chunk_by(|before, after| {
            bytes += before.record.len();
            let together = bytes + after.record.len() <= STEP_BYTES;
            if !together {
                bytes = 0;
            }
            together
        })
        .collect();
    steps.into_iter()
}

/// The chosen records in full, a line each, oldest first; none if they are too much.
pub(crate) async fn read(
    store: &Store,
    mut chosen: HashMap<Id, u64>,
) -> Result<Option<Vec<Vec<u8>>>, Error> {
    let mut walk = Walk::start(store).await?;
    let (mut pages, mut bytes) = (Vec::new(), 0);
    while !chosen.is_empty()
        && let Some(page) = walk.next(u64::MAX).await?
    {
        let mut lines = Vec::new();
        for seen in pick(page, &mut chosen) {
            let line = record::line(&FailedMessage::decode(&seen.record));
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
    let mut walk = Walk::start(store).await?;
    while let Some(page) = walk.next(u64::MAX).await? {
        if let Some(record) = page.records.iter().find(|record| Id::of(record) == id) {
            return Ok(Some(FailedMessage::decode(record)));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(records: &[usize]) -> Vec<Vec<usize>> {
        let seen: Vec<Seen> = records
            .iter()
            .map(|bytes| Seen {
                index: 0,
                record: vec![0; *bytes],
            })
            .collect();
        let lengths = |step: &[Seen]| step.iter().map(|seen| seen.record.len()).collect();
        steps(&seen).map(lengths).collect()
    }

    #[test]
    fn a_step_has_at_most_a_megabyte_unless_one_record_is_larger() {
        let (half, all) = (STEP_BYTES / 2, STEP_BYTES);
        assert_eq!(lengths(&[half, half, 1]), [vec![half, half], vec![1]]);
        assert_eq!(
            lengths(&[1, all, 1, all + 1, 2, 3]),
            [vec![1], vec![all], vec![1], vec![all + 1], vec![2, 3]]
        );
        assert!(lengths(&[]).is_empty());
    }
}
