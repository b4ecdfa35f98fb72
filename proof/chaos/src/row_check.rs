//! Checks that the messages of a table are its rows, and that the stored cursor stands behind the last one.
//!
//! In a fleet of one partition, the number of a message says which row it is. In a fleet of several, the
//! partitions take turns, and each numbers from 1 on: there the digest of a pack says which rows it has.

use std::collections::HashMap;

use baton_protocol::{Digest, Entry, Ledger};

use crate::sources::{messages_until, row_of, text_of};
use crate::verdict::Violation;

/// Max ranges of rows that a finding names.
const NAMED: usize = 10;

/// What the fence has of the source, read in one step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stored {
    /// How many messages the source has made; in a fleet of one partition, the last number.
    pub made: u64,
    /// Its kind, a space and its cursor; empty if nothing is stored.
    pub cursor: String,
}

impl Stored {
    /// What is wrong if this cursor does not belong to this number.
    pub fn check(&self) -> Option<String> {
        let Self { made, cursor } = self;
        let row = match cursor.as_str() {
            "" => Some(0),
            cursor => cursor
                .strip_prefix("json ")
                .and_then(|row| row.parse().ok()),
        };
        let fits = row.is_some_and(|row| messages_until(row) == *made);
        (!fits).then(|| format!("the cursor '{cursor}' does not belong to #{made}"))
    }
}

/// The packs whose texts are not those of their rows: the first message of each, and words.
pub fn wrong_texts(entries: &[Entry]) -> Vec<Violation> {
    let wrong = |entry: &Entry| match entry {
        Entry::Published {
            first,
            last,
            digest,
            ..
        } if *digest != expected(*first, *last) => Some(Violation {
            partition: None,
            seq: *first,
            text: format!("#{first} to #{last} have other texts than their rows"),
        }),
        _ => None,
    };
    entries.iter().filter_map(wrong).collect()
}

/// The first messages of the table, as partitions have them that take turns.
#[derive(Debug, Default)]
pub struct Rows {
    /// How many of them no partition has.
    pub missing: u64,
    /// What is wrong.
    pub findings: Vec<Violation>,
}

/// Checks that these ledgers, of partitions that take turns, have each of the first `made` messages of the
/// table once, in order within a partition. Up to `max_missing` of them may be missing.
pub fn check_rows<'a>(
    ledgers: impl Iterator<Item = &'a Ledger>,
    made: u64,
    max_missing: u64,
) -> Rows {
    let mut table = Table::new(made);
    let partitions: Vec<Vec<Pack>> = ledgers.map(|ledger| table.packs(ledger)).collect();
    // Hardly two packs have the same texts. Those that do take what the others leave.
    let uniques = partitions.iter().flatten();
    for pack in uniques.filter(|pack| pack.begins.len() == 1) {
        table.count(pack, pack.begins[0]);
    }
    let mut wrong = Vec::new();
    for (partition, packs) in (0..).zip(&partitions) {
        wrong.extend(table.place(partition, packs));
    }
    let on_the_fleet = |text| Violation {
        partition: None,
        seq: 0,
        text,
    };
    let doubled = ranges((1..=made).filter(|row| table.times[*row as usize] > 1));
    if !doubled.is_empty() {
        let text = format!("rows that are two messages: {}", words(&doubled));
        wrong.push(on_the_fleet(text));
    }
    let missing: Vec<u64> = (1..=made)
        .filter(|row| table.times[*row as usize] == 0)
        .collect();
    let count = missing.len() as u64;
    if count > max_missing {
        let rows = words(&ranges(missing.into_iter()));
        let text = format!(
            "{count} rows are no message, and {max_missing} numbers were forgotten: {rows}"
        );
        wrong.push(on_the_fleet(text));
    }
    Rows {
        missing: count,
        findings: wrong,
    }
}

/// The first messages of the table, and how often each was published.
struct Table {
    texts: Vec<Vec<u8>>,
    times: Vec<u32>,
    /// Length of a pack → its digest → at which messages such a pack may begin.
    begins: HashMap<u64, HashMap<String, Vec<u64>>>,
}

/// A published pack.
struct Pack {
    first: u64,
    last: u64,
    /// At which messages of the table it may begin: packs with the same texts do.
    begins: Vec<u64>,
}

impl Pack {
    fn len(&self) -> u64 {
        self.last - self.first + 1
    }
}

impl Table {
    fn new(made: u64) -> Self {
        let text = |message| text_of(row_of(message)).unwrap_or_default();
        Self {
            texts: (1..=made).map(text).collect(),
            times: vec![0; made as usize + 1],
            begins: HashMap::new(),
        }
    }

    /// The packs of a partition, in order.
    fn packs(&mut self, ledger: &Ledger) -> Vec<Pack> {
        let entries = ledger.entries.iter();
        let packs = entries.filter_map(|entry| match entry {
            Entry::Published {
                first,
                last,
                digest,
                ..
            } => Some(Pack {
                first: *first,
                last: *last,
                begins: self.begins_of(last - first + 1, digest),
            }),
            _ => None,
        });
        packs.collect()
    }

    /// Finds the place of each pack of a partition, and counts those that have several. Returns the packs
    /// that are not in the table, or not behind the pack before.
    fn place(&mut self, partition: u32, packs: &[Pack]) -> Vec<Violation> {
        let (mut before, mut wrong) = (0, Vec::new());
        for pack in packs {
            match pack.begins.as_slice() {
                [begin] if *begin > before => before = begin + pack.len() - 1,
                [] | [_] => wrong.push(Violation {
                    partition: Some(partition),
                    seq: pack.first,
                    text: format!(
                        "partition {partition}: #{} to #{} are not rows behind #{before} of the \
                         table, but {:?}",
                        pack.first, pack.last, pack.begins
                    ),
                }),
                // Packs with the same texts are as good as each other.
                same => {
                    let free = same.iter().min_by_key(|begin| self.times[**begin as usize]);
                    free.into_iter().for_each(|begin| self.count(pack, *begin));
                }
            }
        }
        wrong
    }

