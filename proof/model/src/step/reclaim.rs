//! The reclaim: the claims of the dead go back, and delayed messages that are due.

use std::collections::BTreeSet;

use super::Script;
use crate::call::{Reply, Sampled};
use crate::state::{Entry, Ms, Node, Range, RunId, Slot};

/// Claims with the last deadlines that are checked, too.
const LAST_CLAIMS: usize = 2;
/// Ranges at either end of the queue in which suspects are cleared.
const CLEARED_RANGES: usize = 16;
/// After so long the last claim of a slot is forgotten.
const WORKERS_FORGET_S: Ms = 600;

/// How much one reclaim does.
pub(super) struct Limits {
    /// Max claims that it checks.
    pub(super) claims: usize,
    /// Max delayed messages that it wakes.
    pub(super) due: usize,
}

impl Script<'_> {
    /// Clears the suspects that are present, in the first and the last ranges that wait.
    fn clear_suspects(&mut self) {
        let length = self.state.queue.len();
        for at in 0..length {
            if let Entry::Range(range) = self.state.queue[at]
                && (at < CLEARED_RANGES || at + CLEARED_RANGES >= length)
            {
                let suspects = self.still_gone(range.suspects);
                self.state.queue[at] = Entry::Range(Range { suspects, ..range });
            }
        }
    }

    /// The claims that a reclaim checks: those with the first deadlines, and the very last.
    fn first_deadlines(&self, max_claims: usize) -> Vec<(Ms, Slot)> {
        let deadlines = self.state.deadlines.iter();
        let mut due: Vec<(Ms, Slot)> = deadlines.map(|(slot, at)| (*at, *slot)).collect();
        due.sort_unstable();
        // The last deadlines may be from a time at which the clock was ahead.
        let last = due.split_off(due.len().min(max_claims));
        due.extend_from_slice(&last[last.len().saturating_sub(LAST_CLAIMS)..]);
        due
    }

    pub(super) fn reclaim(
        &mut self,
        run_id: RunId,
        caller: Option<Node>,
        limits: Limits,
        sampled: &Sampled,
    ) -> Reply {
        let now = self.now;
        let waits = !self.state.queue.is_empty();
        let due = self.first_deadlines(limits.claims);
        let claim_run_id =
            |slot: &Slot| self.state.claims.get(slot).map_or(0, |claim| claim.run_id);
        let gone: BTreeSet<Node> = due
            .iter()
            .filter(|(_, slot)| self.is_gone(slot.node, claim_run_id(slot), run_id))
            .map(|(_, slot)| slot.node)
            .collect();

        let (mut messages, mut records, mut nodes) = (0, 0, Vec::new());
        for (at, slot) in due {
            if !self.is_past(at) && !gone.contains(&slot.node) {
                continue;
            }
            if !self.state.claims.contains_key(&slot) {
                self.state.deadlines.remove(&slot);
                continue;
            }
            let (m, r) = self.put_back(slot, Some(run_id));
            messages += m;
            records += r;
            if !nodes.contains(&slot.node) {
                nodes.push(slot.node);
            }
        }
        let (woken, next_due) = self.wake_delayed(limits.due);
        if (waits || woken > 0)
            && !self.ring()
            && let Some(caller) = caller
        {
            self.ring_node((caller, self.state.run_id), None);
        }
        self.clear_suspects();
        for slot in &sampled.claims {
            if self.state.claims.contains_key(slot) {
                self.state.deadlines.entry(*slot).or_insert(now);
            }
        }
        let state = &mut self.state;
        for sleeper in &sampled.idle {
            if !state.hears(*sleeper) {
                state.idle.remove(sleeper);
            }
        }
        for slot in &sampled.workers {
            // Stored in whole seconds, and compared with a clock that has fractions.
            let old = |at: Ms| (at / 1000 + WORKERS_FORGET_S) * 1000 < now;
            if self
                .state
                .workers
                .get(slot)
                .is_some_and(|ended| old(ended.at))
            {
                self.state.workers.remove(slot);
            }
        }
        Reply::Reclaimed {
            messages,
            records,
            woken,
            next_due,
            nodes,
        }
    }
}
