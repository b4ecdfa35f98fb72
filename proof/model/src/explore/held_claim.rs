//! The messages that a lane holds, and the commit of what became of them.

use super::TTL;
use crate::call::{Call, Delay, Effect};
use crate::state::{
    AttemptReason, Ms, Note, Origin, Pack, Range, Reason, Record, Seq, Slot, State, Text,
};

/// After what time a message is tried again: before a claim's deadline passes.
const DELAY: Ms = TTL / 2;

/// What became of the first messages of a claim, a bit per message. The others are done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Outcomes {
    failed: u8,
    delayed: u8,
}

impl Outcomes {
    /// These failed.
    pub(super) fn failed(failed: u8) -> Self {
        Self { failed, delayed: 0 }
    }

    /// These are tried again later.
    pub(super) fn delayed(delayed: u8) -> Self {
        Self { failed: 0, delayed }
    }
}

/// A claim that the lane holds.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct HeldClaim {
    pub(super) range: Range,
    pub(super) texts: Vec<Text>,
    origin: Origin,
    /// Why the first attempt of each message failed, if it was delayed.
    first_reasons: Vec<Option<AttemptReason>>,
}

impl HeldClaim {
    /// The messages of a range. The lane reads the notes of those that were delayed.
    pub(super) fn new(range: Range, pack: Option<&Pack>, redis: &State) -> Self {
        let from = (range.first - range.pack) as usize;
        let texts = pack.into_iter().flat_map(|pack| &pack.texts).copied();
        let seqs = range.first..=range.last;
        let first_reason = |seq| redis.notes.get(&seq).map(|note| note.first);
        Self {
            range,
            texts: texts.skip(from).take(range.size() as usize).collect(),
            origin: pack.map_or(0, |pack| pack.origin),
            first_reasons: seqs.map(first_reason).collect(),
        }
    }

    /// All but the first message.
    pub(super) fn rest(mut self) -> Self {
        self.range.first += 1;
        self.texts.remove(0);
        self.first_reasons.remove(0);
        self
    }

    /// The messages up to this one.
    pub(super) fn up_to(mut self, keep: Seq) -> Self {
        self.range.last = keep;
        let size = self.range.size() as usize;
        self.texts.truncate(size);
        self.first_reasons.truncate(size);
        self
    }

    /// Which attempt this is. It is also the reason for which it fails.
    fn attempt(&self) -> u64 {
        self.range.returns + 1
    }

    fn record(&self, at: usize) -> Record {
        Record {
            seq: self.range.first + at as u64,
            text: self.texts[at],
            attempt: self.attempt(),
            reason: Reason::Rejected,
            origin: self.origin,
            first_reason: self.first_reasons[at],
        }
    }

    fn delay(&self, at: usize) -> Delay {
        let last = self.attempt();
        Delay {
            seq: self.range.first + at as u64,
            delay: DELAY,
            note: Note {
                first: self.first_reasons[at].unwrap_or(last),
                last,
            },
            pack: Pack {
                texts: vec![self.texts[at]],
                bytes: 0,
                origin: self.origin,
            },
        }
    }

    /// The commit of the messages up to `last`.
    pub(super) fn commit_call(
        &self,
        slot: Slot,
        number: u64,
        last: Seq,
        outcomes: Outcomes,
    ) -> Call {
        let first = self.range.first;
        let count = last - first + 1;
        let chosen = |bits: u8| (0..count as usize).filter(move |at| bits & (1 << at) != 0);
        let failed: Vec<Record> = chosen(outcomes.failed).map(|at| self.record(at)).collect();
        let delayed: Vec<Delay> = chosen(outcomes.delayed).map(|at| self.delay(at)).collect();
        Call::Commit {
            slot,
            number,
            first,
            last,
            effect: Effect::Add(count - (failed.len() + delayed.len()) as u64),
            failed,
            delayed,
            max_errors: u64::MAX,
            audited: false,
        }
    }
}
