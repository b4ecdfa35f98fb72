//! A failed message as `baton getErrors --json` prints it.

use std::borrow::Cow;
use std::time::UNIX_EPOCH;

use serde::de::{Deserialize, Deserializer, Error as _};
use serde::ser::{Serialize, Serializer};

use crate::encoding::record::FailedMessage;
use crate::text;

/// The fields of the object, in order.
#[derive(serde::Serialize, serde::Deserialize)]
struct Object<'a> {
    /// None in a fleet of one partition.
    #[serde(skip_serializing_if = "Option::is_none")]
    partition: Option<u32>,
    seq: u64,
    /// None if the time is not known.
    at: Option<Cow<'a, str>>,
    node: Cow<'a, str>,
    reason: Cow<'a, str>,
    attempt: u64,
    /// The idempotency key; none for bytes that were never a message of the fleet.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<Cow<'a, str>>,
    /// None if there was one attempt only.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_reason: Option<Cow<'a, str>>,
    text: Cow<'a, str>,
    /// All bytes of a text that is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    text_hex: Option<Cow<'a, str>>,
}

impl Serialize for FailedMessage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = String::from_utf8_lossy(&self.text);
        let is_utf8 = matches!(text, Cow::Borrowed(_));
        let object = Object {
            partition: self.partition,
            seq: self.seq,
            at: text::moment(self.at_ms).map(Cow::Owned),
            node: Cow::Borrowed(&self.node),
            reason: Cow::Borrowed(&self.reason),
            attempt: self.attempt,
            key: (!self.key.is_empty()).then_some(Cow::Borrowed(self.key.as_str())),
            first_reason: (!self.first_reason.is_empty())
                .then_some(Cow::Borrowed(self.first_reason.as_str())),
            text,
            text_hex: (!is_utf8).then(|| text::hex(&self.text).into()),
        };
        object.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for FailedMessage {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let object = Object::deserialize(from)?;
        let at_ms = match object.at.as_deref() {
            None => Some(0),
            Some(at) => milliseconds(at),
        };
        let text = match object.text_hex.as_deref() {
            None => Some(object.text.into_owned().into_bytes()),
            Some(digits) => bytes(digits),
        };
        Ok(Self {
            partition: object.partition,
            seq: object.seq,
            at_ms: at_ms.ok_or_else(|| D::Error::custom("`at` is not a time"))?,
            node: object.node.into_owned(),
            reason: object.reason.into_owned(),
            attempt: object.attempt,
            key: object.key.unwrap_or_default().into_owned(),
            first_reason: object.first_reason.unwrap_or_default().into_owned(),
            text: text.ok_or_else(|| D::Error::custom("`text_hex` is not hexadecimal"))?,
        })
    }
}

/// Reads what [`text::moment`] writes.
fn milliseconds(at: &str) -> Option<u64> {
    if let Some(number) = at.strip_suffix("ms") {
        return number.parse().ok();
    }
    let at = humantime::parse_rfc3339(at).ok()?;
    u64::try_from(at.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()
}

/// Reads what [`text::hex`] writes.
fn bytes(digits: &str) -> Option<Vec<u8>> {
    let pair = |pair: &[u8]| match pair.len() {
        2 => u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok(),
        _ => None,
    };
    digits.as_bytes().chunks(2).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(at_ms: u64, text: &[u8]) -> FailedMessage {
        FailedMessage {
            partition: None,
            seq: 17,
            at_ms,
            node: "k3v9x0a7qm".to_owned(),
            reason: "no\tsuch customer".to_owned(),
            attempt: 2,
            key: "k3v9x0a7qm-7".to_owned(),
            first_reason: "no answer".to_owned(),
            text: text.to_vec(),
        }
    }

    #[test]
    fn an_object_reads_back_with_every_byte_and_every_time() {
        for at_ms in [0, 1, 1_700_000_000_123, 300_000_000_000_000, u64::MAX] {
            for text in [&b"valid"[..], b"", b"\xff\x00a", "grün".as_bytes()] {
                let mut failed = failed(at_ms, text);
                failed.partition = (at_ms == 1).then_some(3);
                let object = serde_json::to_string(&failed).unwrap();
                assert_eq!(
                    serde_json::from_str::<FailedMessage>(&object).unwrap(),
                    failed,
                    "{object}"
                );
            }
        }
    }

    #[test]
    fn an_object_that_no_drain_prints_is_refused() {
        let good = serde_json::to_string(&failed(1_700_000_000_123, b"\xff")).unwrap();
        for (from, to) in [
            ("2023-", "soon-"),
            (r#""text_hex":"ff""#, r#""text_hex":"fg""#),
            (r#""text_hex":"ff""#, r#""text_hex":"f""#),
            (r#""seq":17,"#, ""),
        ] {
            let bad = good.replace(from, to);
            assert_ne!(bad, good);
            assert!(
                serde_json::from_str::<FailedMessage>(&bad).is_err(),
                "{bad}"
            );
        }
    }
}
