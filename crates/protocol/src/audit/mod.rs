//! The audit: compares the ledger, the counters, the errors store and the digests of the texts.

mod ends;
mod finding;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use futures_util::{StreamExt, stream};

use crate::record::{self, seq_of};
use crate::{Census, Digest, Entry, Error, Ledger, Partitions, Store};

use ends::Ends;
pub use finding::Finding;

/// Ids of records that one command names.
const PAGE_IDS: u64 = 5_000;
/// Pages that are read ahead.
const PAGES_AHEAD: usize = 3;

/// What an audit found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Audit {
    /// The last number: messages published, and numbers that are void.
    pub published: u64,
    /// Numbers whose messages the server forgot.
    pub void: u64,
    /// Messages that ended well.
    pub done: u64,
    /// Failures; a message that was retried may fail again.
    pub failed: u64,
    /// Failed messages that were retried.
    pub retried: u64,
    /// Messages that never ended.
    pub lost: u64,
    /// Messages that ended more than once.
    pub duplicated: u64,
    /// All that is wrong, in the order of the checks; empty if nothing is.
    pub findings: Vec<Finding>,
}

/// The records with these ids, and their sequence numbers. The audit keeps all of them in memory, so
/// their lengths do not matter.
async fn read(store: &Store, from: u64, to: u64) -> Result<Vec<(u64, Vec<u8>)>, Error> {
    let ids: Vec<u64> = (from..=to).collect();
    let failures = store.errors_whole(&ids).await?.into_iter();
    let numbered = failures.map(|failure| (seq_of(&failure.record), failure.record));
    Ok(numbered.collect())
}

/// Audits a fleet that is at rest, from its ledger.
pub async fn audit(store: &Store, ledger: &Ledger) -> Result<Audit, Error> {
    let census = store.census().await?;
    let last = store.errors_last().await?;
    // The server reads the next pages while this process decodes one.
    let mut pages = stream::iter((1..=last).step_by(PAGE_IDS as usize))
        .map(|from| read(store, from, last.min(from + PAGE_IDS - 1)))
        .buffered(PAGES_AHEAD);
    let mut records = Vec::new();
    while let Some(page) = pages.next().await {
        records.extend(page?);
    }
    records.sort_unstable_by_key(|(seq, _)| *seq);
    Ok(compare(ledger, &census, &records))
}

/// Audits all partitions of a fleet that is at rest; `ledgers` are theirs, in order.
pub async fn audit_all(partitions: &Partitions, ledgers: &[Ledger]) -> Result<Audit, Error> {
    let mut whole = Audit::default();
    for (store, ledger) in partitions.all().iter().zip(ledgers) {
        let part = audit(store, ledger).await?;
        match partitions.are_several() {
            true => whole.add(store.partition(), part),
            false => whole = part,
        }
    }
    Ok(whole)
}

/// Compares the sources. `records` are the records of all failed messages, drained or not, sorted by
/// their sequence numbers.
pub fn compare(ledger: &Ledger, census: &Census, records: &[(u64, Vec<u8>)]) -> Audit {
    let mut audit = Audit::default();
    let ends = Ends::of(ledger);
    audit.tile(ledger, &ends);
    audit.compare_texts(ledger, &ends, records);
    audit.count(census);
    audit.match_errors(&ends, records);
    audit
}

impl Audit {
    /// Adds the audit of a partition.
    pub fn add(&mut self, partition: u32, other: Self) {
        self.published = self.published.saturating_add(other.published);
        self.void = self.void.saturating_add(other.void);
        self.done = self.done.saturating_add(other.done);
        self.failed = self.failed.saturating_add(other.failed);
        self.retried = self.retried.saturating_add(other.retried);
        self.lost = self.lost.saturating_add(other.lost);
        self.duplicated = self.duplicated.saturating_add(other.duplicated);
        let named = other.findings.into_iter();
        self.findings
            .extend(named.map(|finding| Finding::InPartition {
                partition,
                finding: Box::new(finding),
            }));
    }