    fn count(&mut self, pack: &Pack, begin: u64) {
        for message in begin..begin + pack.len() {
            self.times[message as usize] += 1;
        }
    }

    fn begins_of(&mut self, count: u64, digest: &Digest) -> Vec<u64> {
        let texts = &self.texts;
        let begins = self.begins.entry(count).or_insert_with(|| {
            let mut begins: HashMap<String, Vec<u64>> = HashMap::new();
            for (begin, pack) in (1..).zip(texts.windows(count as usize)) {
                let digest = digest_of(pack.iter().map(Vec::as_slice));
                begins.entry(digest.to_string()).or_default().push(begin);
            }
            begins
        });
        begins.get(&digest.to_string()).cloned().unwrap_or_default()
    }
}

fn digest_of<'a>(texts: impl Iterator<Item = &'a [u8]>) -> Digest {
    let mut digest = Digest::default();
    for (place, text) in (0..).zip(texts) {
        digest.add(place, text);
    }
    digest
}

/// Numbers in order as ranges.
fn ranges(numbers: impl Iterator<Item = u64>) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    ranges
}

fn words(ranges: &[(u64, u64)]) -> String {
    let named = ranges.iter().take(NAMED);
    let mut words: Vec<String> = named
        .map(|(first, last)| format!("#{first} to #{last}"))
        .collect();
    if ranges.len() > NAMED {
        words.push(format!("and {} more", ranges.len() - NAMED));
    }
    words.join(", ")
}

fn expected(first: u64, last: u64) -> Digest {
    let texts = (first..=last).map(|seq| text_of(row_of(seq)).unwrap_or_default());
    digest_of(texts.collect::<Vec<_>>().iter().map(Vec::as_slice))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pack(first: u64, last: u64, digest: Digest) -> Entry {
        Entry::Published {
            epoch: 1,
            first,
            last,
            digest,
            at_us: 0,
        }
    }

    #[test]
    fn a_cursor_belongs_to_the_last_message_or_to_a_row_without_one_behind_it() {
        let stored = |made, cursor: &str| Stored {
            made,
            cursor: cursor.to_owned(),
        };
        for (made, cursor) in [(0, ""), (9, "json 9"), (10, "json 10"), (10, "json 11")] {
            assert_eq!(stored(made, cursor).check(), None);
        }
        for (made, cursor) in [
            (1, ""),
            (9, "json 10"),
            (10, "json 12"),
            (9, "lines 9"),
            (0, "json"),
        ] {
            assert!(stored(made, cursor).check().is_some(), "{made} {cursor}");
        }
    }

    #[test]
    fn a_text_of_another_row_is_found() {
        let entries = [
            pack(1, 3, expected(1, 3)),
            pack(4, 6, expected(5, 7)),
            pack(7, 12, expected(7, 12)),
        ];
        let wrong = wrong_texts(&entries);
        assert_eq!(wrong.len(), 1);
        assert_eq!(wrong[0].seq, 4);
    }

    /// The first two messages whose text is empty.
    fn empty_alone() -> [u64; 2] {
        let is_empty = |message: &u64| text_of(row_of(*message)) == Some(Vec::new());
        let mut empty = (1..).filter(is_empty);
        [(); 2].map(|()| empty.next().unwrap())
    }

    /// What is wrong with two partitions that have these messages of the table, pack by pack.
    fn wrong(partitions: [&[(u64, u64)]; 2], max_missing: u64) -> Vec<String> {
        wrong_of(partitions, 12, max_missing)
    }

    fn wrong_of(partitions: [&[(u64, u64)]; 2], made: u64, max_missing: u64) -> Vec<String> {
        let ledger = |packs: &[(u64, u64)]| {
            let mut next = 1;
            let entries = packs.iter().map(|(first, last)| {
                let at = next;
                next += last - first + 1;
                pack(at, next - 1, expected(*first, *last))
            });
            Ledger {
                entries: entries.collect(),
            }
        };
        let ledgers = partitions.map(ledger);
        let wrong = check_rows(ledgers.iter(), made, max_missing).findings;
        wrong.into_iter().map(|found| found.text).collect()
    }

    #[test]
    fn partitions_that_take_turns_have_each_row_once() {
        let none = Vec::<String>::new();
        assert_eq!(wrong([&[(1, 3), (7, 12)], &[(4, 6)]], 0), none);
        assert_eq!(wrong([&[(1, 3), (7, 12)], &[]], 3), none, "three were lost");
        assert_eq!(
            wrong([&[(1, 3), (7, 12)], &[]], 2),
            ["3 rows are no message, and 2 numbers were forgotten: #4 to #6"]
        );
        assert_eq!(
            wrong([&[(1, 3), (7, 12)], &[(3, 6)]], 0),
            ["rows that are two messages: #3 to #3"]
        );
        // Both are empty: which of them is where, no one can tell.
        let [first, second] = empty_alone();
        let between = (first + 1, second - 1);
        let turns = [
            &[(1, first - 1), (second, second)][..],
            &[(first, first), between],
        ];
        assert_eq!(wrong_of(turns, second, 0), none);
        let swapped = [
            &[(1, first - 1), (first, first)][..],
            &[(second, second), between],
        ];
        assert_eq!(wrong_of(swapped, second, 0), none);
        let reversed = wrong([&[(7, 12), (1, 3)], &[(4, 6)]], 9);
        assert_eq!(
            reversed,
            ["partition 0: #7 to #9 are not rows behind #12 of the table, but [1]"]
        );
    }
}
