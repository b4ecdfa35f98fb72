//! The errors store: a second queue, drained by claim and commit like the first.

use std::time::Duration;

use super::{Slot, Store, read};
use crate::{Error, scripts};

/// The answer to a drain's claim.
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErrorsClaim {
    /// These records are this drain's until the deadline.
    Claimed(Vec<Vec<u8>>),
    /// There are none.
    Empty,
    /// This claim's number was committed before, or the slot holds another.
    Stale,
}

/// The answer to a drain's commit.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorsCommit {
    /// The printed records are gone for good, the others back in the store.
    Done,
    /// An earlier try of this very call did that.
    Already,
    /// The claim ran out: all its records are back in the store, or with another drain.
    Lost,
}

/// What to do with failed messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settle {
    /// Remove them for good.
    Drop,
    /// Give them to the workers again.
    Retry,
}

/// A record as [`Store::errors_look`] showed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Where in the store it was, counted from the oldest. It may have moved since.
    pub index: u64,
    /// Its bytes.
    pub record: Vec<u8>,
}

/// What became of a record that was to be settled.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// It is gone for good.
    Dropped,
    /// Its message waits in the queue, under its own number.
    Retried,
    /// It is not in the store: somebody has it, or an earlier try of this call was heard.
    Missing,
    /// It cannot be retried, for it is no message of this fleet; it is still in the store.
    Unfit,
}

impl Store {
    /// Drops or retries exactly these records, all in one step. Keep a call to about a
    /// thousand records and a megabyte: the server does nothing else meanwhile.
    pub async fn errors_settle(
        &self,
        settle: Settle,
        records: &[Seen],
    ) -> Result<Vec<Settled>, Error> {
        let keys = &self.keys;
        let word: &[u8] = match settle {
            Settle::Drop => b"drop",
            Settle::Retry => b"retry",
        };
        let indexes: Vec<String> = records.iter().map(|seen| seen.index.to_string()).collect();
        let pairs = indexes.iter().zip(records);
        let pairs = pairs.flat_map(|(index, seen)| [index.as_bytes(), &seen.record]);
        let args: Vec<&[u8]> = std::iter::once(word).chain(pairs).collect();
        let answer = self
            .eval(
                &scripts::ERRORS_SETTLE,
                &[
                    &keys.errors,
                    &keys.queue,
                    &keys.packs,
                    &keys.left,
                    &keys.stats,
                    &keys.fence,
                    &keys.bell,
                    &keys.ledger,
                ],
                &args,
            )
            .await?;
        read::errors_settle(&answer)
    }

    /// Takes the oldest error records into a drain's hands, at most so many and so many bytes.
    pub async fn errors_claim(
        &self,
        slot: &Slot,
        claim: u64,
        most: u64,
        most_bytes: u64,
        ttl: Duration,
    ) -> Result<ErrorsClaim, Error> {
        let answer = self
            .eval(
                &scripts::ERRORS_CLAIM,
                &self.drain_keys(),
                &[
                    slot.name().as_bytes(),
                    claim.to_string().as_bytes(),
                    self.link.run().as_bytes(),
                    most.to_string().as_bytes(),
                    most_bytes.to_string().as_bytes(),
                    ttl.as_millis().to_string().as_bytes(),
                ],
            )
            .await?;
        read::errors_claim(&answer)
    }

    /// Removes the first `printed` records of a drain's claim; the others return.
    pub async fn errors_commit(
        &self,
        slot: &Slot,
        claim: u64,
        printed: u64,
    ) -> Result<ErrorsCommit, Error> {
        let answer = self
            .eval(
                &scripts::ERRORS_COMMIT,
                &self.drain_keys(),
                &[
                    slot.name().as_bytes(),
                    claim.to_string().as_bytes(),
                    printed.to_string().as_bytes(),
                ],
            )
            .await?;
        read::errors_commit(&answer)
    }

    fn drain_keys(&self) -> [&[u8]; 4] {
        let keys = &self.keys;
        [&keys.errors, &keys.claims, &keys.deadlines, &keys.workers].map(|key| key.as_bytes())
    }

    /// How many records wait in the store.
    pub async fn errors_len(&self) -> Result<u64, Error> {
        let mut command = redis::cmd("LLEN");
        command.arg(&self.keys.errors);
        read::length(&self.link.call(&command).await?)
    }

    /// Reads records without taking them, from the one at `from`, at most `most`.
    pub async fn errors_look(&self, from: u64, most: u64) -> Result<Vec<Vec<u8>>, Error> {
        let mut command = redis::cmd("LRANGE");
        command
            .arg(&self.keys.errors)
            .arg(from)
            .arg(from + most.max(1) - 1);
        read::records(&self.link.call(&command).await?)
    }
}
