//! A source: a generator that opens it behind row n gets row n + 1 next.
//!
//! Its rows have other texts with each opening, as those of a source that stamps them with the time
//! would. So a key that two openings use shows.

use crate::state::{Origin, Seq, Text};

/// More rows than any scenario has.
const ROWS: u64 = 100;

/// What a source makes when it is opened again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum SourceKind {
    /// The same rows, under the same numbers.
    #[default]
    Replays,
    /// What comes after its cursor, which need not be what it made before.
    MakesOnce,
    /// Anything: it has no cursor. Its row n is message n.
    NoCursor,
}

/// How many rows are behind the source that stands here. Each has a number in the fleet.
pub(crate) fn rows_before(cursor: u64) -> Seq {
    cursor / 2
}

/// Where the source stands right after a row.
pub(crate) fn cursor_after(row: Seq) -> u64 {
    row * 2
}

/// Where the source stands if it went on and found no row: before the same row as before.
pub(crate) fn cursor_further(cursor: u64) -> u64 {
    cursor | 1
}

/// The text of a row. An opening has the name that a generator draws for it.
pub(crate) fn text(row: Seq, opening: Origin) -> Text {
    row + ROWS * opening
}

/// The row of a text.
pub(crate) fn row_of(text: Text) -> Seq {
    text % ROWS
}

/// The opening of a text.
pub(crate) fn opening_of(text: Text) -> Origin {
    text / ROWS
}
