//! Looking at the fleet past all weather, on a connection of our own.

use std::time::Duration;

use anyhow::{Context, Result};
use baton::FleetName;
use baton::inspect::Snapshot;
use baton_protocol::{Entry, Keys};

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Entries of the ledger that are read at a time.
const PAGE: usize = 10_000;

/// Sees what Redis sees.
pub struct Eye {
    url: String,
    fleet: FleetName,
    keys: Keys,
}

impl Eye {
    /// Looks at a fleet on this server.
    pub fn new(url: String, fleet: &str) -> Result<Self> {
        let fleet = FleetName::new(fleet)?;
        Ok(Self {
            url,
            keys: Keys::new(&fleet),
            fleet,
        })
    }

    /// The server's address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Who is there, and where every message is.
    pub fn status(&self) -> Result<Snapshot> {
        baton_processes::status(&self.url, self.fleet.as_str())
    }

    /// A connection for anything else.
    pub fn redis(&self) -> Result<redis::Connection> {
        let client = redis::Client::open(self.url.as_str())?;
        let connection = client.get_connection_with_timeout(PATIENCE)?;
        connection.set_read_timeout(Some(PATIENCE))?;
        connection.set_write_timeout(Some(PATIENCE))?;
        Ok(connection)
    }

    /// The ledger's entries from a place on.
    pub fn ledger_since(&self, from: usize) -> Result<Vec<Entry>> {
        let mut redis = self.redis()?;
        let mut entries = Vec::new();
        loop {
            let next = from + entries.len();
            let page: Vec<String> = redis::cmd("LRANGE")
                .arg(&self.keys.ledger)
                .arg(next)
                .arg(next + PAGE - 1)
                .query(&mut redis)?;
            if page.is_empty() {
                return Ok(entries);
            }
            for text in page {
                let entry = Entry::parse(&text);
                entries.push(entry.with_context(|| format!("not an entry: {text}"))?);
            }
        }
    }
}
