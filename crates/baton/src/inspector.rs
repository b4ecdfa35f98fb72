//! The client of a fleet.

use std::time::Duration;

use baton_protocol::audit::{self, Audit};
use baton_protocol::{Ledger, Part, Partitions, Paused, Setting, Settle, Store, new_name};
use futures_util::future::try_join_all;

use crate::failed::{Drain, Failed, FailedCursor, FailedId, FailedPage, Settlement, Take};
use crate::node::config::check_ttl;
use crate::observe::snapshot::Snapshot;
use crate::{Durability, Error, FleetName, Target};

/// A client of a fleet: it reads the fleet's state, pauses it, and settles its failed messages. It is
/// not a node.
///
/// ```no_run
/// use baton::inspect::FailedCursor;
/// # use baton::{FleetName, Inspector, Target};
/// # async fn inspect() -> Result<(), baton::Error> {
/// let target = Target::parse("redis://localhost")?;
/// let inspector = Inspector::connect(&target, &FleetName::new("orders")?).await?;
/// let snapshot = inspector.snapshot().await?;
/// assert!(snapshot.balanced);
///
/// let page = inspector.failed_messages(FailedCursor::NEWEST, 100).await?;
/// let ids: Vec<_> = page.messages.iter().map(|failed| failed.id).collect();
/// let settlement = inspector.retry(&ids).await;
/// println!("{} wait for a worker again", settlement.retried);
/// if let Some(error) = settlement.error {
///     return Err(error);
/// }
/// # Ok(())
/// # }
/// ```
///
/// A [`Watch`](crate::inspect::Watch) reads a fleet again and again.
#[derive(Debug, Clone)]
pub struct Inspector {
    partitions: Partitions,
    /// Whether the fleet sees that this process lives. A claim of an absent process does not last.
    present: bool,
}

impl Inspector {
    /// Connects to read and to act. This process is present in the fleet, so the fleet frees the
    /// failed messages that it has claimed as soon as it dies.
    pub async fn connect(target: &Target, fleet: &FleetName) -> Result<Self, Error> {
        let (partitions, _) = Partitions::open(target, fleet, &new_name(), None, |_| {}).await?;
        Ok(Self::over_all(partitions))
    }

    /// Connects to read. This needs only the right to read in Redis, and cannot claim messages.
    pub async fn connect_read_only(target: &Target, fleet: &FleetName) -> Result<Self, Error> {
        Ok(Self {
            partitions: Partitions::view(target, fleet).await?,
            present: false,
        })
    }

    /// A client on a connection that one of Baton's own programs has to a fleet of one partition, or to one
    /// partition of a fleet.
    #[doc(hidden)]
    pub fn over(store: Store) -> Self {
        Self::over_all(Partitions::only(store))
    }

    /// A client on the connections that one of Baton's own programs has.
    #[doc(hidden)]
    pub fn over_all(partitions: Partitions) -> Self {
        Self {
            partitions,
            present: true,
        }
    }

    /// The same client for each partition alone, in order. Each of them reads and settles failed messages.
    #[doc(hidden)]
    pub fn each_partition(&self) -> Vec<Self> {
        let stores = self.partitions.all().iter();
        let only = stores.map(|store| Self {
            partitions: Partitions::only(store.clone()),
            present: self.present,
        });
        only.collect()
    }

    /// Asks for this durability: [`Inspector::confirm`] says whether what this client did from here on has
    /// it.
    pub async fn require(self, durability: Durability) -> Self {
        Self {
            partitions: self.partitions.with_durability(durability).await,
            ..self
        }
    }

    /// Waits until all that Redis acknowledged to this client is as durable as [`Inspector::require`] asks.
    /// An error if that cannot be said, because replicas are missing, or because a failover came in
    /// between.
    pub async fn confirm(&self) -> Result<(), Error> {
        self.each(Store::confirm_all).await.map(drop)
    }

    /// The same client for the partitions that answer now, and for each of the others its index and why it does
    /// not answer: their servers are away. A client that is not narrowed so makes no change, and reads no
    /// failed message, unless all partitions answer. If none answers, this is the client of all.
    pub async fn within_reach(&self) -> (Self, Vec<(u32, Error)>) {
        let (partitions, away) = self.partitions.within_reach().await;
        let reached = Self {
            partitions,
            present: self.present,
        };
        (reached, away)
    }

    pub(crate) fn partitions(&self) -> &Partitions {
        &self.partitions
    }

    /// Reads the fleet at this moment.
    pub async fn snapshot(&self) -> Result<Snapshot, Error> {
        Snapshot::read(&self.partitions).await
    }

