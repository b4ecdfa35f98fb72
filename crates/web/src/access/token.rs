//! The token, compared in constant time, and other secrets.

use baton_protocol::text::hex;
use subtle::ConstantTimeEq;

/// The longest token.
const MAX_BYTES: usize = 512;

/// A token, padded to a fixed size: the time of a comparison reveals neither contents nor length.
pub(super) struct Token {
    bytes: [u8; MAX_BYTES],
    len: u64,
}

impl Token {
    /// None if the text is too long.
    pub(super) fn new(text: &[u8]) -> Option<Self> {
        let mut bytes = [0; MAX_BYTES];
        bytes.get_mut(..text.len())?.copy_from_slice(text);
        Some(Self {
            bytes,
            len: text.len() as u64,
        })
    }

    /// Whether a caller's text is this token.
    pub(super) fn is(&self, text: &[u8]) -> bool {
        Self::new(text).is_some_and(|other| {
            (self.bytes.ct_eq(&other.bytes) & self.len.ct_eq(&other.len)).into()
        })
    }
}

/// Whether two texts are equal, in a time that does not reveal where they differ.
pub(crate) fn equal(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}

/// A random text that cannot be guessed.
pub(crate) fn secret() -> String {
    hex(&rand::random::<[u8; 32]>())
}
