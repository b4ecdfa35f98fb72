//! A walk through the errors store, page by page.

use baton::inspect::{Failed, FailedCursor};
use baton::{Error, Inspector};

/// Max failed messages in one page.
const PAGE_RECORDS: u64 = 500;

/// Walks through the failed messages that were in the store when it began, oldest first. It leaves
/// out those that fail later: with them, a walk might never end.
pub(crate) struct FailedWalk<'a> {
    inspector: &'a Inspector,
    /// The number of the newest message when the walk began.
    last: u64,
    next: Option<FailedCursor>,
}

impl<'a> FailedWalk<'a> {
    /// Begins a walk.
    pub(crate) async fn start(inspector: &'a Inspector) -> Result<Self, Error> {
        let newest = inspector.failed_messages(FailedCursor::NEWEST, 1).await?;
        let last = newest.messages.first().map(|failed| failed.id.number());
        Ok(Self {
            inspector,
            last: last.unwrap_or_default(),
            next: last.map(|_| FailedCursor::OLDEST),
        })
    }

    /// The next messages; none at the end.
    pub(crate) async fn next_page(&mut self) -> Result<Option<Vec<Failed>>, Error> {
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
