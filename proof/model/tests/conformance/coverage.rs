//! Which answers the calls got: a random test that never gets an answer has not tested it.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use baton_model::call::{Call, Handed, HandedPack, Parking, Reply, Ring};
use baton_model::state::{Entry, Ms, ParcelField, State};

use crate::encoding;

/// Every answer that every script can give, and some of them for a rare reason.
const ALL: [&str; 101] = [
    "Beat Generator",
    "Beat Generator that comes back within the wait",
    "Beat Worker",
    "Beat Worker that knows more than the server",
    "Beat Worker that declines a free lease",
    "Beat Worker that gave up the lease",
    "Beat Worker that waits for the holder",
    "Census Counted",
    "Claim Claimed",
    "Claim Claimed with 1 suspect",
    "Claim Claimed with 2 suspects",
    "Claim Claimed with a suspect cleared",
    "Claim Claimed with another postponed",
    "Claim Claimed without its pack",
    "Claim Empty",
    "Claim Empty with a suspect left",
    "Claim Empty with all postponed",
    "Claim Held",
    "Claim Paused",
    "Claim Paused with messages waiting",
    "Claim Stale",
    "Claim of poison tried before",
    "Commit Already",
    "Commit Done",
    "Commit Done of a message tried before",
    "Commit Done with a delay in a pack of its own",
    "Commit Done with a delay in its pack",
    "Commit Done with a long record",
    "Commit Done with a second delay",
    "Commit Full",
    "Commit Lost",
    "Commit Refused",
    "ErrorsClaim Empty",
    "ErrorsClaim Records",
    "ErrorsClaim Records Foreign",
    "ErrorsClaim Records Poison",
    "ErrorsClaim Records Rejected",
    "ErrorsClaim Records TextMissing",
    "ErrorsClaim Stale",
    "ErrorsCommit Already",
    "ErrorsCommit Done",
    "ErrorsCommit Done of a long record",
    "ErrorsCommit Lost",
    "Extend Extended",
    "Free Freed",
    "Free Freed from the dead",
    "GiveBack GivenBack",
    "GiveBack GivenBack with a part kept",
    "GiveBack Lost",
    "Leave Left",
    "Leave Left with the lease",
    "Park Done in place of another",
    "Park Done of a removal",
    "Park Done of a removal of nothing",
    "Park Done of packs",
    "Park Fenced of a removal",
    "Park Fenced of packs",
    "Pause WasPaused",
    "Pause WasPaused again",
    "Pause WasPaused and goes on",
    "Publish AlreadyPublished",
    "Publish Fenced",
    "Publish Full",
    "Publish Gap",
    "Publish Missing",
    "Publish Paused",
    "Publish Paused of a cursor alone",
    "Publish Published",
    "Publish Published for another than the absent",
    "Publish Published handed over as a whole",
    "Publish Published handed over in part",
    "Publish Published handed over with the pack",
    "Publish Published of a cursor alone",
    "Publish Published of a pack staged before",
    "Publish Published with a ring",
    "Reclaim Reclaimed",
    "Reclaim Reclaimed something",
    "Reclaim Reclaimed with a deadline given",
    "Reclaim Reclaimed with a delay of a wrong clock",
    "Reclaim Reclaimed with a message woken",
    "Reclaim Reclaimed with a ring",
    "Ring Rung",
    "Ring Rung with a ring",
    "Seal Fenced",
    "Seal Sealed",
    "Seal Sealed behind what a node knows",
    "Seal Sealed while paused",
    "Settle Settled Dropped",
    "Settle Settled Missing",
    "Settle Settled Retried",
    "Settle Settled Unfit",
    "Settle Settled of a long record",
    "Settle Settled several",
    "Tell Told",
    "Tell Told of what the server forgot",
    "Void AlreadyPublished",
    "Void Fenced",
    "Void Gap",
    "Void Paused",
    "Void Published",
    "Void Published of what a node knows",
];

/// Whether the errors store has a long record that it had not.
fn more_long(before: &State, after: &State) -> bool {
    let mut new = after.errors.iter();
    new.any(|(id, record)| !before.errors.contains_key(id) && encoding::is_long(record))
}

