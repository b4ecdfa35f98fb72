//! JSON lines that are safe to print: characters that a terminal could obey are escaped inside
//! strings. JSON allows that for every character.

use std::io;

use baton_protocol::text::is_unsafe;
use serde::Serialize;
use serde_json::ser::Formatter;

struct Safe;

impl Formatter for Safe {
    fn write_string_fragment<W>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()>
    where
        W: ?Sized + io::Write,
    {
        let mut rest = fragment;
        while let Some((at, c)) = rest.char_indices().find(|(_, c)| is_unsafe(*c)) {
            writer.write_all(&rest.as_bytes()[..at])?;
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(writer, "\\u{unit:04x}")?;
            }
            rest = &rest[at + c.len_utf8()..];
        }
        writer.write_all(rest.as_bytes())
    }
}

/// Appends one line of JSON.
pub(crate) fn write_line(to: &mut Vec<u8>, value: &impl Serialize) -> serde_json::Result<()> {
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut *to, Safe))?;
    to.push(b'\n');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_no_character_that_a_terminal_obeys_and_reads_back() {
        let text = "a\u{1b}[31m\u{7f}b\u{9b}c\u{202e}d\u{e0041}\n\"ü\"🙂\\";
        let mut line = Vec::new();
        write_line(&mut line, &text).unwrap();
        let line = String::from_utf8(line).unwrap();
        let body = line.strip_suffix('\n').unwrap();
        assert!(!body.contains(is_unsafe), "{body:?}");
        assert_eq!(serde_json::from_str::<String>(&line).unwrap(), text);
    }
}
