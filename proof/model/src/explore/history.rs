//! What really happened, as an all-seeing observer notes it. Only the properties read it. A
//! failover that loses writes also removes them from the history: this is the surviving history.

use super::before::Before;
use crate::call::{Call, Delay, Reply, Settled};
use crate::state::{Body, Entry, Ms, Node, Note, Origin, Reason, Record, Seq, Slot, State, Text};
use crate::step::is_past;

/// One message.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Message {
    /// Its text.
    pub text: Text,
    /// The generator that published it.
    pub node: Node,
    /// The generator's epoch.
    pub epoch: u64,
    /// The generator's word for its packs.
    pub origin: Origin,
    /// How often it came back since it was published, or retried: reclaimed or delayed. 0 if it has
    /// ended.
    pub returns: u64,
    /// What is noted of its attempts, if it was delayed and has not ended.
    pub note: Option<Note>,
    /// The claims by which it was delayed.
    pub delayed_by: Vec<(Slot, u64)>,
    /// How it ended, if it did.
    pub end: Option<End>,
    /// The claims by which it ended before each of its retries.
    pub past: Vec<Option<(Slot, u64)>>,
    /// Whether the number has no message.
    pub is_void: bool,
}

/// How a message ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct End {
    /// The claim by which it ended: slot and number. None if it failed as poison.
    pub by: Option<(Slot, u64)>,
    /// Whether it failed.
    pub failed: bool,
    /// Whether its record is deleted: a drain printed it, or a person dropped it.
    pub drained: bool,
}

/// Something that must not happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Violation {
    /// A publish was accepted whose first number was not the next.
    Misnumbered,
    /// A message ended a second time.
    EndedTwice,
    /// A message ended that was never published.
    EndedPhantom,
    /// A handler got another text than was published.
    WrongText,
    /// The answer was *ok*, *done* or *already*, and that is not true.
    FalseSuccess,
    /// The answer was *lost* to a commit that took effect, before or after.
    FalseLoss,
    /// A worker reported messages as processed that had not ended by its claim.
    ReportedUnended,
    /// A record was deleted twice, or its message had not failed.
    DrainedTwice,
    /// A message was retried that had not failed, or whose record was deleted.
    RetriedUnfailed,
    /// A delayed message waited again before it was due.
    WokenEarly,
    /// A message was published under the key of another text.
    KeyOfAnother,
    /// A record has not the key of its message.
    WrongKey,
    /// A record does not say why the first attempt failed.
    WrongReason,
    /// A message failed as poison, but too few of its suspects are dead.
    BlamedTheLiving,
    /// A node that may not generate has the lease after its beat.
    HeldByDecliner,
    /// Redis accepted messages, or a cursor, of a paused generator.
    PublishedWhilePaused,
    /// A message left the queue while the workers were paused, or never got there.
    ClaimedWhilePaused,
    /// A node was handed a message although others waited before it.
    HandedOutOfTurn,
    /// A number got a second text, and a node that the generator had to believe knew the first.
    TwoTexts,
    /// A generator of an older fence declared numbers void.
    VoidUnfenced,
    /// A generator declared numbers void although it had their messages.
    VoidedKept,
    /// A node counted as gone that had not been connected to this server.
    BelievedAbsence,
}

/// All messages, and the first violation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct History {
    /// Message n is at n − 1.
    pub messages: Vec<Message>,
    /// Claims that their workers reported as lost.
    pub lost_claims: Vec<(Slot, u64)>,
    /// Whether an operator has paused the generator, and the workers.
    pub paused: (bool, bool),
    /// The first violation.
    pub violation: Option<Violation>,
}

/// A commit, and the texts that the handler got.
struct Committed<'a> {
    by: (Slot, u64),
    range: std::ops::RangeInclusive<Seq>,
    failed: &'a [Record],
    delayed: &'a [Delay],
    texts: &'a [Text],
}

