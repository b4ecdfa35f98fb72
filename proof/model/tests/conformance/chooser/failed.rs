//! Operations on failed messages: drains, drops and retries, and records made by hand.

use baton_model::call::{Call, Seen};
use baton_model::state::{Body, Id, Reason, Record, Seq, Slot};

use super::{Chooser, DRAIN, TTLS};
use crate::encoding;

impl Chooser<'_> {
    pub(super) fn errors_claim(&mut self) -> Call {
        let node = self.one(&[0, 1, 0, 1, 3]);
        let slot = match self.mostly(8) {
            true => Slot { node, lane: DRAIN },
            false => self.any_slot(),
        };
        Call::ErrorsClaim {
            slot,
            number: self.new_number(slot),
            run_id: self.scene.run_id,
            ids: self.named_ids(),
            max: self.one(&[2, 1, 3, 1000, 2, 1, 3, 0]),
            ttl: self.one(&TTLS),
        }
    }

    /// Sometimes the newest records, held or not; sometimes also one of them twice and a missing one.
    fn named_ids(&mut self) -> Option<Vec<Id>> {
        let errors = &self.scene.state.errors;
        let newest: Vec<Id> = errors.keys().rev().take(3).copied().collect();
        match self.pick() % 4 {
            2 => Some(newest),
            3 => {
                let first = newest.first().copied();
                let absent = self.scene.state.last_id + 1;
                Some(newest.into_iter().chain(first).chain([absent]).collect())
            }
            _ => None,
        }
    }

    pub(super) fn errors_commit(&mut self) -> Call {
        let slot = self.holder(false);
        let held = match self.scene.state.claims.get(&slot).map(|claim| &claim.body) {
            Some(Body::Records(records)) => records.len() as u64,
            _ => 0,
        };
        Call::ErrorsCommit {
            slot,
            number: self.held_number(slot),
            removed: self.one(&[held, 1, 0, held + 1]),
        }
    }

    /// A record of a message that may not have failed, or that does not exist.
    pub(super) fn forged(&mut self) -> Record {
        let last = self.scene.state.fence.last;
        let packs: Vec<Seq> = self.scene.state.packs.keys().copied().collect();
        let pack = self.maybe(&packs).unwrap_or(last);
        Record {
            seq: self.one(&[pack, pack, pack, pack, last, last + 1, 0, 1]),
            text: 0,
            attempt: 99,
            reason: Reason::Rejected,
            origin: 1,
            first_reason: None,
        }
    }

    /// Settles some failed messages; sometimes under a wrong id, sometimes one that never failed.
    pub(super) fn settle(&mut self) -> Call {
        let retry = self.mostly(4);
        let errors = &self.scene.state.errors;
        let max = self.one(&[1, 2, 1, 3]);
        let start = self.pick();
        let mut records: Vec<Seen> = Vec::new();
        for (id, record) in errors.iter().skip(start % errors.len().max(1)).take(max) {
            // Its text is a whole pack, because its own pack was deleted: the model has no such texts.
            let is_pack = matches!(record.reason, Reason::Poison(_)) && record.text == 0;
            if !is_pack {
                records.push(seen(*id, *record));
            }
        }
        match self.pick() % 8 {
            6 => records.iter_mut().for_each(|seen| seen.id += 1),
            7 => {
                let record = Record {
                    seq: self.scene.state.fence.last,
                    text: 0,
                    attempt: 99,
                    reason: Reason::Rejected,
                    origin: 1,
                    first_reason: None,
                };
                records.push(seen(0, record));
            }
            _ => {}
        }
        Call::Settle { retry, records }
    }
}

fn seen(id: Id, record: Record) -> Seen {
    Seen {
        id,
        record,
        bytes: encoding::lone_pack_bytes(record.text, record.origin, record.seq),
    }
}
