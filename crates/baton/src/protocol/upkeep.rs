//! Looking after the fleet's messages: returning what the dead held, reading what was written down.

use super::{Store, read};
use crate::{Error, scripts};

/// Most claims that one reclaim looks at.
const RECLAIM_CLAIMS: u64 = 64;
/// Claims in which a reclaim looks for one that has no deadline.
const RECLAIM_LOOKS: u64 = 2;
/// The same when somebody asked for it: all that a fleet could have.
const CLEAN_CLAIMS: u64 = 100_000;

/// Entries of the ledger that are read at a time.
const LEDGER_PAGE: u64 = 10_000;

/// What a reclaim returned to where it came from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reclaimed {
    /// Messages back in the queue.
    pub messages: u64,
    /// Error records back in the errors store.
    pub records: u64,
    /// The dead who held them.
    pub nodes: Vec<String>,
}

impl Store {
    /// Returns the claims of dead workers and drains.
    pub async fn reclaim(&self) -> Result<Reclaimed, Error> {
        self.reclaim_from(&self.link.run(), RECLAIM_CLAIMS, RECLAIM_LOOKS)
            .await
    }

    /// The same, believing absence from presence whatever happened to the server since.
    pub async fn reclaim_absent(&self) -> Result<Reclaimed, Error> {
        self.reclaim_from("", CLEAN_CLAIMS, CLEAN_CLAIMS).await
    }

    async fn reclaim_from(&self, run: &str, claims: u64, looks: u64) -> Result<Reclaimed, Error> {
        let answer = self
            .eval(
                &scripts::RECLAIM,
                &self.return_keys(),
                &[
                    run.as_bytes(),
                    self.keys.presence.as_bytes(),
                    claims.to_string().as_bytes(),
                    looks.to_string().as_bytes(),
                ],
            )
            .await?;
        read::reclaim(&answer)
    }

    /// The entries of the ledger, oldest first.
    pub(crate) async fn ledger(&self) -> Result<Vec<String>, Error> {
        let mut entries = Vec::new();
        loop {
            let mut command = redis::cmd("LRANGE");
            let from = entries.len() as u64;
            command
                .arg(&self.keys.ledger)
                .arg(from)
                .arg(from + LEDGER_PAGE - 1);
            let page = read::lines(&self.link.call(&command).await?)?;
            if page.is_empty() {
                return Ok(entries);
            }
            entries.extend(page);
        }
    }
}
