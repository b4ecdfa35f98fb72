//! Where a file was read to, and what tells that it is the same file.

use std::fmt;

use xxhash_rust::xxh3::Xxh3;

use crate::source::SourceError;

/// How many of the first and of the last bytes before a cursor are compared.
pub(super) const PRINT_BYTES: usize = 512;

/// A place in a file: behind a line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LineCursor {
    pub(super) offset: u64,
    pub(super) lines: u64,
    /// Of the bytes before it.
    pub(super) digest: u64,
}

impl LineCursor {
    pub(super) fn parse(cursor: &[u8]) -> Result<Self, SourceError> {
        let numbers = || {
            let mut words = str::from_utf8(cursor).ok()?.split(' ');
            let cursor = Self {
                offset: words.next()?.parse().ok()?,
                lines: words.next()?.parse().ok()?,
                digest: u64::from_str_radix(words.next()?, 16).ok()?,
            };
            words.next().is_none().then_some(cursor)
        };
        numbers().ok_or_else(|| {
            SourceError::Fatal(format!(
                "'{}' is no cursor of a file, such as '1042 17 9ae1f0'",
                cursor.escape_ascii()
            ))
        })
    }
}

impl fmt::Display for LineCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {:x}", self.offset, self.lines, self.digest)
    }
}

/// The first and the last bytes before a place in a file. Files on several machines have neither inodes nor
/// times in common, only their bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Fingerprint {
    bytes: u64,
    first: Vec<u8>,
    last: Vec<u8>,
}

impl Fingerprint {
    /// Of a place with so many bytes before it, which begin and end like this.
    pub(super) fn new(bytes: u64, first: Vec<u8>, last: Vec<u8>) -> Self {
        Self { bytes, first, last }
    }

    /// The place is behind these bytes now.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        let room = PRINT_BYTES - self.first.len();
        self.first
            .extend_from_slice(&bytes[..room.min(bytes.len())]);
        self.last = self.tail(bytes);
    }

    /// How many bytes there are before the place.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The last bytes before the end of `more`, which comes behind the place.
    pub(super) fn tail(&self, more: &[u8]) -> Vec<u8> {
        let more = &more[more.len().saturating_sub(PRINT_BYTES)..];
        let room = PRINT_BYTES - more.len();
        let last = &self.last[self.last.len().saturating_sub(room)..];
        [last, more].concat()
    }

    pub(super) fn digest(&self) -> u64 {
        let mut digest = Xxh3::new();
        digest.update(&self.first);
        digest.update(&self.last);
        digest.digest()
    }
}
