//! The client of a fleet.

use std::time::Duration;

use baton_protocol::audit::{self, Audit};
use baton_protocol::{Ledger, Part, Paused, Setting, Settle, Store, new_name};

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
    store: Store,
    /// Whether the fleet sees that this process lives. A claim of an absent process does not last.
    present: bool,
}

impl Inspector {
    /// Connects to read and to act. This process is present in the fleet, so the fleet frees the
    /// failed messages that it has claimed as soon as it dies.
    pub async fn connect(target: &Target, fleet: &FleetName) -> Result<Self, Error> {
        let store = Store::open(target, fleet, &new_name(), |_| {}).await?;
        Ok(Self::over(store))
    }

    /// Connects to read. This needs only the right to read in Redis, and cannot claim messages.
    pub async fn connect_read_only(target: &Target, fleet: &FleetName) -> Result<Self, Error> {
        let store = Store::view(target, fleet).await?;
        let present = false;
        Ok(Self { store, present })
    }

    /// A client on a connection that one of Baton's own programs has.
    #[doc(hidden)]
    pub fn over(store: Store) -> Self {
        let present = true;
        Self { store, present }
    }

    /// Asks for this durability: [`Inspector::confirm`] says whether what this client did from here on has
    /// it.
    pub async fn require(self, durability: Durability) -> Self {
        Self {
            store: self.store.with_durability(durability).await,
            ..self
        }
    }

    /// Waits until all that Redis acknowledged to this client is as durable as [`Inspector::require`] asks.
    /// An error if that cannot be said, because replicas are missing, or because a failover came in
    /// between.
    pub async fn confirm(&self) -> Result<(), Error> {
        self.store.confirm_all().await
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// Reads the fleet at this moment.
    pub async fn snapshot(&self) -> Result<Snapshot, Error> {
        Snapshot::read(&self.store).await
    }

    /// Pauses parts of the fleet: Redis accepts no message of a paused generator, and hands out none
    /// to paused workers. The pause lasts until [`Inspector::resume`], also for nodes that start
    /// later. What workers have claimed ends as ever. Returns what was paused before.
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
        self.store.preflight_to_act().await?;
        self.store.pause(parts).await
    }

    /// Lets parts of the fleet go on. Returns what was paused before.
    pub async fn resume(&self, parts: &[Part]) -> Result<Paused, Error> {
        self.store.preflight_to_act().await?;
        self.store.resume(parts).await
    }

    /// Redis's clock, in ms. Failed messages have their times on it.
    pub async fn now_ms(&self) -> Result<u64, Error> {
        self.store.now_ms().await
    }

    /// Counts the failed messages that no drain or take has claimed.
    pub async fn failed_count(&self) -> Result<u64, Error> {
        self.store.errors_len().await
    }

    /// Counts the failed messages that drains and takes have claimed.
    pub async fn claimed_count(&self) -> Result<u64, Error> {
        self.store.errors_held().await
    }

    /// Reads up to `max` failed messages that no drain or take has claimed, from the cursor on.
    /// [`FailedPage::next`] is the cursor of the next page.
    pub async fn failed_messages(
        &self,
        cursor: FailedCursor,
        max: u64,
    ) -> Result<FailedPage, Error> {
        FailedPage::read(&self.store, cursor, max).await
    }

    /// Reads one failed message; none if it is gone or has changed.
    pub async fn failed_message(&self, id: FailedId) -> Result<Option<Failed>, Error> {
        let (mut found, _) = FailedId::read(&self.store, &[id]).await?;
        Ok(found.pop().map(Failed::of))
    }

    /// Gives failed messages to the workers again, under their own sequence numbers.
    pub async fn retry(&self, ids: &[FailedId]) -> Settlement {
        Settlement::of(&self.store, Settle::Retry, ids).await
    }

    /// Removes failed messages for good.
    pub async fn drop(&self, ids: &[FailedId]) -> Settlement {
        Settlement::of(&self.store, Settle::Drop, ids).await
    }

    /// Claims those of these failed messages that no drain or take has claimed. The claim lasts
    /// for `ttl`, and again for `ttl` with each [`Take::extend`]. Needs [`Inspector::connect`].
    pub async fn take(&self, ids: &[FailedId], ttl: Duration) -> Result<Take, Error> {
        self.check_claim(ttl).await?;
        // Frees what dead processes had claimed.
        self.store.reclaim().await?;
        let ids = FailedId::unchanged(&self.store, ids).await?;
        Take::of(self.store.clone(), &ids, ttl).await
    }

    /// Starts to take all failed messages, batch by batch. Redis frees a batch that is neither
    /// committed nor extended for `ttl`. Needs [`Inspector::connect`].
    pub async fn drain(&self, ttl: Duration) -> Result<Drain, Error> {
        self.check_claim(ttl).await?;
        Drain::start(self.store.clone(), ttl).await
    }

    /// Makes sure that this client can claim, and for so long.
    async fn check_claim(&self, ttl: Duration) -> Result<(), Error> {
        if !self.present {
            return Err(Error::ReadOnlyClient);
        }
        check_ttl(Setting::ClaimTtl, "claim", ttl)?;
        self.store.preflight_to_drain().await
    }

    /// Frees the failed messages that dead drains and takes had claimed.
    pub async fn reclaim(&self) -> Result<(), Error> {
        self.store.reclaim().await.map(drop)
    }

    /// Compares ledger, counters and errors store of a fleet at rest. Its nodes must have kept a
    /// ledger ([`NodeBuilder::audit`](crate::NodeBuilder::audit)).
    pub async fn audit(&self) -> Result<Audit, Error> {
        let ledger = Ledger::read(&self.store).await?;
        if ledger.entries.is_empty() && self.store.census().await?.published > 0 {
            return Err(Error::NoLedger);
        }
        audit::audit(&self.store, &ledger).await
    }
}
