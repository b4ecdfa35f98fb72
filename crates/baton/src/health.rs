//! Whether a fleet is well. Health means consumption: a fleet whose nodes all live and whose
//! backlog does not move is ill.

use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

use crate::{Config, Snapshot};

/// How many times a claim may run out before a backlog that does not move is an illness.
const STALLED_CLAIMS: u32 = 3;

/// How long what may last before it is an illness.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Redis may be gone, and the lease without a living holder, for so long.
    pub lease_ttl: Duration,
    /// A backlog may stand still for three times as long.
    pub claim_ttl: Duration,
}

impl From<&Config> for Limits {
    fn from(config: &Config) -> Self {
        Self {
            lease_ttl: config.lease_ttl,
            claim_ttl: config.claim_ttl,
        }
    }
}

/// How a fleet is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Health {
    /// What is wrong, in plain words; nothing if all is well.
    pub troubles: Vec<String>,
}

impl Health {
    /// Whether all is well.
    pub fn is_well(&self) -> bool {
        self.troubles.is_empty()
    }
}

/// Since when which sign of life is missing.
#[derive(Debug)]
pub(crate) struct Signs {
    limits: Limits,
    /// When Redis answered last.
    answered: Instant,
    /// When somebody held the lease last.
    held: Instant,
    /// When a message ended last, or none waited.
    moved: Instant,
    /// How many had ended then.
    ended: u64,
    pending: u64,
}

impl Signs {
    pub(crate) fn new(limits: Limits) -> Self {
        let now = Instant::now();
        Self {
            limits,
            answered: now,
            held: now,
            moved: now,
            ended: 0,
            pending: 0,
        }
    }

    pub(crate) fn read(&mut self, snapshot: &Snapshot, now: Instant) {
        self.answered = now;
        if snapshot.generator.node.is_some() {
            self.held = now;
        }
        let ended = snapshot.done + snapshot.failed;
        if snapshot.pending == 0 || ended != self.ended {
            self.moved = now;
        }
        self.ended = ended;
        self.pending = snapshot.pending;
    }

    pub(crate) fn health(&self, now: Instant) -> Health {
        let Limits {
            lease_ttl,
            claim_ttl,
        } = self.limits;
        let beyond = |since: Instant, most: Duration, words: &str| {
            let lasted = now.saturating_duration_since(since);
            (lasted > most).then(|| format!("{words} for {:.1} s", lasted.as_secs_f64()))
        };
        if let Some(gone) = beyond(self.answered, lease_ttl, "Redis has not answered") {
            // What else is wrong, nobody knows.
            return Health {
                troubles: vec![gone],
            };
        }
        let unheld = "no generator has renewed the lease";
        let stalled = format!("{} messages wait and none has ended", self.pending);
        let troubles = [
            beyond(self.held, lease_ttl, unheld),
            beyond(self.moved, claim_ttl * STALLED_CLAIMS, &stalled),
        ];
        Health {
            troubles: troubles.into_iter().flatten().collect(),
        }
    }
}
