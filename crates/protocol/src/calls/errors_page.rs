//! Reading the errors store without taking anything: plain reads, bounded in bytes.

use super::answer::unexpected;
use super::{Store, decode};
use crate::Error;

/// Ids that are looked at in one step.
const IDS: u64 = 500;
/// Bytes after which a page has no further record.
const PAGE_BYTES: u64 = 1 << 20;

/// A record of the errors store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Its id. Later failures have higher ones.
    pub id: u64,
    /// Its bytes.
    pub record: Vec<u8>,
}

/// Some records that no drain holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// The records. None are left if there are none.
    pub failures: Vec<Failure>,
    /// From where to ask for the next page; none at the end.
    pub next: Option<u64>,
}

/// The ids that a page can have.
struct Ids {
    lowest: u64,
    highest: u64,
}

impl Store {
    /// How many records are in the store that no drain holds.
    pub async fn errors_len(&self) -> Result<u64, Error> {
        let [all, held] = [&self.keys.errors, &self.keys.errors_held].map(|key| {
            let mut command = redis::cmd("HLEN");
            command.arg(key);
            command
        });
        let lengths = self.ask(&[all, held]).await?;
        match &lengths[..] {
            [all, held] => Ok(decode::length(all)?.saturating_sub(decode::length(held)?)),
            _ => Err(unexpected("HLEN", &lengths)),
        }
    }

    /// How many records are in the hands of drains.
    pub async fn errors_held(&self) -> Result<u64, Error> {
        let mut command = redis::cmd("HLEN");
        command.arg(&self.keys.errors_held);
        decode::length(&self.link.call(&command).await?)
    }

    /// The highest id that a record ever had; 0 before the first.
    pub async fn errors_last(&self) -> Result<u64, Error> {
        Ok(self.errors_ids().await?.highest)
    }

    /// Records with ids below `before`, or any, at most `most`, the newest first.
    pub async fn errors_page(&self, before: Option<u64>, most: u64) -> Result<Page, Error> {
        let Ids { lowest, highest } = self.errors_ids().await?;
        let mut end = before.map_or(highest, |before| highest.min(before.saturating_sub(1)));
        loop {
            if end < lowest {
                return Ok(Page::default());
            }
            let from = lowest.max(end.saturating_sub(IDS - 1));
            let ids: Vec<u64> = (from..=end).rev().collect();
            let (failures, looked) = self.errors_among(&ids, most).await?;
            end = ids[looked - 1] - 1;
            if !failures.is_empty() {
                let next = (end >= lowest).then_some(end + 1);
                return Ok(Page { failures, next });
            }
        }
    }

    /// Records with ids above `after`, at most `most`, the oldest first.
    pub async fn errors_after(&self, after: u64, most: u64) -> Result<Page, Error> {
        let Ids { lowest, highest } = self.errors_ids().await?;
        let mut start = lowest.max(after.saturating_add(1));
        loop {
            if start > highest {
                return Ok(Page::default());
            }
            let ids: Vec<u64> = (start..=highest.min(start + IDS - 1)).collect();
            let (failures, looked) = self.errors_among(&ids, most).await?;
            start = ids[looked - 1] + 1;
            if !failures.is_empty() {
                let next = (start <= highest).then_some(start - 1);
                return Ok(Page { failures, next });
            }
        }
    }

    /// The first of these records, in this order, whether a drain holds them or not: as many as
    /// have about a megabyte, at least one. Returns how many ids are done with, too, for those
    /// that are not there are left out.
    pub async fn errors_read(&self, ids: &[u64]) -> Result<(Vec<Failure>, usize), Error> {
        if ids.is_empty() {
            return Ok((Vec::new(), 0));
        }
        let ids = &ids[..ids.len().min(IDS as usize)];
        let lengths = self.lengths(ids).await?;
        let there = vec![true; ids.len()];
        self.read_some(ids, &lengths, &there, ids.len() as u64)
            .await
    }

    /// The same for those that no drain holds. There must be an id.
    async fn errors_among(&self, ids: &[u64], most: u64) -> Result<(Vec<Failure>, usize), Error> {
        let mut held = redis::cmd("HMGET");
        held.arg(&self.keys.errors_held).arg(ids);
        let held = decode::presence(&self.link.call(&held).await?)?;
        let free: Vec<bool> = held.into_iter().map(|held| !held).collect();
        let lengths = self.lengths(ids).await?;
        self.read_some(ids, &lengths, &free, most).await
    }

    async fn read_some(
        &self,
        ids: &[u64],
        lengths: &[u64],
        wanted: &[bool],
        most: u64,
    ) -> Result<(Vec<Failure>, usize), Error> {
        let most = usize::try_from(most.max(1)).unwrap_or(usize::MAX);
        let (mut some, mut count, mut bytes, mut looked) = (Vec::new(), 0, 0, 0);
        for ((id, length), wanted) in ids.iter().zip(lengths).zip(wanted) {
            if count == most || (bytes > 0 && bytes + length > PAGE_BYTES) {
                break;
            }
            looked += 1;
            if *wanted {
                some.push(*id);
                bytes += length;
                // Nothing is there, or an empty record.
                count += usize::from(*length > 0);
            }
        }
        if some.is_empty() {
            return Ok((Vec::new(), looked));
        }
        let mut failures = self.errors_whole(&some).await?;
        if failures.len() > most {
            failures.truncate(most);
            let last = failures.last().map(|failure| failure.id);
            looked = ids.iter().take_while(|id| Some(**id) != last).count() + 1;
        }
        Ok((failures, looked))
    }

    /// All of these records, however long they are; those that are not there are left out.
    pub async fn errors_whole(&self, ids: &[u64]) -> Result<Vec<Failure>, Error> {
        let mut command = redis::cmd("HMGET");
        command.arg(&self.keys.errors).arg(ids);
        let records = decode::records(&self.link.call(&command).await?)?;
        let found = ids.iter().zip(records);
        let there =
            found.filter_map(|(id, record)| record.map(|record| Failure { id: *id, record }));
        Ok(there.collect())
    }

    /// How long the records are; 0 for one that is not there.
    async fn lengths(&self, ids: &[u64]) -> Result<Vec<u64>, Error> {
        let commands: Vec<redis::Cmd> = ids
            .iter()
            .map(|id| {
                let mut command = redis::cmd("HSTRLEN");
                command.arg(&self.keys.errors).arg(id);
                command
            })
            .collect();
        let lengths = self.ask(&commands).await?;
        lengths.iter().map(decode::length).collect()
    }

    async fn errors_ids(&self) -> Result<Ids, Error> {
        let mut ids = redis::cmd("HMGET");
        ids.arg(&self.keys.errors_ids).arg("last").arg("free");
        let mut length = redis::cmd("HLEN");
        length.arg(&self.keys.errors);
        let answers = self.ask(&[ids, length]).await?;
        let [ids, length] = &answers[..] else {
            return Err(unexpected("HMGET", &answers));
        };
        let (highest, lowest) = decode::error_ids(ids)?;
        match decode::length(length)? {
            records if records > 0 && highest == 0 => Err(Error::Refused(format!(
                "BADVALUE {} last is missing, but {} holds {records} records: set it to the \
                 highest of their ids",
                self.keys.errors_ids, self.keys.errors
            ))),
            _ => Ok(Ids { lowest, highest }),
        }
    }
}
