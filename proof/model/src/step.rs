//! The scripts as one pure function: what a call does to the state, and what it answers.
//!
//! Written from docs/protocol.md, not translated line by line: that the scripts do the same is
//! what the conformance test shows. Time comes from outside.

mod claim;
mod control;
mod drain;
mod queue;
mod settle;

pub(crate) use claim::{POISON_DEATHS, VERDICT_MS};

use crate::call::{Call, Reply};
use crate::flaw::Flaw;
use crate::state::{Body, Entry, Line, Ms, Node, Range, Run, Slot, State, Suspects};

/// The longest time to live of a lease or a claim.
const LONGEST_TTL_MS: Ms = 3_600_000;

/// Runs one call at a time of Redis's clock, in a world with or without a flaw.
pub fn step(state: &mut State, call: &Call, now: Ms, flaw: Option<Flaw>) -> Reply {
    let mut script = Script { state, now, flaw };
    match call {
        Call::Beat {
            node,
            run,
            ttl,
            above,
        } => script.beat(*node, *run, *ttl, *above),
        Call::Leave { node } => script.leave(*node),
        Call::Seal { node, epoch } => script.seal(*node, *epoch),
        Call::Publish {
            node,
            epoch,
            first,
            texts,
            bytes,
            cursor,
            max_open,
            audited,
        } => {
            if let Some(refusal) = script.refuse_publish(*node, *epoch, *first, texts, *max_open) {
                return refusal;
            }
            script.publish(*first, texts, *bytes, *cursor);
            if *audited {
                script.state.ledger.push(Line::Published {
                    epoch: *epoch,
                    first: *first,
                    last: *first + texts.len() as u64 - 1,
                });
            }
            Reply::Published
        }
        Call::Claim {
            slot,
            number,
            run,
            want,
            ttl,
        } => script.claim(*slot, *number, *run, *want, *ttl),
        Call::Extend { ttl, claims } => script.extend(*ttl, claims),
        Call::Commit {
            slot,
            number,
            first,
            last,
            failed,
            max_errors,
            effect,
            audited,
        } => {
            let commit = queue::Commit {
                slot: *slot,
                number: *number,
                first: *first,
                last: *last,
                failed,
                max_errors: *max_errors,
                effect: *effect,
                audited: *audited,
            };
            script.commit(&commit)
        }
        Call::GiveBack { slot, number } => script.give_back(*slot, *number),
        Call::Reclaim {
            run,
            most,
            looked_at,
            checked,
        } => script.reclaim(*run, *most, looked_at, checked),
        Call::Free => script.free(),
        Call::ErrorsClaim {
            slot,
            number,
            run,
            ids,
            most,
            ttl,
        } => {
            let wanted = drain::Wanted {
                ids: ids.as_deref(),
                most: *most,
            };
            script.errors_claim(*slot, *number, *run, &wanted, *ttl)
        }
        Call::ErrorsCommit {
            slot,
            number,
            printed,
        } => script.errors_commit(*slot, *number, *printed),
        Call::Settle { retry, records } => script.settle(*retry, records),
        Call::Census => script.census(),
    }
}

/// Whether a time has come. One that is further ahead than any time to live was written under a
/// clock that has been set right since.
pub(crate) fn is_past(time: Ms, now: Ms, flaw: Option<Flaw>) -> bool {
    let too_far = time > now + LONGEST_TTL_MS;
    time <= now || too_far && flaw != Some(Flaw::BelieveFarFuture)
}

/// A script at work.
struct Script<'a> {
    state: &'a mut State,
    now: Ms,
    flaw: Option<Flaw>,
}

impl Script<'_> {
    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    /// Whether a node is gone from its channel, as far as a caller may believe it: it must have
    /// subscribed at this very run, unless the caller insists.
    fn is_gone(&self, node: Node, its_run: Run, run: Run) -> bool {
        !self.state.is_present(node) && (run == 0 || its_run == run)
    }

    fn is_past(&self, time: Ms) -> bool {
        is_past(time, self.now, self.flaw)
    }

    /// Those suspects that are gone from presence: the others did not die.
    fn still_gone(&self, suspects: Suspects) -> Suspects {
        let present = match self.has(Flaw::BlameTheLiving) {
            true => 0,
            false => self.state.present,
        };
        Suspects::new(suspects.nodes & !present, suspects.since, suspects.run)
    }

    /// A range as it comes back from a worker that may have died with it.
    fn suspected(&self, range: Range, node: Node, run: Run) -> Range {
        let nodes = self.still_gone(range.suspects).nodes | 1 << node;
        Range {
            returns: range.returns + 1,
            suspects: match self.has(Flaw::ForgetSuspects) {
                true => range.suspects,
                false => Suspects::new(nodes, self.now, run),
            },
            ..range
        }
    }

    /// Ends a claim and returns what it held to the front of where it came from. Tells how many
    /// messages and records that were. `lost` if its worker may have died, with the run of the
    /// server that the caller saw.
    fn put_back(&mut self, slot: Slot, lost: Option<Run>) -> (u64, u64) {
        let claim = match self.has(Flaw::ReclaimLeavesClaim) && lost.is_some() {
            true => self.state.claims.get(&slot).cloned(),
            false => self.state.claims.remove(&slot),
        };
        self.state.deadlines.remove(&slot);
        match claim.map(|claim| claim.body) {
            Some(Body::Messages(range)) => {
                let range = match lost {
                    Some(run) => self.suspected(range, slot.node, run),
                    None => range,
                };
                self.state.queue.insert(0, Entry::Range(range));
                self.state.bell = true;
                (range.size(), 0)
            }
            Some(Body::Records(ids)) => {
                self.state.held.retain(|id, _| !ids.contains(id));
                (0, ids.len() as u64)
            }
            None => (0, 0),
        }
    }
}
