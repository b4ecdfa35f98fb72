//! The errors store: drains claim and commit its records.

use super::Script;
use crate::call::Reply;
use crate::flaw::Flaw;
use crate::state::{Body, Claim, EndedClaim, Id, Ms, RunId, Slot};

/// What a drain wants.
pub(super) struct Wanted<'a> {
    /// Exactly these records, or the oldest.
    pub(super) ids: Option<&'a [Id]>,
    /// Max of the oldest records.
    pub(super) max: u64,
}

impl Script<'_> {
    pub(super) fn errors_claim(
        &mut self,
        slot: Slot,
        number: u64,
        run_id: RunId,
        wanted: &Wanted<'_>,
        ttl: Ms,
    ) -> Reply {
        if let Some(held) = self.state.claims.get(&slot) {
            return match &held.body {
                Body::Records(ids) if held.number == number => self.records(ids),
                _ => Reply::Stale,
            };
        }
        let ended = self.state.workers.get(&slot);
        if ended.is_some_and(|ended| ended.number >= number) {
            return Reply::Stale;
        }
        let ids = self.wanted(wanted);
        if ids.is_empty() {
            return Reply::Empty;
        }
        let reply = self.records(&ids);
        for id in &ids {
            self.state.held.insert(*id, slot);
        }
        if !self.has(Flaw::DrainWithoutClaim) {
            let body = Body::Records(ids);
            self.state.claims.insert(
                slot,
                Claim {
                    number,
                    run_id,
                    body,
                },
            );
            self.state.deadlines.insert(slot, self.now + ttl);
        }
        reply
    }

    /// The records that a drain gets.
    fn wanted(&self, wanted: &Wanted<'_>) -> Vec<Id> {
        let state = &self.state;
        let takes_held = self.has(Flaw::DrainTakesHeld);
        let is_free = |id: &Id| takes_held || !state.held.contains_key(id);
        match wanted.ids {
            Some(ids) => {
                let mut free = Vec::new();
                for id in ids.iter().filter(|id| is_free(id)) {
                    if state.errors.contains_key(id) && !free.contains(id) {
                        free.push(*id);
                    }
                }
                free
            }
            None => {
                let ids = state.errors.keys().copied().filter(is_free);
                ids.take(wanted.max.max(1) as usize).collect()
            }
        }
    }

    /// The records of a drain's claim.
    fn records(&self, ids: &[Id]) -> Reply {
        let errors = &self.state.errors;
        let found = ids.iter().filter_map(|id| Some((*id, *errors.get(id)?)));
        Reply::Records(found.collect())
    }

    pub(super) fn errors_commit(&mut self, slot: Slot, number: u64, removed: u64) -> Reply {
        let ended = self.state.workers.get(&slot);
        let same =
            |ended: &EndedClaim| (ended.number, ended.first, ended.last) == (number, 0, removed);
        if ended.is_some_and(same) {
            return Reply::Already;
        }
        let ids = match self.state.claims.get(&slot) {
            Some(Claim {
                number: held,
                body: Body::Records(ids),
                ..
            }) if *held == number => ids.clone(),
            _ => return Reply::Lost,
        };
        self.state.claims.remove(&slot);
        self.state.deadlines.remove(&slot);
        let gone = match self.has(Flaw::DrainDropsRest) {
            true => ids.len(),
            false => ids.len().min(removed as usize),
        };
        self.state.errors.retain(|id, _| !ids[..gone].contains(id));
        self.state.held.retain(|id, _| !ids.contains(id));
        self.remember_ended(slot, number, 0, removed);
        Reply::Done
    }
}
