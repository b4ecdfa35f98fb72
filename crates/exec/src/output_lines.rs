//! Splits a command's stdout into lines of bounded length.

/// Max bytes of a line. The rest of a longer line is left out.
pub(crate) const MAX_LINE_BYTES: usize = 4096;
/// Max bytes of one command's output that are passed on. A command that prints without end shall
/// neither fill the log nor keep its node busy.
pub(crate) const MAX_OUTPUT_BYTES: usize = 1 << 20;
/// Stands for the rest of a line.
const REST: &str = "…";

/// The lines of an output that comes in pieces.
pub(crate) struct OutputLines {
    /// Max bytes that are taken.
    max_bytes: usize,
    /// The beginning of a line whose end has not come.
    line: Vec<u8>,
    /// Whether a part of that line is left out.
    cut: bool,
    /// Bytes that were taken.
    taken: usize,
    /// Bytes that came after that and are left out.
    left_out: u64,
}

impl Default for OutputLines {
    fn default() -> Self {
        Self::at_most(MAX_OUTPUT_BYTES)
    }
}

impl OutputLines {
    /// The lines of a command that runs on and on.
    pub(crate) fn endless() -> Self {
        Self::at_most(usize::MAX)
    }

    fn at_most(max_bytes: usize) -> Self {
        Self {
            max_bytes,
            line: Vec::new(),
            cut: false,
            taken: 0,
            left_out: 0,
        }
    }

    /// Takes a piece, and passes on the lines that it ends.
    pub(crate) fn push(&mut self, piece: &[u8], mut take: impl FnMut(&[u8])) {
        let room = self.max_bytes - self.taken;
        let (mut piece, rest) = piece.split_at(piece.len().min(room));
        self.taken += piece.len();
        self.left_out += rest.len() as u64;
        while let Some(end) = piece.iter().position(|byte| *byte == b'\n') {
            self.extend(&piece[..end]);
            self.end_line(&mut take);
            piece = &piece[end + 1..];
        }
        self.extend(piece);
    }

    /// The output is over: passes on a last line without an end, and how much is left out.
    pub(crate) fn finish(&mut self, mut take: impl FnMut(&[u8])) {
        if !self.line.is_empty() {
            self.end_line(&mut take);
        }
        if self.left_out > 0 {
            take(format!("{REST} and {} bytes more", self.left_out).as_bytes());
        }
    }

    fn extend(&mut self, bytes: &[u8]) {
        let room = MAX_LINE_BYTES - self.line.len();
        self.cut |= bytes.len() > room;
        self.line.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn end_line(&mut self, take: &mut impl FnMut(&[u8])) {
        if self.cut {
            self.line.extend_from_slice(REST.as_bytes());
        } else if self.line.last() == Some(&b'\r') {
            self.line.pop();
        }
        take(&self.line);
        self.line.clear();
        self.cut = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(pieces: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut lines = Vec::new();
        let mut output = OutputLines::default();
        for piece in pieces {
            output.push(piece, |line| lines.push(line.to_vec()));
        }
        output.finish(|line| lines.push(line.to_vec()));
        lines
    }

    #[test]
    fn lines_come_whole_whatever_the_pieces() {
        let expected: Vec<&[u8]> = vec![b"one", b"", b"two", b"end"];
        assert_eq!(lines(&[b"one\n\ntwo\r\nend"]), expected);
        assert_eq!(
            lines(&[b"o", b"ne\n", b"\ntw", b"o\r", b"\nen", b"d"]),
            expected
        );
        assert!(lines(&[b""]).is_empty());
    }

    #[test]
    fn the_rest_of_a_long_line_is_left_out_and_memory_stays_bounded() {
        let long = vec![b'x'; MAX_LINE_BYTES + 1];
        let got = lines(&[&long, &long, b"\nnext\n", &long[1..], b"\n"]);
        let cut = [&long[1..], REST.as_bytes()].concat();
        assert_eq!(got, [&cut[..], b"next", &long[1..]]);

        let mut output = OutputLines::default();
        for _ in 0..1000 {
            output.push(&long, |_| panic!("no line has ended"));
        }
        assert!(output.line.capacity() <= 2 * MAX_LINE_BYTES);
    }

    #[test]
    fn an_output_without_end_is_counted_from_some_place_on() {
        let pieces = vec![&b"0123456\n"[..]; MAX_OUTPUT_BYTES / 8 + 3];
        let got = lines(&pieces);
        assert_eq!(got.len(), MAX_OUTPUT_BYTES / 8 + 1);
        assert_eq!(got.last().unwrap(), "… and 24 bytes more".as_bytes());
    }
}
