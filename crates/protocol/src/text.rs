//! Untrusted bytes as printable text: one line stays one line, and no terminal obeys it. Also
//! times of Redis's clock as RFC 3339.

use std::fmt::{self, Write};
use std::time::{Duration, UNIX_EPOCH};

/// The first millisecond that RFC 3339 cannot express.
const YEAR_10000_MS: u64 = 253_402_300_800_000;

/// A message's sequence number; behind that of its partition and a dot if the fleet has several.
pub fn number(partition: Option<u32>, seq: u64) -> String {
    match partition {
        Some(partition) => format!("{partition}.{seq}"),
        None => seq.to_string(),
    }
}

/// Bytes as printable text. Whatever could move a cursor, change a colour, break a line or reverse
/// its direction is escaped: `\n`, `\t`, `\r`, `\xNN` for a byte, `\u{NN}` for a character.
/// Backslashes are escaped too, so that the result tells the bytes.
pub struct Escaped<'a>(pub &'a [u8]);

/// Like [`Escaped`], with `…` for everything beyond the first characters.
pub struct Shortened<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// Max characters, counted before escaping.
    pub max_chars: usize,
}

/// Like [`Shortened`], in double quotes, with the quotes inside escaped.
pub struct Excerpt<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// Max characters, counted before escaping.
    pub max_chars: usize,
}

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(f, self.0, false, usize::MAX)
    }
}

impl fmt::Display for Shortened<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(f, self.bytes, false, self.max_chars)
    }
}

impl fmt::Display for Excerpt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        write(f, self.bytes, true, self.max_chars)?;
        f.write_char('"')
    }
}

fn write(to: &mut impl Write, bytes: &[u8], quoted: bool, mut max: usize) -> fmt::Result {
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            let Some(left) = max.checked_sub(1) else {
                return to.write_char('…');
            };
            max = left;
            match c {
                '\n' => to.write_str("\\n")?,
                '\t' => to.write_str("\\t")?,
                '\r' => to.write_str("\\r")?,
                '\\' => to.write_str("\\\\")?,
                '"' if quoted => to.write_str("\\\"")?,
                c if c.is_ascii_control() => write!(to, "\\x{:02x}", u32::from(c))?,
                c if is_unsafe(c) => write!(to, "\\u{{{:x}}}", u32::from(c))?,
                c => to.write_char(c)?,
            }
        }
        for byte in chunk.invalid() {
            let Some(left) = max.checked_sub(1) else {
                return to.write_char('…');
            };
            max = left;
            write!(to, "\\x{byte:02x}")?;
        }
    }
    Ok(())
}

/// Characters that a terminal may obey instead of printing: controls (some terminals take
/// U+009B for an escape sequence), Unicode line breaks, marks that reverse the direction, and
/// characters without width, which make two different texts look the same.
pub fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    let mut hex = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

/// A time of Redis's clock as RFC 3339 with milliseconds, in UTC. None for 0, which stands for
/// *unknown*.
pub fn moment(ms: u64) -> Option<String> {
    match ms {
        0 => None,
        // Only a record that was made by hand has such a time.
        YEAR_10000_MS.. => Some(format!("{ms}ms")),
        _ => Some(
            humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(ms)).to_string(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_a_terminal_could_obey_is_escaped() {
        for (bytes, escaped) in [
            (&b"plain text"[..], "plain text"),
            ("grün ✓ 🙂".as_bytes(), "grün ✓ 🙂"),
            (b"\x1b[31mred\x07", "\\x1b[31mred\\x07"),
            ("\u{9b}31m".as_bytes(), "\\u{9b}31m"),
            ("\u{202e}txet\u{2028}".as_bytes(), "\\u{202e}txet\\u{2028}"),
            (
                "ad\u{200b}min\u{e0041}".as_bytes(),
                "ad\\u{200b}min\\u{e0041}",
            ),
            (b"two\nlines\r\tand \x7f", "two\\nlines\\r\\tand \\x7f"),
            (b"\xff\xfehalf \xc3", "\\xff\\xfehalf \\xc3"),
            (b"C:\\x1b \"q\"", "C:\\\\x1b \"q\""),
        ] {
            assert_eq!(Escaped(bytes).to_string(), escaped);
        }
    }

    #[test]
    fn a_cut_excerpt_ends_with_dots_and_quotes_inside_are_escaped() {
        let excerpt = |bytes, max_chars| Excerpt { bytes, max_chars }.to_string();
        assert_eq!(excerpt(b"say \"hi\"\\", 20), r#""say \"hi\"\\""#);
        assert_eq!(excerpt(b"12345", 5), "\"12345\"");
        assert_eq!(excerpt(b"123456", 5), "\"12345…\"");
        assert_eq!(excerpt(b"\xff\xff", 1), "\"\\xff…\"");
    }

    #[test]
    fn every_number_is_a_time_or_unknown() {
        assert_eq!(moment(0), None);
        assert_eq!(
            moment(1_700_000_000_123).unwrap(),
            "2023-11-14T22:13:20.123Z"
        );
        assert_eq!(
            moment(YEAR_10000_MS - 1).unwrap(),
            "9999-12-31T23:59:59.999Z"
        );
        assert_eq!(moment(YEAR_10000_MS).unwrap(), "253402300800000ms");
        assert!(moment(u64::MAX).is_some());
    }
}
