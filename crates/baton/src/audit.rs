//! The audit: holds the ledger, the counters, the errors store and the texts' digests
//! against each other.

use std::collections::BTreeMap;
use std::fmt;

use futures_util::{StreamExt, stream};

use crate::failed::seq_of;
use crate::protocol::{Census, Store};
use crate::{Digest, Entry, Error, FailedMessage, Ledger};

/// Error records read at a time.
const PAGE: u64 = 5_000;
/// Pages that are asked for ahead.
const PAGES_AHEAD: usize = 3;

/// Something that must not be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// Published, and never ended.
    Lost {
        /// The first such message.
        first: u64,
        /// The last one.
        last: u64,
    },
    /// Ended more than once.
    Duplicated {
        /// The first such message.
        first: u64,
        /// The last one.
        last: u64,
    },
    /// Ended, and never published.
    Phantom {
        /// The first such message.
        first: u64,
        /// The last one.
        last: u64,
    },
    /// Published twice, or with a hole before it.
    Misnumbered {
        /// The first message of the pack.
        first: u64,
        /// The number that was due.
        due: u64,
    },
    /// The texts that were handled are not the texts that were generated.
    Texts {
        /// The first message of the pack.
        first: u64,
        /// The last one.
        last: u64,
    },
    /// The errors store has a message more than once, or one that never was.
    Errors {
        /// Which; 0 for a record that is none of this fleet's.
        seq: u64,
        /// How often it is there.
        times: u64,
    },
    /// The errors store does not have those of a range that failed.
    Failed {
        /// The first message of the range.
        first: u64,
        /// The last one.
        last: u64,
        /// How many of them failed.
        failed: u64,
        /// How many of them the errors store has.
        kept: u64,
    },
    /// A counter in Redis differs from what the ledger adds up to.
    Counter {
        /// Which.
        name: &'static str,
        /// What it says.
        says: u64,
        /// What the ledger says.
        ledger: u64,
    },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let range = |first: &u64, last: &u64| match first == last {
            true => format!("#{first}"),
            false => format!("#{first} to #{last}"),
        };
        match self {
            Self::Lost { first, last } => write!(f, "lost: {}", range(first, last)),
            Self::Duplicated { first, last } => {
                write!(f, "committed more than once: {}", range(first, last))
            }
            Self::Phantom { first, last } => {
                write!(f, "committed but never published: {}", range(first, last))
            }
            Self::Misnumbered { first, due } => {
                write!(f, "published #{first} where #{due} was due")
            }
            Self::Texts { first, last } => {
                let range = range(first, last);
                write!(f, "handled texts are not the generated ones: {range}")
            }
            Self::Errors { seq, times } => {
                write!(f, "#{seq} is in the errors store {times} times")
            }
            Self::Failed {
                first,
                last,
                failed,
                kept,
            } => {
                let range = range(first, last);
                write!(f, "{failed} of {range} failed, the errors store has {kept}")
            }
            Self::Counter { name, says, ledger } => {
                write!(f, "{name} is counted as {says}, the ledger has {ledger}")
            }
        }
    }
}

/// What an audit found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Audit {
    /// Messages published.
    pub published: u64,
    /// Messages that ended well.
    pub done: u64,
    /// Messages that failed.
    pub failed: u64,
    /// Messages that never ended.
    pub lost: u64,
    /// Messages that ended more than once.
    pub duplicated: u64,
    /// All that is wrong, in the order of the checks; empty if nothing is.
    pub findings: Vec<Finding>,
}

impl Audit {
    /// Audits a fleet that is at rest, from its ledger.
    pub async fn of(store: &Store, ledger: &Ledger) -> Result<Self, Error> {
        let census = store.census().await?;
        let pages = (0..).step_by(PAGE as usize);
        let pages = pages.take_while(|from| *from < census.errors);
        // The server goes on while a page is read here.
        let mut pages = stream::iter(pages)
            .map(|from| store.errors_look(from, PAGE))
            .buffered(PAGES_AHEAD);
        let mut records = Vec::new();
        while let Some(page) = pages.next().await {
            records.extend(page?.into_iter().map(|bytes| (seq_of(&bytes), bytes)));
        }
        records.sort_unstable_by_key(|(seq, _)| *seq);
        Ok(Self::hold(ledger, &census, &records))
    }

    /// Holds all that is known against each other. `records` are the error records of all
    /// that failed, taken out of the store or not, sorted by their sequence numbers.
    pub fn hold(ledger: &Ledger, census: &Census, records: &[(u64, Vec<u8>)]) -> Self {
        let mut audit = Self::default();
        audit.tile(ledger);
        audit.compare_texts(ledger, records);
        audit.count(census);
        audit.match_errors(ledger, records);
        audit
    }

