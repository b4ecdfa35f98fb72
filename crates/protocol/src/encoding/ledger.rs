//! The ledger: what was published, what ended and what was retried.
//!
//! Only an audited fleet has one. The script that publishes, ends or retries messages writes the
//! entry in the same step, so a killed node cannot cause a missing or a false entry.

use std::fmt;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::calls::answer::exact;

/// A sum over texts and their places in a pack. It is the same in whatever order, and in however
/// many parts, the texts are added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Digest(u64);

impl Digest {
    /// The digest of one text, the `place`th of its pack, counted from 0.
    pub fn of(place: u64, text: &[u8]) -> Self {
        Self(xxh3_64_with_seed(text, place))
    }

    /// Reads what its `Display` writes.
    pub(crate) fn parse(digits: &str) -> Option<Self> {
        u64::from_str_radix(digits, 16).ok().map(Self)
    }

    /// Adds one text.
    pub fn add(&mut self, place: u64, text: &[u8]) {
        self.merge(Self::of(place, text));
    }

    /// Adds all that another has.
    pub fn merge(&mut self, other: Self) {
        self.0 = self.0.wrapping_add(other.0);
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// One entry of the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A pack was accepted.
    Published {
        /// Epoch of the generator.
        epoch: u64,
        /// The first message.
        first: u64,
        /// The last message.
        last: u64,
        /// Digest of the texts as their generator made them.
        digest: Digest,
        /// When, in µs on Redis's clock.
        at_us: u64,
    },
    /// Messages ended.
    Ended {
        /// The slot of their claim: `node:lane`.
        slot: String,
        /// The first message.
        first: u64,
        /// The last message.
        last: u64,
        /// How many of them failed.
        failed: u64,
        /// Digest of the texts that the handler got; none if no handler did.
        digest: Option<Digest>,
        /// When, in µs on Redis's clock.
        at_us: u64,
    },
    /// A failed message was retried.
    Retried {
        /// The message.
        seq: u64,
        /// When, in µs on Redis's clock.
        at_us: u64,
    },
    /// Redis forgot messages that it had accepted under these numbers; they have none now.
    Void {
        /// The first number.
        first: u64,
        /// The last number.
        last: u64,
        /// When, in µs on Redis's clock.
        at_us: u64,
    },
    /// A message of the commit before did not end: it waits for its next attempt.
    Delayed {
        /// The message.
        seq: u64,
        /// When, in µs on Redis's clock.
        at_us: u64,
    },
}

impl Entry {
    /// Reads an entry; none if the text is no entry.
    pub fn parse(text: &str) -> Option<Self> {
        let words: Vec<&str> = text.split(' ').collect();
        let digest = Digest::parse;
        let at_us = |s, us| exact(s)?.checked_mul(1_000_000)?.checked_add(exact(us)?);
        let entry = match words[..] {
            ["p", epoch, first, last, sum, s, us] => Self::Published {
                epoch: exact(epoch)?,
                first: exact(first)?,
                last: exact(last)?,
                digest: digest(sum)?,
                at_us: at_us(s, us)?,
            },
            ["c", slot, first, last, failed, sum, s, us] => Self::Ended {
                slot: slot.to_owned(),
                first: exact(first)?,
                last: exact(last)?,
                failed: exact(failed)?,
                digest: if sum == "-" { None } else { Some(digest(sum)?) },
                at_us: at_us(s, us)?,
            },
            ["r", seq, s, us] => Self::Retried {
                seq: exact(seq)?,
                at_us: at_us(s, us)?,
            },
            ["d", seq, s, us] => Self::Delayed {
                seq: exact(seq)?,
                at_us: at_us(s, us)?,
            },
            ["v", first, last, s, us] => Self::Void {
                first: exact(first)?,
                last: exact(last)?,
                at_us: at_us(s, us)?,
            },
            _ => return None,
        };
        let sound = (1..=entry.last()).contains(&entry.first())
            && entry.failed() <= entry.last() - entry.first() + 1;
        sound.then_some(entry)
    }

    /// How many messages of it failed.
    fn failed(&self) -> u64 {
        match self {
            Self::Ended { failed, .. } => *failed,
            _ => 0,
        }
    }

    /// The first message of it.
    pub fn first(&self) -> u64 {
        match self {
            Self::Published { first, .. }
            | Self::Ended { first, .. }
            | Self::Void { first, .. } => *first,
            Self::Retried { seq, .. } | Self::Delayed { seq, .. } => *seq,
        }
    }

    /// The last message of it.
    pub fn last(&self) -> u64 {
        match self {
            Self::Published { last, .. } | Self::Ended { last, .. } | Self::Void { last, .. } => {
                *last
            }
            Self::Retried { seq, .. } | Self::Delayed { seq, .. } => *seq,
        }
    }

    /// When, in µs on Redis's clock.
    pub fn at_us(&self) -> u64 {
        match self {
            Self::Delayed { at_us, .. }
            | Self::Published { at_us, .. }
            | Self::Ended { at_us, .. }
            | Self::Void { at_us, .. }
            | Self::Retried { at_us, .. } => *at_us,
        }
    }
}

/// All entries, in the order in which the scripts wrote them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ledger {
    /// The entries.
    pub entries: Vec<Entry>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_the_same_in_any_order_and_tells_place_and_text() {
        let mut whole = Digest::default();
        whole.add(0, b"a");
        whole.add(1, b"b");
        let mut parts = Digest::of(1, b"b");
        parts.merge(Digest::of(0, b"a"));
        assert_eq!(whole, parts);
        let mut swapped = Digest::of(0, b"b");
        swapped.add(1, b"a");
        assert_ne!(whole, swapped);
    }

    #[test]
    fn an_entry_reads_back_and_nonsense_does_not() {
        assert_eq!(
            Entry::parse("p 3 1 500 00000000000000ff 17 42"),
            Some(Entry::Published {
                epoch: 3,
                first: 1,
                last: 500,
                digest: Digest(255),
                at_us: 17_000_042,
            })
        );
        assert_eq!(
            Entry::parse("c n0de:1 7 7 1 - 17 42"),
            Some(Entry::Ended {
                slot: "n0de:1".to_owned(),
                first: 7,
                last: 7,
                failed: 1,
                digest: None,
                at_us: 17_000_042,
            })
        );
        assert_eq!(
            Entry::parse("r 7 17 42"),
            Some(Entry::Retried {
                seq: 7,
                at_us: 17_000_042,
            })
        );
        for bad in [
            "",
            "p",
            "r 0 17 42",
            "r 7 8 17 42",
            "p 3 5 4 ff 17 42",
            "p 3 0 4 ff 17 42",
            "c n0de:1 7 7 1 xyz 17 42",
            "c n0de:1 7 7 2 - 17 42",
            "p 3 1 9007199254740993 ff 17 42",
            "x 1 2 3 4 5 6",
            "p 3 1 500 ff 18446744073709551615 1",
        ] {
            assert_eq!(Entry::parse(bad), None, "{bad}");
        }
    }
}
