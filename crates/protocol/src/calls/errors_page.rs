//! Reads failed messages and leaves them in the errors store: plain reads, bounded in bytes.
//!
//! Records that a dead drain holds count as free here: a node gives them back as soon as one runs, and
//! until then a reader would miss them.

use std::collections::BTreeSet;

use super::answer::unexpected;
use super::fleet_state::plain;
use super::{Store, decode};
use crate::Error;
use crate::bounds::MAX_STUB_BYTES;
use crate::encoding::record::{self, FailedMessage};
use crate::encoding::stub;

/// Max ids that one command names.
const BATCH_IDS: usize = 500;
/// Max bytes of a page, unless its first record is longer.
const PAGE_BYTES: u64 = 1 << 20;

/// A failed message as it lies in the errors store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The id of its record. Later failures have higher ids.
    pub id: u64,
    /// The bytes of its record.
    pub record: Vec<u8>,
    /// What the store has in place of a long record.
    pub stub: Option<Vec<u8>>,
}

impl Failure {
    /// A failed message whose record is not long.
    pub fn short(id: u64, record: Vec<u8>) -> Self {
        Self {
            id,
            record,
            stub: None,
        }
    }

    /// What the store has under the id.
    pub(super) fn stored(&self) -> &[u8] {
        self.stub.as_ref().unwrap_or(&self.record)
    }
}

/// Some failed messages that no living drain holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// The failed messages; empty if there are no more.
    pub failures: Vec<Failure>,
    /// The id behind which the next page begins; none if this is the last page.
    pub next: Option<u64>,
}

/// The ids that records can have.
struct Ids {
    /// Those that dead drains hold, in order. They may be lower than the others.
    abandoned: Vec<u64>,
    lowest: u64,
    highest: u64,
}

impl Ids {
    /// Those of them above `after`.
    fn above(mut self, after: u64) -> Self {
        self.lowest = self.lowest.max(after.saturating_add(1));
        self.abandoned.retain(|id| *id > after);
        self
    }

    /// Those of them below `before`.
    fn below(mut self, before: u64) -> Self {
        self.highest = self.highest.min(before.saturating_sub(1));
        self.abandoned.retain(|id| *id < before);
        self
    }

    /// All of them, in order.
    fn all(&self) -> impl DoubleEndedIterator<Item = u64> + Clone {
        let below = self.abandoned.partition_point(|id| *id < self.lowest);
        let below = self.abandoned[..below].iter().copied();
        below.chain(self.lowest..=self.highest)
    }
}

impl Store {
    /// How many failed messages no drain holds.
    pub async fn errors_len(&self) -> Result<u64, Error> {
        let [all, held] = [&self.keys.errors, &self.keys.errors_held].map(|key| {
            let mut command = redis::cmd("HLEN");
            command.arg(key);
            command
        });
        let lengths = self.transaction(&[all, held]).await?;
        match &lengths[..] {
            [all, held] => Ok(decode::length(all)?.saturating_sub(decode::length(held)?)),
            _ => Err(unexpected("HLEN", &lengths)),
        }
    }

    /// How many failed messages drains hold.
    pub async fn errors_held(&self) -> Result<u64, Error> {
        let mut command = redis::cmd("HLEN");
        command.arg(&self.keys.errors_held);
        decode::length(&self.link.call(&command).await?)
    }

    /// How many failed messages drains hold that live.
    pub async fn errors_held_by_living(&self) -> Result<u64, Error> {
        match self.errors_held().await? {
            0 => Ok(0),
            _ => Ok(self.holders().await?.living),
        }
    }

    /// Who holds records of the errors store.
    async fn holders(&self) -> Result<decode::Holders, Error> {
        let presence = &self.keys.presence;
        let held = plain(&["HGETALL", &self.keys.errors_held]);
        // A fleet's name has no character that is special in a pattern.
        let channels = plain(&["PUBSUB", "CHANNELS", &format!("{presence}*")]);
        let answers = self.transaction(&[held, channels]).await?;
        decode::holders(presence, &answers)
    }

    /// The highest id so far; 0 before the first failure.
    pub async fn errors_last(&self) -> Result<u64, Error> {
        // `getErrors` may not ask who lives.
        Ok(self.errors_bounds().await?.0.highest)
    }

    /// Max `max` records with ids below `before`, or with any id, the newest first.
    pub async fn errors_before(&self, before: Option<u64>, max: u64) -> Result<Page, Error> {
        let ids = self.errors_ids().await?.below(before.unwrap_or(u64::MAX));
        self.errors_page(ids.all().rev(), &ids.abandoned, max).await
    }

