//! What really happened, as an all-seeing observer notes it. Nobody in the model reads it; the
//! properties do. A failover that loses writes takes what was noted of them along: this is the
//! surviving history.

use super::Client;
use crate::call::{Call, Reply, Settled};
use crate::state::{Body, Id, Node, Range, Reason, Seq, Slot, State, Text};
use crate::step::POISON_DEATHS;

/// One message.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Message {
    /// Its text.
    pub text: Text,
    /// Who published it.
    pub node: Node,
    /// Under which epoch.
    pub epoch: u64,
    /// How it ended, if it did.
    pub end: Option<End>,
    /// By whom it ended before each of its retries.
    pub past: Vec<Option<(Slot, u64)>>,
}

/// How a message ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct End {
    /// By whom, under which claim; none if it killed too many.
    pub by: Option<(Slot, u64)>,
    /// Whether it failed.
    pub failed: bool,
    /// Whether a drain printed and removed it.
    pub drained: bool,
}

/// Something that must not happen in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wrong {
    /// A number was published that was not the next.
    Misnumbered,
    /// A message ended a second time.
    EndedTwice,
    /// A message ended that was never published.
    EndedPhantom,
    /// A handler saw another text than was published.
    OtherText,
    /// *ok*, *done* or *already* was answered, and it is not so.
    UntrueYes,
    /// *lost* was answered to a commit that took effect, before or after.
    UntrueNo,
    /// A worker told messages as processed that had not ended by its claim.
    ToldTooMuch,
    /// A failed message was removed twice, or without having failed.
    DrainedTwice,
    /// A message was retried that had not failed, or was drained.
    RetriedInVain,
    /// A message failed as poison, and fewer of its suspects are dead than that takes.
    BlamedTheLiving,
}

/// All messages, and what went wrong with them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct History {
    /// Message n is at n − 1.
    pub messages: Vec<Message>,
    /// Claims whose commits were answered with *lost*.
    pub given_up: Vec<(Slot, u64)>,
    /// The first thing that went wrong.
    pub wrong: Option<Wrong>,
}

/// What has to be known of the state before a call to tell what the call did.
pub(super) struct Before {
    last: Seq,
    last_id: Id,
    records: Vec<Seq>,
    /// What waited, and which nodes are dead, if the call is a claim.
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

    /// Whether so many processes died with a message that it is poison.
    fn killed_enough(&self, seq: Seq) -> bool {
        let mut ranges = self.waiting.iter();
        let range = ranges.find(|range| (range.first..=range.last).contains(&seq));
        let suspects = range.map_or(0, |range| range.suspects.nodes);
        u64::from((suspects & self.dead).count_ones()) >= POISON_DEATHS
    }
}

impl History {
    fn note(&mut self, wrong: Wrong) {
        self.wrong.get_or_insert(wrong);
    }

    /// Notes what a call did. `texts` are those that a commit's handler saw.
    pub(super) fn witness(
        &mut self,
        before: &Before,
        call: &Call,
        reply: &Reply,
        after: &State,
        texts: &[Text],
    ) {
        match (call, reply) {
            (
                Call::Publish {
                    node,
                    epoch,
                    first,
                    texts,
                    ..
                },
                Reply::Published | Reply::AlreadyPublished { .. },
            ) => {
                if *reply == Reply::Published {
                    if *first != before.last + 1 || *first != self.messages.len() as u64 + 1 {
                        self.note(Wrong::Misnumbered);
                    }
                    self.messages.extend(texts.iter().map(|text| Message {
                        text: *text,
                        node: *node,
                        epoch: *epoch,
                        end: None,
                        past: Vec::new(),
                    }));
                }
                let kept = self.messages.iter().skip(*first as usize - 1);
                if !kept
                    .map(|m| m.text)
                    .take(texts.len())
                    .eq(texts.iter().copied())
                {
                    self.note(Wrong::UntrueYes);
                }
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
            (Call::Claim { .. }, _) => {
                for record in after
                    .errors
                    .range(before.last_id + 1..)
                    .map(|(_, record)| record)
                {
                    if matches!(record.reason, Reason::Poison(_)) {
                        self.end(record.seq, None, true, Some(record.text));
                        if !before.killed_enough(record.seq) {
                            self.note(Wrong::BlamedTheLiving);
                        }
                    }
                }
            }
            (Call::ErrorsCommit { printed, .. }, Reply::Done) => {
                for seq in before.records.iter().take(*printed as usize) {
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
            self.note(Wrong::UntrueYes);
        }
    }

    fn end(&mut self, seq: Seq, by: Option<(Slot, u64)>, failed: bool, text: Option<Text>) {
        let Some(message) = self.messages.get_mut(seq as usize - 1) else {
            return self.note(Wrong::EndedPhantom);
        };
        let (other_text, twice) = (text != Some(message.text), message.end.is_some());
        message.end = Some(End {
            by,
            failed,
            drained: false,
        });
        if by.is_some_and(|by| self.given_up.contains(&by)) {
            self.note(Wrong::UntrueNo);
        } else if twice {
            self.note(Wrong::EndedTwice);
        } else if other_text {
            self.note(Wrong::OtherText);
        }
    }

    /// A failed message is gone for good.
    fn drained(&mut self, seq: Seq) {
        let message = self.messages.get_mut(seq as usize - 1);
        match message.and_then(|message| message.end.as_mut()) {
            Some(end) if end.failed && !end.drained => end.drained = true,
            _ => self.note(Wrong::DrainedTwice),
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
            None => self.note(Wrong::RetriedInVain),
        }
    }

    fn ended_by(&self, seq: Seq, by: (Slot, u64)) -> bool {
        let message = self.messages.get(seq as usize - 1);
        message.is_some_and(|message| {
            let end = message.end.as_ref().map(|end| end.by);
            end == Some(Some(by)) || message.past.contains(&Some(by))
        })
    }

    /// A worker tells messages as processed.
    pub(super) fn told(&mut self, range: std::ops::RangeInclusive<Seq>, by: (Slot, u64)) {
        if !range.clone().all(|seq| self.ended_by(seq, by)) {
            self.note(Wrong::ToldTooMuch);
        }
    }

    /// A worker is told that its claim was lost. A late twin of a commit may be answered so
    /// although the first took effect, but nobody waits for that answer any more.
    pub(super) fn gave_up(&mut self, range: std::ops::RangeInclusive<Seq>, by: (Slot, u64)) {
        if range.clone().any(|seq| self.ended_by(seq, by)) {
            self.note(Wrong::UntrueNo);
        }
        self.given_up.push(by);
        self.given_up.sort_unstable();
    }

    /// Whether everything published has ended.
    pub fn all_ended(&self) -> bool {
        self.messages.iter().all(|message| message.end.is_some())
    }
}
