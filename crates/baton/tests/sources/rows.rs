//! A table as a source: its rows come again from any cursor.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton::{Batch, Flow, Position, Source, SourceError};

/// What a source was asked, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Asked {
    Open {
        next_seq: u64,
        cursor: Option<String>,
    },
    Accepted(String),
    Close,
}

/// Rows 1 to `rows`, a few at a time. Its cursor is the number of the last row.
#[derive(Clone)]
pub(crate) struct Rows {
    rows: u64,
    pub(crate) at_a_time: u64,
    pause: Duration,
    /// How long it takes to hear what is accepted.
    hears_for: Duration,
    /// What `next` does instead when it has made this row.
    trouble: Option<(u64, Trouble)>,
    /// The row after which it waits.
    waits_at: Arc<AtomicU64>,
    /// How many bytes a text has at least.
    length: usize,
    replays: bool,
    at: u64,
    asked: Arc<Mutex<Vec<Asked>>>,
}

#[derive(Clone, Copy)]
pub(crate) enum Trouble {
    /// It fails, once.
    Retry,
    Fatal,
    Panic,
    Hang,
    NoCursor,
    LongCursor,
    Overfull,
}

pub(crate) fn rows(rows: u64) -> Rows {
    Rows {
        rows,
        at_a_time: 3,
        pause: Duration::from_millis(1),
        hears_for: Duration::ZERO,
        trouble: None,
        waits_at: Arc::new(AtomicU64::new(u64::MAX)),
        length: 0,
        replays: true,
        at: 0,
        asked: Arc::default(),
    }
}

impl Rows {
    pub(crate) fn with(mut self, at: u64, trouble: Trouble) -> Self {
        self.trouble = Some((at, trouble));
        self
    }

    /// A source that does not promise the same texts under the same numbers.
    pub(crate) fn without_replay(mut self) -> Self {
        self.replays = false;
        self
    }

    /// A source that waits this long before each batch.
    pub(crate) fn paused(mut self, pause: Duration) -> Self {
        self.pause = pause;
        self
    }

    /// A source that takes this long to hear what is accepted.
    pub(crate) fn hearing_for(mut self, time: Duration) -> Self {
        self.hears_for = time;
        self
    }

    /// A source with texts of so many bytes, which end with dots.
    pub(crate) fn with_text(mut self, length: usize) -> Self {
        self.length = length;
        self
    }

    /// A source that waits after this row until it is told to go on.
    pub(crate) fn until_told(self, row: u64) -> Self {
        self.wait_at(row);
        self
    }

    pub(crate) fn wait_at(&self, row: u64) {
        self.waits_at.store(row, Ordering::Relaxed);
    }

    pub(crate) fn go_on(&self) {
        self.wait_at(u64::MAX);
    }

    fn note(&self, asked: Asked) {
        self.asked.lock().unwrap().push(asked);
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

fn text(cursor: &[u8]) -> String {
    String::from_utf8(cursor.to_vec()).unwrap()
}

impl Source for Rows {
    async fn open(&mut self, from: Position<'_>) -> Result<(), SourceError> {
        let cursor = from.cursor.map(text);
        self.at = cursor.as_ref().map_or(0, |cursor| cursor.parse().unwrap());
        self.note(Asked::Open {
            next_seq: from.next_seq,
            cursor,
        });
        Ok(())
    }

    async fn next(&mut self, batch: &mut Batch) -> Result<Flow, SourceError> {
        if !self.pause.is_zero() {
            tokio::time::sleep(self.pause).await;
        }
        while self.at >= self.waits_at.load(Ordering::Relaxed) {
            tokio::time::sleep(self.pause).await;
        }
        match self.trouble {
            Some((at, trouble)) if self.at >= at => match trouble {
                Trouble::Retry => {
                    self.trouble = None;
                    return Err(SourceError::retry("the table is locked"));
                }
                Trouble::Fatal => return Err(SourceError::fatal("the table is gone")),
                // Without the panic hook: a backtrace takes longer than the lease lives.
                Trouble::Panic => std::panic::resume_unwind(Box::new("a bug in the source")),
                Trouble::Hang => return std::future::pending().await,
                Trouble::NoCursor => {
                    batch.push(b"a row without a cursor");
                    return Ok(Flow::More);
                }
                Trouble::LongCursor => {
                    batch.push(b"a row");
                    batch.set_cursor(vec![b'x'; 65 << 10]);
                    return Ok(Flow::More);
                }
                Trouble::Overfull => {
                    while batch.count() <= 1000 {
                        batch.push(b"a row");
                    }
                    batch.set_cursor(*b"1001");
                    return Ok(Flow::More);
                }
            },
            _ => {}
        }
        if self.at == self.rows {
            return Ok(Flow::End);
        }
        for _ in 0..self.at_a_time {
            if self.at < self.rows && batch.has_room() {
                self.at += 1;
                let text = format!("row {}", self.at);
                batch.push(format!("{text:.<0$}", self.length).as_bytes());
            }
        }
        batch.set_cursor(self.at.to_string());
        Ok(Flow::More)
    }

    async fn accepted(&mut self, cursor: &[u8]) {
        tokio::time::sleep(self.hears_for).await;
        self.note(Asked::Accepted(text(cursor)));
    }

    async fn close(&mut self) {
        self.note(Asked::Close);
    }

    fn replays(&self) -> bool {
        self.replays
    }
}
