//! One partition of the fleet, as a running node sees it.
//!
//! The node has one lease, one source and one set of lanes. Each partition has a fence, a queue and
//! claims of its own, perhaps on a server of its own, and so a [`Partition`] has what belongs to these. It
//! stands for its node, too: what the partitions share is in [`Context`].

use std::ops::{Deref, RangeInclusive};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use baton_protocol::{GiveBack, Handed, Slot, Store};
use tokio::sync::{Mutex, Notify, OwnedMutexGuard};
use tokio::time::Instant;

use crate::node::claim_keeper::HeldClaims;
use crate::node::context::{Context, Role};
use crate::node::pack_cache::PackCache;
use crate::node::warning::Warning;
use crate::node::witness::Witness;
use crate::{Durability, Error, Event};

/// How long a node waits before it repeats a call to a server that it has just found.
const TRY_AGAIN: Duration = Duration::from_millis(50);

/// How often the generator writes a spare key.
const SPARE_EVERY: Duration = Duration::from_secs(3);
/// How long a node waits before it tries again to write one: there is no hurry, and a full server has many such nodes.
const SPARE_AGAIN: Duration = Duration::from_secs(1);

/// One partition of the fleet.
pub(crate) struct Partition {
    pub(crate) ctx: Arc<Context>,
    pub(crate) store: Store,
    pub(crate) witness: Witness,
    pub(crate) packs: PackCache,
    pub(crate) held_claims: HeldClaims,
    /// Whose turn it is with the slot [`Slot::handed`], which the lanes of the node share. The server may hand
    /// over the next messages before a lane hears the answer to the commit of the last ones. If another lane
    /// ended these meanwhile, the server would not remember that commit.
    handed_turn: Arc<Mutex<()>>,
    /// Whether the generator of this node waits for the partition's server, and has parked its packs.
    pub(crate) is_stalled: AtomicBool,
    /// Whether the partition had no room for the last pack of this node's generator.
    pub(crate) is_full: AtomicBool,
    /// Whether a reclaim is under way here.
    pub(crate) is_reclaiming: AtomicBool,
    /// Notified when the node has said that the server forgot messages.
    forgotten: Notify,
}

impl Deref for Partition {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.ctx
    }
}

impl Partition {
    pub(crate) fn new(ctx: &Arc<Context>, store: Store) -> Self {
        Self {
            ctx: Arc::clone(ctx),
            store,
            witness: Witness::default(),
            packs: PackCache::default(),
            held_claims: HeldClaims::default(),
            handed_turn: Arc::default(),
            is_stalled: AtomicBool::new(false),
            is_full: AtomicBool::new(false),
            is_reclaiming: AtomicBool::new(false),
            forgotten: Notify::new(),
        }
    }

    /// Its place among the partitions.
    pub(crate) fn index(&self) -> usize {
        self.store.partition() as usize
    }

    /// Hands an event about messages of this partition to the observer of the node.
    pub(crate) fn emit(&self, event: Event) {
        self.witness.remember(&event);
        match self.store.partitions() {
            1 => self.ctx.emit(event),
            _ => self.ctx.emit(Event::InPartition {
                partition: self.store.partition(),
                event: Box::new(event),
            }),
        }
    }

    pub(crate) fn warn(&self, warning: Warning) {
        self.emit(Event::Warning(warning));
    }

    /// Why the partition does not take what this node's generator makes; none if it does.
    pub(crate) fn set_publish_trouble(&self, reason: Option<String>) {
        self.meter
            .set_publish_trouble(self.store.partition(), reason);
    }

    /// Says which messages Redis forgot, if its last number is lower than what this node knew before
    /// it asked.
    pub(crate) fn compare_last(&self, known: u64, last: u64) {
        self.say_forgotten(self.witness.compare(known, last));
    }

    /// The same, with the answer to a beat.
    pub(crate) fn compare_beat(&self, known: u64, last: u64) {
        let confirms = self.config.durability != Durability::None;
        self.say_forgotten(self.witness.compare_beat(known, last, confirms));
    }

    fn say_forgotten(&self, forgotten: Option<RangeInclusive<u64>>) {
        if let Some(forgotten) = forgotten {
            let (first, last) = forgotten.into_inner();
            self.emit(Event::Regressed { first, last });
            self.forgotten.notify_one();
        }
    }

    /// Messages may wait: wakes an idle lane, if this node is a generator that works.
    pub(crate) fn wake_lane(&self) {
        if self.role.borrow().generates_and_works() {
            // If no lane is idle, the next one that is finds these messages.
            self.rung.set_loud(self.index());
        }
    }

