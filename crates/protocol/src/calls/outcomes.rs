//! How the messages of a claim ended, on the way to its commit.

use std::time::Duration;

use super::{CommitCall, Delay};
use crate::{Digest, Effects, FailedMessage, Key, Note, PackBuilder, Range, record};

/// Max messages that fail at once because their pack cannot be read.
const MAX_UNREADABLE: u64 = 1000;
/// Max delays and effects of one commit, and max bytes of its records, notes, packs and effects, but
/// for its last message: Redis does nothing else meanwhile.
const MAX_DELAYS: usize = 250;
const MAX_EFFECTS: usize = 1000;
const MAX_BYTES: usize = 256 << 10;

/// How consecutive messages ended. Only failures, delays and effects take memory.
pub struct Outcomes {
    node: String,
    /// First message of their pack.
    pack: u64,
    first: u64,
    count: u64,
    attempt: u64,
    /// Sequence numbers of those that failed, and their error records.
    failed: Vec<u64>,
    records: Vec<Vec<u8>>,
    delayed: Vec<Delay>,
    /// Bytes of the records, notes, packs and effects.
    bytes: usize,
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
    /// No outcome yet, of messages of a claimed range from `first` on.
    pub fn new(node: &str, range: &Range, first: u64) -> Self {
        Self {
            node: node.to_owned(),
            pack: range.pack,
            first,
            count: 0,
            attempt: range.returns + 1,
            failed: Vec::new(),
            records: Vec::new(),
            delayed: Vec::new(),
            bytes: 0,
            effects: Effects::default(),
            marks: Vec::new(),
            digest: None,
            published_ms: None,
        }
    }

    /// No outcome yet, of messages of the same claim from `first` on.
    fn empty_from(&self, first: u64) -> Self {
        let range = Range {
            pack: self.pack,
            count: 0,
            first,
            last: first,
            returns: self.attempt - 1,
        };
        Self::new(&self.node, &range, first)
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

    /// Whether a commit of more would keep Redis busy for long.
    pub fn is_large(&self) -> bool {
        self.delayed.len() >= MAX_DELAYS
            || self.effects.staged.len() >= MAX_EFFECTS
            || self.bytes >= MAX_BYTES
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
            let arguments = effects.staged.iter().flat_map(|effect| &effect.args);
            self.bytes += arguments.map(Vec::len).sum::<usize>();
            self.effects.staged.append(&mut effects.staged);
        }
        self.count += 1;
    }

    /// The messages that are to be tried again.
    pub fn delays(&self) -> &[Delay] {
        &self.delayed
    }

    /// The sequence numbers of those that are to be tried again.
    pub fn delayed_numbers(&self) -> Vec<u64> {
        self.delayed.iter().map(|delay| delay.seq).collect()
    }

    /// The next message is to be tried again after `delay`. What its handler staged is dropped.
    pub fn delayed(&mut self, key: Key<'_>, text: &[u8], delay: Duration, note: &Note) {
        let seq = self.first + self.count;
        let mut pack = Vec::new();
        if seq != self.pack {
            let mut alone = PackBuilder::default();
            alone.push_keyed(&key.to_string(), text);
            pack = alone.finish(self.published_ms.unwrap_or_default(), "", seq);
        }
        let note = note.encode();
        self.bytes += note.len() + pack.len();
        self.delayed.push(Delay {
            seq,
            delay,
            note,
            pack,
        });
        self.count += 1;
    }

    /// The next message failed for this reason, and its first attempt for `first_reason` (empty if
    /// this is the first). What its handler staged is dropped.
    pub fn failed(
        &mut self,
        key: Key<'_>,
        text: &[u8],
        reason: &str,
        first_reason: &str,
        at_ms: u64,
    ) {
        let seq = self.first + self.count;
        let failed = FailedMessage {
            partition: None,
            seq,
            at_ms,
            node: self.node.clone(),
            reason: reason.to_owned(),
            attempt: self.attempt,
            key: key.to_string(),
            first_reason: first_reason.to_owned(),
            text: text.to_vec(),
        };
        self.failed.push(seq);
        let record = record::encode(&failed);
        self.bytes += record.len();
        self.records.push(record);
        self.count += 1;
    }

    /// All messages up to `last` failed, because their pack cannot be read; the first one's
    /// record keeps the bytes. At most `MAX_UNREADABLE` messages.
    pub fn fail_unreadable(&mut self, last: u64, bytes: &[u8], at_ms: u64) {
        let (head, key) = (self.first, Key::given(""));
        let reason = "its pack cannot be read; these are the pack's bytes";
        self.failed(key, bytes, reason, "", at_ms);
        while self.last() < last && self.count < MAX_UNREADABLE {
            let reason = format!("its pack cannot be read; see #{head}");
            self.failed(key, b"", &reason, "", at_ms);
        }
    }

    /// The call that commits them.
    pub fn call(&self, max_errors: u64) -> CommitCall<'_> {
        CommitCall {
            first: self.first,
            last: self.last(),
            failed: &self.records,
            delayed: &self.delayed,
            effects: &self.effects,
            max_errors,
            digest: self.digest,
        }
    }

    /// The same outcomes one by one.
    pub fn singles(&self) -> Vec<Self> {
        let mut records = self.failed.iter().zip(&self.records).peekable();
        let mut delayed = self.delayed.iter().peekable();
        let mut marks = self.marks.iter().peekable();
        let single = |seq| {
            let mut single = self.empty_from(seq);
            single.count = 1;
            if let Some((failed, record)) = records.next_if(|(failed, _)| **failed == seq) {
                single.failed.push(*failed);
                single.records.push(record.clone());
            }
            single
                .delayed
                .extend(delayed.next_if(|delay| delay.seq == seq).cloned());
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

    /// The same single message, failed because its effects were refused. Its first attempt failed for
    /// `first_reason` (empty if this is the first).
    pub fn refused(
        &self,
        key: Key<'_>,
        text: &[u8],
        reason: &str,
        first_reason: &str,
        at_ms: u64,
    ) -> Self {
        let mut failed = self.empty_from(self.first);
        failed.digest = self.digest;
        let reason = format!("its effects were refused: {reason}");
        failed.failed(key, text, &reason, first_reason, at_ms);
        failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many messages with such effects one commit has.
    fn in_one_commit(effects: &Effects) -> u64 {
        let range = Range {
            pack: 1,
            count: 1000,
            first: 1,
            last: 1000,
            returns: 0,
        };
        let mut outcomes = Outcomes::new("n", &range, 1);
        while outcomes.last() < range.last && !outcomes.is_large() {
            outcomes.done(effects.clone());
        }
        outcomes.count()
    }

    #[test]
    fn many_or_long_effects_end_a_commit_before_its_pack_is_through() {
        let mut effects = Effects::default();
        assert_eq!(in_one_commit(&effects), 1000);
        effects.incr_by("counted", 1);
        assert_eq!(in_one_commit(&effects), 1000);
        (0..9).for_each(|_| effects.incr_by("counted", 1));
        assert_eq!(in_one_commit(&effects), 100);
        effects.set("a", "x".repeat(64 << 10));
        assert_eq!(in_one_commit(&effects), 4);
        effects.set("b", "x".repeat(1 << 20));
        assert_eq!(in_one_commit(&effects), 1, "its effects go together");
    }
}
