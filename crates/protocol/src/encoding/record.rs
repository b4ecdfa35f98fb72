//! Failed messages, and the records that the errors store keeps of them.

use crate::encoding::key::Key;
use crate::encoding::pack::{read_cut_text, read_text, write, write_text};

/// A failed message. Its record is a msgpack array
/// `[sequence number, time in ms, node, reason, attempt, key, first reason, text]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FailedMessage {
    /// Which partition it belongs to; none if the fleet has one only. The record does not have it.
    pub partition: Option<u32>,
    /// Its sequence number in the partition; 0 for bytes that were never a message of this fleet.
    pub seq: u64,
    /// When it failed, in ms on Redis's clock.
    pub at_ms: u64,
    /// The node whose handler rejected it.
    pub node: String,
    /// Why, in the handler's words.
    pub reason: String,
    /// Which attempt it was: 1, or more if it was tried before or workers died with it.
    pub attempt: u64,
    /// Its idempotency key; empty for bytes that were never a message of this fleet.
    pub key: String,
    /// Why its first attempt failed; empty if this was the first.
    pub first_reason: String,
    /// The message's text, or the raw bytes of what was not a message.
    pub text: Vec<u8>,
}

/// The beginning of a failed message, as a snapshot lists it.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct FailedPreview {
    /// Which partition it belongs to; none if the fleet has one only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<u32>,
    /// Its sequence number in the partition; 0 for bytes that were never a message of this fleet.
    pub seq: u64,
    /// When it failed, in ms on Redis's clock.
    pub at_ms: u64,
    /// The node whose handler rejected it.
    pub node: String,
    /// Why, in the handler's words.
    pub reason: String,
    /// Which attempt it was.
    pub attempt: u64,
    /// The beginning of its text, with U+FFFD for bytes that are not UTF-8.
    pub text: String,
    /// Whether the message has more text.
    pub cut: bool,
}

/// A message that failed in its first attempt. Tests and measurements make their records from it.
pub fn failed_once(
    seq: u64,
    at_ms: u64,
    node: &str,
    reason: &str,
    text: impl AsRef<[u8]>,
) -> FailedMessage {
    FailedMessage {
        seq,
        at_ms,
        node: node.to_owned(),
        reason: reason.to_owned(),
        attempt: 1,
        key: Key::numbered("0123456789", seq).to_string(),
        text: text.as_ref().to_vec(),
        ..FailedMessage::default()
    }
}

/// The record of a failed message.
pub fn encode(failed: &FailedMessage) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(failed.text.len() + failed.reason.len() + 48);
    write(&mut bytes, |bytes| {
        rmp::encode::write_array_len(bytes, 8)?;
        rmp::encode::write_uint(bytes, failed.seq)?;
        rmp::encode::write_uint(bytes, failed.at_ms)
    });
    write_text(&mut bytes, failed.node.as_bytes());
    write_text(&mut bytes, failed.reason.as_bytes());
    write(&mut bytes, |bytes| {
        rmp::encode::write_uint(bytes, failed.attempt)
    });
    write_text(&mut bytes, failed.key.as_bytes());
    write_text(&mut bytes, failed.first_reason.as_bytes());
    write_text(&mut bytes, &failed.text);
    bytes
}

/// Reads the beginning of a record of `length` bytes.
pub fn preview(bytes: &[u8], length: u64) -> FailedPreview {
    let cut = (bytes.len() as u64) < length;
    if cut && bytes.is_empty() {
        return FailedPreview {
            reason: format!("a record of {length} bytes, too long to show here"),
            cut,
            ..FailedPreview::default()
        };
    }
    let mut rest = bytes;
    let failed = match read(&mut rest, cut) {
        Some(failed) if rest.is_empty() => failed,
        _ => decode(bytes),
    };
    FailedPreview {
        partition: failed.partition,
        seq: failed.seq,
        at_ms: failed.at_ms,
        node: failed.node,
        reason: failed.reason,
        attempt: failed.attempt,
        text: String::from_utf8_lossy(&failed.text).into_owned(),
        cut,
    }
}

