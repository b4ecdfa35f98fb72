//! Failed messages as JSON. Their texts are hostile: the server sends them as data, and not more
//! than a browser can take.

use baton::FailedMessage;
use baton::inspect::FailedId;
use baton_protocol::text::{hex, number};
use serde::Serialize;

/// A list has at most this many characters of a text or a reason.
const MAX_LISTED_CHARS: usize = 500;
/// A message in full has at most this many bytes of its text, and of its reason.
const MAX_FULL_BYTES: usize = 1 << 20;

/// A failed message as JSON.
#[derive(Serialize)]
pub(super) struct MessageJson {
    /// Its place in the store: the number of its record, behind that of its partition and a dot if the
    /// fleet has several.
    id: String,
    /// None in a fleet of one partition.
    #[serde(skip_serializing_if = "Option::is_none")]
    partition: Option<u32>,
    seq: u64,
    pub(super) at_ms: u64,
    node: String,
    reason: String,
    attempt: u64,
    text: String,
    /// The bytes of a text that is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    text_hex: Option<String>,
    /// Whether text or reason was cut.
    cut: bool,
}

impl MessageJson {
    /// A message in a list.
    pub(super) fn brief(id: FailedId, failed: &FailedMessage) -> Self {
        // A character has at most four bytes.
        let text = &failed.text[..failed.text.len().min(MAX_LISTED_CHARS * 4)];
        let text = String::from_utf8_lossy(text);
        let listed = beginning(&text);
        let cut = listed.len() < text.len() || text.len() < failed.text.len();
        Self {
            id: place(id),
            partition: failed.partition,
            seq: failed.seq,
            at_ms: failed.at_ms,
            node: beginning(&failed.node).to_owned(),
            reason: beginning(&failed.reason).to_owned(),
            attempt: failed.attempt,
            text: listed.to_owned(),
            text_hex: None,
            cut,
        }
    }

    /// A message on its own.
    pub(super) fn full(id: FailedId, failed: &FailedMessage) -> Self {
        let bytes = match std::str::from_utf8(&failed.text) {
            Ok(text) => &text.as_bytes()[..full_end(text)],
            Err(_) => &failed.text[..failed.text.len().min(MAX_FULL_BYTES)],
        };
        let reason = &failed.reason[..full_end(&failed.reason)];
        Self {
            reason: reason.to_owned(),
            text: String::from_utf8_lossy(bytes).into_owned(),
            text_hex: std::str::from_utf8(bytes).is_err().then(|| hex(bytes)),
            cut: bytes.len() < failed.text.len() || reason.len() < failed.reason.len(),
            ..Self::brief(id, failed)
        }
    }
}

/// Where a message is in the store, in words.
pub(super) fn place(id: FailedId) -> String {
    number(id.partition(), id.number())
}

/// As much of a text as a list has. Reasons with the same beginning count as the same reason.
pub(super) fn beginning(text: &str) -> &str {
    match text.char_indices().nth(MAX_LISTED_CHARS) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

/// The end of the last whole character that a message in full has.
fn full_end(text: &str) -> usize {
    let max = text.len().min(MAX_FULL_BYTES);
    (0..=max)
        .rev()
        .find(|end| text.is_char_boundary(*end))
        .unwrap_or_default()
}

/// A failed message as `baton getErrors --json` prints it, with a line break.
pub(super) fn ndjson_line(failed: &FailedMessage) -> Vec<u8> {
    // Numbers and texts always have a JSON form.
    let mut line = serde_json::to_vec(failed).unwrap_or_default();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(text: &[u8]) -> FailedMessage {
        let mut failed = FailedMessage::default();
        failed.seq = 17;
        failed.at_ms = 1_700_000_000_123;
        failed.node = "n1".to_owned();
        failed.reason = "<b>no".to_owned();
        failed.attempt = 2;
        failed.text = text.to_vec();
        failed
    }

    #[test]
    fn a_text_is_cut_between_characters_and_says_so() {
        let id: FailedId = "1-0".parse().unwrap();
        let brief = |text: &[u8]| MessageJson::brief(id, &failed(text));
        let full = |text: &[u8]| MessageJson::full(id, &failed(text));
        let exact = "é".repeat(MAX_LISTED_CHARS);
        let message = brief(exact.as_bytes());
        assert_eq!(
            (message.text.as_str(), message.cut),
            (exact.as_str(), false)
        );
        let message = brief((exact.clone() + "x").as_bytes());
        assert_eq!((message.text.as_str(), message.cut), (exact.as_str(), true));
        let smileys = "🙂".repeat(MAX_LISTED_CHARS + 1);
        let message = brief(smileys.as_bytes());
        assert_eq!(message.text.chars().count(), MAX_LISTED_CHARS);
        assert!(message.cut && !message.text.contains('\u{fffd}'));
        let message = full(smileys.as_bytes());
        assert_eq!((message.text, message.cut), (smileys, false));
        let long = "é".repeat(MAX_FULL_BYTES / 2) + "é";
        let message = full(("x".to_owned() + &long).as_bytes());
        assert_eq!(
            (message.text.len(), message.cut),
            (MAX_FULL_BYTES - 1, true)
        );
        assert_eq!(message.text_hex, None);
        let message = full(b"\xff\0a");
        assert_eq!(message.text, "\u{fffd}\0a");
        assert_eq!(message.text_hex.as_deref(), Some("ff0061"));
    }

    #[test]
    fn a_line_is_what_get_errors_prints() {
        let text = String::from_utf8(ndjson_line(&failed(b"a\n\xff"))).unwrap();
        assert_eq!(
            text,
            concat!(
                r#"{"seq":17,"at":"2023-11-14T22:13:20.123Z","node":"n1","reason":"<b>no","#,
                r#""attempt":2,"text":"a\n"#,
                "\u{fffd}\",\"text_hex\":\"610aff\"}\n"
            )
        );
    }
}
