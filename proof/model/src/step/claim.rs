//! From the queue into a worker's hands: what is handed out, what waits, and what fails.

use super::Script;
use crate::call::Reply;
use crate::flaw::Flaw;
use crate::state::{
    Body, Claim, Entry, Line, Ms, Range, Reason, Record, Run, Slot, Suspects, Text,
};

/// Most messages handed out at once of those that one worker died with.
const SUSPECT_MESSAGES: u64 = 16;
/// After so many deaths a message is poison.
pub(crate) const POISON_DEATHS: u64 = 3;
/// How long the last suspect has to come back before a message fails as poison.
pub(crate) const VERDICT_MS: Ms = 5_000;
/// Bytes up to which a pack comes along with every part of it.
const SMALL_PACK: u64 = 1024;
/// Entries of the queue that one claim looks at.
const LOOKS: usize = 100;

impl Script<'_> {
    pub(super) fn claim(&mut self, slot: Slot, number: u64, run: Run, want: u64, ttl: Ms) -> Reply {
        if let Some(held) = self.state.claims.get(&slot) {
            return match held.body {
                Body::Messages(range) if held.number == number => {
                    self.state.deadlines.insert(slot, self.now + ttl);
                    self.claimed(range)
                }
                _ => Reply::Held {
                    number: held.number,
                },
            };
        }
        let settled = self.state.workers.get(&slot);
        if settled.is_some_and(|settled| number <= settled.number) {
            return Reply::Stale;
        }
        let mut postponed = None;
        for _ in 0..LOOKS {
            let head = self.state.queue.first().copied();
            let Some(head) = head.filter(|head| postponed != Some(*head)) else {
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
            let same_run = gone.run == run;
            if is_poison && same_run && self.is_past(gone.since + VERDICT_MS) {
                let texts = pack.texts.clone();
                self.poison(slot, range, gone.count(), &texts);
            } else if is_poison {
                // Absence proves nothing across a restart: the time begins anew.
                let waits = match same_run {
                    true => head,
                    false => Entry::Range(Range {
                        suspects: Suspects::new(gone.nodes, self.now, run),
                        ..range
                    }),
                };
                postponed = postponed.or(Some(waits));
                self.state.queue.remove(0);
                self.state.queue.push(waits);
            } else {
                let most = match gone.count() {
                    0 => want.max(1),
                    1 => want.clamp(1, SUSPECT_MESSAGES),
                    _ => 1,
                };
                let suspects = gone;
                let claim = (number, run, ttl);
                return self.hand_out(slot, claim, Range { suspects, ..range }, most);
            }
        }
        self.state.bell = true;
        Reply::Empty
    }

    /// The first messages of the head of the queue into a slot's hands.
    fn hand_out(
        &mut self,
        slot: Slot,
        (number, run, ttl): (u64, Run, Ms),
        range: Range,
        most: u64,
    ) -> Reply {
        let last = range.last.min(range.first + most - 1);
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
        state.claims.insert(slot, Claim { number, run, body });
        state.deadlines.insert(slot, self.now + ttl);
        state.bell |= !state.queue.is_empty();
        self.claimed(taken)
    }

    /// The answer for a range. A part of a large pack comes without it: the node reads the pack
    /// once for all its lanes.
    fn claimed(&self, range: Range) -> Reply {
        let pack = self.state.packs.get(&range.pack);
        let comes_along = |bytes| range.size() == range.count || bytes <= SMALL_PACK;
        Reply::Claimed {
            range: Range {
                suspects: Suspects::default(),
                ..range
            },
            sent: pack.is_some_and(|pack| comes_along(pack.bytes)),
            pack: pack.map(|pack| pack.texts.clone()),
        }
    }

    /// What is not ours leaves the queue, and its bytes are kept.
    fn discard(&mut self, text: Text, reason: Reason) {
        self.state.queue.remove(0);
        self.state.foreign += 1;
        self.state.fail(Record {
            seq: 0,
            text,
            attempt: 1,
            reason,
        });
    }

    /// The first message of the head killed too many: it fails without a worker.
    fn poison(&mut self, slot: Slot, range: Range, deaths: u64, texts: &[Text]) {
        let state = &mut self.state;
        state.queue.remove(0);
        let seq = range.first;
        if seq < range.last {
            let first = seq + 1;
            let rest = Range { first, ..range };
            state.queue.insert(0, Entry::Range(rest));
        }
        state.fail(Record {
            seq,
            // Another pack may lie there, if a person deleted its own.
            text: texts.get((seq - range.pack) as usize).copied().unwrap_or(0),
            attempt: range.returns,
            reason: Reason::Poison(deaths),
        });
        state.failed += 1;
        if !state.ledger.is_empty() {
            state.ledger.push(Line::Ended {
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
