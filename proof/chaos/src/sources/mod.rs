//! What makes the messages of a run: random texts at an interval, or rows of a table that a command reads.
//!
//! The table has no end, and every row has one text for ever. So it is known which text each message must
//! have, and at which row the stored cursor must stand.

pub mod command;

use clap::ValueEnum;

use crate::rng::Rng;

/// The word behind which this program is the source.
pub const COMMAND: &str = "print-rows";
/// The environment variable with the time between two rows, in ms.
pub const ROW_MS: &str = "CHAOS_ROW_MS";
/// The source passes over each eleventh row: it has a cursor and no message.
const PASSED_OVER: u64 = 11;

/// What makes the messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum SourceKind {
    /// The random texts of a bare `baton`, at an interval
    #[default]
    Random,
    /// A command that prints rows with cursors
    Rows,
}

impl SourceKind {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Rows => "rows",
        }
    }
}

/// How many messages the rows up to this one are.
pub fn messages_until(row: u64) -> u64 {
    row - row / PASSED_OVER
}

/// The row of a message.
pub fn row_of(seq: u64) -> u64 {
    seq + (seq - 1) / (PASSED_OVER - 1)
}

/// The text of a row, if it is a message. Some texts are no UTF-8, and some are too long to stay within
/// the scripts.
pub fn text_of(row: u64) -> Option<Vec<u8>> {
    if row.is_multiple_of(PASSED_OVER) {
        return None;
    }
    let mut rng = Rng::new(row);
    Some(match rng.between(1, 20) {
        1 => format!("{row} {}", "long \"ρow\"\n".repeat(300)).into_bytes(),
        2..=5 => (0..rng.between(0, 40))
            .map(|_| rng.number() as u8)
            .collect(),
        _ => format!("row {row}\r\n\t\u{0}{:x}", rng.number()).into_bytes(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_has_a_row_and_each_row_but_some_is_a_message() {
        let rows = (1..=1000).filter(|row| text_of(*row).is_some());
        for (seq, row) in (1..).zip(rows) {
            assert_eq!((row_of(seq), messages_until(row)), (row, seq));
        }
        assert_eq!((messages_until(0), messages_until(11)), (0, 10));
    }

    #[test]
    fn a_row_has_the_same_text_for_ever_and_hardly_two_have_the_same() {
        let texts = || (1..=1000).filter_map(text_of).collect::<Vec<_>>();
        assert_eq!(texts(), texts());
        let mut different = texts();
        different.sort_unstable();
        different.dedup();
        assert!(different.len() > 800, "{}", different.len());
    }
}
