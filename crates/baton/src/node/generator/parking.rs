//! Packs of a partition whose server does not answer.
//!
//! What a source with cursors makes goes to one partition at a time. If that partition's server does not
//! answer, no node knows whether it has the packs, and the others would have to wait for it. So the
//! generator *parks* copies of them in another partition, behind its fence, and the turn goes on. A
//! successor finds them there. When their own partition has them, the generator removes the copies.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use baton_protocol::{Parcel, Park};
use tokio::time::Instant;

use super::End;
use super::partition_reign::{PartitionReign, Turn};
use crate::Error;
use crate::node::outbox::Prepared;
use crate::node::partition::Partition;

/// After so long without an answer the packs of a partition are parked.
const STALL: Duration = Duration::from_millis(30);
/// How long another partition may take to keep them, before the next one is tried.
const PARK_TIMEOUT: Duration = Duration::from_millis(100);
/// How long the generator waits before it tries again to remove a copy.
const UNPARK_AGAIN: Duration = Duration::from_millis(200);

/// What a partition was sent and has not accepted.
#[derive(Default)]
pub(super) struct Unaccepted {
    /// By their first number.
    packs: BTreeMap<u64, Copy>,
    /// Where copies of packs are parked, or may be, by the packs' first number.
    places: BTreeMap<u64, Vec<usize>>,
    /// How many packs without messages are on their way. They only store a cursor, and need no copy.
    cursors: usize,
    /// The last time that its server answered, or was sent something after a time without packs.
    heard: Option<Instant>,
}

/// A copy of a pack.
struct Copy {
    prepared: Prepared,
    is_parked: bool,
}

impl Unaccepted {
    /// Whether packs are parked: the partition gets no others until it has accepted these.
    pub(super) fn has_parked(&self) -> bool {
        self.packs.values().any(|copy| copy.is_parked)
    }

    /// Whether all packs are parked, or there are none.
    pub(super) fn are_parked(&self) -> bool {
        self.packs.values().all(|copy| copy.is_parked)
    }
}

impl PartitionReign {
    /// Remembers a pack that the source made, or that is sent again.
    pub(super) fn remember(&mut self, prepared: &Prepared) {
        if !self.is_one_of_several() || prepared.is_void || prepared.count == 0 {
            return;
        }
        if self.unaccepted.packs.is_empty() {
            self.unaccepted.heard = Some(Instant::now());
        }
        // A copy that an earlier reign parked counts.
        let is_parked = self.unaccepted.places.contains_key(&prepared.first);
        let entry = self.unaccepted.packs.entry(prepared.first);
        entry.or_insert_with(|| Copy {
            prepared: prepared.clone(),
            is_parked,
        });
    }

    /// A pack is sent.
    pub(super) fn sends(&mut self, prepared: &Prepared) {
        self.remember(prepared);
        if prepared.count == 0 {
            self.unaccepted.cursors += 1;
            self.unaccepted.heard.get_or_insert_with(Instant::now);
        }
    }

    /// The answer to a pack came, or will not come.
    pub(super) fn ends(&mut self, prepared: &Prepared) {
        if prepared.count == 0 {
            self.unaccepted.cursors = self.unaccepted.cursors.saturating_sub(1);
        }
    }

    /// A copy of the pack that begins with this number is parked there, since an earlier reign.
    pub(super) fn is_parked_at(&mut self, first: u64, place: usize) {
        self.unaccepted.places.entry(first).or_default().push(place);
    }

    /// The partition's server answered.
    pub(super) fn heard(&mut self) {
        self.unaccepted.heard = Some(Instant::now());
        self.partition.is_stalled.store(false, Ordering::Relaxed);
    }

    /// Whether a partition at the same server waits for it.
    pub(super) fn is_at_stalled_server(&self) -> bool {
        let mut stalled = self.all.iter().filter(|other| is_stalled(other));
        stalled.any(|other| other.store.place() == self.partition.store.place())
    }

    /// Whether another partition may have room.
    pub(super) fn is_room_elsewhere(&self) -> bool {
        let own = self.partition.index();
        let mut others = self.all.iter().filter(|other| other.index() != own);
        others.any(|other| other.store.is_up() && !other.is_full.load(Ordering::Relaxed))
    }

    /// When the packs that this partition has not accepted are to be parked; none if there is no need.
    pub(super) fn stalls_at(&self, turn: &Option<Turn<'_, '_>>) -> Option<Instant> {
        let Unaccepted { cursors, heard, .. } = &self.unaccepted;
        let is_needed = self.is_one_of_several()
            && turn.as_ref().is_some_and(|turn| turn.supply.has_cursors())
            && (!self.unaccepted.are_parked() || *cursors > 0);
        heard.filter(|_| is_needed).map(|heard| heard + STALL)
    }

