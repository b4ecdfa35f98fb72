//! One line of a source that speaks JSON.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use baton::Key;
use serde::Deserialize;

/// Max bytes of a cursor. Redis stores it behind the source's kind.
pub(crate) const MAX_CURSOR_BYTES: usize = (64 << 10) - 16;

/// Max characters of what is wrong with a line.
const MAX_COMPLAINT_CHARS: usize = 200;

/// What a line says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct JsonLine {
    /// The text of a message.
    pub(crate) text: Option<Vec<u8>>,
    /// Its idempotency key.
    pub(crate) id: Option<String>,
    /// It covers this message and all before it.
    pub(crate) cursor: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    text: Option<String>,
    base64: Option<String>,
    id: Option<String>,
    cursor: Option<String>,
}

impl JsonLine {
    /// Reads a line. The error is a text for the author of the source.
    pub(crate) fn parse(line: &[u8]) -> Result<Self, String> {
        const FORM: &str = "not an object such as {\"text\":\"…\",\"cursor\":\"…\"}";
        // An array of the same values would do, too.
        if line.trim_ascii_start().first() == Some(&b'[') {
            return Err(format!("{FORM}: it is an array"));
        }
        let fields: Fields = serde_json::from_slice(line).map_err(|error| {
            // Its line is always the first.
            let words = error.to_string();
            let words = words
                .rsplit_once(" at line ")
                .map_or(&*words, |(words, _)| words);
            // They may have any word of the line.
            let words: String = words.chars().take(MAX_COMPLAINT_CHARS).collect();
            let words = words.replace(char::is_control, " ");
            format!("{FORM}: {words}")
        })?;
        let text = match (fields.text, fields.base64) {
            (Some(_), Some(_)) => return Err("both text and base64: one message has one".into()),
            (Some(text), None) => Some(text.into_bytes()),
            (None, Some(base64)) => {
                let decoded = STANDARD.decode(base64);
                Some(decoded.map_err(|error| format!("its base64 is wrong: {error}"))?)
            }
            (None, None) => None,
        };
        if text.is_none() && (fields.cursor.is_none() || fields.id.is_some()) {
            return Err("it has neither text nor base64".into());
        }
        if let Some(Err(wrong)) = fields.id.as_deref().map(Key::check) {
            return Err(format!("its id is wrong: {wrong}"));
        }
        match fields.cursor.as_ref().map(String::len) {
            Some(length) if length > MAX_CURSOR_BYTES => Err(format!(
                "its cursor has {length} bytes; it may have {MAX_CURSOR_BYTES}"
            )),
            _ => Ok(Self {
                text,
                id: fields.id,
                cursor: fields.cursor,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> (Option<Vec<u8>>, Option<String>) {
        let JsonLine { text, cursor, .. } = JsonLine::parse(line.as_bytes()).unwrap();
        (text, cursor)
    }

    #[test]
    fn a_line_has_a_message_a_cursor_or_both() {
        let text = |text: &str| Some(text.as_bytes().to_vec());
        let cursor = |cursor: &str| Some(cursor.to_owned());
        assert_eq!(read(r#"{"text":"two\nlines"}"#), (text("two\nlines"), None));
        assert_eq!(
            read(r#"{"text":"","cursor":"7","id":"order-7"}"#),
            (text(""), cursor("7"))
        );
        assert_eq!(read(r#" {"base64":"/wA="}"#), (Some(vec![0xff, 0]), None));
        assert_eq!(read(r#"{"cursor":""}"#), (None, cursor("")));
    }

    #[test]
    fn a_wrong_line_says_what_is_wrong() {
        for (line, words) in [
            ("", "not an object"),
            ("order 7", "not an object"),
            (r#" ["hello",null,"id","c1"]"#, "not an object such as"),
            (r#"{"text":"cut"#, "EOF"),
            (r#"{"text":7}"#, "expected a string"),
            (r#"{"text":"x","text":"y"}"#, "duplicate field `text`"),
            (r#"{"text":"x","txet":"y"}"#, "unknown field `txet`"),
            (r#"{"text":"x","base64":"eA=="}"#, "both text and base64"),
            (r#"{"base64":"x"}"#, "its base64 is wrong"),
            ("{}", "neither text nor base64"),
            (r#"{"text":null}"#, "neither text nor base64"),
            (r#"{"id":"7","cursor":"7"}"#, "neither text nor base64"),
            ("{\"text\":\"\u{0}\"}", "control character"),
            (r#"{"text":"x","id":""}"#, "its id is wrong: it is empty"),
            (
                r#"{"text":"x","id":"a\nb"}"#,
                "its id is wrong: it has a control",
            ),
        ] {
            let error = JsonLine::parse(line.as_bytes()).unwrap_err();
            assert!(
                error.contains(words) && !error.contains("line 1"),
                "{error}"
            );
        }
        assert!(JsonLine::parse(b"{\"text\":\"\xff\"}").is_err());
        let cursor = |length| format!(r#"{{"cursor":"{}"}}"#, "x".repeat(length));
        assert!(JsonLine::parse(cursor(MAX_CURSOR_BYTES).as_bytes()).is_ok());
        let error = JsonLine::parse(cursor(MAX_CURSOR_BYTES + 1).as_bytes()).unwrap_err();
        assert_eq!(error, "its cursor has 65521 bytes; it may have 65520");
    }
}
