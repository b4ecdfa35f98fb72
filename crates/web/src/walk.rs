//! Walking through the errors store from its newest record, page by page.
//!
//! New failures get higher ids and are never met. Records that leave the store on the way are
//! not met either; one that a drain gives back above where the walk is, is passed by.

use baton::Error;
use baton::protocol::{Failure, Store};

/// Most records of a page.
const PAGE_RECORDS: u64 = 500;

/// A walk.
pub(crate) struct Walk<'a> {
    store: &'a Store,
    /// Records with lower ids are to come, or all.
    before: Option<u64>,
    over: bool,
}

impl<'a> Walk<'a> {
    /// Starts at the newest.
    pub(crate) fn start(store: &'a Store) -> Self {
        Self {
            store,
            before: None,
            over: false,
        }
    }

    /// Whether all records were met.
    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    /// The next records, at most so many, the newest first; none at the end.
    pub(crate) async fn next(&mut self, most: u64) -> Result<Option<Vec<Failure>>, Error> {
        if self.over {
            return Ok(None);
        }
        let page = self
            .store
            .errors_page(self.before, PAGE_RECORDS.min(most))
            .await?;
        self.before = page.next;
        self.over = page.next.is_none();
        Ok(Some(page.failures).filter(|failures| !failures.is_empty()))
    }
}
