//! What really happened, as an all-seeing observer notes it. Only the properties read it. A
//! failover that loses writes also removes them from the history: this is the surviving history.

use super::Client;
use crate::call::{Call, Reply, Settled};
use crate::state::{Body, Id, Node, Range, Reason, Seq, Slot, State, Text};
use crate::step::POISON_DEATHS;

/// One message.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Message {
    /// Its text.
    pub text: Text,
    /// The generator that published it.
    pub node: Node,
    /// The generator's epoch.
    pub epoch: u64,
    /// How it ended, if it did.
    pub end: Option<End>,
    /// The claims by which it ended before each of its retries.
    pub past: Vec<Option<(Slot, u64)>>,
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
    /// A message failed as poison, but too few of its suspects are dead.
    BlamedTheLiving,
}

/// All messages, and the first violation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct History {
    /// Message n is at n − 1.
    pub messages: Vec<Message>,
    /// Claims that their workers reported as lost.
    pub lost_claims: Vec<(Slot, u64)>,
    /// The first violation.
    pub violation: Option<Violation>,
}

/// What was true before a call, as far as it takes to know what the call did.
pub(super) struct Before {
    last: Seq,
    last_id: Id,
    records: Vec<Seq>,
    /// The ranges that waited, and the dead nodes, if the call is a claim.
    waiting: Vec<Range>,
    dead: u32,
}

impl Before {
    pub(super) fn of(state: &State, call: &Call, nodes: &[Client]) -> Self {
        let records = match call {
            Call::ErrorsCommit { slot, .. } => match state.claims.get(slot).map(|c| &c.body) {
                Some(Body::Records(ids)) => {
                    let records = ids.iter().filter_map(|id| state.errors.get(id));
                    records.map(|record| record.seq).collect()
                }
                _ => Vec::new(),
            },
            _ => Vec::new(),
        };
        let (waiting, dead) = match call {
            Call::Claim { .. } => {
                let dead = nodes.iter().enumerate().filter(|(_, client)| client.dead);
                let dead = dead.map(|(node, _)| 1 << node).sum();
                (state.waiting().collect(), dead)
            }
            _ => (Vec::new(), 0),
        };
        Self {
            last: state.fence.last,
            last_id: state.last_id,
            records,
            waiting,
            dead,
        }
    }

    /// Whether enough processes died with a message to make it poison.
    fn killed_enough(&self, seq: Seq) -> bool {
        let mut ranges = self.waiting.iter();
        let range = ranges.find(|range| (range.first..=range.last).contains(&seq));
        let suspects = range.map_or(0, |range| range.suspects.nodes);
        u64::from((suspects & self.dead).count_ones()) >= POISON_DEATHS
    }
}

impl History {
    fn note(&mut self, violation: Violation) {
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
        match (call, reply) {
            (Call::Publish { .. }, Reply::Published | Reply::AlreadyPublished { .. }) => {
                self.witness_publish(before, call, reply);
            }
            (
                Call::Commit {
                    slot,
                    number,
                    first,
                    last,
                    failed,
                    ..
                },
                reply,
            ) => self.witness_commit((*slot, *number), *first..=*last, failed, reply, texts),
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

    /// Notes a publish that was answered with *ok* or *already*.
    fn witness_publish(&mut self, before: &Before, call: &Call, reply: &Reply) {
        let Call::Publish {
            node,
            epoch,
            first,
            texts,
            ..
        } = call
        else {
            return;
        };
        if *reply == Reply::Published {
            if *first != before.last + 1 || *first != self.messages.len() as u64 + 1 {
                self.note(Violation::Misnumbered);
            }
            self.messages.extend(texts.iter().map(|text| Message {
                text: *text,
                node: *node,
                epoch: *epoch,
                end: None,
                past: Vec::new(),
            }));
        }
        let published = self.messages.iter().skip(*first as usize - 1);
        let published = published.map(|message| message.text).take(texts.len());
        if !published.eq(texts.iter().copied()) {
            self.note(Violation::FalseSuccess);
        }
    }

    /// Notes the messages that a claim let fail as poison.
    fn witness_poison(&mut self, before: &Before, after: &State) {
        for record in after
            .errors
            .range(before.last_id + 1..)
            .map(|(_, record)| record)
        {
            if matches!(record.reason, Reason::Poison(_)) {
                self.end(record.seq, None, true, Some(record.text));
                if !before.killed_enough(record.seq) {
                    self.note(Violation::BlamedTheLiving);
                }
            }
        }
    }

    fn witness_commit(
        &mut self,
        by: (Slot, u64),
        range: std::ops::RangeInclusive<Seq>,
        failed: &[crate::state::Record],
        reply: &Reply,
        texts: &[Text],
    ) {
        if *reply == Reply::Done {
            for (at, seq) in range.clone().enumerate() {
                let fails = failed.iter().any(|record| record.seq == seq);
                self.end(seq, Some(by), fails, texts.get(at).copied());
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
        if by.is_some_and(|by| self.lost_claims.contains(&by)) {
            self.note(Violation::FalseLoss);
        } else if twice {
            self.note(Violation::EndedTwice);
        } else if other_text {
            self.note(Violation::WrongText);
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

    fn ended_by(&self, seq: Seq, by: (Slot, u64)) -> bool {
        let message = self.messages.get(seq as usize - 1);
        message.is_some_and(|message| {
            let end = message.end.as_ref().map(|end| end.by);
            end == Some(Some(by)) || message.past.contains(&Some(by))
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
        self.messages.iter().all(|message| message.end.is_some())
    }
}
