//! Looking after the fleet's messages: reclaim what the dead held, count where all are.

use std::collections::BTreeMap;

use super::{Store, read};
use crate::{Error, scripts};

/// Most claims that one reclaim looks at.
const RECLAIM_CLAIMS: u64 = 64;
/// The same when somebody asked for it: all that a fleet could have.
const CLEAN_CLAIMS: u64 = 100_000;
/// Longest queue that the census counts range by range (about 30 ms of Redis's time).
const CENSUS_RANGES: u64 = 100_000;

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

/// Where every message is, counted in one atomic step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Census {
    /// Messages accepted so far.
    pub published: u64,
    /// Ended well.
    pub done: u64,
    /// Ended as failed.
    pub failed: u64,
    /// Waiting.
    pub pending: u64,
    /// In workers' hands.
    pub claimed: u64,
    /// Error records waiting to be taken, those in a drain's hands included.
    pub errors: u64,
    /// Entries found in the queue that were not ours.
    pub foreign: u64,
    /// Failed messages that went back into the queue.
    pub retried: u64,
    /// Whether `pending` was counted range by range, not derived from the counters.
    pub counted: bool,
    /// Redis's clock in ms.
    pub now_ms: u64,
    /// How many messages are in whose hands.
    pub in_hand: BTreeMap<String, u64>,
}

impl Census {
    /// The conservation check: every message is in exactly one place.
    pub fn balanced(&self) -> bool {
        self.published + self.retried == self.done + self.failed + self.pending + self.claimed
    }
}

impl Store {
    /// Returns the claims of dead workers and drains.
    pub async fn reclaim(&self) -> Result<Reclaimed, Error> {
        self.reclaim_from(&self.link.run(), RECLAIM_CLAIMS).await
    }

    /// The same, believing absence from presence whatever happened to the server since.
    pub async fn reclaim_absent(&self) -> Result<Reclaimed, Error> {
        self.reclaim_from("", CLEAN_CLAIMS).await
    }

    async fn reclaim_from(&self, run: &str, claims: u64) -> Result<Reclaimed, Error> {
        let answer = self
            .eval(
                &scripts::RECLAIM,
                &self.return_keys(),
                &[
                    run.as_bytes(),
                    self.keys.presence.as_bytes(),
                    claims.to_string().as_bytes(),
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

    /// Counts where every message is.
    pub async fn census(&self) -> Result<Census, Error> {
        self.census_up_to(CENSUS_RANGES).await
    }

    /// The same from the counters alone, at any length of the queue.
    pub(crate) async fn quick_census(&self) -> Result<Census, Error> {
        self.census_up_to(0).await
    }

    async fn census_up_to(&self, ranges: u64) -> Result<Census, Error> {
        let answer = self
            .eval(
                &scripts::CENSUS,
                &self.census_keys(),
                &[ranges.to_string().as_bytes()],
            )
            .await?;
        read::census(&answer)
    }

    pub(super) fn census_keys(&self) -> [&String; 5] {
        let keys = &self.keys;
        [
            &keys.fence,
            &keys.queue,
            &keys.claims,
            &keys.stats,
            &keys.errors,
        ]
    }
}
