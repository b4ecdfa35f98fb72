//! Failed messages: reading, retrying and dropping them; taking chosen ones; draining all.

mod drain;
mod settlement;
mod take;

pub use drain::Drain;
pub use settlement::Settlement;
pub use take::{Take, Taken};

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use baton_protocol::{Failure, Page, Setting, Store, record};
use xxhash_rust::xxh3::xxh3_64;

use crate::{Error, FailedMessage};

/// Most records and bytes in a drain's hands. A dead drain's claims are returned in one step,
/// which must not keep the server long.
const BATCH: (u64, u64) = (100, 1 << 20);
/// How many records one step reads at most.
const READ_AT_ONCE: usize = 500;

/// Names one failed message in the errors store, to the byte. After a server lost its data it may
/// give the same number to another message; this name then fits neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FailedId {
    number: u64,
    digest: u64,
}

impl FailedId {
    fn of(failure: &Failure) -> Self {
        Self {
            number: failure.id,
            digest: xxh3_64(&failure.record),
        }
    }

    /// Its number in the store. Later failures have higher ones.
    pub fn number(self) -> u64 {
        self.number
    }

    /// Reads the first of these records, about a megabyte: those that are what they were. Returns
    /// how many ids are done with, too.
    pub(crate) async fn read(store: &Store, ids: &[Self]) -> Result<(Vec<Failure>, usize), Error> {
        let some = &ids[..ids.len().min(READ_AT_ONCE)];
        let numbers: Vec<u64> = some.iter().map(|id| id.number).collect();
        let (mut failures, done) = store.errors_read(&numbers).await?;
        let mut known = some.iter();
        failures.retain(|failure| {
            let id = known.find(|id| id.number == failure.id);
            id.is_some_and(|id| *id == Self::of(failure))
        });
        Ok((failures, done))
    }

    /// The numbers of those records that are what they were.
    pub(crate) async fn still_there(store: &Store, mut ids: &[Self]) -> Result<Vec<u64>, Error> {
        let mut numbers = Vec::new();
        while !ids.is_empty() {
            let (failures, done) = Self::read(store, ids).await?;
            numbers.extend(failures.iter().map(|failure| failure.id));
            ids = &ids[done..];
        }
        Ok(numbers)
    }
}

/// The text form names the message, too: a program can hand it out and take it back.
impl fmt::Display for FailedId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:x}", self.number, self.digest)
    }
}

impl FromStr for FailedId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let parse = || {
            let (number, digest) = text.split_once('-')?;
            Some(Self {
                number: number.parse().ok()?,
                digest: u64::from_str_radix(digest, 16).ok()?,
            })
        };
        parse().ok_or_else(|| Error::setting(Setting::FailedId, "no name of a failed message"))
    }
}

/// A failed message in the errors store.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failed {
    /// Its name.
    pub id: FailedId,
    /// What failed, and why.
    pub message: FailedMessage,
    /// How many bytes it takes in the store.
    pub bytes: usize,
}

impl Failed {
    pub(crate) fn of(failure: Failure) -> Self {
        Self {
            id: FailedId::of(&failure),
            message: record::decode(&failure.record),
            bytes: failure.record.len(),
        }
    }
}

/// Some failed messages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FailedPage {
    /// The messages.
    pub messages: Vec<Failed>,
    /// Where the next page begins; none at the end.
    pub next: Option<u64>,
}

impl FailedPage {
    pub(crate) fn of(page: Page) -> Self {
        Self {
            messages: page.failures.into_iter().map(Failed::of).collect(),
            next: page.next,
        }
    }
}

fn taken_name() -> Error {
    Error::Refused("another drain uses this drain's name".to_owned())
}

/// Repeats a call until Redis answers, for as long as the claim may last.
async fn insist<T, F: Future<Output = Result<T, Error>>>(
    store: &Store,
    ttl: Duration,
    call: impl Fn() -> F,
) -> Result<T, Error> {
    let end = tokio::time::Instant::now() + ttl;
    loop {
        match call().await {
            Err(error) if error.is_transient() && tokio::time::Instant::now() < end => {
                let pause = Duration::from_millis(50);
                let _ = tokio::time::timeout_at(end, store.wait_up()).await;
                tokio::time::sleep(pause).await;
            }
            answer => return answer,
        }
    }
}
