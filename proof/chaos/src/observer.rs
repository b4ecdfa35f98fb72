//! Reads the fleet on connections of its own, which no fault of the network touches.

use std::time::Duration;

use anyhow::{Context, Result};
use baton::inspect::Snapshot;
use baton::{FleetName, Inspector, Part, Target};
use baton_protocol::audit::Audit;
use baton_protocol::{Census, Entry, Keys, Ledger, Partitions, Store, new_name};

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
    partitions: u32,
}

impl Observer {
    /// An observer of a fleet on this server, which has so many partitions.
    pub fn new(url: String, fleet: &str, partitions: u32) -> Result<Self> {
        let target = Target::parse(&url)?;
        Self::at(target, url, fleet, partitions)
    }

    /// An observer of a fleet on these servers, whose address is `url`.
    pub fn at(target: Target, url: String, fleet: &str, partitions: u32) -> Result<Self> {
        Ok(Self {
            url,
            target,
            fleet: FleetName::new(fleet)?,
            partitions,
        })
    }

    /// The server's address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The fleet at this moment.
    pub fn snapshot(&self) -> Result<Snapshot> {
        self.with_partitions(async |all| Ok(Inspector::over_all(all.clone()).snapshot().await?))
    }

    /// Where every message is, in each partition, counted in one atomic step there.
    pub fn census(&self) -> Result<Vec<Census>> {
        self.with_each(async |store, _| Ok(store.census().await?))
    }

    /// The entries of each partition's ledger, without the first `skip` of each.
    pub fn ledgers_since(&self, skip: &[usize]) -> Result<Vec<Vec<Entry>>> {
        self.with_each(async |store, index| {
            let skip = skip.get(index).copied().unwrap_or_default();
            Ok(Ledger::read_since(store, skip).await?.entries)
        })
    }

    /// Compares the ledgers of a fleet that is at rest with everything else.
    pub fn audit(&self) -> Result<Audit> {
        self.with_partitions(async |all| {
            let ledgers = Ledger::read_all(all).await?;
            Ok(baton_protocol::audit::audit_all(all, &ledgers).await?)
        })
    }

    /// The counter of effects and the number of messages that are done, read in one atomic step from a
    /// single server.
    pub fn effects(&self) -> Result<(u64, u64)> {
        let mut all = redis::pipe();
        all.atomic().get(COUNTER);
        for keys in self.keys() {
            all.hget(keys.stats, "done");
        }
        let counts: Vec<Option<u64>> = all.query(&mut self.redis()?)?;
        let (counted, done) = counts.split_first().context("Redis answered nothing")?;
        Ok((
            counted.unwrap_or_default(),
            done.iter().copied().flatten().sum(),
        ))
    }

    /// Pauses parts of the fleet, as an operator does. Returns where every message of each partition was
    /// then.
    pub fn pause(&self, parts: &[Part]) -> Result<Vec<Census>> {
        self.with_each_within(TIMEOUT, async |store, _| {
            let _before = store.pause(parts).await?;
            Ok(store.census().await?)
        })
    }

    /// Lets parts of the fleet go on. Returns where every message of each partition was before.
    pub fn resume(&self, parts: &[Part]) -> Result<Vec<Census>> {
        self.with_each_within(TIMEOUT, async |store, _| {
            let census = store.census().await?;
            let _before = store.resume(parts).await?;
            Ok(census)
        })
    }

    /// How many messages the source has made, and its cursor behind the last one, read in one step. In a
    /// fleet of several partitions, the one that has what the source made last knows it.
    pub fn stored(&self) -> Result<Stored> {
        let mut order = (0, 0);
        let counter = match self.partitions {
            1 => "last",
            _ => "made",
        };
        let places = self.with_each(async |store, _| Ok(store.place()))?;
        let mut newest = Stored::default();
        for (place, keys) in places.iter().zip(self.keys()) {
            let mut read = redis::cmd("HMGET");
            read.arg(keys.fence).arg(counter).arg("cursor");
            let mut redis = connect(&format!("redis://{place}"))?;
            let (made, cursor): (Option<String>, Option<String>) = read.query(&mut redis)?;
            // `packs messages`, or the last number.
            let made = made.unwrap_or_default();
            let mut words = made.split(' ').rev().map(|word| word.parse().unwrap_or(0));
            let (made, packs) = (words.next().unwrap_or(0), words.next().unwrap_or(0));
            if (packs, made) >= order {
                order = (packs, made);
                let cursor = cursor.unwrap_or_default();
                newest = Stored { made, cursor };
            }
        }
        Ok(newest)
    }

    /// The keys of each partition.
    fn keys(&self) -> impl Iterator<Item = Keys> {
        let count = self.partitions;
        (0..count).map(move |index| Keys::of_partition(&self.fleet, index, count))
    }

    /// A connection for any other command.
    pub fn redis(&self) -> Result<redis::Connection> {
        connect(&self.url)
    }

    /// Does the same with each partition, one after the other.
    fn with_each<T>(&self, read: impl AsyncFn(&Store, usize) -> Result<T>) -> Result<Vec<T>> {
        self.with_each_within(READ_TIMEOUT, read)
    }

    fn with_each_within<T>(
        &self,
        timeout: Duration,
        act: impl AsyncFn(&Store, usize) -> Result<T>,
    ) -> Result<Vec<T>> {
        self.with_partitions_within(timeout, async |partitions| {
            let mut all = Vec::new();
            for (index, store) in partitions.all().iter().enumerate() {
                all.push(act(store, index).await?);
            }
            Ok(all)
        })
    }

    fn with_partitions<T>(&self, read: impl AsyncFnOnce(&Partitions) -> Result<T>) -> Result<T> {
        self.with_partitions_within(READ_TIMEOUT, read)
    }

    fn with_partitions_within<T>(
        &self,
        timeout: Duration,
        act: impl AsyncFnOnce(&Partitions) -> Result<T>,
    ) -> Result<T> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let acted = async {
            let (name, wanted) = (new_name(), Some(self.partitions));
            let opened = Partitions::open(&self.target, &self.fleet, &name, wanted, |_| {});
            act(&opened.await?.0).await
        };
        runtime.block_on(async {
            let acted = tokio::time::timeout(timeout, acted).await;
            acted.context("Redis did not answer")?
        })
    }
}

fn connect(url: &str) -> Result<redis::Connection> {
    let client = redis::Client::open(url)?;
    let connection = client.get_connection_with_timeout(TIMEOUT)?;
    connection.set_read_timeout(Some(TIMEOUT))?;
    connection.set_write_timeout(Some(TIMEOUT))?;
    Ok(connection)
}
