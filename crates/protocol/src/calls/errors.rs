//! The errors store: a second queue, drained by claim and commit like the first.
//!
//! Each record has an id; ids grow. A record stays in place from its failure to its end. Claims and
//! commits of drains name ids, so no text passes through their scripts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::errors_page::Failure;
use super::{Slot, Store, decode};
use crate::{Error, scripts};

/// Max records and bytes that one call settles: Redis does nothing else meanwhile.
const MAX_SETTLED_RECORDS: usize = 100;
const MAX_SETTLED_BYTES: usize = 256 << 10;
/// Max bytes of a record that passes through a script.
const MAX_SCRIPT_RECORD: usize = 512 << 10;
/// How long a record that is too long for a script is claimed while this process compares it.
const COMPARE_TTL: Duration = Duration::from_secs(30);

/// What a drain wants to claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted<'a> {
    /// The oldest records that no drain holds.
    Oldest {
        /// Max records.
        max: u64,
        /// Bytes after which no further record is taken.
        bytes: u64,
        /// The highest id.
        last: u64,
    },
    /// These records, without those that are missing or that another drain holds. Name about a
    /// hundred at most.
    Exactly(&'a [u64]),
}

/// The answer to a drain's claim.
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErrorsClaim {
    /// This drain holds the records with these ids until the deadline.
    Claimed(Vec<u64>),
    /// The search has not found a record yet: repeat the call.
    Again,
    /// No record is free.
    Empty,
    /// This claim's number was committed before, or the slot holds another.
    Stale,
}

/// The answer to a drain's commit.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorsCommit {
    /// The records that the call named are deleted, the others are free again.
    Done,
    /// An earlier attempt of this very call did that.
    Already,
    /// The claim expired: its records are free again, or another drain holds them.
    Lost,
}

/// What to do with failed messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settle {
    /// Delete them.
    Drop,
    /// Give them to the workers again.
    Retry,
}

/// What a call to settle did with one record.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// Deleted it.
    Dropped,
    /// Put its message into the queue, under its old number.
    Retried,
    /// Nothing: the record is not in the store, or a drain holds it, or an earlier attempt of this
    /// call settled it.
    Missing,
    /// Left it in the store: it cannot be retried, because it is no message of this fleet or is
    /// longer than 512 KiB.
    Unfit,
}

impl Store {
    /// Drops or retries the first of these records, at least one, in one step. Returns one answer
    /// for each record that it settled: call it again with the others. After an error, some may be
    /// settled: for those a repeated call returns [`Settled::Missing`].
    pub async fn errors_settle_some(
        &self,
        settle: Settle,
        failures: &[Failure],
    ) -> Result<Vec<Settled>, Error> {
        match failures {
            [] => return Ok(Vec::new()),
            [long, ..] if long.record.len() > MAX_SCRIPT_RECORD => {
                return Ok(vec![self.settle_long(settle, long).await?]);
            }
            _ => {}
        }
        let mut bytes = MAX_SETTLED_BYTES;
        let fits = |failure: &&Failure| {
            let fits = failure.record.len() <= bytes;
            bytes = bytes.saturating_sub(failure.record.len());
            fits
        };
        let first = failures.iter().take(MAX_SETTLED_RECORDS);
        let count = first.take_while(fits).count().max(1);
        self.settle_step(settle, &failures[..count]).await
    }

    async fn settle_step(
        &self,
        settle: Settle,
        failures: &[Failure],
    ) -> Result<Vec<Settled>, Error> {
        let keys = &self.keys;
        let word: &[u8] = match settle {
            Settle::Drop => b"drop",
            Settle::Retry => b"retry",
        };
        let ids: Vec<String> = failures
            .iter()
            .map(|failure| failure.id.to_string())
            .collect();
        let pairs = ids.iter().zip(failures);
        let pairs = pairs.flat_map(|(id, failure)| [id.as_bytes(), failure.stored()]);
        let args: Vec<&[u8]> = [word, keys.presence.as_bytes()]
            .into_iter()
            .chain(pairs)
            .collect();
        let answer = self
            .eval(
                &scripts::ERRORS_SETTLE,
                &[
                    &keys.errors,
                    &keys.errors_held,
                    &keys.queue,
                    &keys.pack,
                    &keys.left,
                    &keys.stats,
                    &keys.fence,
                    &keys.idle,
                    &keys.ledger,
                    &keys.errors_ids,
                    &keys.record,
                ],
                &args,
            )
            .await?;
        decode::errors_settle(&answer)
    }

