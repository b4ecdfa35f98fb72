//! Taking chosen failed messages: claim, read, then remove or give back.

use std::time::Duration;

use baton_protocol::{
    ErrorsClaim, ErrorsCommit, Extend, GiveBack, Partitions, Slot, Store, Wanted,
};

use super::{Failed, FailedId, MAX_CLAIM_RECORDS, name_in_use, new_slot, retry_while_claimed};
use crate::Error;

/// One call extends at most this many claims.
const MAX_EXTENDED: usize = 200;

/// A claim on chosen failed messages, for a program that asks a person before it removes them.
///
/// No drain or other take gets the messages meanwhile, and they can be neither retried nor dropped.
/// Redis frees them when the take gives them back, when its process dies, or when the claim runs
/// out. A take that is dropped stays claimed until then.
///
/// ```no_run
/// # use std::time::Duration;
/// # use baton::inspect::FailedId;
/// # async fn take(inspector: &baton::Inspector, ids: &[FailedId]) -> Result<(), baton::Error> {
/// let take = inspector.take(ids, Duration::from_secs(30)).await?;
/// let mut from = Some(0);
/// while let Some(next) = from {
///     let (batch, after) = take.read(next).await?;
///     for failed in batch {
///         println!("{}", failed.message.reason);
///     }
///     from = after;
/// }
/// let taken = take.remove().await?;
/// println!("{} removed", taken.removed);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use]
pub struct Take {
    ttl: Duration,
    /// Those of one partition follow each other.
    batches: Vec<Batch>,
}

/// One claim of a [`Take`].
#[derive(Debug)]
struct Batch {
    store: Store,
    slot: Slot,
    ids: Vec<u64>,
}

/// The number of every claim of a [`Take`]. Each claim has a slot of its own.
const TAKE_CLAIM: u64 = 1;

/// What became of the messages of a [`Take`] that was removed or given back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Taken {
    /// Messages that were removed for good.
    pub removed: u64,
    /// Messages that are in the store as before.
    pub put_back: u64,
    /// Messages whose claim had run out: they are in the store, or another process took them.
    pub lost: u64,
}

impl Take {
    /// Claims those of these messages that are there and unchanged, and that no drain or take has claimed.
    pub(crate) async fn of(
        partitions: &Partitions,
        ids: &[FailedId],
        ttl: Duration,
    ) -> Result<Self, Error> {
        let mut take = Self {
            ttl,
            batches: Vec::new(),
        };
        for store in partitions.all() {
            if let Err(error) = take.claim(store, &FailedId::only_of(store, ids)).await {
                // Redis frees what cannot be given back now when the claims run out.
                let _ = take.give_back().await;
                return Err(error);
            }
        }
        Ok(take)
    }

    /// Claims messages of one partition.
    async fn claim(&mut self, store: &Store, ids: &[FailedId]) -> Result<(), Error> {
        if ids.is_empty() {
            return Ok(());
        }
        // Frees what dead processes had claimed.
        store.reclaim().await?;
        let ids = FailedId::unchanged(store, ids).await?;
        for ids in ids.chunks(MAX_CLAIM_RECORDS as usize) {
            let slot = new_slot(store, "take");
            let wanted = Wanted::Exactly(ids);
            let claim = || store.errors_claim(&slot, TAKE_CLAIM, wanted, self.ttl);
            match retry_while_claimed(store, self.ttl, claim).await? {
                ErrorsClaim::Claimed(ids) => self.batches.push(Batch {
                    store: store.clone(),
                    slot,
                    ids,
                }),
                ErrorsClaim::Empty | ErrorsClaim::Again => {}
                ErrorsClaim::Stale => return Err(name_in_use()),
            }
        }
        Ok(())
    }

    /// How many messages it has claimed.
    pub fn count(&self) -> u64 {
        self.batches
            .iter()
            .map(|batch| batch.ids.len() as u64)
            .sum()
    }

    /// The batches of each partition.
    fn by_partition(&self) -> impl Iterator<Item = &[Batch]> {
        self.batches
            .chunk_by(|one, next| one.store.partition() == next.store.partition())
    }

    /// Reads about a megabyte of the messages, beginning with the message at index `from`. Also
    /// returns the index to continue from; none at the end.
    pub async fn read(&self, from: usize) -> Result<(Vec<Failed>, Option<usize>), Error> {
        let mut skip = from;
        for batches in self.by_partition() {
            let ids = batches.iter().flat_map(|batch| batch.ids.iter().copied());
            let count = ids.clone().count();
            if skip >= count {
                skip -= count;
                continue;
            }
            let ids: Vec<u64> = ids.skip(skip).take(MAX_CLAIM_RECORDS as usize).collect();
            let store = &batches[0].store;
            let read = || store.errors_read(&ids);
            let (failures, done) = retry_while_claimed(store, self.ttl, read).await?;
            let failed = failures.iter().map(|failure| Failed::of(store, failure));
            return Ok((failed.collect(), Some(from + done)));
        }
        Ok((Vec::new(), None))
    }

    /// Extends its claims for another `ttl`. The answer is [`Extend::Lost`] if one had run out.
    pub async fn extend(&self) -> Result<Extend, Error> {
        let mut all = Extend::Held;
        for batches in self.by_partition().flat_map(|all| all.chunks(MAX_EXTENDED)) {
            let claims = batches.iter().map(|batch| (batch.slot.clone(), TAKE_CLAIM));
            let claims: Vec<_> = claims.collect();
            let extended = batches[0].store.extend(&claims, self.ttl).await?;
            if extended.len() < claims.len() || extended.contains(&Extend::Lost) {
                all = Extend::Lost;
            }
        }
        Ok(all)
    }

    /// Removes its messages for good. After an error some may be removed already: call it again.
    pub async fn remove(&self) -> Result<Taken, Error> {
        self.check().await?;
        let mut taken = Taken::default();
        for Batch { store, slot, ids } in &self.batches {
            let count = ids.len() as u64;
            let commit = || store.errors_commit(slot, TAKE_CLAIM, count);
            match retry_while_claimed(store, self.ttl, commit).await? {
                ErrorsCommit::Done | ErrorsCommit::Already => taken.removed += count,
                ErrorsCommit::Lost => taken.lost += count,
            }
        }
        Ok(taken)
    }

    /// Gives its messages back. Those that an interrupted [`Take::remove`] has removed stay gone.
    pub async fn give_back(&self) -> Result<Taken, Error> {
        self.check().await?;
        let mut taken = Taken::default();
        for Batch { store, slot, ids } in &self.batches {
            let count = ids.len() as u64;
            let give_back = || store.give_back(slot, TAKE_CLAIM);
            let given_back = retry_while_claimed(store, self.ttl, give_back).await?;
            if given_back == GiveBack::Ok {
                taken.put_back += count;
                continue;
            }
            // The claim is gone, so this commit removes nothing. Its answer says how the claim ended.
            let commit = || store.errors_commit(slot, TAKE_CLAIM, count);
            match retry_while_claimed(store, self.ttl, commit).await? {
                ErrorsCommit::Done | ErrorsCommit::Already => taken.removed += count,
                ErrorsCommit::Lost => taken.lost += count,
            }
        }
        Ok(taken)
    }

    /// Makes sure that Redis answers and that this user may remove and give back, because Redis
    /// does not roll back a script that lacks a permission halfway.
    async fn check(&self) -> Result<(), Error> {
        for batches in self.by_partition() {
            batches[0].store.preflight_to_drain().await?;
        }
        Ok(())
    }
}
