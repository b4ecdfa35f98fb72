//! The claim keeper: extends claims while their handlers run, so that they do not run out.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use baton_protocol::{Slot, crash};
use tokio::time::Instant;

use crate::Error;
use crate::node::partition::Partition;

/// Max claims that one call extends: the server does nothing else meanwhile.
const BATCH: usize = 500;

/// The claims that the lanes of a node hold.
#[derive(Default)]
pub(crate) struct HeldClaims {
    /// The number of each slot's claim, and when its lane asked for it.
    by_slot: Mutex<HashMap<Slot, (u64, Instant)>>,
}

impl HeldClaims {
    /// A lane holds a claim from now on.
    pub(crate) fn insert(&self, slot: &Slot, number: u64, asked_at: Instant) {
        self.by_slot().insert(slot.clone(), (number, asked_at));
    }

    /// A lane no longer holds its claim.
    pub(crate) fn remove(&self, slot: &Slot) {
        self.by_slot().remove(slot);
    }

    /// The claims that are at least so old.
    fn older_than(&self, age: Duration) -> Vec<(Slot, u64)> {
        let now = Instant::now();
        self.by_slot()
            .iter()
            .filter(|(_, (_, asked_at))| now - *asked_at >= age)
            .map(|(slot, (number, _))| (slot.clone(), *number))
            .collect()
    }

    fn by_slot(&self) -> MutexGuard<'_, HashMap<Slot, (u64, Instant)>> {
        self.by_slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Extends the claims of slow handlers, until the node stops.
pub(crate) async fn run(partition: &Partition) -> Result<(), Error> {
    let ttl = partition.config.claim_ttl;
    loop {
        tokio::time::sleep(ttl / 6).await;
        partition.packs.drop_unused();
        for batch in partition.held_claims.older_than(ttl / 3).chunks(BATCH) {
            crash::point("before-extend");
            // A lane learns from its commit that its claim is lost.
            match partition.store.extend(batch, ttl).await {
                Ok(_) => crash::point("after-extend"),
                Err(error) if error.is_transient() => partition.pause_after(&error).await,
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_claims_that_are_held_and_old_are_extended() {
        let (held, now, age) = (
            HeldClaims::default(),
            Instant::now(),
            Duration::from_secs(60),
        );
        let slots = [0, 1, 2].map(|lane| Slot::new("n", lane));
        held.insert(&slots[0], 7, now - age);
        held.insert(&slots[1], 8, now);
        held.insert(&slots[2], 9, now - age);
        held.remove(&slots[2]);
        assert_eq!(held.older_than(age), [(slots[0].clone(), 7)]);
    }
}