    /// Settles a record that is too long for a script: claims it as a drain would, and compares it
    /// in this process.
    async fn settle_long(&self, settle: Settle, long: &Failure) -> Result<Settled, Error> {
        static SLOTS: AtomicU64 = AtomicU64::new(1);
        let part = format!("settle{}", SLOTS.fetch_add(1, Ordering::Relaxed));
        let (slot, number) = (Slot::new(&self.node, part), 1);
        let ids = [long.id];
        let wanted = Wanted::Exactly(&ids);
        let claim = self
            .errors_claim(&slot, number, wanted, COMPARE_TTL)
            .await?;
        if !matches!(claim, ErrorsClaim::Claimed(_)) {
            return Ok(Settled::Missing);
        }
        let (stored, _) = self.errors_read(&ids).await?;
        let settled = match stored.first() == Some(long) {
            true if settle == Settle::Drop => Settled::Dropped,
            true => Settled::Unfit,
            false => Settled::Missing,
        };
        let gone = u64::from(settled == Settled::Dropped);
        match self.end_drain(&slot, number, gone, gone).await? {
            ErrorsCommit::Done | ErrorsCommit::Already => Ok(settled),
            ErrorsCommit::Lost => Ok(Settled::Missing),
        }
    }

    /// Claims records for a drain. [`Store::errors_read`] reads them.
    pub async fn errors_claim(
        &self,
        slot: &Slot,
        claim: u64,
        wanted: Wanted<'_>,
        ttl: Duration,
    ) -> Result<ErrorsClaim, Error> {
        let mut args = vec![
            slot.name().to_owned(),
            claim.to_string(),
            self.link.run_id(),
            ttl.as_millis().to_string(),
        ];
        match wanted {
            Wanted::Oldest { max, bytes, last } => {
                args.push("oldest".to_owned());
                args.extend([max, bytes, last].map(|number| number.to_string()));
            }
            Wanted::Exactly(ids) => {
                args.push("exactly".to_owned());
                args.extend(ids.iter().map(u64::to_string));
            }
        }
        let args: Vec<&[u8]> = args.iter().map(String::as_bytes).collect();
        let answer = self
            .eval(&scripts::ERRORS_CLAIM, &self.drain_keys(), &args)
            .await?;
        decode::errors_claim(&answer)
    }

    /// Deletes the first `removed` records of a drain's claim; the others are free again.
    pub async fn errors_commit(
        &self,
        slot: &Slot,
        claim: u64,
        removed: u64,
    ) -> Result<ErrorsCommit, Error> {
        self.end_drain(slot, claim, removed, 0).await
    }

    /// Commits a drain's claim. The fleet counts the first `dropped` records as dropped.
    async fn end_drain(
        &self,
        slot: &Slot,
        claim: u64,
        removed: u64,
        dropped: u64,
    ) -> Result<ErrorsCommit, Error> {
        let more = [&self.keys.stats, &self.keys.record].map(|key| key.as_bytes());
        let keys: Vec<&[u8]> = self.drain_keys().into_iter().chain(more).collect();
        let numbers = [claim, removed, dropped].map(|number| number.to_string());
        let [claim, removed, dropped] = numbers.each_ref().map(String::as_bytes);
        let args = [slot.name().as_bytes(), claim, removed, dropped];
        let answer = self.eval(&scripts::ERRORS_COMMIT, &keys, &args).await?;
        decode::errors_commit(&answer)
    }

    fn drain_keys(&self) -> [&[u8]; 6] {
        let keys = &self.keys;
        [
            &keys.errors,
            &keys.claims,
            &keys.deadlines,
            &keys.workers,
            &keys.errors_held,
            &keys.errors_ids,
        ]
        .map(|key| key.as_bytes())
    }
}
