//! What the parts of a running node share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::pack_cache::PackCache;
use crate::protocol::{Slot, Store};
use crate::{Config, Error, Event, Meter};

/// Pause before a call is repeated that the server could not take.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// What a node is at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// It does not know: it has not beaten yet, or Redis was away for too long.
    Unknown,
    Worker,
    /// It holds the lease and may believe so until then, on its own clock.
    Generator {
        epoch: u64,
        until: Instant,
    },
}

impl Role {
    pub(crate) fn epoch(self) -> Option<u64> {
        match self {
            Self::Generator { epoch, .. } => Some(epoch),
            _ => None,
        }
    }
}

pub(crate) struct Context {
    pub(crate) store: Store,
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    pub(crate) role: watch::Sender<Role>,
    /// Since when the node is to stop.
    pub(crate) stop: watch::Sender<Option<Instant>>,
    /// Wakes the election before its next beat is due.
    pub(crate) beat_now: Notify,
    /// An epoch that was seen at the fence; the lease must exceed it.
    pub(crate) above: AtomicU64,
    pub(crate) meter: Arc<Meter>,
    pub(crate) packs: PackCache,
    /// Slots with a claim, its number and when it was made or extended.
    pub(crate) in_hand: Mutex<HashMap<String, (Slot, u64, Instant)>>,
    pub(crate) observe: Arc<dyn Fn(&Event) + Send + Sync>,
}

impl Context {
    pub(crate) fn emit(&self, event: Event) {
        (self.observe)(&event);
    }

    pub(crate) fn stopping(&self) -> bool {
        self.stop.borrow().is_some()
    }

    /// Resolves when the node is to stop.
    pub(crate) async fn stopped(&self) {
        // An error would mean that the sender is gone, which `self` keeps alive.
        let _ = self.stop.subscribe().wait_for(Option::is_some).await;
    }

    /// Resolves when the node has been stopping for so long.
    pub(crate) async fn stopped_for(&self, grace: Duration) {
        self.stopped().await;
        let since = self.stop.borrow().unwrap_or_else(Instant::now);
        tokio::time::sleep_until(since + grace).await;
    }

    /// Resolves when the role is one that fits.
    pub(crate) async fn role_is(&self, fits: impl Fn(Role) -> bool) {
        let _ = self.role.subscribe().wait_for(|role| fits(*role)).await;
    }

    /// Waits before a call is repeated whose error is passing: for the connection, and a
    /// moment more, so that a server that is back but full is not flooded.
    pub(crate) async fn pause_after(&self, error: &Error) {
        if matches!(error, Error::Unavailable(_)) {
            tokio::time::sleep(RETRY_PAUSE).await;
        }
        self.store.wait_up().await;
    }

    pub(crate) fn in_hand(
        &self,
    ) -> std::sync::MutexGuard<'_, HashMap<String, (Slot, u64, Instant)>> {
        self.in_hand
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Redis's clock as this node knows it from its beats. It decides when something happens,
/// never whether it is safe.
pub(crate) struct Clock {
    base: Instant,
    /// Redis's clock at `base`, in ms.
    offset_ms: AtomicI64,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self {
            base: Instant::now(),
            offset_ms: AtomicI64::new(0),
        }
    }

    /// Takes a reading: Redis said `now_ms` somewhere between the two local moments.
    pub(crate) fn set(&self, now_ms: u64, sent: Instant, answered: Instant) {
        let middle = sent + (answered - sent) / 2;
        let local_ms = (middle - self.base).as_millis() as i64;
        self.offset_ms
            .store(now_ms as i64 - local_ms, Ordering::Relaxed);
    }

    pub(crate) fn now_ms(&self) -> u64 {
        let local_ms = self.base.elapsed().as_millis() as i64;
        (local_ms + self.offset_ms.load(Ordering::Relaxed)).max(0) as u64
    }
}
