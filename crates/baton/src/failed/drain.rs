//! Draining the errors store: claim, hand out, commit.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::{Error, FailedMessage, crash, record};
use baton_protocol::{ErrorsClaim, ErrorsCommit, Extend, Failure, GiveBack, Slot, Store, Wanted};

/// Most records and bytes in a drain's hands. A dead drain's claims are returned in one step,
/// which must not keep the server long.
const BATCH: (u64, u64) = (100, 1 << 20);
/// Claims that one call extends.
const EXTENDED_AT_ONCE: usize = 200;

/// Takes failed messages out of the errors store. A message is removed only after
/// [`Drain::commit`] says so; what a drain holds when it dies is free again.
///
/// A drain takes what was there when it started: failures that arrive meanwhile stay.
pub struct Drain {
    store: Store,
    slot: Slot,
    claim: u64,
    ttl: Duration,
    /// The highest id that was there when it started.
    last: u64,
    left: u64,
    /// For each message that was returned last, how many ids of the claim end with it.
    ends: Vec<u64>,
    /// How many ids the claim has.
    held: u64,
}

impl Drain {
    /// Starts a drain that keeps what it holds for `ttl` without a sign of life.
    pub async fn start(store: Store, ttl: Duration) -> Result<Self, Error> {
        // What a dead drain held is for this one to print.
        store.reclaim().await?;
        let last = store.errors_last().await?;
        let left = store.errors_len().await?;
        let slot = Slot::new(store.node(), "errors");
        Ok(Self {
            store,
            slot,
            claim: 0,
            ttl,
            last,
            left,
            ends: Vec::new(),
            held: 0,
        })
    }

    /// About how many messages are still to come.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// The next messages, or none at the end.
    pub async fn next(&mut self) -> Result<Vec<FailedMessage>, Error> {
        loop {
            self.claim += 1;
            let (most, bytes) = BATCH;
            let last = self.last;
            let wanted = Wanted::Oldest { most, bytes, last };
            let (store, slot, claim) = (&self.store, &self.slot, self.claim);
            let claim = || store.errors_claim(slot, claim, wanted, self.ttl);
            let ids = match insist(store, self.ttl, claim).await? {
                ErrorsClaim::Claimed(ids) => ids,
                ErrorsClaim::Again => continue,
                ErrorsClaim::Empty => return Ok(Vec::new()),
                ErrorsClaim::Stale => return Err(taken_name()),
            };
            crash::point("drain-after-claim");
            self.held = ids.len() as u64;
            let failures = read_all(&self.store, &ids, self.ttl).await?;
            self.left = self.left.saturating_sub(self.held);
            let mut ends = (1..).zip(&ids);
            self.ends = failures
                .iter()
                .filter_map(|failure| ends.find(|(_, id)| **id == failure.id))
                .map(|(end, _)| end)
                .collect();
            if !failures.is_empty() {
                return Ok(messages(&failures));
            }
            // A person deleted them by hand.
            let _ = self.commit(0).await?;
        }
    }

    /// Keeps what [`Drain::next`] returned while its reader is slow.
    pub async fn extend(&self) -> Result<Extend, Error> {
        let held = self
            .store
            .extend(&[(self.slot.clone(), self.claim)], self.ttl)
            .await?;
        Ok(held.first().copied().unwrap_or(Extend::Lost))
    }

    /// Removes the first `printed` of the messages that [`Drain::next`] returned last; the
    /// others are free again.
    pub async fn commit(&self, printed: u64) -> Result<ErrorsCommit, Error> {
        let ids = match usize::try_from(printed).unwrap_or(usize::MAX) {
            0 => 0,
            all if all >= self.ends.len() => self.held,
            some => self.ends.get(some - 1).copied().unwrap_or_default(),
        };
        let commit = || self.store.errors_commit(&self.slot, self.claim, ids);
        let committed = insist(&self.store, self.ttl, commit).await?;
        crash::point("drain-after-commit");
        Ok(committed)
    }
}

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
    pub async fn of(store: Store, ids: &[u64], ttl: Duration) -> Result<Self, Error> {
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

    /// The ids of the records that it holds.
    pub fn ids(&self) -> impl Iterator<Item = u64> {
        self.batches
            .iter()
            .flat_map(|batch| batch.ids.iter().copied())
    }

    /// Reads some of the records, about a megabyte, from the `from`th on. Returns them, and from
    /// where to go on; none at the end.
    pub async fn read(&self, from: usize) -> Result<(Vec<Failure>, Option<usize>), Error> {
        let ids: Vec<u64> = self.ids().skip(from).take(BATCH.0 as usize).collect();
        if ids.is_empty() {
            return Ok((Vec::new(), None));
        }
        let read = || self.store.errors_read(&ids);
        let (failures, done) = insist(&self.store, self.ttl, read).await?;
        Ok((failures, Some(from + done)))
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
    pub async fn commit(&self) -> Result<Taken, Error> {
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

    /// Makes sure that Redis answers and that this user may remove and give back: a script that
    /// lacks a permission halfway is not rolled back.
    pub async fn check(&self) -> Result<(), Error> {
        self.store.preflight(true).await
    }
}

fn taken_name() -> Error {
    Error::Refused("another drain uses this drain's name".to_owned())
}

fn messages(failures: &[Failure]) -> Vec<FailedMessage> {
    let messages = failures.iter();
    messages
        .map(|failure| record::decode(&failure.record))
        .collect()
}

/// Reads all of a claim.
async fn read_all(store: &Store, ids: &[u64], ttl: Duration) -> Result<Vec<Failure>, Error> {
    let (mut failures, mut done) = (Vec::new(), 0);
    while done < ids.len() {
        let (some, read) = insist(store, ttl, || store.errors_read(&ids[done..])).await?;
        failures.extend(some);
        done += read;
    }
    Ok(failures)
}

/// Repeats a call until Redis answers, for as long as the claim may last.
async fn insist<T, F: Future<Output = Result<T, Error>>>(
    store: &Store,
    ttl: Duration,
    call: impl Fn() -> F,
) -> Result<T, Error> {
    let end = tokio::time::Instant::now() + ttl;
    loop {
        match call().await {
            Err(error) if error.is_passing() && tokio::time::Instant::now() < end => {
                let pause = Duration::from_millis(50);
                let _ = tokio::time::timeout_at(end, store.wait_up()).await;
                tokio::time::sleep(pause).await;
            }
            answer => return answer,
        }
    }
}
