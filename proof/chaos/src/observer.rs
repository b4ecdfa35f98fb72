//! Reads the fleet on connections of its own, which no fault of the network touches.

use std::time::Duration;

use anyhow::{Context, Result};
use baton::inspect::Snapshot;
use baton::{FleetName, Inspector, Part, Target};
use baton_protocol::audit::Audit;
use baton_protocol::{Census, Entry, Keys, Ledger, Store, new_name};

use crate::handlers::COUNTER;
use crate::row_check::Stored;

/// Longest wait for an answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Longest time to read all of a fleet.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// Reads what Redis has of a fleet.
pub struct Observer {
    url: String,
    target: Target,
    fleet: FleetName,
}

impl Observer {
    /// An observer of a fleet on this server.
    pub fn new(url: String, fleet: &str) -> Result<Self> {
        let target = Target::parse(&url)?;
        Self::at(target, url, fleet)
    }

    /// An observer of a fleet on these servers, whose address is `url`.
    pub fn at(target: Target, url: String, fleet: &str) -> Result<Self> {
        let fleet = FleetName::new(fleet)?;
        Ok(Self { url, target, fleet })
    }

    /// The server's address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The fleet at this moment.
    pub fn snapshot(&self) -> Result<Snapshot> {
        self.with_store(async |store| Ok(Inspector::over(store.clone()).snapshot().await?))
    }

    /// Where every message is, counted in one atomic step.
    pub fn census(&self) -> Result<Census> {
        self.with_store(async |store| Ok(store.census().await?))
    }

    /// The ledger's entries, without the first `skip`.
    pub fn ledger_since(&self, skip: usize) -> Result<Vec<Entry>> {
        let ledger = self.with_store(async |store| Ok(Ledger::read_since(store, skip).await?))?;
        Ok(ledger.entries)
    }

    /// Compares the ledger of a fleet that is at rest with everything else.
    pub fn audit(&self) -> Result<Audit> {
        self.with_store(async |store| {
            let ledger = Ledger::read(store).await?;
            Ok(baton_protocol::audit::audit(store, &ledger).await?)
        })
    }

    /// The counter of effects and the number of messages that are done, read in one atomic step.
    pub fn effects(&self) -> Result<(u64, u64)> {
        let counters = Keys::new(&self.fleet).stats;
        let mut both = redis::pipe();
        both.atomic().get(COUNTER).hget(counters, "done");
        let (counted, done): (Option<u64>, Option<u64>) = both.query(&mut self.redis()?)?;
        Ok((counted.unwrap_or_default(), done.unwrap_or_default()))
    }

    /// Pauses parts of the fleet, as an operator does. Returns where every message was then.
    pub fn pause(&self, parts: &[Part]) -> Result<Census> {
        self.with_store_within(TIMEOUT, async |store| {
            let _before = store.pause(parts).await?;
            Ok(store.census().await?)
        })
    }

    /// Lets parts of the fleet go on. Returns where every message was before.
    pub fn resume(&self, parts: &[Part]) -> Result<Census> {
        self.with_store_within(TIMEOUT, async |store| {
            let census = store.census().await?;
            let _before = store.resume(parts).await?;
            Ok(census)
        })
    }

    /// The last number and the cursor of the source, read in one step.
    pub fn stored(&self) -> Result<Stored> {
        let fence = Keys::new(&self.fleet).fence;
        let mut read = redis::cmd("HMGET");
        read.arg(fence).arg("last").arg("cursor");
        let (last, cursor): (Option<u64>, Option<String>) = read.query(&mut self.redis()?)?;
        Ok(Stored {
            last: last.unwrap_or_default(),
            cursor: cursor.unwrap_or_default(),
        })
    }

    /// A connection for any other command.
    pub fn redis(&self) -> Result<redis::Connection> {
        let client = redis::Client::open(self.url.as_str())?;
        let connection = client.get_connection_with_timeout(TIMEOUT)?;
        connection.set_read_timeout(Some(TIMEOUT))?;
        connection.set_write_timeout(Some(TIMEOUT))?;
        Ok(connection)
    }

    fn with_store<T>(&self, read: impl AsyncFnOnce(&Store) -> Result<T>) -> Result<T> {
        self.with_store_within(READ_TIMEOUT, read)
    }

    fn with_store_within<T>(
        &self,
        timeout: Duration,
        act: impl AsyncFnOnce(&Store) -> Result<T>,
    ) -> Result<T> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let acted = async {
            let store = Store::open(&self.target, &self.fleet, &new_name(), |_| {}).await?;
            act(&store).await
        };
        runtime.block_on(async {
            let acted = tokio::time::timeout(timeout, acted).await;
            acted.context("Redis did not answer")?
        })
    }
}
