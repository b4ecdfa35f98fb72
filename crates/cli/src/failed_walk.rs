//! A walk through the errors store, page by page.

use baton::inspect::{Failed, FailedCursor};
use baton::{Error, Inspector};

/// Max failed messages in one page.
const PAGE_RECORDS: u64 = 500;

/// Walks through the failed messages that were in the store when it began, partition by partition,
/// oldest first. It leaves out those that fail later: with them, a walk might never end.
pub(crate) struct FailedWalk {
    /// The last one is at work.
    partitions: Vec<PartitionWalk>,
}

impl FailedWalk {
    /// Begins a walk.
    pub(crate) async fn start(inspector: &Inspector) -> Result<Self, Error> {
        let mut partitions = Vec::new();
        for partition in inspector.each_partition() {
            partitions.push(PartitionWalk::start(partition).await?);
        }
        partitions.reverse();
        Ok(Self { partitions })
    }

    /// The next messages; none at the end.
    pub(crate) async fn next_page(&mut self) -> Result<Option<Vec<Failed>>, Error> {
        while let Some(walk) = self.partitions.last_mut() {
            match walk.next_page().await? {
                Some(page) => return Ok(Some(page)),
                None => self.partitions.pop(),
            };
        }
        Ok(None)
    }
}

/// The walk through one partition.
struct PartitionWalk {
    inspector: Inspector,
    /// The number of the newest message when the walk began.
    last: u64,
    next: Option<FailedCursor>,
}

impl PartitionWalk {
    async fn start(inspector: Inspector) -> Result<Self, Error> {
        let newest = inspector.failed_messages(FailedCursor::NEWEST, 1).await?;
        let last = newest.messages.first().map(|failed| failed.id.number());
        Ok(Self {
            inspector,
            last: last.unwrap_or_default(),
            next: last.map(|_| FailedCursor::OLDEST),
        })
    }

    async fn next_page(&mut self) -> Result<Option<Vec<Failed>>, Error> {
        let Some(cursor) = self.next else {
            return Ok(None);
        };
        let page = self.inspector.failed_messages(cursor, PAGE_RECORDS).await?;
        let mut messages = page.messages;
        let count = messages.len();
        messages.retain(|failed| failed.id.number() <= self.last);
        self.next = page.next.filter(|_| messages.len() == count);
        Ok(Some(messages))
    }
}