    /// Parks what the partition has not accepted, and gives the turn on. Without a source with cursors there
    /// is no need; without another partition that answers, the turn stays.
    pub(super) async fn park(
        &mut self,
        turn: &mut Option<Turn<'_, '_>>,
        why: Why,
    ) -> Result<Option<End>, Error> {
        if self.stalls_at(turn).is_none() {
            return Ok(None);
        }
        let packs = self.unaccepted.packs.values();
        let packs = packs.filter(|copy| !copy.is_parked);
        let partition = self.partition.store.partition();
        let parcels = packs.map(|copy| copy.prepared.parcel(partition));
        let parcels: Vec<Parcel> = parcels.collect();
        if parcels.is_empty() {
            self.give_on(turn, why);
            return Ok(None);
        }
        let (own, count) = (self.partition.index(), self.all.len());
        let own_server = self.partition.store.place();
        for place in (1..count).map(|step| (own + step) % count) {
            let store = &self.all[place].store;
            // The server that does not answer here does not answer there.
            let is_same = matches!(why, Why::NoAnswer) && store.place() == own_server;
            if !store.is_up() || is_same || is_stalled(&self.all[place]) {
                continue;
            }
            let Unaccepted { packs, places, .. } = &mut self.unaccepted;
            for first in packs.keys() {
                // Also if no answer comes: perhaps it was written.
                places.entry(*first).or_default().push(place);
            }
            let parked = tokio::time::timeout(PARK_TIMEOUT, store.park(self.epoch, &parcels));
            match parked.await {
                Ok(Ok(Park::Ok)) => {
                    for copy in self.unaccepted.packs.values_mut() {
                        copy.is_parked = true;
                    }
                    self.give_on(turn, why);
                    return Ok(None);
                }
                Ok(Ok(Park::Fenced { node, epoch })) => {
                    return Ok(Some(End::Fenced { node, epoch }));
                }
                Ok(Err(error)) if !error.is_transient() => return Err(error),
                Ok(Err(_)) | Err(_) => {}
            }
        }
        // No partition answers: the next try is later.
        self.unaccepted.heard = Some(Instant::now());
        Ok(None)
    }

    /// Gives the turn on: the source goes on behind what is parked.
    fn give_on(&mut self, turn: &mut Option<Turn<'_, '_>>, why: Why) {
        if let Why::NoAnswer = why {
            self.partition.is_stalled.store(true, Ordering::Relaxed);
        }
        if let Some(mut turn) = turn.take()
            && let Some(newest) = self.unaccepted.packs.values().next_back()
        {
            let Prepared { cursor, made, .. } = &newest.prepared;
            turn.supply.accepted(cursor, *made);
        }
    }

    /// The partition has this pack: its copies go.
    pub(super) fn accepted(&mut self, prepared: &Prepared) {
        // A cursor alone has the first number of the pack behind it.
        if prepared.count == 0 || prepared.is_void {
            return;
        }
        self.unaccepted.packs.remove(&prepared.first);
        let places = self.unaccepted.places.remove(&prepared.first);
        let field = Parcel::field(self.partition.store.partition(), prepared.first);
        for place in places.unwrap_or_default() {
            remove_copies(&self.all[place], self.epoch, vec![field.clone()]);
        }
    }
}

/// Why packs are parked.
#[derive(Debug, Clone, Copy)]
pub(super) enum Why {
    /// The partition's server does not answer, or takes nothing.
    NoAnswer,
    /// The partition has no room, and another one may have.
    Full,
}

fn is_stalled(partition: &Partition) -> bool {
    partition.is_stalled.load(Ordering::Relaxed)
}

/// Removes copies from a partition, in a task of its own. If the reign ends before, a successor removes
/// them.
pub(super) fn remove_copies(place: &Arc<Partition>, epoch: u64, fields: Vec<String>) {
    let place = Arc::clone(place);
    tokio::spawn(async move {
        while !place.stopping() && place.generates_under(epoch) {
            match place.store.unpark(epoch, &fields).await {
                Err(error) if error.is_transient() => tokio::time::sleep(UNPARK_AGAIN).await,
                // Another generator finds them, or an operator has to act anyway.
                Ok(Park::Ok | Park::Fenced { .. }) | Err(_) => return,
            }
        }
    });
}
