//! A batch: the messages that a source makes at a time, and where it stands after them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use baton_protocol::{Digest, Key, PackBuilder};

/// Ticks that a source left out, for the node's warning.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LeftOut {
    pub(crate) count: u64,
    /// The time in which they were due.
    pub(crate) of_ms: u64,
    /// How much time the source makes up for.
    pub(crate) at_most_ms: u64,
}

/// Messages on their way from a source to Redis.
#[derive(Debug)]
pub struct Batch {
    /// The sequence number of its first message.
    first: u64,
    /// Max messages.
    limit: u64,
    /// With so many messages it should end: the generator keeps to a rate.
    enough: u64,
    /// Whether the fleet publishes no more messages after a full batch.
    is_last: bool,
    pub(crate) pack: PackBuilder,
    pub(crate) digest: Option<Digest>,
    pub(crate) cursor: Option<Vec<u8>>,
    pub(crate) left_out: LeftOut,
    /// Whether its messages were due at certain times.
    pub(crate) is_scheduled: bool,
    /// Whether the source cannot read the stored cursor, and begins anew.
    pub(crate) begins_anew: bool,
    /// The text of its only message, for the log.
    pub(crate) only_text: Option<Vec<u8>>,
    /// Why a key that the source gave is none.
    pub(crate) wrong_key: Option<String>,
    has_messages: Arc<AtomicBool>,
}

impl Batch {
    /// An empty batch for the messages from `first` on, in a used builder.
    pub(crate) fn new(
        first: u64,
        limit: u64,
        is_last: bool,
        audit: bool,
        pack: PackBuilder,
    ) -> Self {
        Self {
            first,
            limit,
            enough: limit,
            is_last,
            pack,
            digest: audit.then(Digest::default),
            cursor: None,
            left_out: LeftOut::default(),
            is_scheduled: false,
            begins_anew: false,
            only_text: None,
            wrong_key: None,
            has_messages: Arc::default(),
        }
    }

    /// Asks for fewer messages than it has room for.
    pub(crate) fn ask_for(&mut self, count: u64) {
        self.enough = self.limit.min(count);
    }

    /// Adds a message. A source adds no more than there is room for.
    pub fn push(&mut self, text: &[u8]) {
        self.note(text);
        self.pack.push(text);
    }

    /// Adds a message with an idempotency key of the source's own, such as the id of a row: up to 256 bytes
    /// without control characters. Its handlers see the key in every attempt. Baton does not compare keys:
    /// a source that gives one key to two messages has both handled.
    pub fn push_keyed(&mut self, key: &str, text: &[u8]) {
        if let Err(wrong) = Key::check(key) {
            let seq = self.next_seq();
            let wrong = format!("the source gave message #{seq} a wrong key: {wrong}");
            self.wrong_key.get_or_insert(wrong);
        }
        self.note(text);
        self.pack.push_keyed(key, text);
    }

    /// Takes note of the text of the next message.
    fn note(&mut self, text: &[u8]) {
        let place = self.pack.count();
        if let Some(digest) = &mut self.digest {
            digest.add(place, text);
        }
        match place {
            0 => {
                self.has_messages.store(true, Ordering::Relaxed);
                self.only_text = Some(text.to_vec());
            }
            1 => self.only_text = None,
            _ => {}
        }
    }

    /// How many messages it has.
    pub fn count(&self) -> u64 {
        self.pack.count()
    }

    /// Whether the source may add one more.
    pub fn has_room(&self) -> bool {
        self.count() < self.enough && !self.pack.is_full()
    }

    /// How many messages the source may still add if they have to be in one batch. That they are many
    /// bytes, or more than the generator's rate, is no obstacle; [`Batch::has_room`] says when a batch should end.
    pub fn room(&self) -> u64 {
        self.limit.saturating_sub(self.count())
    }

    /// The sequence number of the next message that the source adds.
    pub fn next_seq(&self) -> u64 {
        self.first + self.count()
    }

    /// Where the source stands after these messages: at most 64 KiB. A source gives all of its batches
    /// a cursor, or none. Redis also stores the cursor of a batch without messages: a source that passed
    /// over something says so.
    pub fn set_cursor(&mut self, cursor: impl Into<Vec<u8>>) {
        self.cursor = Some(cursor.into());
    }

    /// Whether it has the last messages that the fleet may publish.
    pub(crate) fn ends_the_fleet(&self) -> bool {
        self.is_last && self.count() >= self.limit
    }

    /// Whether it has more messages than its source was asked for.
    pub(crate) fn is_overfull(&self) -> bool {
        self.count() > self.limit
    }

    /// Tells whether it has messages, even while a source fills it.
    pub(crate) fn messages_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.has_messages)
    }
}