    /// Max `max` records with ids above `after`, the oldest first.
    pub async fn errors_after(&self, after: u64, max: u64) -> Result<Page, Error> {
        let ids = self.errors_ids().await?.above(after);
        self.errors_page(ids.all(), &ids.abandoned, max).await
    }

    /// A page of the first records among these ids that no living drain holds.
    async fn errors_page(
        &self,
        mut ids: impl Iterator<Item = u64> + Clone,
        abandoned: &[u64],
        max: u64,
    ) -> Result<Page, Error> {
        loop {
            let batch: Vec<u64> = ids.clone().take(BATCH_IDS).collect();
            if batch.is_empty() {
                return Ok(Page::default());
            }
            let (failures, done) = self.read_free(&batch, abandoned, max).await?;
            let last_done = ids.nth(done - 1);
            if !failures.is_empty() {
                let next = last_done.filter(|_| ids.clone().next().is_some());
                return Ok(Page { failures, next });
            }
        }
    }

    /// The first of these records, in this order, whether a drain holds them or not: at least one,
    /// and as many as fit a megabyte. Missing records are left out, so the number of ids that it
    /// has dealt with is returned, too.
    pub async fn errors_read(&self, ids: &[u64]) -> Result<(Vec<Failure>, usize), Error> {
        if ids.is_empty() {
            return Ok((Vec::new(), 0));
        }
        let ids = &ids[..ids.len().min(BATCH_IDS)];
        let lengths = self.lengths(ids).await?;
        let wanted = vec![true; ids.len()];
        self.read_batch(ids, &lengths, &wanted, ids.len() as u64)
            .await
    }

    /// Like [`Store::errors_read`], for max `max` records that no drain holds, or a dead one. `ids` is not
    /// empty.
    async fn read_free(
        &self,
        ids: &[u64],
        abandoned: &[u64],
        max: u64,
    ) -> Result<(Vec<Failure>, usize), Error> {
        let mut held = redis::cmd("HMGET");
        held.arg(&self.keys.errors_held).arg(ids);
        let held = decode::are_present(&self.link.call(&held).await?)?;
        let free = ids.iter().zip(held);
        let free = free.map(|(id, held)| !held || abandoned.binary_search(id).is_ok());
        let free: Vec<bool> = free.collect();
        let lengths = self.lengths(ids).await?;
        self.read_batch(ids, &lengths, &free, max).await
    }

    /// Reads the wanted ones of these records until the page is full. Returns how many ids it has
    /// dealt with, at least one.
    async fn read_batch(
        &self,
        ids: &[u64],
        lengths: &[u64],
        wanted: &[bool],
        max: u64,
    ) -> Result<(Vec<Failure>, usize), Error> {
        let max = usize::try_from(max.max(1)).unwrap_or(usize::MAX);
        let (mut chosen, mut count, mut bytes, mut done) = (Vec::new(), 0, 0, 0);
        for ((id, length), wanted) in ids.iter().zip(lengths).zip(wanted) {
            if count == max || (bytes > 0 && bytes + length > PAGE_BYTES) {
                break;
            }
            done += 1;
            if *wanted {
                chosen.push(*id);
                bytes += length;
                // A length of 0 is a missing record, or an empty one.
                count += usize::from(*length > 0);
            }
        }
        if chosen.is_empty() {
            return Ok((Vec::new(), done));
        }
        let mut failures = self.errors_whole(&chosen).await?;
        if failures.len() > max {
            failures.truncate(max);
            let last = failures.last().map(|failure| failure.id);
            done = ids.iter().take_while(|id| Some(**id) != last).count() + 1;
        }
        Ok((failures, done))
    }

    /// All of these records, however long they are. Missing records are left out.
    pub async fn errors_whole(&self, ids: &[u64]) -> Result<Vec<Failure>, Error> {
        let stored = self.link.call(&self.stored(ids)).await?;
        let found = ids.iter().zip(decode::records(&stored)?);
        let found = found.filter_map(|(id, record)| Some(Failure::short(*id, record?)));
        let mut failures: Vec<Failure> = found.collect();
        let is_long = |failure: &&mut Failure| stub::length(&failure.record).is_some();
        let long: Vec<&mut Failure> = failures.iter_mut().filter(is_long).collect();
        if !long.is_empty() {
            let gone = self.read_long(long).await?;
            failures.retain(|failure| !gone.contains(&failure.id));
        }
        Ok(failures)
    }

