//! What a user brings to handle messages.

use std::future::Future;

use baton_protocol::Key;

use crate::Effects;
use crate::node::handler_error::HandlerError;

/// A message as a handler sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Message<'a> {
    /// Its sequence number: unique in its partition for as long as Redis keeps its data.
    pub seq: u64,
    /// Its partition: always 0 in a fleet of one partition, where the sequence number alone is unique.
    pub partition: u32,
    /// When it was made, in ms on Redis's clock.
    pub at_ms: u64,
    /// 1, or more when it was handled before: its handler failed, or its worker died.
    pub attempt: u64,
    /// The text: any bytes.
    pub text: &'a [u8],
    pub(crate) key: Key<'a>,
}

impl<'a> Message<'a> {
    /// A message for a test of a handler: its first attempt, made at no known time.
    pub fn new(seq: u64, text: &'a [u8]) -> Self {
        Self {
            seq,
            partition: 0,
            at_ms: 0,
            attempt: 1,
            text,
            key: Key::numbered("test", seq),
        }
    }

    /// Its idempotency key, for effects outside Redis: the same in every attempt. It is the one that the
    /// source gave the message, such as the id of a row or `NAME@TIME` of a cron tick. If the source gave
    /// none, it has letters, digits and a hyphen, and is never that of another message, even if Redis
    /// loses its data and numbers begin anew.
    pub fn key(&self) -> Key<'a> {
        self.key
    }
}

/// Handles messages. Runs on a worker, for up to `concurrency` messages at the same time. A closure
/// becomes one by [`handler`](crate::handler).
pub trait Handler: Send + Sync + 'static {
    /// Handles one message. What is staged in `effects` is written to Redis in the step that commits
    /// the message. [`HandlerError`] says what becomes of a message that fails; a plain error that
    /// `?` converts means: try again later.
    ///
    /// It may run again for a message whose worker died before its commit; the commit
    /// happens once. A panic counts as a plain error. It must not block its thread: the
    /// node's beat may live on it. [`blocking`](crate::blocking) makes a handler that may.
    fn handle(
        &self,
        message: Message<'_>,
        effects: &mut Effects,
    ) -> impl Future<Output = Result<(), HandlerError>> + Send;
}
