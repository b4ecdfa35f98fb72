//! What the parts of a running node share.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use baton_protocol::{Part, Store};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::node::batch_size::NodeHandling;
use crate::node::clock::Clock;
use crate::node::config::{Config, Roles};
use crate::node::meter::Meter;
use crate::node::pause_notes::PauseNotes;
use crate::node::rung::RungPartitions;
use crate::node::warning::Warning;
use crate::node::worker::refused_messages::RefusedMessages;
use crate::{Error, Event};

/// Pause before a call is repeated that the server did not execute.
const REFUSED_PAUSE: Duration = Duration::from_millis(50);

/// What a node is at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// The node does not know: no beat was answered yet, or none for too long.
    Unknown,
    /// Another node holds the lease.
    Worker,
    /// This node holds the lease.
    Generator {
        /// The lease's fencing number.
        epoch: u64,
        /// Until when the node trusts its lease, on its own clock.
        until: Instant,
        /// Whether it handles messages, too.
        works: bool,
    },
}

impl Role {
    /// The epoch under which the node generates; none if it does not.
    pub(crate) fn epoch(self) -> Option<u64> {
        match self {
            Self::Generator { epoch, .. } => Some(epoch),
            _ => None,
        }
    }

    /// Whether the lanes of the node claim messages.
    pub(crate) fn works(self) -> bool {
        match self {
            Self::Unknown => false,
            Self::Worker => true,
            Self::Generator { works, .. } => works,
        }
    }

    /// The role of a node that has not heard of its lease because the lease's server is away, while the
    /// servers of other partitions may be there. The fence decides what a generator may do, so it goes
    /// on until then.
    pub(crate) fn prolonged_until(self, until: Instant) -> Self {
        match self {
            Self::Generator { epoch, works, .. } => Self::Generator {
                epoch,
                until,
                works,
            },
            role => role,
        }
    }

    /// Whether the node generates and its lanes claim messages.
    pub(crate) fn generates_and_works(self) -> bool {
        matches!(self, Self::Generator { works: true, .. })
    }

    /// The role that is left at `now`: a generator whose trust has ended does not know.
    pub(crate) fn trusted_at(self, now: Instant) -> Self {
        match self {
            Self::Generator { until, .. } if until <= now => Self::Unknown,
            role => role,
        }
    }
}

/// What the parts of a running node share.
pub(crate) struct Context {
    /// The store of the lease and of the nodes.
    pub(crate) control: Store,
    pub(crate) config: Config,
    pub(crate) clock: Arc<Clock>,
    pub(crate) role: watch::Sender<Role>,
    /// Since when the node stops; none while it runs.
    pub(crate) stop: watch::Sender<Option<Instant>>,
    /// Wakes the election before its next beat is due.
    pub(crate) beat_now: Notify,
    /// The highest epoch that a reign of this node saw at the fence; its next lease must exceed it.
    pub(crate) above: AtomicU64,
    /// Why the source cannot go on on this node, if that is so.
    pub(crate) source_trouble: OnceLock<String>,
    /// Why the source failed last, until it makes messages again.
    pub(crate) source_failure: Mutex<Option<String>>,
    /// Why nothing is as durable as the settings ask, if that lasts.
    pub(crate) durability_trouble: Mutex<Option<String>>,
    pub(crate) meter: Arc<Meter>,
    /// Which partitions the lanes have to look at.
    pub(crate) rung: Arc<RungPartitions>,
    pub(crate) refused: RefusedMessages,
    pub(crate) pauses: PauseNotes,
    pub(crate) handling: Arc<NodeHandling>,
    pub(crate) observe: Arc<dyn Fn(&Event) + Send + Sync>,
}

impl Context {
    /// Hands an event to the observer of this node.
    pub(crate) fn emit(&self, event: Event) {
        (self.observe)(&event);
    }

    /// How many messages of one partition may wait or be in workers' hands.
    pub(crate) fn max_pending_each(&self) -> u64 {
        self.share(self.config.max_pending)
    }

    /// How many failed messages the errors store of one partition may keep.
    pub(crate) fn max_errors_each(&self) -> u64 {
        self.share(self.config.max_errors)
    }

    /// The share of one partition in what the fleet may have.
    fn share(&self, max: u64) -> u64 {
        max.div_ceil(u64::from(self.control.partitions()))
    }

