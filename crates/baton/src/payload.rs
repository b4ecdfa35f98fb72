//! What a closure takes: a message of its own, or a value that its text holds.

use baton_protocol::OwnedKey;
use serde::de::DeserializeOwned;

use crate::{Key, Message, Rejected};

/// Max characters of the reason why a text is not the JSON that a handler takes. It may quote the
/// text.
const MAX_REASON: usize = 400;

/// What a closure of [`handler`](crate::handler) or [`blocking`](crate::blocking) takes: an
/// [`OwnedMessage`], a [`Json`] value, or two of these as a tuple.
pub trait Payload: Sized + Send + 'static {
    /// Makes it from a message. A message that cannot be one is rejected for good.
    fn from_message(message: Message<'_>) -> Result<Self, Rejected>;
}

/// A message with a text of its own, for a closure that keeps it while it waits.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OwnedMessage {
    /// Its sequence number: unique in the fleet for as long as Redis keeps its data.
    pub seq: u64,
    /// Its partition, see [`Message::partition`].
    pub partition: u32,
    /// When it was made, in ms on Redis's clock.
    pub at_ms: u64,
    /// 1, or more when it was handled before.
    pub attempt: u64,
    /// The text: any bytes.
    pub text: Vec<u8>,
    key: OwnedKey,
}

impl OwnedMessage {
    /// Its idempotency key, see [`Message::key`].
    pub fn key(&self) -> Key<'_> {
        self.as_message().key()
    }

    /// The message without a copy of its text.
    pub fn as_message(&self) -> Message<'_> {
        Message {
            seq: self.seq,
            partition: self.partition,
            at_ms: self.at_ms,
            attempt: self.attempt,
            text: &self.text,
            key: self.key.as_key(),
        }
    }
}

impl From<Message<'_>> for OwnedMessage {
    fn from(message: Message<'_>) -> Self {
        Self {
            seq: message.seq,
            partition: message.partition,
            at_ms: message.at_ms,
            attempt: message.attempt,
            text: message.text.to_owned(),
            key: message.key.into(),
        }
    }
}

impl Payload for OwnedMessage {
    fn from_message(message: Message<'_>) -> Result<Self, Rejected> {
        Ok(message.into())
    }
}

/// The value of a message whose text is JSON. A message whose text is not the JSON of a `T` is
/// rejected, with the reason.
///
/// ```
/// use baton::{Json, Message, Payload};
///
/// #[derive(serde::Deserialize)]
/// struct Order {
///     customer: String,
/// }
///
/// let Json(order) = Json::<Order>::from_message(Message::new(1, br#"{"customer": "Ada"}"#))?;
/// assert_eq!(order.customer, "Ada");
/// let rejected = Json::<Order>::from_message(Message::new(2, b"{}")).err().unwrap();
/// assert_eq!(rejected.reason(), "not the JSON that the handler takes: missing field `customer` at line 1 column 2");
/// # Ok::<(), baton::Rejected>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Json<T>(pub T);

impl<T: DeserializeOwned + Send + 'static> Payload for Json<T> {
    fn from_message(message: Message<'_>) -> Result<Self, Rejected> {
        serde_json::from_slice(message.text)
            .map(Self)
            .map_err(|error| {
                let reason: String = error.to_string().chars().take(MAX_REASON).collect();
                Rejected::new(format!("not the JSON that the handler takes: {reason}"))
            })
    }
}

impl<A: Payload, B: Payload> Payload for (A, B) {
    fn from_message(message: Message<'_>) -> Result<Self, Rejected> {
        Ok((A::from_message(message)?, B::from_message(message)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owned_message_is_the_message() {
        let message = Message::new(7, b"seven");
        let owned = OwnedMessage::from(message);
        assert_eq!(owned.as_message(), message);
        assert_eq!(owned.key().to_string(), message.key().to_string());
    }

    #[test]
    fn a_reason_that_quotes_a_long_text_is_cut() {
        let text = format!("\"{}\"", "ü".repeat(100_000));
        let rejected = Json::<u64>::from_message(Message::new(1, text.as_bytes())).unwrap_err();
        assert!(rejected.reason().contains("invalid type: string \"üü"));
        assert!(
            rejected.reason().len() < 1000,
            "{}",
            rejected.reason().len()
        );
    }
}