    /// Published ranges must tile from 1 on, in order; ended ranges the same numbers, in any.
    fn tile(&mut self, ledger: &Ledger) {
        let mut ended = Vec::new();
        for entry in &ledger.entries {
            match entry {
                Entry::Published { first, last, .. } => {
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
                    ended.push((*first, *last));
                    let done = last - first + 1 - failed;
                    self.done = self.done.saturating_add(done);
                    self.failed = self.failed.saturating_add(*failed);
                }
            }
        }
        ended.sort_unstable();
        let mut due = 1;
        for (first, last) in ended {
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
    }

    fn lose(&mut self, first: u64, last: u64) {
        if first <= last {
            self.lost += last - first + 1;
            self.findings.push(Finding::Lost { first, last });
        }
    }

    /// Per pack: what was handled must be what was generated. A claim never reaches beyond
    /// its pack, so the parts of a pack add up to it.
    fn compare_texts(&mut self, ledger: &Ledger, records: &[(u64, Vec<u8>)]) {
        let mut packs = BTreeMap::new();
        for entry in &ledger.entries {
            if let Entry::Published {
                first,
                last,
                digest,
                ..
            } = entry
            {
                packs.insert(*first, (*last, *digest, Digest::default()));
            }
        }
        for entry in &ledger.entries {
            let Entry::Ended { first, digest, .. } = entry else {
                continue;
            };
            let Some((pack, (_, _, sum))) = packs.range_mut(..=first).next_back() else {
                continue;
            };
            match digest {
                Some(digest) => sum.merge(*digest),
                // No handler saw it to its end; the errors store has its text.
                None => {
                    let record = records.binary_search_by_key(first, |(seq, _)| *seq);
                    let record = record.map(|at| FailedMessage::decode(&records[at].1));
                    sum.add(first - pack, &record.map(|r| r.text).unwrap_or_default());
                }
            }
        }
        for (first, (last, generated, handled)) in packs {
            if generated != handled {
                self.findings.push(Finding::Texts { first, last });
            }
        }
    }

    fn count(&mut self, census: &Census) {
        for (name, says, ledger) in [
            ("published", census.published, self.published),
            ("done", census.done, self.done),
            ("failed", census.failed, self.failed),
            ("pending", census.pending, 0),
            ("claimed", census.claimed, 0),
            ("done + failed", census.done + census.failed, self.published),
        ] {
            if says != ledger {
                self.findings.push(Finding::Counter { name, says, ledger });
            }
        }
    }

    /// The errors store must hold each failed message once, and nothing else: in every
    /// range that ended as many as failed of it.
    fn match_errors(&mut self, ledger: &Ledger, records: &[(u64, Vec<u8>)]) {
        for same in records.chunk_by(|(a, _), (b, _)| a == b) {
            let (seq, times) = (same[0].0, same.len() as u64);
            if times > 1 || !(1..=self.published).contains(&seq) {
                self.findings.push(Finding::Errors { seq, times });
            }
        }
        let below = |bound: u64| records.partition_point(|(seq, _)| *seq < bound);
        for entry in &ledger.entries {
            let Entry::Ended {
                first,
                last,
                failed,
                ..
            } = entry
            else {
                continue;
            };
            let kept = (below(last + 1) - below(*first)) as u64;
            if kept != *failed {
                self.findings.push(Finding::Failed {
                    first: *first,
                    last: *last,
                    failed: *failed,
                    kept,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn published(first: u64, texts: &[&str]) -> Entry {
        let mut digest = Digest::default();
        for (place, text) in (0..).zip(texts) {
            digest.add(place, text.as_bytes());
        }
        Entry::Published {
            epoch: 1,
            first,
            last: first + texts.len() as u64 - 1,
            digest,
            at_us: 1,
        }
    }

    /// Messages `first..` of the pack that begins with `pack` ended; `failed` of them badly.
    fn ended(pack: u64, first: u64, texts: &[&str], failed: u64) -> Entry {
        let mut digest = Digest::default();
        for (seq, text) in (first..).zip(texts) {
            digest.add(seq - pack, text.as_bytes());
        }
        Entry::Ended {
            slot: "n:0".to_owned(),
            first,
            last: first + texts.len() as u64 - 1,
            failed,
            digest: Some(digest),
            at_us: 2,
        }
    }

    fn record(seq: u64, text: &str) -> (u64, Vec<u8>) {
        let failed = FailedMessage {
            seq,
            at_ms: 1,
            node: "n".to_owned(),
            reason: "r".to_owned(),
            attempt: 1,
            text: text.as_bytes().to_vec(),
        };
        (seq, failed.encode())
    }

    fn census(published: u64, done: u64, failed: u64) -> Census {
        Census {
            published,
            done,
            failed,
            ..Census::default()
        }
    }

    fn findings(entries: Vec<Entry>, census: Census, records: &[(u64, Vec<u8>)]) -> Vec<String> {
        let audit = Audit::hold(&Ledger { entries }, &census, records);
        audit.findings.iter().map(Finding::to_string).collect()
    }

    #[test]
    fn a_clean_run_in_any_order_of_ends_has_no_finding() {
        let entries = vec![
            published(1, &["a", "b", "c"]),
            published(4, &["d"]),
            ended(4, 4, &["d"], 0),
            ended(1, 2, &["b", "c"], 1),
            ended(1, 1, &["a"], 0),
        ];
        let records = [record(3, "c")];
        let ledger = Ledger { entries };
        let audit = Audit::hold(&ledger, &census(4, 3, 1), &records);
        assert_eq!(
            audit,
            Audit {
                published: 4,
                done: 3,
                failed: 1,
                ..Audit::default()
            }
        );
    }

    #[test]
    fn a_lost_message_is_named() {
        let entries = vec![published(1, &["a", "b", "c"]), ended(1, 1, &["a"], 0)];
        assert_eq!(
            findings(entries, census(3, 1, 0), &[]),
            [
                "lost: #2 to #3",
                "handled texts are not the generated ones: #1 to #3",
                "done + failed is counted as 1, the ledger has 3",
            ]
        );
    }

    #[test]
    fn a_message_that_ended_twice_is_named() {
        let entries = vec![
            published(1, &["a", "b", "c"]),
            ended(1, 1, &["a", "b"], 0),
            ended(1, 2, &["b", "c"], 0),
        ];
        assert_eq!(
            findings(entries, census(3, 4, 0), &[]),
            [
                "committed more than once: #2",
                "handled texts are not the generated ones: #1 to #3",
                "done + failed is counted as 4, the ledger has 3",
            ]
        );
    }

    #[test]
    fn a_message_that_was_never_published_is_named() {
        let entries = vec![
            published(1, &["a"]),
            ended(1, 1, &["a"], 0),
            ended(1, 2, &["b"], 0),
        ];
        let found = findings(entries, census(1, 2, 0), &[]);
        assert_eq!(found[0], "committed but never published: #2");
    }

    #[test]
    fn a_hole_in_the_numbers_is_named() {
        let entries = vec![published(1, &["a"]), published(3, &["c"])];
        let found = findings(entries, census(3, 0, 0), &[]);
        assert_eq!(found[0], "published #3 where #2 was due");
    }

    #[test]
    fn a_text_that_changed_on_its_way_is_noticed() {
        let entries = vec![published(1, &["a", "b"]), ended(1, 1, &["a", "B"], 0)];
        assert_eq!(
            findings(entries, census(2, 2, 0), &[]),
            ["handled texts are not the generated ones: #1 to #2"]
        );
    }

    #[test]
    fn the_errors_store_must_hold_exactly_what_failed() {
        let entries = || vec![published(1, &["a", "b"]), ended(1, 1, &["a", "b"], 1)];
        let failed = || census(2, 1, 1);
        assert_eq!(
            findings(entries(), failed(), &[]),
            ["1 of #1 to #2 failed, the errors store has 0"]
        );
        assert_eq!(
            findings(entries(), failed(), &[record(1, "a"), record(1, "a")]),
            [
                "#1 is in the errors store 2 times",
                "1 of #1 to #2 failed, the errors store has 2",
            ]
        );
        assert_eq!(
            findings(entries(), failed(), &[record(1, "a"), record(7, "x")]),
            ["#7 is in the errors store 1 times"]
        );
    }

    #[test]
    fn a_message_that_no_handler_saw_is_compared_by_its_error_record() {
        let mut dead = ended(1, 2, &["b"], 1);
        if let Entry::Ended { digest, .. } = &mut dead {
            *digest = None;
        }
        let entries = vec![published(1, &["a", "b"]), ended(1, 1, &["a"], 0), dead];
        assert_eq!(
            findings(entries.clone(), census(2, 1, 1), &[record(2, "b")]),
            Vec::<String>::new()
        );
        assert_eq!(
            findings(entries, census(2, 1, 1), &[record(2, "x")]),
            ["handled texts are not the generated ones: #1 to #2"]
        );
    }
}
