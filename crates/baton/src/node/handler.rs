//! What users bring: a source of messages and a handler for them.

use std::future::Future;

use crate::Effects;

/// A message as a handler sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
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

impl<'a> Message<'a> {
    /// A message for a test of a handler: its first attempt, made at no known time.
    pub fn new(seq: u64, text: &'a [u8]) -> Self {
        Self {
            seq,
            at_ms: 0,
            attempt: 1,
            text,
        }
    }
}

/// Why a handler rejects a message. The message goes to the errors store with this reason.
#[derive(Debug)]
pub struct Rejected {
    reason: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Rejected {
    /// A rejection for this reason.
    pub fn new(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            source: None,
        }
    }

    /// A rejection because of an error. Its reason has the error's words and those of its causes.
    ///
    /// ```
    /// # use baton::Rejected;
    /// fn amount(text: &str) -> Result<u64, Rejected> {
    ///     text.parse().map_err(Rejected::because)
    /// }
    /// let rejected = amount("7 apples").unwrap_err();
    /// assert_eq!(rejected.reason(), "invalid digit found in string");
    /// ```
    pub fn because(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        let source = error.into();
        let mut reason = source.to_string();
        let mut cause = source.source();
        while let Some(error) = cause {
            reason = format!("{reason}: {error}");
            cause = error.source();
        }
        Self {
            reason,
            source: Some(source),
        }
    }

    /// The reason, in words.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl std::fmt::Display for Rejected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for Rejected {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        let source = self.source.as_deref()?;
        Some(source)
    }
}

impl From<&str> for Rejected {
    fn from(reason: &str) -> Self {
        Self::new(reason)
    }
}

impl From<String> for Rejected {
    fn from(reason: String) -> Self {
        Self::new(reason)
    }
}

/// Makes messages. Only the generator asks its source. It must answer quickly and without blocking:
/// while it makes a text, the node publishes nothing and does not stop.
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
