//! One partition: the keys that a fleet of one partition has, how much the fleet has made, and the packs that
//! wait here for the other partition.

use std::collections::BTreeMap;

use super::Flaw;
use super::parking::Parcel;
use super::request::Request;
use crate::call::{Call, Parking, Reply};
use crate::explore::source;
use crate::state::{Node, ParcelField, Seq, State, Text};
use crate::step::step;

/// How much the fleet has made, in all partitions. Of two places, the one that knows of more packs has the
/// newest position.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Progress {
    /// Packs, also those that only store a cursor.
    pub(super) packs: u64,
    pub(super) messages: u64,
}

/// Where a source stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Position {
    pub(super) made: Progress,
    pub(super) cursor: u64,
}

/// The keys of one partition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Partition {
    redis: State,
    /// `fence.made`: how much the whole fleet had made with the newest pack of this partition. `publish`
    /// stores it together with the cursor.
    made: Progress,
    /// Copies of packs of the other partition. `redis` says which of them are parked, and has only a
    /// number for each.
    parcels: BTreeMap<ParcelField, Parcel>,
}

impl Partition {
    /// Executes a call of a generator.
    pub(super) fn execute(&mut self, by: Node, request: &Request, flaw: Option<Flaw>) -> Reply {
        match request {
            Request::Script(call, made) => {
                let flaw = flaw.and_then(Flaw::of_scripts);
                let (reply, _) = step(&mut self.redis, call, 0, flaw);
                if reply == Reply::Published {
                    self.made = *made;
                }
                reply
            }
            Request::Park { epoch, parcels } => {
                let copies = parcels.iter().map(|parcel| (parcel.field(), parcel.text()));
                let reply = self.park(by, *epoch, Parking::Keep(copies.collect()), flaw);
                if reply == Reply::Done {
                    let copies = parcels.iter();
                    let copies = copies.map(|parcel| (parcel.field(), parcel.clone()));
                    self.parcels.extend(copies);
                }
                reply
            }
            Request::Unpark { epoch, fields } => {
                let reply = self.park(by, *epoch, Parking::Remove(fields.clone()), flaw);
                let parked = &self.redis.parked;
                self.parcels.retain(|field, _| parked.contains_key(field));
                reply
            }
        }
    }

    fn park(&mut self, node: Node, epoch: u64, parking: Parking, flaw: Option<Flaw>) -> Reply {
        let call = Call::Park {
            node,
            epoch,
            parking,
        };
        let (reply, _) = step(&mut self.redis, &call, 0, flaw.and_then(Flaw::of_scripts));
        reply
    }

    /// The copies that wait here.
    pub(super) fn parked(&self) -> impl Iterator<Item = &Parcel> {
        self.parcels.values()
    }

    /// The last number.
    pub(super) fn last(&self) -> Seq {
        self.redis.fence.last
    }

    /// Where the source stood after its newest pack. `seal` returns it.
    pub(super) fn position(&self) -> Position {
        Position {
            made: self.made,
            cursor: self.redis.fence.cursor,
        }
    }

    /// The epoch of the generator that sealed it last.
    pub(super) fn epoch(&self) -> u64 {
        self.redis.fence.epoch
    }

    /// The node that sealed it last.
    pub(super) fn sealed_by(&self) -> Option<Node> {
        self.redis.fence.node
    }

    /// The texts under these numbers.
    pub(super) fn has(&self, first: Seq, texts: &[Text]) -> bool {
        let pack = self.redis.packs.get(&first);
        pack.is_some_and(|pack| pack.texts == texts)
    }

    /// The rows of the source that it has, in the order of their numbers.
    pub(super) fn rows(&self) -> impl Iterator<Item = Seq> + '_ {
        let texts = self.redis.packs.values().flat_map(|pack| &pack.texts);
        texts.map(|text| source::row_of(*text))
    }

    /// Whether each number up to the last is in exactly one pack.
    pub(super) fn is_gapless(&self) -> bool {
        let mut next = 1;
        for (first, pack) in &self.redis.packs {
            if *first != next {
                return false;
            }
            next += pack.texts.len() as Seq;
        }
        next == self.last() + 1
    }
}