    /// Replaces stubs by their records. Returns the ids of those that are gone.
    async fn read_long(&self, long: Vec<&mut Failure>) -> Result<BTreeSet<u64>, Error> {
        let ids: Vec<u64> = long.iter().map(|failure| failure.id).collect();
        let records = ids.iter().map(|id| {
            let mut command = redis::cmd("HGET");
            command.arg(self.keys.record_key(*id)).arg("record");
            command
        });
        // The stubs come last: if one is still there, no drain has taken its record, which goes with it.
        let commands = records.chain([self.stored(&ids)]);
        let mut answers = self.link.call_all(commands).await?;
        let stored = answers.pop().transpose()?;
        let stored = decode::records(&stored.ok_or_else(|| unexpected("HGET", &ids))?)?;
        let mut gone = BTreeSet::new();
        for (failure, (record, stored)) in long.into_iter().zip(answers.into_iter().zip(stored)) {
            if stored.as_ref() != Some(&failure.record) {
                gone.insert(failure.id);
                continue;
            }
            let stub = std::mem::take(&mut failure.record);
            failure.record = match decode::long_record(record)? {
                Some(record) => record,
                None => record::encode(&FailedMessage {
                    reason: "its record is missing in Redis".to_owned(),
                    text: stub.clone(),
                    ..FailedMessage::default()
                }),
            };
            failure.stub = Some(stub);
        }
        Ok(gone)
    }

    /// The command that reads what the store has under these ids.
    fn stored(&self, ids: &[u64]) -> redis::Cmd {
        let mut command = redis::cmd("HMGET");
        command.arg(&self.keys.errors).arg(ids);
        command
    }

    /// The lengths of these records; 0 for a missing one.
    async fn lengths(&self, ids: &[u64]) -> Result<Vec<u64>, Error> {
        let mut lengths = self.stored_lengths(ids).await?;
        let may_be_stub = |length: &u64| (1..=MAX_STUB_BYTES as u64).contains(length);
        let short = ids.iter().zip(&mut lengths);
        let short = short.filter(|(_, length)| may_be_stub(length));
        let (short_ids, short_lengths): (Vec<u64>, Vec<&mut u64>) = short.unzip();
        if short_ids.is_empty() {
            return Ok(lengths);
        }
        let stored = decode::records(&self.link.call(&self.stored(&short_ids)).await?)?;
        for (length, stored) in short_lengths.into_iter().zip(stored) {
            if let Some(long) = stored.and_then(|stored| stub::length(&stored)) {
                *length = long;
            }
        }
        Ok(lengths)
    }

    /// The lengths of what the store has under these ids.
    async fn stored_lengths(&self, ids: &[u64]) -> Result<Vec<u64>, Error> {
        let commands: Vec<redis::Cmd> = ids
            .iter()
            .map(|id| {
                let mut command = redis::cmd("HSTRLEN");
                command.arg(&self.keys.errors).arg(id);
                command
            })
            .collect();
        let lengths = self.transaction(&commands).await?;
        lengths.iter().map(decode::length).collect()
    }

    async fn errors_ids(&self) -> Result<Ids, Error> {
        let (mut ids, held) = self.errors_bounds().await?;
        if held > 0 {
            ids.abandoned = self.holders().await?.abandoned;
        }
        Ok(ids)
    }

    /// The lowest and the highest id, and how many records drains hold.
    async fn errors_bounds(&self) -> Result<(Ids, u64), Error> {
        let mut ids = redis::cmd("HMGET");
        ids.arg(&self.keys.errors_ids).arg("last").arg("free");
        let mut length = redis::cmd("HLEN");
        length.arg(&self.keys.errors);
        let held = plain(&["HLEN", &self.keys.errors_held]);
        let answers = self.transaction(&[ids, length, held]).await?;
        let [ids, length, held] = &answers[..] else {
            return Err(unexpected("HMGET", &answers));
        };
        let (highest, lowest) = decode::error_ids(ids)?;
        match decode::length(length)? {
            records if records > 0 && highest == 0 => Err(Error::Refused(format!(
                "BADVALUE {} last is missing, but {} holds {records} records: set it to the \
                 highest of their ids",
                self.keys.errors_ids, self.keys.errors
            ))),
            _ => {
                let ids = Ids {
                    abandoned: Vec::new(),
                    lowest,
                    highest,
                };
                Ok((ids, decode::length(held)?))
            }
        }
    }
}
