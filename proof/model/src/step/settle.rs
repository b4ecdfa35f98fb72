//! Settling: failed messages are dropped or retried.

use std::collections::BTreeSet;

use super::Script;
use crate::call::{Reply, Seen, Settled};
use crate::flaw::Flaw;
use crate::state::{Entry, LedgerEntry, Pack, Range, Record, Seq, Suspects};

/// Where a retried message waits.
#[derive(Clone, Copy)]
enum Place {
    /// In its pack, which has so many messages and still waits for others.
    InItsPack(u64),
    /// In a new pack of its own.
    Alone,
}

impl Script<'_> {
    pub(super) fn settle(&mut self, retry: bool, records: &[Seen]) -> Reply {
        let (mut taken, mut queued) = (BTreeSet::new(), BTreeSet::new());
        let mut retries = Vec::new();
        let settled: Vec<Settled> = records
            .iter()
            .map(|seen| {
                if taken.contains(&seen.id) || !self.is_there(seen) {
                    return Settled::Missing;
                }
                if !retry {
                    taken.insert(seen.id);
                    return Settled::Dropped;
                }
                let place = self.place(seen.record.seq);
                match place.filter(|_| !queued.contains(&seen.record.seq)) {
                    Some(place) => {
                        taken.insert(seen.id);
                        queued.insert(seen.record.seq);
                        retries.push((*seen, place));
                        Settled::Retried
                    }
                    None => Settled::Unfit,
                }
            })
            .collect();
        if !(retry && self.has(Flaw::RetryKeepsRecord)) {
            self.state.errors.retain(|id, _| !taken.contains(id));
        }
        if !retry {
            self.state.dropped += taken.len() as u64;
        }
        let retries_some = !retries.is_empty();
        for (seen, place) in retries {
            self.requeue(&seen.record, seen.bytes, place);
        }
        if retries_some {
            self.ring();
        }
        Reply::Settled(settled)
    }

    /// Whether exactly this record is in the store, and no drain holds it.
    fn is_there(&self, seen: &Seen) -> bool {
        let is_held = self.state.held.contains_key(&seen.id);
        let is_free = !is_held || self.has(Flaw::SettleTakesHeld);
        is_free && self.state.errors.get(&seen.id) == Some(&seen.record)
    }

    /// Where a message with this number can wait. None if there is no such message, or if its pack
    /// says that it has not ended.
    fn place(&self, seq: Seq) -> Option<Place> {
        if !(1..=self.state.fence.last).contains(&seq) {
            return None;
        }
        let left = self.state.left.get(&seq).copied();
        match self.state.packs.get(&seq) {
            Some(pack) => {
                let count = pack.texts.len() as u64;
                (left.unwrap_or(count) < count).then_some(Place::InItsPack(count))
            }
            None => left.is_none().then_some(Place::Alone),
        }
    }

    fn requeue(&mut self, record: &Record, bytes: u64, place: Place) {
        let (seq, text) = (record.seq, record.text);
        let origin = match self.has(Flaw::RetryForgetsOrigin) {
            true => 0,
            false => record.origin,
        };
        let counts = !self.has(Flaw::RetryUncounted);
        let keeps_count = self.has(Flaw::RetryOutnumbersPack);
        let state = &mut self.state;
        let count = match place {
            Place::InItsPack(count) => {
                if !keeps_count {
                    *state.left.entry(seq).or_default() += 1;
                }
                count
            }
            Place::Alone => {
                let texts = vec![text];
                let pack = Pack {
                    texts,
                    bytes,
                    origin,
                };
                state.packs.insert(seq, pack);
                1
            }
        };
        state.queue.push(Entry::Range(Range {
            pack: seq,
            count,
            first: seq,
            last: seq,
            returns: 0,
            suspects: Suspects::default(),
        }));
        state.retried += u64::from(counts);
        if !state.ledger.is_empty() {
            state.ledger.push(LedgerEntry::Retried { seq });
        }
    }
}
