//! What users bring: a source of messages and a handler for them.

use std::future::Future;

use crate::Effects;

/// A message as a handler sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    /// Its sequence number: unique in the fleet, and the idempotency key for effects outside
    /// Redis.
    pub seq: u64,
    /// When it was made, in ms on Redis's clock.
    pub at_ms: u64,
    /// 1, or more when workers died with it before.
    pub attempt: u64,
    /// The text: any bytes.
    pub text: &'a [u8],
}

/// Why a handler rejects a message. It goes to the errors store with this reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// The reason, in words.
    pub reason: String,
}

impl<T: std::fmt::Display> From<T> for Rejected {
    fn from(reason: T) -> Self {
        Self {
            reason: reason.to_string(),
        }
    }
}

/// Makes messages. Only the generator's source is asked.
pub trait Source: Send + 'static {
    /// Appends the text of message `seq` to `text`, which is empty. If this node loses the
    /// lease before the message is accepted, another node's source is asked for the same
    /// number: a number is accepted once.
    fn generate(&mut self, seq: u64, text: &mut Vec<u8>) -> impl Future<Output = ()> + Send;
}

/// Handles messages. Runs on a worker, for up to `concurrency` messages at the same time.
pub trait Handler: Send + Sync + 'static {
    /// Handles one message. `Err` sends it to the errors store. What is staged in `effects`
    /// is written to Redis in the step that commits the message.
    ///
    /// It may run again for a message whose worker died before its commit; the commit
    /// happens once. A panic counts as a rejection. It must not block its thread: the
    /// node's beat may live on it.
    fn handle(
        &self,
        message: Message<'_>,
        effects: &mut Effects,
    ) -> impl Future<Output = Result<(), Rejected>> + Send;
}
