//! Failed messages: what the errors store keeps of them.

use crate::pack::{read_text, write, write_text};

/// A failed message as the errors store keeps it: a msgpack array
/// `[sequence number, time in ms, node, reason, attempt, text]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedMessage {
    /// Its sequence number; 0 for bytes that were never a message of this fleet.
    pub seq: u64,
    /// When it failed, in ms on Redis's clock.
    pub at_ms: u64,
    /// The node whose handler rejected it.
    pub node: String,
    /// Why, in the handler's words.
    pub reason: String,
    /// Which attempt it was: 1, or more when workers died with it before.
    pub attempt: u64,
    /// The message's text, or the raw bytes of what was not a message.
    pub text: Vec<u8>,
}

impl FailedMessage {
    /// The bytes that are stored.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.text.len() + self.reason.len() + 48);
        write(&mut bytes, |bytes| {
            rmp::encode::write_array_len(bytes, 6)?;
            rmp::encode::write_uint(bytes, self.seq)?;
            rmp::encode::write_uint(bytes, self.at_ms)
        });
        write_text(&mut bytes, self.node.as_bytes());
        write_text(&mut bytes, self.reason.as_bytes());
        write(&mut bytes, |bytes| {
            rmp::encode::write_uint(bytes, self.attempt)
        });
        write_text(&mut bytes, &self.text);
        bytes
    }

    /// Reads a stored record. Bytes that are not one come back as the text of a record that
    /// says so: whatever lies in the errors store can be printed and taken.
    pub fn decode(bytes: &[u8]) -> Self {
        let mut rest = bytes;
        match decode(&mut rest) {
            Some(failed) if rest.is_empty() => failed,
            _ => Self {
                seq: 0,
                at_ms: 0,
                node: String::new(),
                reason: "not an error record of this fleet".to_owned(),
                attempt: 0,
                text: bytes.to_vec(),
            },
        }
    }
}

/// The sequence number of a stored record, without the rest; 0 for what is not one.
pub(crate) fn seq_of(mut bytes: &[u8]) -> u64 {
    match rmp::decode::read_array_len(&mut bytes) {
        Ok(6) => rmp::decode::read_int(&mut bytes).unwrap_or_default(),
        _ => 0,
    }
}

fn decode(bytes: &mut &[u8]) -> Option<FailedMessage> {
    if rmp::decode::read_array_len(bytes).ok()? != 6 {
        return None;
    }
    let words = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
    Some(FailedMessage {
        seq: rmp::decode::read_int(bytes).ok()?,
        at_ms: rmp::decode::read_int(bytes).ok()?,
        // Scripts name the slot (node:lane); the reader wants the node.
        node: words(read_text(bytes)?)
            .split(':')
            .next()
            .unwrap_or_default()
            .to_owned(),
        reason: words(read_text(bytes)?),
        attempt: rmp::decode::read_int(bytes).ok()?,
        text: read_text(bytes)?.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_reads_back() {
        let failed = FailedMessage {
            seq: 1 << 40,
            at_ms: 1_700_000_000_123,
            node: "node1".to_owned(),
            reason: "no such customer".to_owned(),
            attempt: 2,
            text: b"\xff\x1b[31mred".to_vec(),
        };
        let bytes = failed.encode();
        assert_eq!(FailedMessage::decode(&bytes), failed);
        assert_eq!(seq_of(&bytes), failed.seq);
        for cut in 0..bytes.len() {
            let read = FailedMessage::decode(&bytes[..cut]);
            assert_eq!((read.seq, read.text.as_slice()), (0, &bytes[..cut]));
        }
    }

    #[test]
    fn foreign_bytes_are_kept_whole() {
        let read = FailedMessage::decode(b"garbage");
        assert_eq!(read.text, b"garbage");
        assert_eq!(seq_of(b"garbage"), 0);
        assert_eq!(read.reason, "not an error record of this fleet");
    }
}
