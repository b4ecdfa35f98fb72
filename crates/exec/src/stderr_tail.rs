//! The end of a command's stderr: the reason why it failed.

/// Max bytes of a reason that come from stderr.
pub(crate) const MAX_TAIL_BYTES: usize = 4096;

/// The last bytes of an output that comes in pieces.
#[derive(Default)]
pub(crate) struct StderrTail {
    bytes: Vec<u8>,
    /// Whether earlier bytes are left out.
    cut: bool,
}

impl StderrTail {
    /// Takes a piece.
    pub(crate) fn push(&mut self, piece: &[u8]) {
        let kept = &piece[piece.len().saturating_sub(MAX_TAIL_BYTES)..];
        let over = (self.bytes.len() + kept.len()).saturating_sub(MAX_TAIL_BYTES);
        self.cut |= over > 0 || kept.len() < piece.len();
        self.bytes.drain(..over);
        self.bytes.extend_from_slice(kept);
    }

    /// The tail as text, from the beginning of a line if it has one.
    pub(crate) fn text(&self) -> String {
        let tail = self.bytes.trim_ascii_end();
        let line = tail.iter().position(|byte| *byte == b'\n');
        let from = match (self.cut, line) {
            (true, Some(end)) => end + 1,
            _ => 0,
        };
        let text = String::from_utf8_lossy(&tail[from..]).into_owned();
        // A character may be cut in half: the text begins behind it.
        match self.cut && from == 0 {
            true => text.trim_start_matches('\u{fffd}').to_owned(),
            false => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail(pieces: &[&[u8]]) -> String {
        let mut tail = StderrTail::default();
        pieces.iter().for_each(|piece| tail.push(piece));
        assert!(tail.bytes.capacity() <= 2 * MAX_TAIL_BYTES);
        tail.text()
    }

    #[test]
    fn a_short_output_is_kept_whole() {
        assert_eq!(tail(&[]), "");
        assert_eq!(tail(&[b"no such ", b"customer\n\n"]), "no such customer");
        assert_eq!(tail(&[b"two\nlines \xff\n"]), "two\nlines \u{fffd}");
    }

    #[test]
    fn a_long_output_keeps_its_last_whole_lines() {
        let long = "a line of thirty-two characters\n".repeat(1000);
        let text = tail(&[long.as_bytes(), b"the last"]);
        assert!(
            text.starts_with("a line of") && text.ends_with("\nthe last"),
            "{text}"
        );
        let bytes = MAX_TAIL_BYTES - 32..=MAX_TAIL_BYTES;
        assert!(bytes.contains(&text.len()), "{}", text.len());
        for piece in [1, 7, 4096, 5000] {
            let pieces: Vec<&[u8]> = long.as_bytes().chunks(piece).collect();
            assert_eq!(tail(&pieces), tail(&[long.as_bytes()]), "{piece}");
        }
    }

    #[test]
    fn one_line_without_an_end_keeps_its_end() {
        let text = tail(&["ü".repeat(5000).as_bytes(), b"x"]);
        assert_eq!(text, "ü".repeat(MAX_TAIL_BYTES / 2 - 1) + "x");
    }
}
