//! How the messages of a claim ended, on the way to its commit.

use super::CommitCall;
use crate::{Digest, Effects, FailedMessage, record};

/// Max messages that fail at once because their pack cannot be read.
const MAX_UNREADABLE: u64 = 1000;

/// How consecutive messages ended. Only failures and effects take memory.
pub struct Outcomes {
    node: String,
    first: u64,
    count: u64,
    attempt: u64,
    /// Sequence numbers of those that failed, and their error records.
    failed: Vec<u64>,
    records: Vec<Vec<u8>>,
    effects: Effects,
    /// How many effects had been staged when each message with effects began: the number
    /// and the position.
    marks: Vec<(u64, usize)>,
    /// Digest of the texts, if the fleet keeps a ledger.
    pub digest: Option<Digest>,
    /// When they were published, in ms on Redis's clock, if their pack says so.
    pub published_ms: Option<u64>,
}

impl Outcomes {
    /// No outcome yet, of messages from `first` on.
    pub fn new(node: &str, first: u64, attempt: u64) -> Self {
        Self {
            node: node.to_owned(),
            first,
            count: 0,
            attempt,
            failed: Vec::new(),
            records: Vec::new(),
            effects: Effects::default(),
            marks: Vec::new(),
            digest: None,
            published_ms: None,
        }
    }

    /// The first message.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// The last message that has an outcome; `first - 1` when none has.
    pub fn last(&self) -> u64 {
        self.first + self.count - 1
    }

    /// How many messages have an outcome.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether a handler staged effects.
    pub fn has_effects(&self) -> bool {
        !self.effects.staged.is_empty()
    }

    /// Which attempt it is.
    pub fn attempt(&self) -> u64 {
        self.attempt
    }

    /// The sequence numbers of those that failed.
    pub fn failed_numbers(&self) -> Vec<u64> {
        self.failed.clone()
    }

    /// The next message ended well.
    pub fn done(&mut self, mut effects: Effects) {
        if !effects.staged.is_empty() {
            self.marks
                .push((self.first + self.count, self.effects.staged.len()));
            self.effects.staged.append(&mut effects.staged);
        }
        self.count += 1;
    }

    /// The next message failed. What its handler staged is dropped.
    pub fn failed(&mut self, reason: &str, text: &[u8], at_ms: u64) {
        let seq = self.first + self.count;
        let failed = FailedMessage {
            seq,
            at_ms,
            node: self.node.clone(),
            reason: reason.to_owned(),
            attempt: self.attempt,
            text: text.to_vec(),
        };
        self.failed.push(seq);
        self.records.push(record::encode(&failed));
        self.count += 1;
    }

    /// All messages up to `last` failed, because their pack cannot be read; the first one's
    /// record keeps the bytes. At most `MAX_UNREADABLE` messages.
    pub fn fail_unreadable(&mut self, last: u64, bytes: &[u8], at_ms: u64) {
        let head = self.first;
        self.failed(
            "its pack cannot be read; these are the pack's bytes",
            bytes,
            at_ms,
        );
        while self.last() < last && self.count < MAX_UNREADABLE {
            self.failed(&format!("its pack cannot be read; see #{head}"), b"", at_ms);
        }
    }

    /// The call that commits them.
    pub fn call(&self, max_errors: u64) -> CommitCall<'_> {
        CommitCall {
            first: self.first,
            last: self.last(),
            failed: &self.records,
            effects: &self.effects,
            max_errors,
            digest: self.digest,
        }
    }

    /// The same outcomes one by one.
    pub fn singles(&self) -> Vec<Self> {
        let mut records = self.failed.iter().zip(&self.records).peekable();
        let mut marks = self.marks.iter().peekable();
        let single = |seq| {
            let mut single = Self::new(&self.node, seq, self.attempt);
            single.count = 1;
            if let Some((failed, record)) = records.next_if(|(failed, _)| **failed == seq) {
                single.failed.push(*failed);
                single.records.push(record.clone());
            }
            if let Some((_, from)) = marks.next_if(|(marked, _)| *marked == seq) {
                let to = marks
                    .peek()
                    .map_or(self.effects.staged.len(), |(_, next)| *next);
                single.effects.staged = self.effects.staged[*from..to].to_vec();
            }
            single
        };
        (self.first..=self.last()).map(single).collect()
    }

    /// The same single message, failed because its effects were refused.
    pub fn refused(&self, reason: &str, text: &[u8], at_ms: u64) -> Self {
        let mut failed = Self::new(&self.node, self.first, self.attempt);
        failed.digest = self.digest;
        failed.failed(&format!("its effects were refused: {reason}"), text, at_ms);
        failed
    }
}
