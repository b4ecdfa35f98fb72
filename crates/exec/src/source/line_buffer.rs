//! Splits the output of a source into lines.

use std::io;

use tokio::net::unix::pipe;

/// Max bytes of a line.
pub(crate) const MAX_LINE_BYTES: usize = 1 << 20;
/// Max bytes that one read takes: as many as a pipe holds.
const READ_BYTES: usize = 64 << 10;

/// What a read found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    Bytes,
    /// There is nothing to read right now.
    Pause,
    End,
}

/// A line is longer than allowed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

/// What was read and is not yet taken.
#[derive(Default)]
pub(crate) struct LineBuffer {
    bytes: Vec<u8>,
    /// Where the next line begins.
    begin: usize,
    /// Up to here there is no end of the next line.
    searched: usize,
    /// How many lines were taken.
    taken: u64,
}

impl LineBuffer {
    /// Reads what is there now, and does not wait.
    pub(crate) fn read(&mut self, from: &pipe::Receiver) -> io::Result<Found> {
        self.make_room();
        match from.try_read_buf(&mut self.bytes) {
            Ok(0) => Ok(Found::End),
            Ok(_) => Ok(Found::Bytes),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Found::Pause),
            Err(error) => Err(error),
        }
    }

    fn make_room(&mut self) {
        self.bytes.drain(..self.begin);
        self.searched -= self.begin;
        self.begin = 0;
        self.bytes.reserve(READ_BYTES);
    }

    /// The next line, without its newline. None if its end has not come.
    pub(crate) fn peek(&mut self) -> Result<Option<&[u8]>, TooLong> {
        let rest = &self.bytes[self.searched..];
        match rest.iter().position(|byte| *byte == b'\n') {
            Some(end) => self.searched += end,
            None => self.searched = self.bytes.len(),
        }
        if self.searched - self.begin > MAX_LINE_BYTES {
            return Err(TooLong);
        }
        let is_whole = self.searched < self.bytes.len();
        Ok(is_whole.then(|| &self.bytes[self.begin..self.searched]))
    }

    /// Takes the line that `peek` found.
    pub(crate) fn advance(&mut self) {
        self.begin = (self.searched + 1).min(self.bytes.len());
        self.searched = self.begin;
        self.taken += 1;
    }

    /// The number of the next line.
    pub(crate) fn number(&self) -> u64 {
        self.taken + 1
    }

    /// The output is over: a rest without a newline is a line, too. Whether there is one.
    pub(crate) fn end(&mut self) -> bool {
        let has_rest = self.begin < self.bytes.len();
        if has_rest {
            self.bytes.push(b'\n');
        }
        has_rest
    }

    #[cfg(any(test, feature = "fuzz"))]
    pub(crate) fn push(&mut self, piece: &[u8]) {
        self.make_room();
        self.bytes.extend_from_slice(piece);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(pieces: &[&[u8]]) -> Vec<Vec<u8>> {
        let (mut buffer, mut lines) = (LineBuffer::default(), Vec::new());
        let mut take = |buffer: &mut LineBuffer| {
            while let Some(line) = buffer.peek().unwrap() {
                lines.push(line.to_vec());
                buffer.advance();
            }
        };
        for piece in pieces {
            buffer.push(piece);
            take(&mut buffer);
        }
        buffer.end();
        take(&mut buffer);
        assert!(!buffer.end());
        assert_eq!(buffer.number(), lines.len() as u64 + 1);
        lines
    }

    #[test]
    fn lines_have_their_exact_bytes_whatever_the_pieces() {
        let text = b"one\n\ntwo\r\n\xff\0\nend";
        let expected: Vec<&[u8]> = vec![b"one", b"", b"two\r", b"\xff\0", b"end"];
        for size in 1..=text.len() {
            let pieces: Vec<&[u8]> = text.chunks(size).collect();
            assert_eq!(lines(&pieces), expected, "{size}");
        }
        assert!(lines(&[b""]).is_empty());
        assert_eq!(lines(&[b"\n"]), [b""]);
    }

    #[test]
    fn a_line_of_a_mebibyte_is_taken_and_a_longer_one_is_refused() {
        let mut longest = vec![b'x'; MAX_LINE_BYTES];
        assert_eq!(lines(&[&longest, b"\nnext"])[1], b"next");
        longest.push(b'x');
        for end in [&b""[..], b"\n"] {
            let mut buffer = LineBuffer::default();
            buffer.push(b"first\n");
            assert_eq!(buffer.peek(), Ok(Some(&b"first"[..])));
            buffer.advance();
            buffer.push(&longest);
            buffer.push(end);
            assert_eq!(buffer.peek(), Err(TooLong));
            assert_eq!(buffer.peek(), Err(TooLong));
            assert_eq!(buffer.number(), 2);
        }
    }
}
