//! The ends of messages in a ledger: first ends, and ends of further attempts.

use std::collections::BTreeMap;

use crate::{Digest, Entry, Ledger};

/// One end of messages.
pub(super) struct End {
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) failed: u64,
    pub(super) digest: Option<Digest>,
}

/// The further attempts of a message: a person retried it, or its worker delayed it.
#[derive(Default)]
struct Again {
    /// Attempts that have not ended.
    open: u64,
    /// Whether its first end was a failure, and not a delay.
    first_failed: bool,
    /// Whether the last one that ended was a failure.
    failed: bool,
}

/// All ends.
pub(super) struct Ends {
    /// The first ends, in the order of the ledger, and every end that is not of a retry.
    pub(super) first: Vec<End>,
    /// Sequence number → its further attempts.
    again: BTreeMap<u64, Again>,
    /// Sorted numbers of the messages that failed and were retried, and of those that failed in
    /// their last attempt, which was not their first.
    retried: Vec<u64>,
    failed_again: Vec<u64>,
}

impl Ends {
    /// Sorts the ends. A message that was tried before is claimed alone, so it ends as a range of
    /// one.
    pub(super) fn of(ledger: &Ledger) -> Self {
        let mut first = Vec::new();
        let mut again: BTreeMap<u64, Again> = BTreeMap::new();
        for entry in &ledger.entries {
            match entry {
                Entry::Published { .. } | Entry::Void { .. } => {}
                Entry::Retried { seq, .. } | Entry::Delayed { seq, .. } => {
                    let first_failed = matches!(entry, Entry::Retried { .. });
                    let again = again.entry(*seq).or_insert(Again {
                        first_failed,
                        ..Again::default()
                    });
                    again.open += 1;
                    again.failed = false;
                }
                Entry::Ended { failed, digest, .. } => {
                    let end = End {
                        first: entry.first(),
                        last: entry.last(),
                        failed: *failed,
                        digest: *digest,
                    };
                    let alone = again.get_mut(&end.first).filter(|_| end.first == end.last);
                    match alone.filter(|again| again.open > 0) {
                        Some(again) => {
                            again.open -= 1;
                            again.failed = end.failed > 0;
                        }
                        None => first.push(end),
                    }
                }
            }
        }
        let numbers = |wanted: fn(&Again) -> bool| {
            let some = again.iter().filter(|(_, again)| wanted(again));
            some.map(|(seq, _)| *seq).collect()
        };
        Self {
            retried: numbers(|again| again.first_failed),
            failed_again: numbers(|again| again.open == 0 && again.failed),
            first,
            again,
        }
    }

    /// Whether a message was ever tried again.
    pub(super) fn is_retried(&self, seq: u64) -> bool {
        self.again.contains_key(&seq)
    }

    /// The messages that were tried again and have not ended since.
    pub(super) fn open(&self) -> impl Iterator<Item = u64> + '_ {
        let open = self.again.iter().filter(|(_, again)| again.open > 0);
        open.map(|(seq, _)| *seq)
    }

    /// How many of a range failed and were retried, and how many failed in a later attempt.
    pub(super) fn retried(&self, first: u64, last: u64) -> (u64, u64) {
        let within = |numbers: &[u64]| {
            let below = |bound: u64| numbers.partition_point(|seq| *seq < bound);
            (below(last + 1) - below(first)) as u64
        };
        (within(&self.retried), within(&self.failed_again))
    }
}
