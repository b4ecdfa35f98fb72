//! What the parts of a running node share.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::node::clock::Clock;
use crate::node::config::Config;
use crate::node::meter::Meter;
use crate::node::pack_cache::PackCache;
use crate::node::witness::Witness;
use crate::{Error, Event};
use baton_protocol::{Slot, Store};

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
    pub(crate) witness: Witness,
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
        self.witness.saw(&event);
        (self.observe)(&event);
    }

    pub(crate) fn warn(&self, text: String) {
        self.emit(Event::Warning { text });
    }

    /// Takes Redis's time from a beat of which this node now knows who holds the lease.
    pub(crate) fn heard(&self, now_ms: u64, sent: Instant, holder: &str) {
        let step_ms = self.clock.set(now_ms, sent, Instant::now());
        // The whole fleet sees it; the generator says it.
        if let Some(step_ms) = step_ms.filter(|_| holder == self.store.node()) {
            let by = words(step_ms.unsigned_abs());
            let way = if step_ms > 0 { "forward" } else { "back" };
            self.warn(format!(
                "Redis's clock was set {way} by {by}; the schedule goes on as if it were not"
            ));
        }
    }

    /// Says so if Redis has less than it confirmed to this node. A seal of this node's own is
    /// evidence, too: the fence only rises, and never passes to another node of the same epoch.
    pub(crate) async fn look_for_loss(&self, sealed: Option<u64>) -> Result<(), Error> {
        let fence = loop {
            match self.store.fence().await {
                Ok(fence) => break fence,
                Err(error) if error.is_transient() && sealed.is_some() => {
                    self.pause_after(&error).await;
                }
                // A worker looks again at the next change of the lease, and with its census.
                Err(error) if error.is_transient() => return Ok(()),
                Err(error) => return Err(error),
            }
        };
        let fell = sealed.is_some_and(|epoch| {
            fence.epoch < epoch || (fence.epoch == epoch && fence.node != self.store.node())
        });
        self.compare(fence.last, fell);
        Ok(())
    }

    /// Says so if Redis's last number is lower than one that it confirmed to this node, or if it
    /// is known that it lost its data.
    pub(crate) fn compare(&self, last: u64, lost: bool) {
        if let Some(highest) = self.witness.notice(last, lost) {
            self.warn(format!(
                "Redis lost its data: it had confirmed messages up to #{highest} to this node and \
                 stands at #{last} now; those that had not ended are gone (see `baton status` for \
                 what its durability settings allow)"
            ));
        }
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

/// A time in words, such as `10m` or `23h 59m 58s`; below a second in milliseconds.
pub(crate) fn words(ms: u64) -> String {
    let exact = Duration::from_millis(ms);
    let whole = Duration::from_secs(exact.as_secs());
    humantime::format_duration(if ms < 1000 { exact } else { whole }).to_string()
}
