//! The ends of messages in a ledger: first ends, and ends of retries.

use std::collections::BTreeMap;

use crate::{Digest, Entry, Ledger};

/// One end of messages.
pub(super) struct End {
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) failed: u64,
    pub(super) digest: Option<Digest>,
}

/// The retries of a message.
#[derive(Default)]
struct Again {
    /// Retries that have not ended.
    open: u64,
    /// Whether the last one that ended was a failure.
    failed: bool,
}

/// All ends.
pub(super) struct Ends {
    /// The first ends, in the order of the ledger, and every end that is not of a retry.
    pub(super) first: Vec<End>,
    /// Sequence number → its retries.
    again: BTreeMap<u64, Again>,
    /// Sorted numbers of all retried messages, and of those that failed again.
    retried: Vec<u64>,
    failed_again: Vec<u64>,
}

impl Ends {
    /// Sorts the ends. A retried message is claimed alone, so it ends as a range of one.
    pub(super) fn of(ledger: &Ledger) -> Self {
        let mut first = Vec::new();
        let mut again: BTreeMap<u64, Again> = BTreeMap::new();
        for entry in &ledger.entries {
            match entry {
                Entry::Published { .. } => {}
                Entry::Retried { seq, .. } => again.entry(*seq).or_default().open += 1,
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
            retried: numbers(|_| true),
            failed_again: numbers(|again| again.open == 0 && again.failed),
            first,
            again,
        }
    }

    /// Whether a message was ever retried.
    pub(super) fn is_retried(&self, seq: u64) -> bool {
        self.again.contains_key(&seq)
    }

    /// The messages that were retried and have not ended since.
    pub(super) fn open(&self) -> impl Iterator<Item = u64> + '_ {
        let open = self.again.iter().filter(|(_, again)| again.open > 0);
        open.map(|(seq, _)| *seq)
    }

    /// How many of a range were retried, and how many of these failed again.
    pub(super) fn retried(&self, first: u64, last: u64) -> (u64, u64) {
        let within = |numbers: &[u64]| {
            let below = |bound: u64| numbers.partition_point(|seq| *seq < bound);
            (below(last + 1) - below(first)) as u64
        };
        (within(&self.retried), within(&self.failed_again))
    }
}
