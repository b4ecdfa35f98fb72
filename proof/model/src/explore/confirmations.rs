//! Confirmations: a node believes an answer when a replica has what the answer stands for.
//!
//! A node writes a little, and waits until the replica has that write. Then the replica has all that
//! the server had done before, so a failover does not lose it. Answers that came before the write are
//! confirmed. If the server changes meanwhile, the node repeats its calls.

use super::{Events, World};
use crate::call::{Call, Reply};
use crate::flaw::Flaw;
use crate::state::{Node, Seq, Slot, Text};

/// An answer that its node does not believe yet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Answered {
    call: Call,
    reply: AnswerToWrite,
    /// Whether it came before the write for which the node waits.
    is_covered: bool,
}

/// The answers that stand for a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum AnswerToWrite {
    Published,
    AlreadyPublished { last: Seq },
    Done,
    Already,
}

impl AnswerToWrite {
    fn of(reply: &Reply) -> Option<Self> {
        match reply {
            Reply::Published => Some(Self::Published),
            Reply::AlreadyPublished { last } => Some(Self::AlreadyPublished { last: *last }),
            Reply::Done => Some(Self::Done),
            Reply::Already => Some(Self::Already),
            _ => None,
        }
    }

    fn reply(self) -> Reply {
        match self {
            Self::Published => Reply::Published,
            Self::AlreadyPublished { last } => Reply::AlreadyPublished { last },
            Self::Done => Reply::Done,
            Self::Already => Reply::Already,
        }
    }
}

/// What a node was told of a message.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Confirmed {
    text: Text,
    /// The claim by which it ended, if a node was told that.
    ended_by: Option<(Slot, u64)>,
}

impl World {
    /// An answer reaches its node; none if it is lost.
    pub(super) fn answer(&mut self, by: Node, call: &Call, reply: Option<&Reply>) {
        let is_write = matches!(
            call,
            Call::Publish { .. } | Call::Void { .. } | Call::Commit { .. }
        );
        let unconfirmed = match reply.filter(|_| self.confirms && is_write) {
            Some(reply) => AnswerToWrite::of(reply),
            None => None,
        };
        let client = &mut self.nodes[by as usize];
        match unconfirmed.filter(|_| !client.dead) {
            Some(reply) => client.unconfirmed.push(Answered {
                call: call.clone(),
                reply,
                is_covered: false,
            }),
            None => self.hear(by, call, reply),
        }
    }

    /// Whether a node has answers that a confirmation would cover.
    pub(super) fn may_confirm(&self, node: Node) -> bool {
        let client = &self.nodes[node as usize];
        !client.is_confirming && !client.unconfirmed.is_empty()
    }

    /// A node writes, and waits for the replica, which has the write at once or later.
    pub(super) fn begin_confirmation(&mut self, node: Node) {
        if self.flaw != Some(Flaw::WaitConfirmsNothing) {
            self.replicate();
        }
        let client = &mut self.nodes[node as usize];
        client.is_confirming = true;
        let answers = client.unconfirmed.iter_mut();
        answers.for_each(|answered| answered.is_covered = true);
    }

    /// The replica has the write: the node hears the answers that came before.
    pub(super) fn end_confirmation(&mut self, node: Node) {
        let takes_all = self.flaw == Some(Flaw::ConfirmsTooMuch);
        let client = &mut self.nodes[node as usize];
        client.is_confirming = false;
        let all = std::mem::take(&mut client.unconfirmed);
        let (heard, later) = all
            .into_iter()
            .partition(|answered| answered.is_covered || takes_all);
        client.unconfirmed = later;
        self.events |= match self.redis.run_id {
            1 => Events::CONFIRMED_BEFORE,
            _ => Events::CONFIRMED_AFTER,
        };
        self.hear_all(node, heard);
    }

    /// The server has changed: no answer of the old one can be confirmed any more.
    pub(super) fn lose_unconfirmed(&mut self) {
        for node in 0..self.nodes.len() as Node {
            let client = &mut self.nodes[node as usize];
            client.is_confirming = false;
            let answers = std::mem::take(&mut client.unconfirmed);
            if self.flaw == Some(Flaw::ConfirmsAcrossFailover) {
                self.hear_all(node, answers);
                continue;
            }
            for answered in answers {
                self.events |= Events::UNCONFIRMED;
                self.hear(node, &answered.call, None);
            }
        }
    }

    fn hear_all(&mut self, node: Node, answers: Vec<Answered>) {
        for answered in answers {
            self.hear(node, &answered.call, Some(&answered.reply.reply()));
        }
    }

    /// A node was told that a message is published, or that it ended by its claim.
    pub(super) fn note_confirmed(&mut self, seq: Seq, text: Text, ended_by: Option<(Slot, u64)>) {
        if self.confirms {
            let confirmed = self.confirmed.entry(seq).or_insert(Confirmed {
                text,
                ended_by: None,
            });
            confirmed.ended_by = confirmed.ended_by.or(ended_by);
        }
    }

    /// Whether the server has all that a node was told of.
    pub(super) fn has_confirmed(&self) -> bool {
        self.confirmed.iter().all(|(seq, confirmed)| {
            let message = self.history.messages.get(*seq as usize - 1);
            let ended = confirmed.ended_by;
            message.is_some_and(|message| !message.is_void && message.text == confirmed.text)
                && ended.is_none_or(|by| self.history.ended_by(*seq, by))
        })
    }
}