    /// Pauses parts of the fleet: Redis accepts no message of a paused generator, and hands out none
    /// to paused workers. The pause lasts until [`Inspector::resume`], also for nodes that start
    /// later. What workers have claimed ends as ever. Returns what was paused before, in all partitions:
    /// after an error some may be paused, so call it again.
    ///
    /// ```no_run
    /// # use baton::{Inspector, Part};
    /// # async fn stop_generating(inspector: &Inspector) -> Result<(), baton::Error> {
    /// inspector.pause(&[Part::Generator]).await?;
    /// let snapshot = inspector.snapshot().await?;
    /// assert!(snapshot.paused.generator_since_ms.is_some());
    /// inspector.resume(&Part::ALL).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn pause(&self, parts: &[Part]) -> Result<Paused, Error> {
        self.partitions.check_decided().await?;
        self.preflight_to_act().await?;
        let before = self.each(|store| store.pause(parts)).await?;
        Ok(before
            .into_iter()
            .reduce(Paused::in_all)
            .unwrap_or_default())
    }

    /// Lets parts of the fleet go on. Returns what was paused before, in any partition. After an error some
    /// may go on: call it again.
    pub async fn resume(&self, parts: &[Part]) -> Result<Paused, Error> {
        self.preflight_to_act().await?;
        let before = self.each(|store| store.resume(parts)).await?;
        Ok(before
            .into_iter()
            .reduce(Paused::in_any)
            .unwrap_or_default())
    }

    /// Makes sure that this client may change the fleet, see [`Store::preflight_to_act`].
    #[doc(hidden)]
    pub async fn preflight_to_act(&self) -> Result<(), Error> {
        self.each(Store::preflight_to_act).await.map(drop)
    }

    /// The keys of all partitions that an effect on this name changes, in order. The name is one that
    /// [`Effects::local`](crate::Effects::local) gave, or another with `{}` in it.
    pub fn local_keys(&self, name: &str) -> Vec<String> {
        let partitions = self.partitions.all().iter();
        partitions.map(|store| store.keys().local(name)).collect()
    }

    /// Redis's clock, in ms. Failed messages have their times on it.
    pub async fn now_ms(&self) -> Result<u64, Error> {
        self.partitions.control().now_ms().await
    }

    /// Counts the failed messages that no drain or take has claimed.
    pub async fn failed_count(&self) -> Result<u64, Error> {
        Ok(self.each(Store::errors_len).await?.iter().sum())
    }

    /// Counts the failed messages that drains and takes have claimed.
    pub async fn claimed_count(&self) -> Result<u64, Error> {
        Ok(self.each(Store::errors_held).await?.iter().sum())
    }

    /// Counts the failed messages that drains and takes of living processes have claimed. The others are
    /// among [`Inspector::failed_messages`].
    pub async fn held_count(&self) -> Result<u64, Error> {
        Ok(self.each(Store::errors_held_by_living).await?.iter().sum())
    }

    /// Makes a call to each partition, to all at the same time.
    async fn each<'a, T, F: Future<Output = Result<T, Error>>>(
        &'a self,
        call: impl Fn(&'a Store) -> F,
    ) -> Result<Vec<T>, Error> {
        try_join_all(self.partitions.all().iter().map(call)).await
    }

    /// Reads up to `max` failed messages that no living drain or take has claimed, from the cursor on.
    /// [`FailedPage::next`] is the cursor of the next page.
    pub async fn failed_messages(
        &self,
        cursor: FailedCursor,
        max: u64,
    ) -> Result<FailedPage, Error> {
        FailedPage::read_across(&self.partitions, cursor, max).await
    }

    /// Reads one failed message; none if it is gone or has changed.
    pub async fn failed_message(&self, id: FailedId) -> Result<Option<Failed>, Error> {
        for store in self.partitions.all() {
            let (found, _) = FailedId::read(store, &FailedId::only_of(store, &[id])).await?;
            if let Some(found) = found.first() {
                return Ok(Some(Failed::of(store, found)));
            }
        }
        Ok(None)
    }

    /// Gives failed messages to the workers again, under their own sequence numbers.
    pub async fn retry(&self, ids: &[FailedId]) -> Settlement {
        Settlement::of_all(&self.partitions, Settle::Retry, ids).await
    }

    /// Removes failed messages for good.
    pub async fn drop(&self, ids: &[FailedId]) -> Settlement {
        Settlement::of_all(&self.partitions, Settle::Drop, ids).await
    }

    /// Claims those of these failed messages that no drain or take has claimed. The claim lasts
    /// for `ttl`, and again for `ttl` with each [`Take::extend`]. Needs [`Inspector::connect`].
    pub async fn take(&self, ids: &[FailedId], ttl: Duration) -> Result<Take, Error> {
        self.check_claim(ttl).await?;
        Take::of(&self.partitions, ids, ttl).await
    }

    /// Starts to take all failed messages, batch by batch. Redis frees a batch that is neither
    /// committed nor extended for `ttl`. Needs [`Inspector::connect`].
    pub async fn drain(&self, ttl: Duration) -> Result<Drain, Error> {
        self.check_claim(ttl).await?;
        Drain::start(&self.partitions, ttl).await
    }

    /// Makes sure that this client can claim, and for so long.
    async fn check_claim(&self, ttl: Duration) -> Result<(), Error> {
        if !self.present {
            return Err(Error::ReadOnlyClient);
        }
        check_ttl(Setting::ClaimTtl, "claim", ttl)?;
        self.each(Store::preflight_to_drain).await.map(drop)
    }

    /// Frees the failed messages that dead drains and takes had claimed.
    pub async fn reclaim(&self) -> Result<(), Error> {
        self.each(Store::reclaim).await.map(drop)
    }

    /// Compares ledger, counters and errors store of a fleet at rest. Its nodes must have kept a
    /// ledger ([`NodeBuilder::audit`](crate::NodeBuilder::audit)).
    pub async fn audit(&self) -> Result<Audit, Error> {
        let ledgers = Ledger::read_all(&self.partitions).await?;
        if ledgers.iter().all(|ledger| ledger.entries.is_empty()) {
            for store in self.partitions.all() {
                if store.census().await?.published > 0 {
                    return Err(Error::NoLedger);
                }
            }
        }
        audit::audit_all(&self.partitions, &ledgers).await
    }
}