/// The counts.
#[derive(Debug, Default, Clone)]
pub(crate) struct Coverage {
    /// Calls on which both sides agreed.
    pub(crate) calls: u64,
    answers: BTreeMap<String, u64>,
}

impl Coverage {
    /// Counts a call and its answer, between these states.
    pub(crate) fn count(
        &mut self,
        call: &Call,
        (reply, rings): (&Reply, &[Ring]),
        before: &State,
        after: &State,
    ) {
        self.calls += 1;
        self.count_poison(call, before, after);
        let plain = format!("{} {}", FirstWord::of(call), FirstWord::of(reply));
        let mut note = |more: &str| {
            let answer = format!("{plain}{more}");
            *self.answers.entry(answer).or_default() += 1;
        };
        note("");
        if let Call::Park { parking, .. } = call {
            note(of_parking(parking, reply, before));
        }
        for ring in rings {
            match &ring.handed {
                None => note(" with a ring"),
                Some(Handed { pack, .. }) => note(match pack {
                    HandedPack::Sent(_) => " handed over with the pack",
                    HandedPack::Whole => " handed over as a whole",
                    HandedPack::Part => " handed over in part",
                }),
            }
        }
        if more_long(before, after) && matches!(call, Call::Commit { .. }) {
            note(" with a long record");
        }
        if more_long(after, before) {
            note(" of a long record");
        }
        let woken = before.idle.keys().filter(|it| !after.idle.contains_key(it));
        if matches!(call, Call::Publish { .. }) && woken.into_iter().any(|it| !before.hears(*it)) {
            note(" for another than the absent");
        }
        match reply {
            Reply::Claimed { range, sent, pack } => {
                let claimed = after.claimed().find(|held| held.first == range.first);
                match claimed.map_or(0, |held| held.suspects.count()) {
                    1 => note(" with 1 suspect"),
                    2 => note(" with 2 suspects"),
                    _ => {}
                }
                let head = before.waiting().next();
                let first = head.is_some_and(|head| head.first == range.first);
                let suspects = head.map_or(0, |head| head.suspects.nodes);
                match before.claims.len() < after.claims.len() && suspects != 0 {
                    true if !first => note(" with another postponed"),
                    true if suspects & before.present != 0 => note(" with a suspect cleared"),
                    _ => {}
                }
                if !sent && pack.is_some() {
                    note(" without its pack");
                }
            }
            Reply::Generator { .. }
                if before.lease.node == after.lease.node
                    && before.lease.waited == after.run_id
                    && before.lease.run_id != after.run_id =>
            {
                note(" that comes back within the wait");
            }
            Reply::Worker { .. } if before.lease.waited != after.lease.waited => {
                note(" that waits for the holder");
            }
            Reply::Told { .. } if before.fence.known != after.fence.known => {
                note(" of what the server forgot");
            }
            Reply::Worker { .. } if before.fence.known != after.fence.known => {
                note(" that knows more than the server");
            }
            Reply::Worker { holder: None, .. } => match before.lease.node {
                Some(_) => note(" that gave up the lease"),
                None => note(" that declines a free lease"),
            },
            Reply::Published
                if before.void < after.void && before.fence.known > before.fence.last =>
            {
                note(" of what a node knows");
            }
            Reply::Published if before.fence.last == after.fence.last => {
                note(" of a cursor alone");
            }
            Reply::Published if before.staged.len() > after.staged.len() => {
                note(" of a pack staged before");
            }
            Reply::Empty if !after.queue.is_empty() => match call {
                Call::Claim { alone: false, .. } => note(" with a suspect left"),
                Call::Claim { .. } => note(" with all postponed"),
                _ => {}
            },
            Reply::Paused => match call {
                Call::Publish { texts, .. } if texts.is_empty() => note(" of a cursor alone"),
                Call::Claim { .. } if !after.queue.is_empty() => note(" with messages waiting"),
                _ => {}
            },
            Reply::WasPaused(paused) => {
                let now = after.fence.paused;
                let ends = |was: Option<Ms>, is: Option<Ms>| was.is_some() && is.is_none();
                if ends(paused.generator, now.generator) || ends(paused.workers, now.workers) {
                    note(" and goes on");
                } else if paused.generator.is_some() && *paused == now {
                    note(" again");
                }
            }
            Reply::Sealed { last, known, .. } if known > last => {
                note(" behind what a node knows");
            }
            Reply::Sealed { .. } if after.fence.paused.generator.is_some() => {
                note(" while paused");
            }
            Reply::Freed { holder: Some(_) } => note(" from the dead"),
            Reply::Records(records) => {
                let reasons = records.iter().map(|(_, record)| record.reason);
                reasons.for_each(|reason| note(&format!(" {}", FirstWord::of(&reason))));
            }
            Reply::Settled(settled) => {
                let words = settled.iter().map(|settled| format!(" {settled:?}"));
                words.for_each(|word| note(&word));
                if settled.len() > 1 {
                    note(" several");
                }
            }
            Reply::Left { resigned: true } => note(" with the lease"),
            Reply::Done => {
                for entry in after.delayed.keys() {
                    match entry.range() {
                        _ if before.delayed.contains_key(entry) => {}
                        Some(range) if range.returns > 1 => note(" with a second delay"),
                        Some(range) if range.count > 1 => note(" with a delay in its pack"),
                        _ => note(" with a delay in a pack of its own"),
                    }
                }
                if before
                    .notes
                    .keys()
                    .any(|seq| !after.notes.contains_key(seq))
                {
                    note(" of a message tried before");
                }
            }
            Reply::GivenBack if before.claims.len() == after.claims.len() && before != after => {
                note(" with a part kept");
            }
            Reply::Reclaimed {
                messages,
                records,
                woken,
                next_due,
                ..
            } => {
                if *woken > 0 {
                    note(" with a message woken");
                }
                // It left before others that are due earlier.
                let is_out_of_turn = |(entry, due): (&Entry, &Ms)| {
                    let earliest = after.delayed.values().min();
                    !after.delayed.contains_key(entry) && earliest.is_some_and(|e| e < due)
                };
                if next_due.is_some() && before.delayed.iter().any(is_out_of_turn) {
                    note(" with a delay of a wrong clock");
                }
                if messages + records > 0 {
                    note(" something");
                }
                let mut deadlines = after.deadlines.keys();
                if deadlines.any(|slot| !before.deadlines.contains_key(slot)) {
                    note(" with a deadline given");
                }
            }
            _ => {}
        }
    }