    /// Notes why the source failed, or that it works.
    pub(crate) fn set_source_failure(&self, reason: Option<String>) {
        if let Ok(mut failure) = self.source_failure.lock() {
            *failure = reason;
        }
    }

    /// Why the source cannot go on now, or never again.
    pub(crate) fn source_trouble(&self) -> Option<String> {
        let gave_up = self.source_trouble.get().cloned();
        gave_up.or_else(|| self.source_failure.lock().ok()?.clone())
    }

    /// Why nothing that Redis acknowledges is as durable as the settings ask, if that lasts.
    pub(crate) fn durability_trouble(&self) -> Option<String> {
        self.durability_trouble.lock().ok()?.clone()
    }

    pub(crate) fn set_durability_trouble(&self, reason: Option<String>) {
        if let Ok(mut trouble) = self.durability_trouble.lock() {
            *trouble = reason;
        }
    }

    /// Whether this node may hold the lease.
    pub(crate) fn may_generate(&self) -> bool {
        self.config.roles != Roles::OnlyWorks && self.source_trouble.get().is_none()
    }

    pub(crate) fn warn(&self, warning: Warning) {
        self.emit(Event::Warning(warning));
    }

    /// Notes whether an operator has paused a part of the fleet, as the answer to a call says.
    pub(crate) fn note_pause(&self, part: Part, is_paused: bool) {
        if self.pauses.note(part, is_paused) {
            self.emit(match is_paused {
                true => Event::Paused { part },
                false => Event::Resumed { part },
            });
        }
    }

    /// Tells the parts of the node which role it has. The claims of a generator do not put it into `idle`,
    /// so the lanes of a node that becomes a worker have to look.
    pub(crate) fn set_role(&self, role: Role) {
        let mut before = role;
        self.role.send_if_modified(|now| {
            before = std::mem::replace(now, role);
            before != role
        });
        if role == Role::Worker && before != role {
            self.rung.set_all_loud();
        }
    }

    /// Takes Redis's time from the answer to a beat that was sent at `sent`.
    pub(crate) fn set_clock(&self, now_ms: u64, sent: Instant, generates: bool) {
        let step_ms = self.clock.set(now_ms, sent, Instant::now());
        // Every node of the fleet sees a step; the generator logs it.
        if let Some(step_ms) = step_ms.filter(|_| generates) {
            self.warn(Warning::ClockSet { by_ms: step_ms });
        }
    }

    /// Whether the node stops.
    pub(crate) fn stopping(&self) -> bool {
        self.stop.borrow().is_some()
    }

    /// Whether this node generates under this epoch.
    pub(crate) fn generates_under(&self, epoch: u64) -> bool {
        self.role.borrow().epoch() == Some(epoch)
    }

    /// Whether this node generates.
    pub(crate) fn generates(&self) -> bool {
        self.role.borrow().epoch().is_some()
    }

    /// Whether lanes end their batches early: the node stops, or is to work no more.
    pub(crate) fn interrupted(&self) -> bool {
        self.stopping() || !self.role.borrow().works()
    }

    /// Resolves when the node stops.
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

    /// Resolves when the node has a role that fits.
    pub(crate) async fn role_is(&self, fits: impl Fn(Role) -> bool) {
        let _ = self.role.subscribe().wait_for(|role| fits(*role)).await;
    }

    /// Waits before the caller repeats a call that failed with a transient error: for the
    /// connection, and a moment more if the server answered, so that a full server is not flooded.
    pub(crate) async fn pause_after(&self, store: &Store, error: &Error) {
        if matches!(error, Error::Unavailable(_)) {
            tokio::time::sleep(REFUSED_PAUSE).await;
        }
        store.wait_up().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generator_whose_trust_has_ended_does_not_know_its_role() {
        let (now, ms) = (Instant::now(), Duration::from_millis(1));
        let generator = Role::Generator {
            epoch: 1,
            until: now,
            works: false,
        };
        assert_eq!(generator.trusted_at(now - ms), generator);
        assert_eq!(generator.trusted_at(now), Role::Unknown);
        for role in [Role::Worker, Role::Unknown] {
            assert_eq!(role.trusted_at(now), role);
        }
    }
}
