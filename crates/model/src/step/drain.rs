//! The errors store: a second queue with the same rules.

use super::Script;
use crate::call::Reply;
use crate::flaw::Flaw;
use crate::state::{Body, Claim, Ms, Record, Run, Slot};

impl Script<'_> {
    pub(super) fn errors_claim(
        &mut self,
        slot: Slot,
        number: u64,
        run: Run,
        most: u64,
        ttl: Ms,
    ) -> Reply {
        if let Some(held) = self.state.claims.get(&slot) {
            return match &held.body {
                Body::Records(records) if held.number == number => Reply::Records(records.clone()),
                _ => Reply::Stale,
            };
        }
        let settled = self.state.workers.get(&slot);
        if settled.is_some_and(|settled| settled.number >= number) {
            return Reply::Stale;
        }
        let count = (most as usize).min(self.state.errors.len());
        let records: Vec<Record> = self.state.errors.drain(..count).collect();
        if records.is_empty() {
            return Reply::Empty;
        }
        if !self.has(Flaw::DrainWithoutClaim) {
            let body = Body::Records(records.clone());
            self.state.claims.insert(slot, Claim { number, run, body });
            self.state.deadlines.insert(slot, self.now + ttl);
        }
        Reply::Records(records)
    }

    pub(super) fn errors_commit(&mut self, slot: Slot, number: u64, printed: u64) -> Reply {
        let settled = self.state.workers.get(&slot);
        if settled.is_some_and(|settled| settled.number == number) {
            return Reply::Already;
        }
        let records = match self.state.claims.get(&slot) {
            Some(Claim {
                number: held,
                body: Body::Records(records),
                ..
            }) if *held == number => records.clone(),
            _ => return Reply::Lost,
        };
        self.state.claims.remove(&slot);
        self.state.deadlines.remove(&slot);
        if !self.has(Flaw::DrainDropsRest) {
            let rest = records.into_iter().skip(printed as usize);
            self.state.errors.splice(0..0, rest);
        }
        self.mark(slot, number);
        Reply::Done
    }
}