impl History {
    pub(super) fn note(&mut self, violation: Violation) {
        self.violation.get_or_insert(violation);
    }

    /// Notes what a call did. `texts` are those that the handler of a commit got.
    pub(super) fn witness(
        &mut self,
        before: &Before,
        call: &Call,
        reply: &Reply,
        after: &State,
        texts: &[Text],
    ) {
        self.witness_pause(before, call, reply, after);
        match (call, reply) {
            (
                Call::Beat {
                    node,
                    candidate: false,
                    ..
                },
                _,
            ) if after.lease.node == Some(*node) => self.note(Violation::HeldByDecliner),
            (Call::Publish { .. }, Reply::Published | Reply::AlreadyPublished { .. }) => {
                self.witness_publish(before, call, reply, after);
            }
            (Call::Void { .. }, Reply::Published | Reply::AlreadyPublished { .. }) => {
                self.witness_void(before, call, reply);
            }
            (
                Call::Commit {
                    slot,
                    number,
                    first,
                    last,
                    failed,
                    delayed,
                    ..
                },
                reply,
            ) => {
                let committed = Committed {
                    by: (*slot, *number),
                    range: *first..=*last,
                    failed,
                    delayed,
                    texts,
                };
                self.witness_commit(&committed, reply);
            }
            (
                Call::GiveBack {
                    slot,
                    keep: Some(keep),
                    ..
                },
                Reply::GivenBack,
            ) => {
                let kept = after.claims.get(slot).map(|claim| &claim.body);
                if !matches!(kept, Some(Body::Messages(range)) if range.last == *keep) {
                    self.note(Violation::FalseSuccess);
                }
            }
            (Call::Reclaim { .. }, _) => self.witness_reclaim(before, after),
            (Call::Claim { .. }, _) => self.witness_poison(before, after),
            (Call::ErrorsCommit { removed, .. }, Reply::Done) => {
                for seq in before.records.iter().take(*removed as usize) {
                    self.drained(*seq);
                }
            }
            (Call::Settle { records, .. }, Reply::Settled(settled)) => {
                for (seen, settled) in records.iter().zip(settled) {
                    match settled {
                        Settled::Dropped => self.drained(seen.record.seq),
                        Settled::Retried => self.retried(seen.record.seq),
                        Settled::Missing | Settled::Unfit => {}
                    }
                }
            }
            _ => {}
        }
    }

    /// Notes what is paused, and that nothing was published or claimed meanwhile.
    fn witness_pause(&mut self, before: &Before, call: &Call, reply: &Reply, after: &State) {
        let (generator, workers) = &mut self.paused;
        match call {
            Call::Pause {
                resume,
                generator: of_generator,
                workers: of_workers,
            } => {
                if *of_generator {
                    *generator = !resume;
                }
                if *of_workers {
                    *workers = !resume;
                }
            }
            Call::Publish { .. } | Call::Void { .. }
                if *generator && *reply == Reply::Published =>
            {
                self.note(Violation::PublishedWhilePaused);
            }
            Call::Claim { .. } if *workers && !before.left_queue(after) => {
                self.note(Violation::ClaimedWhilePaused);
            }
            _ => {}
        }
    }

    /// Notes a publish that was answered with *ok* or *already*.
    fn witness_publish(&mut self, before: &Before, call: &Call, reply: &Reply, after: &State) {
        let Call::Publish {
            node,
            epoch,
            first,
            texts,
            origin,
            ..
        } = call
        else {
            return;
        };
        if *reply == Reply::Published {
            if *first != before.last + 1 || *first != self.messages.len() as u64 + 1 {
                self.note(Violation::Misnumbered);
            }
            let hands_over = after.claimed().any(|range| range.first == *first);
            if hands_over && !before.waiting.is_empty() {
                self.note(Violation::HandedOutOfTurn);
            } else if hands_over && self.paused.1 {
                self.note(Violation::ClaimedWhilePaused);
            }
            self.messages.extend(texts.iter().map(|text| Message {
                text: *text,
                node: *node,
                epoch: *epoch,
                origin: *origin,
                returns: 0,
                note: None,
                delayed_by: Vec::new(),
                end: None,
                past: Vec::new(),
                is_void: false,
            }));
        }
        let published = self.messages.iter().skip(*first as usize - 1);
        let published = published.map(|message| message.text).take(texts.len());
        if !published.eq(texts.iter().copied()) {
            self.note(Violation::FalseSuccess);
        }
    }

