//! Failed messages: reading, retrying and dropping them; taking chosen ones; draining them all.

mod drain;
mod settlement;
mod take;

pub use drain::Drain;
pub use settlement::Settlement;
pub use take::{Take, Taken};

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use baton_protocol::{Failure, Partitions, Slot, Store, record};
use xxhash_rust::xxh3::xxh3_64;

use crate::{Error, FailedMessage};

/// A drain or a take claims at most this many records at a time, and at most this many bytes. Redis
/// frees the claims of a dead process in one step, which must be short.
const MAX_CLAIM_RECORDS: u64 = 100;
const MAX_CLAIM_BYTES: u64 = 1 << 20;
/// One step reads at most this many records.
const MAX_READ_RECORDS: usize = 500;
/// A page that has so many bytes does not go on with the next partition.
const PAGE_BYTES: usize = 1 << 20;
/// The pause before a call is repeated that Redis did not answer.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// Identifies one failed message in the errors store, by its number and a digest of its bytes. A
/// server that lost its data may give the same number to another message, so a number alone could
/// name the wrong one. In a fleet of several partitions each has numbers of its own, so the id names the
/// partition, too.
///
/// Its text form can be handed out and parsed again:
///
/// ```
/// # use baton::inspect::FailedId;
/// let id: FailedId = "17-9f86d081884c7d65".parse()?;
/// assert_eq!(id.number(), 17);
/// assert_eq!(id.to_string(), "17-9f86d081884c7d65");
/// let id: FailedId = "3.17-9f86d081884c7d65".parse()?;
/// assert_eq!((id.partition(), id.number()), (Some(3), 17));
/// # Ok::<(), baton::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FailedId {
    partition: Option<u32>,
    number: u64,
    digest: u64,
}

impl FailedId {
    fn of(store: &Store, failure: &Failure) -> Self {
        Self::new(partition_of(store), failure)
    }

    fn new(partition: Option<u32>, failure: &Failure) -> Self {
        Self {
            partition,
            number: failure.id,
            digest: xxh3_64(&failure.record),
        }
    }

    /// The partition whose errors store has it; none if the fleet has one partition only.
    pub fn partition(self) -> Option<u32> {
        self.partition
    }

    /// Its number in the errors store. Later failures have higher numbers.
    pub fn number(self) -> u64 {
        self.number
    }

    /// Those of these ids that belong to this store.
    pub(crate) fn only_of(store: &Store, ids: &[Self]) -> Vec<Self> {
        let partition = partition_of(store);
        let ids = ids.iter().copied();
        ids.filter(|id| id.partition == partition).collect()
    }

    /// Reads the first of these records, about a megabyte, and skips those that are gone or have
    /// changed. Also returns how many of the ids it has dealt with.
    pub(crate) async fn read(store: &Store, ids: &[Self]) -> Result<(Vec<Failure>, usize), Error> {
        let batch = &ids[..ids.len().min(MAX_READ_RECORDS)];
        let numbers: Vec<u64> = batch.iter().map(|id| id.number).collect();
        let (mut failures, done) = store.errors_read(&numbers).await?;
        // The answer keeps the order of the ids.
        let mut expected = batch.iter();
        failures.retain(|failure| {
            let id = expected.find(|id| id.number == failure.id);
            id.is_some_and(|id| *id == Self::of(store, failure))
        });
        Ok((failures, done))
    }

    /// The numbers of those records that are there and unchanged.
    pub(crate) async fn unchanged(store: &Store, mut ids: &[Self]) -> Result<Vec<u64>, Error> {
        let mut numbers = Vec::new();
        while !ids.is_empty() {
            let (failures, done) = Self::read(store, ids).await?;
            numbers.extend(failures.iter().map(|failure| failure.id));
            ids = &ids[done..];
        }
        Ok(numbers)
    }
}

/// `number-digest`, with the digest in hexadecimal; `partition.number-digest` if there are several.
impl fmt::Display for FailedId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(partition) = self.partition {
            write!(f, "{partition}.")?;
        }
        write!(f, "{}-{:x}", self.number, self.digest)
    }
}

impl FromStr for FailedId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let parse = || {
            let (place, digest) = text.split_once('-')?;
            let (partition, number) = match place.split_once('.') {
                Some((partition, number)) => (Some(partition.parse().ok()?), number),
                None => (None, place),
            };
            Some(Self {
                partition,
                number: number.parse().ok()?,
                digest: u64::from_str_radix(digest, 16).ok()?,
            })
        };
        parse().ok_or_else(|| Error::Refused("this is no id of a failed message".to_owned()))
    }
}

/// A failed message in the errors store.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failed {
    /// Identifies it.
    pub id: FailedId,
    /// The message, and why it failed.
    pub message: FailedMessage,
    /// How many bytes it takes in the store.
    pub bytes: usize,
}

impl Failed {
    pub(crate) fn of(store: &Store, failure: &Failure) -> Self {
        Self {
            id: FailedId::of(store, failure),
            message: message(store, failure),
            bytes: failure.record.len(),
        }
    }
}

/// The message of a record.
fn message(store: &Store, failure: &Failure) -> FailedMessage {
    let mut message = record::decode(&failure.record);
    message.partition = partition_of(store);
    message
}

/// Which partition a store is for; none if the fleet has one only.
fn partition_of(store: &Store) -> Option<u32> {
    (store.partitions() > 1).then(|| store.partition())
}

