//! Where messages come from.
//!
//! The generator asks its [`Source`] for messages. What the source made and where it stands are stored in
//! one step, behind the fence. So a successor continues exactly where its predecessor was accepted.

mod batch;
#[cfg(feature = "cron")]
mod cron;
mod fleet_clock;
mod interval;
mod lines;
mod missed;
#[cfg(feature = "postgres")]
mod postgres;
mod schedule;
mod tick_cursor;

use std::error::Error as StdError;
use std::fmt;
use std::future::{Future, ready};

pub use batch::Batch;
#[cfg(feature = "cron")]
pub use cron::{Cron, CronError, CronSpec};
pub use fleet_clock::FleetClock;
pub use interval::{Interval, interval};
pub use lines::{Lines, lines};
pub use missed::Missed;
#[cfg(feature = "postgres")]
pub use postgres::{Outbox, OutboxError};
pub(crate) use tick_cursor::TickCursor;

/// Makes messages. Only the generator asks its source.
///
/// A source runs in a task of its own: while it waits, hangs or fails, its node beats, publishes and stops
/// as ever. Like all code of that runtime it must not block its thread.
///
/// There are two kinds. A source *with cursors* can continue where it stood: a table, a file, a clock. It
/// gives every batch a cursor, and Redis stores it in the step that accepts the batch. A source *without
/// cursors* has only the number of the next message, which is enough for a file that it can count through.
pub trait Source: Send + 'static {
    /// Continues behind `from`. Called before the first `next` of each reign, after an error, and after
    /// Redis lost messages that it had confirmed: whatever this source made and Redis does not have must
    /// come again.
    fn open(&mut self, from: Position<'_>) -> impl Future<Output = Result<(), SourceError>> + Send {
        let _ = from;
        ready(Ok(()))
    }

    /// Waits for messages, adds those at hand to the batch, as many as it has room for, and returns. The
    /// generator publishes a batch when `next` returns: a source that waits while its batch has messages
    /// keeps them back.
    ///
    /// While the batch is empty, the generator may drop this future at any await and call `next` again:
    /// a source keeps what it has in hand in `self`. If it drops it later than that, `open` follows.
    fn next(&mut self, batch: &mut Batch)
    -> impl Future<Output = Result<Flow, SourceError>> + Send;

    /// Redis has every message up to this cursor: upstream may forget them. A later cursor stands for
    /// all before it. The cursor that `open` gets is accepted, too.
    fn accepted(&mut self, cursor: &[u8]) -> impl Future<Output = ()> + Send {
        let _ = cursor;
        ready(())
    }

    /// This node generates no more, at least for now: releases what a successor needs.
    fn close(&mut self) -> impl Future<Output = ()> + Send {
        ready(())
    }

    /// Whether this source, opened at a position again, makes the same texts under the same numbers
    /// again: a file that no program rewrites, rows in a fixed order. After a server forgot messages, such a
    /// source fills their numbers with the same texts. Any other source goes on behind these numbers,
    /// which stay void, so no number ever has two texts. It does not replay unless it says so.
    fn replays(&self) -> bool {
        false
    }

    /// A word for this kind of source, without spaces. A fleet that gets another kind of source begins
    /// anew instead of reading a foreign cursor.
    fn kind(&self) -> &str {
        "source"
    }
}

/// Where a source continues.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Position<'a> {
    /// The sequence number of the next message.
    pub next_seq: u64,
    /// The cursor of the last batch that Redis accepted; none at the beginning.
    pub cursor: Option<&'a [u8]>,
    /// Redis's clock, which all nodes share.
    pub clock: &'a FleetClock,
}

/// Whether a source has more messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// There may be more: the generator asks again.
    More,
    /// This was all. The generator asks no more in this reign.
    End,
}

/// Why a source cannot go on.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SourceError {
    /// The generator opens the source again after a pause, which grows from 0.1 s to 30 s.
    Retry(String),
    /// Another attempt would not help on this node: it resigns and generates no more.
    Fatal(String),
}

impl SourceError {
    /// An error that another attempt may overcome.
    pub fn retry(error: impl fmt::Display) -> Self {
        Self::Retry(error.to_string())
    }

    /// An error that no attempt of this node overcomes.
    pub fn fatal(error: impl fmt::Display) -> Self {
        Self::Fatal(error.to_string())
    }
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Retry(reason) | Self::Fatal(reason)) = self;
        f.write_str(reason)
    }
}

/// A plain error, by `?`, is one that another attempt may overcome.
impl<E: StdError> From<E> for SourceError {
    fn from(error: E) -> Self {
        Self::retry(error)
    }
}