    /// Notes a void that was answered with *ok* or *already*.
    fn witness_void(&mut self, before: &Before, call: &Call, reply: &Reply) {
        let Call::Void {
            node,
            epoch,
            first,
            last,
            ..
        } = *call
        else {
            return;
        };
        if *reply != Reply::Published {
            if self.messages.len() < last as usize {
                self.note(Violation::FalseSuccess);
            }
            return;
        }
        if before.fence != (Some(node), epoch) {
            self.note(Violation::VoidUnfenced);
        }
        if first != before.last + 1 || first != self.messages.len() as u64 + 1 {
            self.note(Violation::Misnumbered);
        }
        self.messages.extend((first..=last).map(|_| Message {
            text: 0,
            node,
            epoch,
            origin: 0,
            returns: 0,
            note: None,
            delayed_by: Vec::new(),
            end: None,
            past: Vec::new(),
            is_void: true,
        }));
    }

    /// Notes the messages that a claim let fail as poison.
    fn witness_poison(&mut self, before: &Before, after: &State) {
        for record in after
            .errors
            .range(before.last_id + 1..)
            .map(|(_, record)| record)
        {
            if matches!(record.reason, Reason::Poison(_)) {
                self.check_key(record);
                self.check_first_reason(record);
                self.end(record.seq, None, true, Some(record.text));
                if !before.killed_enough(record.seq) {
                    self.note(Violation::BlamedTheLiving);
                }
            }
        }
    }

    /// Notes which claims a reclaim returned, and whether it woke a delayed message too early.
    fn witness_reclaim(&mut self, before: &Before, after: &State) {
        for (slot, range, _) in &before.claimed {
            if !after.claims.contains_key(slot) {
                let first = range.first as usize - 1;
                let returned = self.messages.iter_mut().skip(first);
                let returned = returned.take(range.size() as usize);
                returned.for_each(|message| message.returns += 1);
            }
        }
        let early = |(entry, due): (&Entry, &Ms)| {
            !is_past(*due, before.now, None) && !after.delayed.contains_key(entry)
        };
        if before.delayed.iter().any(early) {
            self.note(Violation::WokenEarly);
        }
    }

    fn witness_commit(&mut self, committed: &Committed<'_>, reply: &Reply) {
        let (by, range) = (committed.by, &committed.range);
        if *reply == Reply::Done {
            committed.failed.iter().for_each(|r| self.check_key(r));
            for (at, seq) in range.clone().enumerate() {
                let fails = committed.failed.iter().any(|record| record.seq == seq);
                let text = committed.texts.get(at).copied();
                match committed.delayed.iter().find(|delay| delay.seq == seq) {
                    Some(delay) => self.delay(delay, by, text),
                    None => self.end(seq, Some(by), fails, text),
                }
            }
        }
        let ended = |seq: Seq| self.ended_by(seq, by);
        if matches!(reply, Reply::Done | Reply::Already) && !range.clone().all(ended) {
            self.note(Violation::FalseSuccess);
        }
    }

    fn end(&mut self, seq: Seq, by: Option<(Slot, u64)>, failed: bool, text: Option<Text>) {
        let Some(message) = self.messages.get_mut(seq as usize - 1) else {
            return self.note(Violation::EndedPhantom);
        };
        let (other_text, twice) = (text != Some(message.text), message.end.is_some());
        message.end = Some(End {
            by,
            failed,
            drained: false,
        });
        (message.returns, message.note) = (0, None);
        if by.is_some_and(|by| self.lost_claims.contains(&by)) {
            self.note(Violation::FalseLoss);
        } else if twice {
            self.note(Violation::EndedTwice);
        } else if other_text {
            self.note(Violation::WrongText);
        }
    }

