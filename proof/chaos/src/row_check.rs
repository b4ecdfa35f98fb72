//! Checks that each message of a table is its row, and that the stored cursor stands behind the last one.

use baton_protocol::{Digest, Entry};

use crate::sources::{messages_until, row_of, text_of};

/// What the fence has of the source, read in one step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stored {
    /// The last number.
    pub last: u64,
    /// Its kind, a space and its cursor; empty if nothing is stored.
    pub cursor: String,
}

impl Stored {
    /// What is wrong if this cursor does not belong to this number.
    pub fn check(&self) -> Option<String> {
        let Self { last, cursor } = self;
        let row = match cursor.as_str() {
            "" => Some(0),
            cursor => cursor
                .strip_prefix("json ")
                .and_then(|row| row.parse().ok()),
        };
        let fits = row.is_some_and(|row| messages_until(row) == *last);
        (!fits).then(|| format!("the cursor '{cursor}' does not belong to #{last}"))
    }
}

/// The packs whose texts are not those of their rows: the first message of each, and words.
pub fn wrong_texts(entries: &[Entry]) -> Vec<(u64, String)> {
    let wrong = |entry: &Entry| match entry {
        Entry::Published {
            first,
            last,
            digest,
            ..
        } if *digest != expected(*first, *last) => Some((
            *first,
            format!("#{first} to #{last} have other texts than their rows"),
        )),
        _ => None,
    };
    entries.iter().filter_map(wrong).collect()
}

fn expected(first: u64, last: u64) -> Digest {
    let mut digest = Digest::default();
    for (place, seq) in (first..=last).enumerate() {
        let text = text_of(row_of(seq)).unwrap_or_default();
        digest.add(place as u64, &text);
    }
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_belongs_to_the_last_message_or_to_a_row_without_one_behind_it() {
        let stored = |last, cursor: &str| Stored {
            last,
            cursor: cursor.to_owned(),
        };
        for (last, cursor) in [(0, ""), (9, "json 9"), (10, "json 10"), (10, "json 11")] {
            assert_eq!(stored(last, cursor).check(), None);
        }
        for (last, cursor) in [
            (1, ""),
            (9, "json 10"),
            (10, "json 12"),
            (9, "lines 9"),
            (0, "json"),
        ] {
            assert!(stored(last, cursor).check().is_some(), "{last} {cursor}");
        }
    }

    #[test]
    fn a_text_of_another_row_is_found() {
        let pack = |first, last, digest| Entry::Published {
            epoch: 1,
            first,
            last,
            digest,
            at_us: 0,
        };
        let entries = [
            pack(1, 3, expected(1, 3)),
            pack(4, 6, expected(5, 7)),
            pack(7, 12, expected(7, 12)),
        ];
        let wrong = wrong_texts(&entries);
        assert_eq!(wrong.len(), 1);
        assert_eq!(wrong[0].0, 4);
    }
}