    fn count_poison(&mut self, call: &Call, before: &State, after: &State) {
        if matches!(call, Call::Claim { .. }) && before.notes.len() > after.notes.len() {
            let answer = "Claim of poison tried before".to_owned();
            *self.answers.entry(answer).or_default() += 1;
        }
    }

    /// Adds the counts of another.
    pub(crate) fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        for (answer, count) in &other.answers {
            *self.answers.entry(answer.clone()).or_default() += count;
        }
    }

    /// Answers that were never given.
    pub(crate) fn missing(&self) -> Vec<&'static str> {
        let never = |answer: &&str| !self.answers.contains_key(*answer);
        ALL.into_iter().filter(never).collect()
    }
}

/// What a park did, beyond its answer.
fn of_parking(parking: &Parking, reply: &Reply, before: &State) -> &'static str {
    let is_there = |field: &ParcelField| before.parked.contains_key(field);
    match (parking, reply) {
        (Parking::Remove(fields), Reply::Done) if !fields.iter().any(is_there) => {
            " of a removal of nothing"
        }
        (Parking::Remove(_), _) => " of a removal",
        (Parking::Keep(packs), Reply::Done) if packs.iter().any(|(field, _)| is_there(field)) => {
            " in place of another"
        }
        (Parking::Keep(_), _) => " of packs",
    }
}

/// The name of a value's variant, without writing out the rest.
struct FirstWord(String);

impl FirstWord {
    fn of(value: &impl fmt::Debug) -> String {
        let mut word = Self(String::new());
        // The end of the first word ends the writing with an error.
        let _ = write!(word, "{value:?}");
        word.0
    }
}

impl Write for FirstWord {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for letter in text.chars() {
            if !letter.is_alphanumeric() {
                return Err(fmt::Error);
            }
            self.0.push(letter);
        }
        Ok(())
    }
}
