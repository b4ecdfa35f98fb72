//! How a reign begins: it finds what was parked and what its node keeps, and opens the source behind all.

use super::history::Violation;
use super::parking::Parcel;
use super::partition::{Position, Progress};
use super::reign::{Copies, Prepared, Reign, Source};
use super::{Events, Flaw, Fleet, PARTITIONS};
use crate::call::Reply;
use crate::explore::source;
use crate::state::{Node, ParcelField};

impl Fleet {
    /// A flaw: the parked packs, when a generator gets the answer to its first seal.
    pub(super) fn read_early(&self, reply: Option<&Reply>) -> Option<Vec<Parcel>> {
        let is_sealed = matches!(reply, Some(Reply::Sealed { .. }));
        let is_early = self.flaw == Some(Flaw::ReadsParkedEarly);
        (is_early && is_sealed).then(|| self.all_parked())
    }

    /// The parked packs of all partitions.
    fn all_parked(&self) -> Vec<Parcel> {
        let parcels = self.partitions.iter().flat_map(|it| it.parked());
        parcels.cloned().collect()
    }

    /// Opens the source behind all that the fleet has. The node has just sealed the last partition: until
    /// a newer generator seals, and refuses what this one does, no copy comes or goes. So it does not matter
    /// that it reads the copies in the same step.
    pub(super) fn open(&mut self, node: Node) {
        let flaw = self.flaw;
        let mut parcels = match flaw {
            Some(Flaw::IgnoresParked) => Vec::new(),
            _ => self.all_parked(),
        };
        let Some(reign) = &mut self.client(node).reign else {
            return;
        };
        if let Some(read_early) = reign.read_early.take() {
            parcels = read_early;
        }
        let (waiting, old): (Vec<_>, Vec<_>) = parcels.into_iter().partition(|parcel| {
            let next = reign.next[parcel.to];
            flaw == Some(Flaw::RenumbersParked) || next.is_none_or(|next| parcel.first >= next)
        });
        let kept = reign.take_kept(flaw);
        let has_kept = !kept.is_empty();
        let packs = reign.take_packs(kept, &waiting, flaw);
        let (current, position) = reign.newest(&packs, flaw);
        reign.stored = [None; PARTITIONS];
        reign.source = Some(Source {
            position: match flaw {
                Some(Flaw::CountsOwnOnly) => Position {
                    made: Progress::default(),
                    ..position
                },
                _ => position,
            },
            stored: position,
            current,
            packs: packs.clone(),
        });
        if flaw == Some(Flaw::NumbersFromOther) {
            reign.next.reverse();
        }
        let epoch = reign.epoch();
        let calls: Vec<_> = packs.iter().map(|pack| reign.call(node, pack)).collect();
        calls.into_iter().for_each(|call| self.send(call));
        self.remove_old(node, epoch, &old);
        if flaw == Some(Flaw::RemovesEarly) {
            self.remove_old(node, epoch, &waiting);
        }
        self.events |= self.event_of_opening(epoch);
        if has_kept {
            self.events |= Events::KEPT_SENT_AGAIN;
        }
        if !old.is_empty() {
            self.events |= Events::PARKED_WAS_THERE;
        }
        self.history.note_handover(epoch);
        self.check_position(&packs, position);
    }

    /// Removes the copies that their own partition has.
    fn remove_old(&mut self, node: Node, epoch: u64, old: &[Parcel]) {
        for place in 0..PARTITIONS {
            let fields = old.iter().filter(|parcel| parcel.to != place);
            let fields: Vec<ParcelField> = fields.map(Parcel::field).collect();
            self.unpark(node, epoch, place, fields);
        }
    }

    /// Notes if a source was not opened right behind all rows: those of the partitions, those that wait in
    /// other partitions, and those that its node keeps.
    fn check_position(&mut self, packs: &[Prepared], position: Position) {
        let mut rows = self.rows();
        let kept = packs.iter().flat_map(|pack| &pack.texts);
        rows.extend(kept.map(|text| source::row_of(*text)));
        rows.sort_unstable();
        rows.dedup();
        let cursors = self.partitions.iter().map(|it| it.position().cursor);
        let cursors = cursors.chain(self.waiting().map(|parcel| parcel.after.cursor));
        let cursors = cursors.chain(packs.iter().map(|pack| pack.after.cursor));
        let is_newest = cursors.max() == Some(position.cursor);
        if !is_newest || source::rows_before(position.cursor) != rows.len() as u64 {
            self.history.note(Violation::OpenedElsewhere);
        }
    }
}

impl Reign {
    /// What its node keeps of the reign before, and the partitions lack.
    fn take_kept(&mut self, flaw: Option<Flaw>) -> Vec<Prepared> {
        let next = self.next;
        let mut kept = std::mem::take(&mut self.kept);
        kept.retain(|pack| next[pack.to].is_some_and(|next| pack.first >= next));
        for pack in &mut kept {
            pack.maybe_there = true;
            pack.copies = match flaw {
                Some(Flaw::GoesOnBesideKept) => Copies::Inherited,
                _ => Copies::None,
            };
        }
        kept
    }

    /// What it sends before anything new: what its node keeps, and what was parked.
    fn take_packs(
        &mut self,
        kept: Vec<Prepared>,
        waiting: &[Parcel],
        flaw: Option<Flaw>,
    ) -> Vec<Prepared> {
        let mut packs = kept;
        for parcel in waiting {
            let mut same = packs.iter_mut();
            if let Some(pack) = same.find(|pack| (pack.to, pack.first) == parcel.field()) {
                pack.copies = Copies::Inherited;
                continue;
            }
            packs.push(Prepared {
                to: parcel.to,
                first: match (flaw, self.next[parcel.to]) {
                    (Some(Flaw::RenumbersParked), Some(next)) => next,
                    _ => parcel.first,
                },
                texts: parcel.texts.clone(),
                after: parcel.after,
                maybe_there: true,
                copies: Copies::Inherited,
            });
        }
        packs.sort_by_key(|pack| pack.after);
        for pack in &packs {
            if let Some(next) = &mut self.next[pack.to] {
                *next = pack.first + pack.texts.len() as u64;
            }
        }
        packs
    }

    /// The partition that has the newest of all packs, or will have it, and where the source stands behind
    /// it.
    fn newest(&self, packs: &[Prepared], flaw: Option<Flaw>) -> (usize, Position) {
        let stored = self.stored.iter().enumerate();
        let stored = stored.filter_map(|(at, position)| Some((at, (*position)?)));
        let mut positions = stored.chain(packs.iter().map(|pack| (pack.to, pack.after)));
        let newest = match flaw {
            Some(Flaw::PositionOfFirst) => positions.next(),
            Some(Flaw::OrdersByMessages) => positions.max_by_key(|(_, it)| it.made.messages),
            _ => positions.max_by_key(|(_, position)| position.made),
        };
        newest.unwrap_or_default()
    }
}
