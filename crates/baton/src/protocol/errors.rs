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

impl Store {
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
