//! Taking chosen failed messages: claim, hand out, then remove or give back.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use baton_protocol::{ErrorsClaim, ErrorsCommit, Extend, GiveBack, Slot, Store, Wanted};

use super::{BATCH, Failed, insist, taken_name};
use crate::Error;

/// How many claims one call extends at most.
const EXTENDED_AT_ONCE: usize = 200;

/// Holds chosen failed messages while a person decides: no other drain gets them, and no call
/// settles them, until they are removed or given back. What it holds when its process dies, or
/// when it is not extended in time, is free again.
pub struct Take {
    store: Store,
    ttl: Duration,
    batches: Vec<Batch>,
}

/// One claim of a [`Take`].
struct Batch {
    slot: Slot,
    ids: Vec<u64>,
}

/// The number of every claim of a [`Take`]: each has a slot of its own.
const TAKE_CLAIM: u64 = 1;

/// What became of a [`Take`] that was removed or given back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Taken {
    /// Records that are gone for good.
    pub removed: u64,
    /// Records that are in the store as before.
    pub put_back: u64,
    /// Records whose claim ran out before: they are in the store, or with another drain.
    pub lost: u64,
}

impl Take {
    /// Claims those of the records with these ids that are there and that no drain holds. The
    /// claims last for `ttl` without [`Take::extend`].
    pub(crate) async fn of(store: Store, ids: &[u64], ttl: Duration) -> Result<Self, Error> {
        static SLOTS: AtomicU64 = AtomicU64::new(1);
        let mut take = Self {
            store,
            ttl,
            batches: Vec::new(),
        };
        for ids in ids.chunks(BATCH.0 as usize) {
            let lane = format!("take{}", SLOTS.fetch_add(1, Ordering::Relaxed));
            let (store, slot) = (&take.store, Slot::new(take.store.node(), lane));
            let wanted = Wanted::Exactly(ids);
            let claim = || store.errors_claim(&slot, TAKE_CLAIM, wanted, ttl);
            match insist(store, ttl, claim).await {
                Ok(ErrorsClaim::Claimed(ids)) => take.batches.push(Batch { slot, ids }),
                Ok(ErrorsClaim::Empty | ErrorsClaim::Again) => {}
                Ok(ErrorsClaim::Stale) => {
                    take.give_back().await?;
                    return Err(taken_name());
                }
                Err(error) => {
                    // The deadline returns what cannot be given back now.
                    let _ = take.give_back().await;
                    return Err(error);
                }
            }
        }
        Ok(take)
    }

    /// How many messages it has claimed.
    pub fn count(&self) -> u64 {
        self.batches
            .iter()
            .map(|batch| batch.ids.len() as u64)
            .sum()
    }

    fn ids(&self) -> impl Iterator<Item = u64> {
        self.batches
            .iter()
            .flat_map(|batch| batch.ids.iter().copied())
    }

    /// Reads some of the records, about a megabyte, from the `from`th on. Returns them, and from
    /// where to go on; none at the end.
    pub async fn read(&self, from: usize) -> Result<(Vec<Failed>, Option<usize>), Error> {
        let ids: Vec<u64> = self.ids().skip(from).take(BATCH.0 as usize).collect();
        if ids.is_empty() {
            return Ok((Vec::new(), None));
        }
        let read = || self.store.errors_read(&ids);
        let (failures, done) = insist(&self.store, self.ttl, read).await?;
        let failed = failures.into_iter().map(Failed::of).collect();
        Ok((failed, Some(from + done)))
    }

    /// Keeps all of it for another `ttl`. Lost if any of its claims ran out.
    pub async fn extend(&self) -> Result<Extend, Error> {
        let mut kept = Extend::Held;
        for batches in self.batches.chunks(EXTENDED_AT_ONCE) {
            let claims = batches.iter().map(|batch| (batch.slot.clone(), TAKE_CLAIM));
            let claims: Vec<_> = claims.collect();
            let held = self.store.extend(&claims, self.ttl).await?;
            if held.len() < claims.len() || held.contains(&Extend::Lost) {
                kept = Extend::Lost;
            }
        }
        Ok(kept)
    }

    /// Removes all of it for good. After an error some may be removed: call it again.
    pub async fn remove(&self) -> Result<Taken, Error> {
        self.check().await?;
        let mut taken = Taken::default();
        for Batch { slot, ids } in &self.batches {
            let count = ids.len() as u64;
            let commit = || self.store.errors_commit(slot, TAKE_CLAIM, count);
            match insist(&self.store, self.ttl, commit).await? {
                ErrorsCommit::Done | ErrorsCommit::Already => taken.removed += count,
                ErrorsCommit::Lost => taken.lost += count,
            }
        }
        Ok(taken)
    }

    /// Gives back what it holds. A removal that broke off may have removed some before.
    pub async fn give_back(&self) -> Result<Taken, Error> {
        self.check().await?;
        let mut taken = Taken::default();
        for Batch { slot, ids } in &self.batches {
            let count = ids.len() as u64;
            let give_back = || self.store.give_back(slot, TAKE_CLAIM);
            if insist(&self.store, self.ttl, give_back).await? == GiveBack::Ok {
                taken.put_back += count;
                continue;
            }
            // Nothing is held any more, so this removes nothing: it tells what was.
            let commit = || self.store.errors_commit(slot, TAKE_CLAIM, count);
            match insist(&self.store, self.ttl, commit).await? {
                ErrorsCommit::Done | ErrorsCommit::Already => taken.removed += count,
                ErrorsCommit::Lost => taken.lost += count,
            }
        }
        Ok(taken)
    }

    /// Makes sure that Redis answers and that this user may remove and give back: Redis does not
    /// roll back a script that lacks a permission halfway.
    async fn check(&self) -> Result<(), Error> {
        self.store.preflight(true).await
    }
}