    /// Waits for the turn with the messages that were handed over last. None if a lane has had it for as long
    /// as a claim lasts: then these have expired.
    pub(crate) async fn handed_turn(&self) -> Option<OwnedMutexGuard<()>> {
        let turn = Arc::clone(&self.handed_turn).lock_owned();
        tokio::time::timeout(self.config.claim_ttl, turn).await.ok()
    }

    /// No lane has time for a ring: gives the messages that came along back, or rings for another node.
    pub(crate) async fn pass_on(&self, handed: Option<Handed>) {
        let Some(Handed { number, .. }) = handed else {
            // If that fails, the next reclaim rings.
            let _ = self.store.ring_on().await;
            return;
        };
        let Some(_turn) = self.handed_turn().await else {
            return;
        };
        let slot = Slot::handed(self.store.node());
        while let Err(error) = self.store.give_back(&slot, number).await {
            if !error.is_transient() || self.stopping() {
                // The claim expires.
                return;
            }
            self.pause_after(&error).await;
        }
    }

    /// Gives back messages that this node was never told of: the ring was lost with its connection. While a
    /// lane holds such messages, they are those.
    pub(crate) async fn give_back_unheard(&self) -> Result<(), Error> {
        let Ok(_turn) = self.handed_turn.try_lock() else {
            return Ok(());
        };
        if let Some(number) = self.store.handed_number().await? {
            let slot = Slot::handed(self.store.node());
            let (GiveBack::Ok | GiveBack::Lost) = self.store.give_back(&slot, number).await?;
        }
        Ok(())
    }

    /// Waits before the caller repeats a call that failed with a transient error: for the
    /// connection, and a moment more if the server answered, so that a full server is not flooded.
    pub(crate) async fn pause_after(&self, error: &Error) {
        self.ctx.pause_after(&self.store, error).await;
    }
}

/// Listens to the rings of a partition anew with each new connection, until the node stops: what was said
/// on the old one is lost, and the node may be in `idle` no more. So it gives back what it was never told
/// of, and its lanes look.
pub(crate) async fn listen(partition: &Partition) -> Result<(), Error> {
    let mut connections = 0;
    loop {
        connections = partition.store.wait_reconnected(connections).await;
        match partition.give_back_unheard().await {
            Ok(()) => partition.rung.set_loud(partition.index()),
            Err(error) if error.is_transient() => {
                tokio::time::sleep(TRY_AGAIN).await;
                connections = 0;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Tells a partition of several what this node knows, until the node stops: with new connections, because
/// the server may have forgotten messages. After a loss it does so with every beat until the numbers are
/// there again, or void: only then another loss is news. In a fleet of one partition, beats tell it.
pub(crate) async fn tell(partition: &Partition) -> Result<(), Error> {
    let (mut connections, mut again_at) = (0, None);
    loop {
        let again = again_at.unwrap_or_else(Instant::now);
        tokio::select! {
            now = partition.store.wait_reconnected(connections) => connections = now,
            () = partition.forgotten.notified() => {}
            () = tokio::time::sleep_until(again), if again_at.is_some() => {}
        }
        partition.witness.beats_at(partition.store.run_id());
        let known = partition.witness.known();
        match partition.store.tell_known(known).await {
            Ok(last) => {
                partition.compare_beat(known, last);
                let beat = partition.config.lease_ttl / 3;
                again_at = (last < known).then(|| Instant::now() + beat);
            }
            Err(error) if error.is_transient() => {
                tokio::time::sleep(TRY_AGAIN).await;
                connections = 0;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Keeps the number of partitions in a spare key, until the node stops. With each new connection it writes
/// it again, and the generator does so now and then, because the server may have forgotten it.
pub(crate) async fn keep_spare(ctx: &Context, spare: &Store) -> Result<(), Error> {
    // With its first beat the fleet has decided.
    ctx.role_is(|role| role != Role::Unknown).await;
    let (count, mut connections) = (ctx.control.partitions(), 0);
    loop {
        tokio::select! {
            now = spare.wait_reconnected(connections) => connections = now,
            () = tokio::time::sleep(SPARE_EVERY), if ctx.generates() => {}
            () = ctx.role_is(|role| role.epoch().is_some()), if !ctx.generates() => continue,
        }
        match spare.store_partitions(count).await {
            Ok(()) => {}
            Err(error) if error.is_transient() => {
                tokio::time::sleep(SPARE_AGAIN).await;
                connections = 0;
            }
            Err(error) => return Err(error),
        }
    }
}
