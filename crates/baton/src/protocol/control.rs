//! Who is here and who generates: beat, leave, forget, roster.

use std::time::Duration;

use super::{PROTOCOL, Store, read};
use crate::Error;
use crate::scripts;

/// How often the first standbys beat: the time in which a killed generator is noticed.
const FIRST_STANDBY_BEAT: Duration = Duration::from_millis(50);

/// The answer to a beat.
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Beat {
    /// This node holds the lease.
    Generator {
        /// The fencing number of the lease.
        epoch: u64,
        /// When to beat again.
        next: Duration,
        /// Redis's clock in ms.
        now_ms: u64,
    },
    /// Another node does.
    Worker {
        /// The holder.
        generator: String,
        /// The fencing number of its lease.
        epoch: u64,
        /// When to beat again.
        next: Duration,
        /// Redis's clock in ms.
        now_ms: u64,
        /// 1 or 2 for the first standbys, who beat often; 0 for all others.
        place: u64,
    },
}

/// Who holds the lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The holder, if the lease has one.
    pub node: Option<String>,
    /// The fencing number.
    pub epoch: u64,
    /// Since when the holder has it, in ms.
    pub since_ms: u64,
    /// Until when, in ms.
    pub until_ms: u64,
}

/// A node as others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub node: String,
    /// What it says about itself, a JSON object.
    pub about: String,
    /// When it joined the line of standbys, in ms; 0 if it is in none.
    pub joined_ms: u64,
    /// Its last beat, in ms.
    pub seen_ms: u64,
    /// Whether its process is connected at this moment.
    pub present: bool,
}

/// Everybody, read in one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roster {
    /// Redis's clock in ms.
    pub now_ms: u64,
    /// The lease.
    pub lease: Lease,
    /// The nodes.
    pub nodes: Vec<Listed>,
}

impl Store {
    /// Says "I am here"; renews or takes the lease. `about` is a JSON object for people,
    /// `above` an epoch that the lease must exceed (0: any).
    pub async fn beat(&self, lease_ttl: Duration, about: &str, above: u64) -> Result<Beat, Error> {
        let keys = &self.keys;
        let answer = self
            .eval(
                &scripts::BEAT,
                &[
                    &keys.generator,
                    &keys.nodes,
                    &keys.joined,
                    &keys.seen,
                    &keys.meta,
                    &keys.takeovers,
                ],
                &[
                    self.node.as_bytes(),
                    self.link.run().as_bytes(),
                    lease_ttl.as_millis().to_string().as_bytes(),
                    PROTOCOL.as_bytes(),
                    keys.presence.as_bytes(),
                    keys.calls.as_bytes(),
                    about.as_bytes(),
                    above.to_string().as_bytes(),
                    FIRST_STANDBY_BEAT.as_millis().to_string().as_bytes(),
                ],
            )
            .await?;
        read::beat(&self.fleet, &answer)
    }

    /// Leaves in good order; a holder of the lease resigns. Returns whether it did.
    pub async fn leave(&self) -> Result<bool, Error> {
        let keys = &self.keys;
        let answer = self
            .eval(
                &scripts::LEAVE,
                &[&keys.generator, &keys.nodes, &keys.joined, &keys.seen],
                &[self.node.as_bytes(), keys.calls.as_bytes()],
            )
            .await?;
        read::leave(&answer)
    }

    /// Drops every node whose process is not connected. Returns their names.
    pub async fn forget(&self) -> Result<Vec<String>, Error> {
        let keys = &self.keys;
        let answer = self
            .eval(
                &scripts::FORGET,
                &[&keys.nodes, &keys.joined, &keys.seen],
                &[keys.presence.as_bytes()],
            )
            .await?;
        read::forget(&answer)
    }

    /// Who is here and who generates.
    pub async fn roster(&self) -> Result<Roster, Error> {
        let answer = self
            .eval(
                &scripts::ROSTER,
                &self.roster_keys(),
                &[self.keys.presence.as_bytes()],
            )
            .await?;
        read::roster(&answer)
    }

    pub(super) fn roster_keys(&self) -> [&String; 4] {
        let keys = &self.keys;
        [&keys.generator, &keys.nodes, &keys.joined, &keys.seen]
    }
}
