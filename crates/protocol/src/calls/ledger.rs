//! Reading a fleet's ledger.

use super::answer::unexpected;
use super::{Partitions, Store, decode};
use crate::Error;
use crate::encoding::ledger::{Entry, Ledger};

/// Entries that one command reads.
const PAGE_ENTRIES: usize = 10_000;

impl Ledger {
    /// Reads a fleet's ledger; empty if the fleet is not audited.
    pub async fn read(store: &Store) -> Result<Self, Error> {
        Self::read_since(store, 0).await
    }

    /// Reads the ledger of each partition, in order.
    pub async fn read_all(partitions: &Partitions) -> Result<Vec<Self>, Error> {
        let ledgers = partitions.all().iter().map(Self::read);
        futures_util::future::try_join_all(ledgers).await
    }

    /// The same without the first `skip` entries, for a caller that has them.
    pub async fn read_since(store: &Store, skip: usize) -> Result<Self, Error> {
        let mut entries = Vec::new();
        loop {
            let from = skip + entries.len();
            let mut command = redis::cmd("LRANGE");
            command.arg(&store.keys.ledger);
            command.arg(from).arg(from + PAGE_ENTRIES - 1);
            let page = decode::lines(&store.link.call(&command).await?)?;
            if page.is_empty() {
                return Ok(Self { entries });
            }
            for text in page {
                let entry = Entry::parse(&text);
                entries.push(entry.ok_or_else(|| unexpected("ledger", &text))?);
            }
        }
    }
}
