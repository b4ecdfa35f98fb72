//! Packs of a partition that does not answer: copies of them wait in the other partition.

use super::partition::Position;
use super::reign::{Copies, Reign};
use super::request::{Request, SentCall};
use super::{Flaw, Fleet, PARTITIONS};
use crate::call::Reply;
use crate::state::{Node, ParcelField, Seq, Text};

/// A copy of a pack, with all that its publish needs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Parcel {
    /// The partition that it is for.
    pub(super) to: usize,
    pub(super) first: Seq,
    pub(super) texts: Vec<Text>,
    /// Where the source stands after it.
    pub(super) after: Position,
}

impl Parcel {
    pub(super) fn field(&self) -> ParcelField {
        (self.to, self.first)
    }

    /// Its first text stands for all of it where only the identity matters.
    pub(super) fn text(&self) -> Text {
        self.texts.first().copied().unwrap_or_default()
    }
}

/// The partition that keeps the copies of this one's packs.
pub(super) fn place_of(partition: usize) -> usize {
    PARTITIONS - 1 - partition
}

impl Fleet {
    /// The copies that their own partition lacks: a successor publishes them.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &Parcel> {
        let parcels = self.partitions.iter().flat_map(|it| it.parked());
        parcels.filter(|parcel| parcel.first > self.partitions[parcel.to].last())
    }

    /// A generator parks what its current partition has not accepted.
    pub(super) fn park(&mut self, node: Node) {
        let Some(reign) = &mut self.client(node).reign else {
            return;
        };
        let (epoch, parcels) = (reign.epoch(), reign.parcels());
        reign.note_park_sent();
        if let Some(parcel) = parcels.first() {
            self.send(SentCall {
                by: node,
                to: place_of(parcel.to),
                request: Request::Park { epoch, parcels },
            });
        }
    }

    /// A node gets the answer to its park; none if the answer is lost. Then it parks again what is not
    /// accepted by now.
    pub(super) fn hear_park(
        &mut self,
        sent: &SentCall,
        parcels: &[Parcel],
        epoch: u64,
        reply: Option<&Reply>,
    ) {
        let node = sent.by;
        let flaw = self.flaw;
        let reign = self.client(node).reign.as_mut();
        let Some(reign) = reign.filter(|reign| reign.epoch() == epoch) else {
            return;
        };
        match reply {
            None if parcels.iter().any(|parcel| reign.has_sent(parcel)) => self.park(node),
            None => {}
            Some(Reply::Fenced { epoch, .. }) => self.step_down(node, *epoch),
            Some(_) => reign.note_parked(parcels, flaw),
        }
    }

    /// Removes copies, in the background: no one waits for the answer.
    pub(super) fn unpark(
        &mut self,
        node: Node,
        epoch: u64,
        place: usize,
        fields: Vec<ParcelField>,
    ) {
        if !fields.is_empty() {
            self.send(SentCall {
                by: node,
                to: place,
                request: Request::Unpark { epoch, fields },
            });
        }
    }
}

impl Reign {
    /// Copies of what the current partition has not accepted. A pack without rows only stores its cursor,
    /// which can come again.
    pub(super) fn parcels(&self) -> Vec<Parcel> {
        let packs = self.unparked().filter(|pack| !pack.texts.is_empty());
        let parcels = packs.map(|pack| Parcel {
            to: pack.to,
            first: pack.first,
            texts: pack.texts.clone(),
            after: pack.after,
        });
        parcels.collect()
    }

    fn note_park_sent(&mut self) {
        for pack in self.packs_mut() {
            if pack.copies == Copies::None && !pack.texts.is_empty() {
                pack.copies = Copies::Sent;
            }
        }
    }

    /// Whether a pack of this copy is still not accepted, nor parked.
    fn has_sent(&self, parcel: &Parcel) -> bool {
        let mut unparked = self.unparked();
        unparked.any(|pack| (pack.to, pack.first) == parcel.field())
    }

    /// The other partition has these copies: rows may go on to it.
    fn note_parked(&mut self, parcels: &[Parcel], flaw: Option<Flaw>) {
        let fields: Vec<ParcelField> = parcels.iter().map(Parcel::field).collect();
        let Some(last) = parcels.last() else {
            return;
        };
        for pack in self.packs_mut().filter(|pack| pack.to == last.to) {
            let is_parked = fields.contains(&(pack.to, pack.first));
            // What only stores a cursor behind them need not be there.
            if is_parked || pack.texts.is_empty() || flaw == Some(Flaw::ParksSome) {
                pack.copies = Copies::Parked;
            }
        }
        if flaw != Some(Flaw::ReopensBeforeParked) {
            self.note_stored(last.after);
        }
    }
}
