//! The claim: which messages a worker gets, which wait, and which fail.

use super::Script;
use super::ring::{SMALL_PACK_BYTES, WAKING_PACK_BYTES};
use crate::call::Reply;
use crate::flaw::Flaw;
use crate::state::{
    Body, Claim, Entry, LedgerEntry, Ms, Pack, Range, Reason, Record, RunId, Slot, Suspects, Text,
};

/// Max messages of a claim if one worker died with them.
const MAX_SUSPECT_MESSAGES: u64 = 16;
/// After so many deaths a message is poison.
pub(crate) const POISON_DEATHS: u64 = 3;
/// How long the last suspect has to come back before a message fails as poison.
pub(crate) const VERDICT_MS: Ms = 5_000;
/// Max entries of the queue that one claim checks.
const MAX_ENTRIES: usize = 100;

/// The arguments of a claim.
pub(super) struct Wanted {
    pub(super) slot: Slot,
    pub(super) number: u64,
    pub(super) run_id: RunId,
    pub(super) want: u64,
    pub(super) ttl: Ms,
    pub(super) alone: bool,
    pub(super) sleepers: Option<u8>,
}

impl Script<'_> {
    pub(super) fn claim(&mut self, call: &Wanted) -> Reply {
        let Wanted {
            slot,
            run_id,
            want,
            alone,
            ..
        } = *call;
        if let Some(reply) = self.known_claim(call) {
            return reply;
        }
        if self.state.fence.paused.workers.is_some() && !self.has(Flaw::ClaimWhilePaused) {
            self.fall_asleep(call);
            return Reply::Paused;
        }
        let mut postponed = None;
        for _ in 0..MAX_ENTRIES {
            let head = self.state.queue.first().copied();
            let Some(head) = head.filter(|head| postponed != Some(*head)) else {
                self.fall_asleep(call);
                return Reply::Empty;
            };
            let range = match head {
                Entry::Range(range) => range,
                Entry::Foreign(text) => {
                    self.discard(text, Reason::Foreign);
                    continue;
                }
            };
            let Some(pack) = self.state.packs.get(&range.pack) else {
                self.discard(0, Reason::TextMissing);
                continue;
            };
            let gone = self.still_gone(range.suspects);
            let is_poison = gone.count() >= POISON_DEATHS;
            let same_run_id = gone.run_id == run_id;
            if is_poison && same_run_id && self.is_past(gone.since + VERDICT_MS) {
                let pack = pack.clone();
                self.poison(slot, range, gone.count(), &pack);
            } else if is_poison {
                // Absence proves nothing across a restart of the server: the time begins anew.
                let suspects = match same_run_id {
                    true => range.suspects,
                    false => Suspects::new(gone.nodes, self.now, run_id),
                };
                let waits = Entry::Range(Range { suspects, ..range });
                postponed = postponed.or(Some(waits));
                self.state.queue.remove(0);
                self.state.queue.push(waits);
            } else if gone.count() > 0 && !alone {
                // The next death would blame these messages for another one's.
                return Reply::Empty;
            } else {
                let max = match gone.count() {
                    0 => want.max(1),
                    1 => want.clamp(1, MAX_SUSPECT_MESSAGES),
                    _ => 1,
                };
                let suspects = gone;
                return self.hand_out(call, Range { suspects, ..range }, max);
            }
        }
        self.fall_asleep(call);
        self.ring();
        Reply::Empty
    }

    /// The answer if the slot has a claim, or has ended one of this number.
    fn known_claim(&mut self, call: &Wanted) -> Option<Reply> {
        let (slot, number) = (call.slot, call.number);
        let Some(held) = self.state.claims.get(&slot) else {
            let ended = self.state.workers.get(&slot)?;
            return (number <= ended.number).then_some(Reply::Stale);
        };
        Some(match held.body {
            Body::Messages(range) if held.number == number => {
                self.state.deadlines.insert(slot, self.now + call.ttl);
                self.wake_up(call);
                self.claimed(call, range)
            }
            _ => Reply::Held {
                number: held.number,
            },
        })
    }

    /// The slot claims the first messages of the head of the queue.
    fn hand_out(&mut self, call: &Wanted, range: Range, max: u64) -> Reply {
        let (slot, number, run_id) = (call.slot, call.number, call.run_id);
        let last = range.last.min(range.first + max - 1);
        let taken = Range { last, ..range };
        let leaves = self.has(Flaw::ClaimLeavesQueue);
        let state = &mut self.state;
        if !leaves {
            state.queue.remove(0);
        }
        if last < range.last {
            let first = last + 1;
            let rest = Range { first, ..range };
            state.queue.insert(0, Entry::Range(rest));
        }
        let body = Body::Messages(taken);
        state.claims.insert(
            slot,
            Claim {
                number,
                run_id,
                body,
            },
        );
        state.deadlines.insert(slot, self.now + call.ttl);
        self.wake_up(call);
        if !self.state.queue.is_empty() {
            self.ring();
        }
        self.claimed(call, taken)
    }

    /// The answer for a range. A large pack does not come along: the node reads it.
    fn claimed(&self, call: &Wanted, range: Range) -> Reply {
        let pack = self.state.packs.get(&range.pack);
        let max_bytes = match call.sleepers {
            Some(_) if range.last - range.first + 1 == range.count => WAKING_PACK_BYTES,
            _ => SMALL_PACK_BYTES,
        };
        Reply::Claimed {
            range: Range {
                suspects: Suspects::default(),
                ..range
            },
            sent: pack.is_some_and(|pack| pack.bytes <= max_bytes),
            pack: pack.cloned(),
        }
    }

    /// A foreign entry leaves the queue, and becomes a record.
    fn discard(&mut self, text: Text, reason: Reason) {
        self.state.queue.remove(0);
        self.state.foreign += 1;
        self.state.fail(Record {
            seq: 0,
            text,
            attempt: 1,
            reason,
            origin: 0,
            first_reason: None,
        });
    }

    /// Too many workers died with the first message of the head: it fails.
    fn poison(&mut self, slot: Slot, range: Range, deaths: u64, pack: &Pack) {
        let keeps_note = self.has(Flaw::PoisonKeepsNote);
        let forgets_reason = self.has(Flaw::PoisonForgetsReason);
        let state = &mut self.state;
        state.queue.remove(0);
        let seq = range.first;
        if seq < range.last {
            let first = seq + 1;
            let rest = Range { first, ..range };
            state.queue.insert(0, Entry::Range(rest));
        }
        let note = match keeps_note {
            true => state.notes.get(&seq).copied(),
            false => state.notes.remove(&seq),
        };
        // It may be another pack, if a person deleted the message's own.
        let text = pack.texts.get((seq - range.pack) as usize);
        state.fail(Record {
            seq,
            text: text.copied().unwrap_or(0),
            attempt: range.returns,
            reason: Reason::Poison(deaths),
            // Without the pack that has its text, nobody knows its key.
            origin: text.map_or(0, |_| pack.origin),
            first_reason: note.filter(|_| !forgets_reason).map(|note| note.first),
        });
        state.failed += 1;
        if !state.ledger.is_empty() {
            state.ledger.push(LedgerEntry::Ended {
                slot,
                first: seq,
                last: seq,
                failed: 1,
                handled: false,
            });
        }
        self.count_down(range, 1);
    }
}
