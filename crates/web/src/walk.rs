//! Walking through the errors store from its newest record, page by page.
//!
//! New failures come after the newest and are never met. Records that are removed on the way
//! lie behind; when others are taken from the beginning, the next page has some records once
//! more. Only if records return to the beginning can one be passed by.

use baton::Error;
use baton::protocol::Store;

/// Bytes that a page should have.
const PAGE_BYTES: usize = 1 << 20;
/// Most records of a page.
const PAGE_RECORDS: u64 = 500;
/// How many times as many records as the last page may the next one have: the first has one,
/// for they may be large.
const GROWTH: u64 = 8;

/// A walk.
pub(crate) struct Walk<'a> {
    store: &'a Store,
    /// Records before this one are to come.
    to: u64,
    most: u64,
}

/// Some records that lie together, oldest first.
pub(crate) struct Page {
    /// Where the first lies, counted from the oldest in the store.
    pub(crate) from: u64,
    /// The records.
    pub(crate) records: Vec<Vec<u8>>,
}

impl<'a> Walk<'a> {
    /// Starts at the newest.
    pub(crate) async fn start(store: &'a Store) -> Result<Self, Error> {
        Ok(Self {
            store,
            to: store.errors_len().await?,
            most: 1,
        })
    }

    /// How many records are to come.
    pub(crate) fn left(&self) -> u64 {
        self.to
    }

    /// The next page, of at most so many records; none at the end.
    pub(crate) async fn next(&mut self, most: u64) -> Result<Option<Page>, Error> {
        if self.to == 0 {
            return Ok(None);
        }
        let from = self.to.saturating_sub(self.most.min(most).max(1));
        let records = self.store.errors_look(from, self.to - from).await?;
        self.to = from;
        if !records.is_empty() {
            let bytes = records.iter().map(Vec::len).sum::<usize>() / records.len();
            let most = PAGE_RECORDS.min(records.len() as u64 * GROWTH);
            self.most = ((PAGE_BYTES / bytes.max(1)) as u64).clamp(1, most);
        }
        Ok(Some(Page { from, records }))
    }
}