/// Reads a record. Foreign bytes become the text of a message whose reason says so: whatever is in
/// the errors store can be printed and drained.
pub fn decode(bytes: &[u8]) -> FailedMessage {
    let mut rest = bytes;
    match read(&mut rest, false) {
        Some(failed) if rest.is_empty() => failed,
        _ => FailedMessage {
            reason: "not an error record of this fleet".to_owned(),
            text: bytes.to_vec(),
            ..FailedMessage::default()
        },
    }
}

/// The sequence number of a record, without decoding the rest; 0 for foreign bytes.
pub fn seq_of(mut bytes: &[u8]) -> u64 {
    match rmp::decode::read_array_len(&mut bytes) {
        Ok(8) => rmp::decode::read_int(&mut bytes).unwrap_or_default(),
        _ => 0,
    }
}

/// Decodes a record. A cut record may end within its reason or its text.
fn read(bytes: &mut &[u8], cut: bool) -> Option<FailedMessage> {
    if rmp::decode::read_array_len(bytes).ok()? != 8 {
        return None;
    }
    let words = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
    let text = match cut {
        true => read_cut_text,
        false => read_text,
    };
    let mut failed = FailedMessage {
        seq: rmp::decode::read_int(bytes).ok()?,
        at_ms: rmp::decode::read_int(bytes).ok()?,
        // Scripts write the slot (node:lane); the node is wanted.
        node: words(read_text(bytes)?)
            .split(':')
            .next()
            .unwrap_or_default()
            .to_owned(),
        reason: words(text(bytes)?),
        ..FailedMessage::default()
    };
    if !(cut && bytes.is_empty()) {
        failed.attempt = rmp::decode::read_int(bytes).ok()?;
        failed.key = words(read_text(bytes)?);
        failed.first_reason = words(text(bytes)?);
    }
    if !(cut && bytes.is_empty()) {
        failed.text = text(bytes)?.to_vec();
    }
    Some(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_reads_back() {
        let failed = FailedMessage {
            partition: None,
            seq: 1 << 40,
            at_ms: 1_700_000_000_123,
            node: "node1".to_owned(),
            reason: "no such customer".to_owned(),
            attempt: 2,
            key: "k3v9x0a7qm-7".to_owned(),
            first_reason: "no answer".to_owned(),
            text: b"\xff\x1b[31mred".to_vec(),
        };
        let bytes = encode(&failed);
        assert_eq!(decode(&bytes), failed);
        assert_eq!(seq_of(&bytes), failed.seq);
        for cut in 0..bytes.len() {
            let read = decode(&bytes[..cut]);
            assert_eq!((read.seq, read.text.as_slice()), (0, &bytes[..cut]));
        }
    }

    #[test]
    fn a_glance_shows_as_much_as_there_is() {
        let failed = FailedMessage {
            partition: None,
            seq: 7,
            at_ms: 1_700_000_000_123,
            node: "node1".to_owned(),
            reason: "no such customer".to_owned(),
            attempt: 2,
            key: "k3v9x0a7qm-7".to_owned(),
            first_reason: String::new(),
            text: vec![b'x'; 300],
        };
        let bytes = encode(&failed);
        let length = bytes.len() as u64;
        let whole = preview(&bytes, length);
        assert_eq!((whole.text.len(), whole.cut), (300, false));
        let cut = preview(&bytes[..bytes.len() - 290], length);
        assert_eq!(
            (cut.seq, cut.text.as_str(), cut.cut),
            (7, "xxxxxxxxxx", true)
        );
        assert_eq!(cut.reason, failed.reason);
        let cut = preview(&bytes[..25], length);
        assert_eq!((cut.seq, cut.text.as_str(), cut.cut), (7, "", true));
        assert!(failed.reason.starts_with(&cut.reason) && !cut.reason.is_empty());
        let garbage = preview(b"garb", 7);
        assert_eq!(
            (garbage.seq, garbage.text.as_str(), garbage.cut),
            (0, "garb", true)
        );
    }

    #[test]
    fn foreign_bytes_are_kept_whole() {
        let read = decode(b"garbage");
        assert_eq!(read.text, b"garbage");
        assert_eq!(seq_of(b"garbage"), 0);
        assert_eq!(read.reason, "not an error record of this fleet");
    }
}
