//! The note that Redis keeps of a message that was tried before and has not ended.

use crate::encoding::pack::{read_text, write, write_text};

/// Why the first and the last attempt of a message failed. Its bytes are a msgpack array
/// `[first reason, last reason]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Note {
    /// Why the first attempt failed.
    pub first_reason: String,
    /// Why the last attempt failed.
    pub last_reason: String,
}

impl Note {
    /// The bytes of the note.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.first_reason.len() + self.last_reason.len() + 7);
        write(&mut bytes, |bytes| rmp::encode::write_array_len(bytes, 2));
        write_text(&mut bytes, self.first_reason.as_bytes());
        write_text(&mut bytes, self.last_reason.as_bytes());
        bytes
    }

    /// Reads a note; none if no worker wrote the bytes.
    pub fn decode(mut bytes: &[u8]) -> Option<Self> {
        if rmp::decode::read_array_len(&mut bytes).ok()? != 2 {
            return None;
        }
        let mut reason = || {
            let reason = read_text(&mut bytes)?;
            Some(String::from_utf8_lossy(reason).into_owned())
        };
        let note = Self {
            first_reason: reason()?,
            last_reason: reason()?,
        };
        bytes.is_empty().then_some(note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_reads_back_and_other_bytes_do_not() {
        let note = Note {
            first_reason: "no answer".to_owned(),
            last_reason: "x".repeat(300),
        };
        let bytes = note.encode();
        assert_eq!(Note::decode(&bytes), Some(note));
        for cut in 0..bytes.len() {
            assert_eq!(Note::decode(&bytes[..cut]), None);
        }
        assert_eq!(Note::decode(b"garbage"), None);
    }
}