/// Where a page of failed messages begins, and in which order it goes on. The pages of a fleet of several
/// partitions have the messages of the first partition, then those of the next one, and so on; the order
/// is that within each partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailedCursor {
    /// How many partitions lie behind it.
    partition: usize,
    place: Place,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Before(Option<u64>),
    After(u64),
}

impl FailedCursor {
    /// At the newest message, towards the oldest.
    pub const NEWEST: Self = Self {
        partition: 0,
        place: Place::Before(None),
    };
    /// At the oldest message, towards the newest.
    pub const OLDEST: Self = Self {
        partition: 0,
        place: Place::After(0),
    };

    /// The beginning of the partition behind this one.
    fn next_partition(self) -> Self {
        let start = match self.place {
            Place::Before(_) => Self::NEWEST,
            Place::After(_) => Self::OLDEST,
        };
        Self {
            partition: self.partition + 1,
            ..start
        }
    }
}

/// Some failed messages, in the order of their cursor.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FailedPage {
    /// The messages.
    pub messages: Vec<Failed>,
    /// Where the next page begins; none after the last page.
    pub next: Option<FailedCursor>,
}

impl FailedPage {
    /// Reads a page that ends with the partition of its cursor.
    pub(crate) async fn read(store: &Store, cursor: FailedCursor, max: u64) -> Result<Self, Error> {
        let page = match cursor.place {
            Place::Before(before) => store.errors_before(before, max).await?,
            Place::After(after) => store.errors_after(after, max).await?,
        };
        let place = |next| match cursor.place {
            Place::Before(_) => Place::Before(Some(next)),
            Place::After(_) => Place::After(next),
        };
        let failures = page.failures.iter();
        Ok(Self {
            messages: failures.map(|failure| Failed::of(store, failure)).collect(),
            next: page.next.map(|next| FailedCursor {
                place: place(next),
                ..cursor
            }),
        })
    }

    /// Reads a page that goes on from partition to partition until it is full.
    pub(crate) async fn read_across(
        partitions: &Partitions,
        cursor: FailedCursor,
        max: u64,
    ) -> Result<Self, Error> {
        let (mut all, mut bytes, mut cursor) = (Self::default(), 0, cursor);
        while let Some(store) = partitions.all().get(cursor.partition) {
            let left = max.saturating_sub(all.messages.len() as u64);
            if !all.messages.is_empty() && (left == 0 || bytes >= PAGE_BYTES) {
                all.next = Some(cursor);
                break;
            }
            let page = Self::read(store, cursor, left).await?;
            bytes += page
                .messages
                .iter()
                .map(|failed| failed.bytes)
                .sum::<usize>();
            all.messages.extend(page.messages);
            if page.next.is_some() {
                all.next = page.next;
                break;
            }
            cursor = cursor.next_partition();
        }
        Ok(all)
    }
}

/// A slot that no other claim of this process has.
fn new_slot(store: &Store, kind: &str) -> Slot {
    static SLOTS: AtomicU64 = AtomicU64::new(1);
    let number = SLOTS.fetch_add(1, Ordering::Relaxed);
    Slot::new(store.node(), format!("{kind}{number}"))
}

fn name_in_use() -> Error {
    Error::Refused("another drain uses this drain's name".to_owned())
}

/// Repeats a call until Redis answers it, for at most the time that a claim lives.
async fn retry_while_claimed<T, F: Future<Output = Result<T, Error>>>(
    store: &Store,
    ttl: Duration,
    call: impl Fn() -> F,
) -> Result<T, Error> {
    let end = tokio::time::Instant::now() + ttl;
    loop {
        match call().await {
            Err(error) if error.is_transient() && tokio::time::Instant::now() < end => {
                let _ = tokio::time::timeout_at(end, store.wait_up()).await;
                tokio::time::sleep(RETRY_PAUSE).await;
            }
            answer => return answer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_form_of_an_id_reads_back() {
        let failure = |id, record: &[u8]| Failure::short(id, record.to_vec());
        let ids = [
            FailedId::new(None, &failure(1, b"")),
            FailedId::new(None, &failure(u64::MAX, b"a record")),
            FailedId::new(Some(0), &failure(1, b"")),
            FailedId::new(Some(1023), &failure(u64::MAX, b"a record")),
        ];
        for id in ids {
            assert_eq!(id.to_string().parse::<FailedId>().ok(), Some(id));
        }
    }

    #[test]
    fn a_text_that_is_not_an_id_is_refused() {
        for text in [
            "", "17", "-", "17-", "-ff", "17-fg", "x-ff", "17-ff-1", ".17-ff", "3.-ff", "x.17-ff",
            "1.2.3-ff",
        ] {
            assert!(text.parse::<FailedId>().is_err(), "{text}");
        }
    }

    #[test]
    fn an_id_depends_on_the_partition_the_number_and_on_every_byte() {
        let id = |id, record: &[u8]| {
            let record = record.to_vec();
            FailedId::new(None, &Failure::short(id, record))
        };
        let record = b"one".to_vec();
        let elsewhere = FailedId::new(Some(0), &Failure::short(1, record));
        assert_ne!(id(1, b"one"), elsewhere);
        assert_eq!(id(1, b"one"), id(1, b"one"));
        assert_ne!(id(1, b"one"), id(2, b"one"));
        assert_ne!(id(1, b"one"), id(1, b"onE"));
    }
}