    /// Published and void ranges must tile the numbers from 1 on, in order. The first ends and the void
    /// ranges must tile the same numbers, in any order. Each retry must have ended.
    fn tile(&mut self, ledger: &Ledger, ends: &Ends) {
        let mut void = Vec::new();
        for entry in &ledger.entries {
            match entry {
                Entry::Published { first, last, .. } | Entry::Void { first, last, .. } => {
                    if let Entry::Void { .. } = entry {
                        self.void = self.void.saturating_add(last - first + 1);
                        void.push((*first, *last));
                    }
                    let due = self.published + 1;
                    if *first != due {
                        self.findings
                            .push(Finding::Misnumbered { first: *first, due });
                    }
                    self.published = self.published.max(*last);
                }
                Entry::Ended {
                    first,
                    last,
                    failed,
                    ..
                } => {
                    let done = last - first + 1 - failed;
                    self.done = self.done.saturating_add(done);
                    self.failed = self.failed.saturating_add(*failed);
                }
                Entry::Retried { .. } => self.retried += 1,
                // The commit before counts it as done.
                Entry::Delayed { .. } => self.done = self.done.saturating_sub(1),
            }
        }
        let mut tiles: Vec<(u64, u64)> = ends.first.iter().map(|e| (e.first, e.last)).collect();
        // An end of a void number would overlap.
        tiles.append(&mut void);
        tiles.sort_unstable();
        let mut due = 1;
        for (first, last) in tiles {
            if first > due {
                self.lose(due, (first - 1).min(self.published));
            }
            if first < due {
                let again = last.min(due - 1);
                self.duplicated = self.duplicated.saturating_add(again - first + 1);
                self.findings
                    .push(Finding::Duplicated { first, last: again });
            }
            if last > self.published {
                let first = first.max(self.published + 1);
                self.findings.push(Finding::Phantom { first, last });
            }
            due = due.max(last + 1);
        }
        self.lose(due, self.published);
        for seq in ends.open() {
            self.lose(seq, seq);
        }
    }

    fn lose(&mut self, first: u64, last: u64) {
        if first <= last {
            self.lost += last - first + 1;
            self.findings.push(Finding::Lost { first, last });
        }
    }

    /// The handled texts of each pack must be the generated ones. A claim never reaches beyond its
    /// pack, so the parts of a pack add up to it. Only first ends count: a retried message has
    /// another place in its pack, and so another digest.
    fn compare_texts(&mut self, ledger: &Ledger, ends: &Ends, records: &[(u64, Vec<u8>)]) {
        let mut packs = BTreeMap::new();
        for entry in &ledger.entries {
            if let Entry::Published {
                first,
                last,
                digest,
                ..
            } = entry
            {
                packs.insert(*first, (*last, *digest, Some(Digest::default())));
            }
        }
        for end in &ends.first {
            let Some((pack, (_, _, sum))) = packs.range_mut(..=end.first).next_back() else {
                continue;
            };
            let place = end.first - pack;
            let digest = end.digest.or_else(|| {
                // No handler got it. The errors store has its text, unless it was retried since.
                let record = records.binary_search_by_key(&end.first, |(seq, _)| *seq);
                match record {
                    Ok(at) => {
                        let record = record::decode(&records[at].1);
                        Some(Digest::of(place, &record.text))
                    }
                    Err(_) if ends.is_retried(end.first) => None,
                    Err(_) => Some(Digest::of(place, b"")),
                }
            });
            *sum = sum.zip(digest).map(|(mut sum, digest)| {
                sum.merge(digest);
                sum
            });
        }
        for (first, (last, generated, handled)) in packs {
            if handled.is_some_and(|handled| handled != generated) {
                self.findings.push(Finding::Texts { first, last });
            }
        }
    }

    fn count(&mut self, census: &Census) {
        for (name, says, ledger) in [
            ("published", census.published, self.published),
            ("done", census.done, self.done),
            ("failed", census.failed, self.failed),
            ("retried", census.retried, self.retried),
            ("void", census.void, self.void),
            ("pending", census.pending, 0),
            ("claimed", census.claimed, 0),
            ("delayed", census.delayed, 0),
            (
                "done + failed + void",
                census.done + census.failed + census.void,
                self.published.saturating_add(self.retried),
            ),
        ] {
            if says != ledger {
                self.findings.push(Finding::Counter { name, says, ledger });
            }
        }
    }

    /// The errors store must have each message whose last end was a failure once, and nothing else.
    /// So of every range it has the failed messages without the retried ones, and those that failed
    /// again.
    fn match_errors(&mut self, ends: &Ends, records: &[(u64, Vec<u8>)]) {
        for same in records.chunk_by(|(a, _), (b, _)| a == b) {
            let (seq, times) = (same[0].0, same.len() as u64);
            if times > 1 || !(1..=self.published).contains(&seq) {
                self.findings.push(Finding::Errors { seq, times });
            }
        }
        let below = |bound: u64| records.partition_point(|(seq, _)| *seq < bound);
        for end in &ends.first {
            let (first, last, failed) = (end.first, end.last, end.failed);
            let (retried, failed_again) = ends.retried(first, last);
            if retried > failed {
                self.findings.push(Finding::Retried {
                    first,
                    last,
                    failed,
                    retried,
                });
                continue;
            }
            let failed = failed - retried + failed_again;
            let kept = (below(last + 1) - below(first)) as u64;
            if kept != failed {
                self.findings.push(Finding::Failed {
                    first,
                    last,
                    failed,
                    kept,
                });
            }
        }
    }
}