    /// A message is delayed, and has not ended.
    fn delay(&mut self, delay: &Delay, by: (Slot, u64), text: Option<Text>) {
        let Some(message) = self.messages.get_mut(delay.seq as usize - 1) else {
            return self.note(Violation::EndedPhantom);
        };
        let (other_text, ended) = (text != Some(message.text), message.end.is_some());
        message.returns += 1;
        message.note = Some(delay.note);
        message.delayed_by.push(by);
        if self.lost_claims.contains(&by) {
            self.note(Violation::FalseLoss);
        } else if ended {
            self.note(Violation::EndedTwice);
        } else if other_text {
            self.note(Violation::WrongText);
        }
    }

    /// A record must have the key of its message.
    fn check_key(&mut self, record: &Record) {
        let message = self.messages.get(record.seq as usize - 1);
        if message.is_some_and(|message| message.origin != record.origin) {
            self.note(Violation::WrongKey);
        }
    }

    /// A record that a script makes must say why the first attempt failed. A worker may say less: if
    /// it lost its claim and a late duplicate claims the message again under the same number, its old
    /// commit takes effect, and knows nothing of the attempts in between.
    fn check_first_reason(&mut self, record: &Record) {
        let message = self.messages.get(record.seq as usize - 1);
        let first = message.and_then(|message| message.note).map(|n| n.first);
        if record.first_reason != first {
            self.note(Violation::WrongReason);
        }
    }

    /// The record of a failed message is deleted.
    fn drained(&mut self, seq: Seq) {
        let message = self.messages.get_mut(seq as usize - 1);
        match message.and_then(|message| message.end.as_mut()) {
            Some(end) if end.failed && !end.drained => end.drained = true,
            _ => self.note(Violation::DrainedTwice),
        }
    }

    /// A failed message waits again: it has to end once more.
    fn retried(&mut self, seq: Seq) {
        let message = self.messages.get_mut(seq as usize - 1);
        let failed = message.filter(|m| m.end.as_ref().is_some_and(|e| e.failed && !e.drained));
        match failed {
            Some(message) => {
                let end = message.end.take();
                message.past.push(end.and_then(|end| end.by));
            }
            None => self.note(Violation::RetriedUnfailed),
        }
    }

    pub(super) fn ended_by(&self, seq: Seq, by: (Slot, u64)) -> bool {
        let message = self.messages.get(seq as usize - 1);
        message.is_some_and(|message| {
            let end = message.end.as_ref().map(|end| end.by);
            end == Some(Some(by))
                || message.past.contains(&Some(by))
                || message.delayed_by.contains(&by)
        })
    }

    /// A worker reports messages as processed.
    pub(super) fn reported_done(&mut self, range: std::ops::RangeInclusive<Seq>, by: (Slot, u64)) {
        if !range.clone().all(|seq| self.ended_by(seq, by)) {
            self.note(Violation::ReportedUnended);
        }
    }

    /// A worker reports its claim as lost. A late duplicate of a commit may be answered with *lost*
    /// although the first took effect, but no worker waits for that answer any more.
    pub(super) fn reported_lost(&mut self, range: std::ops::RangeInclusive<Seq>, by: (Slot, u64)) {
        if range.clone().any(|seq| self.ended_by(seq, by)) {
            self.note(Violation::FalseLoss);
        }
        self.lost_claims.push(by);
        self.lost_claims.sort_unstable();
    }

    /// Whether every published message has ended.
    pub fn all_ended(&self) -> bool {
        let mut messages = self.messages.iter();
        messages.all(|message| message.is_void || message.end.is_some())
    }
}
