//! The idempotency key of a message.

use std::fmt;

use crate::bounds::MAX_KEY_BYTES;

/// The idempotency key of a message: the one that its source gave it, or else the random name of the
/// generator's reign, a hyphen and the message's sequence number.
#[derive(Debug, Clone, Copy)]
pub struct Key<'a> {
    word: &'a str,
    /// None if the word is all of the key.
    number: Option<u64>,
}

impl<'a> Key<'a> {
    /// A key that a source gave.
    pub fn given(word: &'a str) -> Self {
        let number = None;
        Self { word, number }
    }

    /// The key of message `seq`, whose source gave none.
    pub fn numbered(origin: &'a str, seq: u64) -> Self {
        let (word, number) = (origin, Some(seq));
        Self { word, number }
    }

    /// Whether a source may give this key, or why not. It becomes a variable of a command and a header of
    /// a request.
    pub fn check(key: &str) -> Result<(), String> {
        match key.len() {
            0 => Err("it is empty".to_owned()),
            length if length > MAX_KEY_BYTES => Err(format!(
                "it has {length} bytes; it may have {MAX_KEY_BYTES}"
            )),
            _ if key.contains(char::is_control) => Err("it has a control character".to_owned()),
            _ if key.trim() != key => Err("it begins or ends with a space".to_owned()),
            _ => Ok(()),
        }
    }
}

/// A key that borrows nothing.
#[derive(Debug, Clone)]
pub struct OwnedKey {
    word: Box<str>,
    number: Option<u64>,
}

impl OwnedKey {
    /// The key.
    pub fn as_key(&self) -> Key<'_> {
        let (word, number) = (&*self.word, self.number);
        Key { word, number }
    }
}

impl From<Key<'_>> for OwnedKey {
    fn from(key: Key<'_>) -> Self {
        let (word, number) = (key.word.into(), key.number);
        Self { word, number }
    }
}

impl PartialEq for OwnedKey {
    fn eq(&self, other: &Self) -> bool {
        self.as_key() == other.as_key()
    }
}

impl Eq for OwnedKey {}

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number {
            None => f.write_str(self.word),
            Some(number) => write!(f, "{}-{number}", self.word),
        }
    }
}

/// A message that is tried again has the text of its key as a given one.
impl PartialEq for Key<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl Eq for Key<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_equal_if_their_texts_are() {
        let numbered = Key::numbered("k3v9x0a7qm", 7);
        assert_eq!(numbered.to_string(), "k3v9x0a7qm-7");
        assert_eq!(numbered, Key::given("k3v9x0a7qm-7"));
        assert_ne!(numbered, Key::numbered("k3v9x0a7qm", 8));
        assert_ne!(numbered, Key::given("k3v9x0a7qm"));
    }

    #[test]
    fn a_key_that_no_header_can_carry_is_refused() {
        let longest = "x".repeat(MAX_KEY_BYTES);
        for key in [
            "order-7",
            "report@2026-11-15T10:00:00Z",
            "заказ 7",
            &longest,
        ] {
            assert_eq!(Key::check(key), Ok(()));
        }
        for (key, words) in [
            ("", "empty"),
            ("a\nb", "control"),
            ("a\0", "control"),
            ("a ", "ends with a space"),
            (&format!("{longest}x"), "257 bytes; it may have 256"),
        ] {
            let error = Key::check(key).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
