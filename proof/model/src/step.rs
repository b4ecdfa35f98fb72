//! The scripts as one pure function: what a call does to the state, and what it answers.
//!
//! It is written from docs/protocol.md, not translated from Lua: the conformance test shows that the
//! scripts do the same. The caller passes the time.

mod beat;
mod claim;
mod control;
mod delay;
mod drain;
mod park;
mod queue;
mod reclaim;
mod ring;
mod settle;
mod void;

pub(crate) use claim::{POISON_DEATHS, VERDICT_MS};

use crate::call::{Call, Reply, Ring};
use crate::flaw::Flaw;
use crate::state::{Body, Entry, Ms, Node, Range, RunId, Slot, State, Suspects};

/// Max time to live of a lease or a claim.
const MAX_TTL_MS: Ms = 3_600_000;

/// Runs one call at a time of Redis's clock, with or without a flaw. Returns its answer, and what nodes
/// hear on their ring channels. Only unpacks the call.
pub fn step(state: &mut State, call: &Call, now: Ms, flaw: Option<Flaw>) -> (Reply, Vec<Ring>) {
    let mut script = Script {
        state,
        now,
        flaw,
        rings: Vec::new(),
    };
    let reply = match call {
        Call::Beat {
            node,
            run_id,
            ttl,
            above,
            candidate,
            known,
        } => {
            let beat = beat::Beat {
                node: *node,
                run_id: *run_id,
                ttl: *ttl,
                above: *above,
                candidate: *candidate,
                known: *known,
            };
            script.beat(&beat)
        }
        Call::Leave { node } => script.leave(*node),
        Call::Seal { node, epoch } => script.seal(*node, *epoch),
        Call::Publish {
            node,
            epoch,
            first,
            texts,
            bytes,
            origin,
            staging,
            cursor,
            max_open,
            ttl,
            micros,
            audited,
        } => {
            let publish = queue::Publish {
                node: *node,
                epoch: *epoch,
                first: *first,
                texts,
                bytes: *bytes,
                origin: *origin,
                staging: *staging,
                cursor: *cursor,
                max_open: *max_open,
                ttl: *ttl,
                micros: *micros,
                audited: *audited,
            };
            script.publish(&publish)
        }
        Call::Void {
            node,
            epoch,
            first,
            last,
            audited,
        } => {
            let void = void::Void {
                node: *node,
                epoch: *epoch,
                first: *first,
                last: *last,
                audited: *audited,
            };
            script.void(&void)
        }
        Call::Park {
            node,
            epoch,
            parking,
        } => script.park(*node, *epoch, parking),
        Call::Claim {
            slot,
            number,
            run_id,
            want,
            ttl,
            alone,
            sleepers,
        } => {
            let claim = claim::Wanted {
                slot: *slot,
                number: *number,
                run_id: *run_id,
                want: *want,
                ttl: *ttl,
                alone: *alone,
                sleepers: *sleepers,
            };
            script.claim(&claim)
        }
        Call::Extend { ttl, claims } => script.extend(*ttl, claims),
        Call::Commit {
            slot,
            number,
            first,
            last,
            failed,
            delayed,
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
                delayed,
                max_errors: *max_errors,
                effect: *effect,
                audited: *audited,
            };
            script.commit(&commit)
        }
        Call::GiveBack {
            slot,
            number,
            keep,
            at_end,
        } => match keep {
            Some(keep) => script.give_back_behind(*slot, *number, *keep),
            None => script.give_back(*slot, *number, *at_end),
        },
        Call::Reclaim {
            run_id,
            caller,
            max_claims,
            max_due,
            sampled,
        } => {
            let limits = reclaim::Limits {
                claims: *max_claims,
                due: *max_due,
            };
            script.reclaim(*run_id, *caller, limits, sampled)
        }
        Call::Free => script.free(),
        Call::ErrorsClaim {
            slot,
            number,
            run_id,
            ids,
            max,
            ttl,
        } => {
            let wanted = drain::Wanted {
                ids: ids.as_deref(),
                max: *max,
            };
            script.errors_claim(*slot, *number, *run_id, &wanted, *ttl)
        }
        Call::ErrorsCommit {
            slot,
            number,
            removed,
        } => script.errors_commit(*slot, *number, *removed),
        Call::Settle { retry, records } => script.settle(*retry, records),
        Call::Pause {
            resume,
            generator,
            workers,
        } => script.pause(*resume, *generator, *workers),
        Call::Ring => script.ring_on(),
        Call::Tell { known } => script.tell(*known),
        Call::Census => script.census(),
    };
    (reply, script.rings)
}

/// Whether a time has passed. A time that is further ahead than any time to live was written while
/// the clock was wrong, and counts as passed.
pub(crate) fn is_past(time: Ms, now: Ms, flaw: Option<Flaw>) -> bool {
    let too_far = time > now + MAX_TTL_MS;
    time <= now || too_far && flaw != Some(Flaw::BelieveFarFuture)
}

/// A script at work.
struct Script<'a> {
    state: &'a mut State,
    now: Ms,
    flaw: Option<Flaw>,
    /// What it has published, and a node hears.
    rings: Vec<Ring>,
}

impl Script<'_> {
    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    /// Whether a caller may believe that a node is gone: the node is absent, and was present at the
    /// same run id of the server. With run id 0 the caller believes any absence.
    fn is_gone(&self, node: Node, its_run_id: RunId, run_id: RunId) -> bool {
        !self.state.is_present(node) && (run_id == 0 || its_run_id == run_id)
    }

    fn is_past(&self, time: Ms) -> bool {
        is_past(time, self.now, self.flaw)
    }

    /// The suspects that are absent: the others did not die.
    fn still_gone(&self, suspects: Suspects) -> Suspects {
        let present = match self.has(Flaw::BlameTheLiving) {
            true => 0,
            false => self.state.present,
        };
        Suspects::new(suspects.nodes & !present, suspects.since, suspects.run_id)
    }

    /// A range that comes back from a worker which may have died with it.
    fn suspected(&self, range: Range, node: Node, run_id: RunId) -> Range {
        let nodes = self.still_gone(range.suspects).nodes | 1 << node;
        Range {
            returns: range.returns + 1,
            suspects: match self.has(Flaw::ForgetSuspects) {
                true => range.suspects,
                false => Suspects::new(nodes, self.now, run_id),
            },
            ..range
        }
    }

    /// Ends a claim, and returns its messages to the head of the queue or frees its records. Returns
    /// how many messages and records that were. `lost` is set if its worker may have died, to the
    /// server's run id.
    fn put_back(&mut self, slot: Slot, lost: Option<RunId>) -> (u64, u64) {
        let claim = match self.has(Flaw::ReclaimLeavesClaim) && lost.is_some() {
            true => self.state.claims.get(&slot).cloned(),
            false => self.state.claims.remove(&slot),
        };
        self.state.deadlines.remove(&slot);
        match claim.map(|claim| claim.body) {
            Some(Body::Messages(range)) => {
                let range = match lost {
                    Some(run_id) => self.suspected(range, slot.node, run_id),
                    None => range,
                };
                self.state.queue.insert(0, Entry::Range(range));
                self.ring();
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
