//! Failed messages as JSON. Their texts are hostile: here they are data, and they are cut
//! before they are sent.

use baton::FailedMessage;
use baton_protocol::text::hex;
use serde::Serialize;

/// Characters of a text, and of a reason, in a list.
const SHORT_CHARS: usize = 500;
/// Bytes of a text, and of a reason, on their own.
const LONG_BYTES: usize = 1 << 20;

/// A failed message on the page.
#[derive(Serialize)]
pub(crate) struct Shown {
    id: String,
    seq: u64,
    at_ms: u64,
    node: String,
    reason: String,
    attempt: u64,
    text: String,
    /// All bytes, where they are no text.
    #[serde(skip_serializing_if = "Option::is_none")]
    text_hex: Option<String>,
    /// Whether there is more of it.
    cut: bool,
}

impl Shown {
    /// One of many.
    pub(crate) fn briefly(id: u64, failed: &FailedMessage) -> Self {
        // No character has more than four bytes.
        let text = &failed.text[..failed.text.len().min(SHORT_CHARS * 4)];
        let text = String::from_utf8_lossy(text);
        let shown = short(&text);
        let cut = shown.len() < text.len() || text.len() < failed.text.len();
        Self {
            id: id.to_string(),
            seq: failed.seq,
            at_ms: failed.at_ms,
            node: short(&failed.node).to_owned(),
            reason: short(&failed.reason).to_owned(),
            attempt: failed.attempt,
            text: shown.to_owned(),
            text_hex: None,
            cut,
        }
    }

    /// One alone.
    pub(crate) fn whole(id: u64, failed: &FailedMessage) -> Self {
        let bytes = match std::str::from_utf8(&failed.text) {
            Ok(text) => &text.as_bytes()[..floor(text)],
            Err(_) => &failed.text[..failed.text.len().min(LONG_BYTES)],
        };
        let reason = &failed.reason[..floor(&failed.reason)];
        Self {
            reason: reason.to_owned(),
            text: String::from_utf8_lossy(bytes).into_owned(),
            text_hex: std::str::from_utf8(bytes).is_err().then(|| hex(bytes)),
            cut: bytes.len() < failed.text.len() || reason.len() < failed.reason.len(),
            ..Self::briefly(id, failed)
        }
    }
}

/// As much of a text as a list shows. Reasons that begin alike for so long count as the same.
pub(crate) fn short(text: &str) -> &str {
    match text.char_indices().nth(SHORT_CHARS) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

/// Where the last whole character ends that a message on its own shows.
fn floor(text: &str) -> usize {
    let most = text.len().min(LONG_BYTES);
    (0..=most)
        .rev()
        .find(|end| text.is_char_boundary(*end))
        .unwrap_or_default()
}

/// A failed message as `baton getErrors --json` prints it, with the line's end.
pub(crate) fn line(failed: &FailedMessage) -> Vec<u8> {
    // Neither numbers nor texts can fail to become JSON.
    let mut line = serde_json::to_vec(failed).unwrap_or_default();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(text: &[u8]) -> FailedMessage {
        let mut made = FailedMessage::default();
        made.seq = 17;
        made.at_ms = 1_700_000_000_123;
        made.node = "n1".to_owned();
        made.reason = "<b>no".to_owned();
        made.attempt = 2;
        made.text = text.to_vec();
        made
    }

    #[test]
    fn a_text_is_cut_between_characters_and_says_so() {
        let brief = |text: &[u8]| Shown::briefly(1, &failed(text));
        let whole = |text: &[u8]| Shown::whole(1, &failed(text));
        let exact = "é".repeat(SHORT_CHARS);
        let shown = brief(exact.as_bytes());
        assert_eq!((shown.text.as_str(), shown.cut), (exact.as_str(), false));
        let shown = brief((exact.clone() + "x").as_bytes());
        assert_eq!((shown.text.as_str(), shown.cut), (exact.as_str(), true));
        let smileys = "🙂".repeat(SHORT_CHARS + 1);
        let shown = brief(smileys.as_bytes());
        assert_eq!(shown.text.chars().count(), SHORT_CHARS);
        assert!(shown.cut && !shown.text.contains('\u{fffd}'));
        let shown = whole(smileys.as_bytes());
        assert_eq!((shown.text, shown.cut), (smileys, false));
        let long = "é".repeat(LONG_BYTES / 2) + "é";
        let shown = whole(("x".to_owned() + &long).as_bytes());
        assert_eq!((shown.text.len(), shown.cut), (LONG_BYTES - 1, true));
        assert_eq!(shown.text_hex, None);
        let shown = whole(b"\xff\0a");
        assert_eq!(shown.text, "\u{fffd}\0a");
        assert_eq!(shown.text_hex.as_deref(), Some("ff0061"));
    }

    #[test]
    fn a_line_is_what_get_errors_prints() {
        let text = String::from_utf8(line(&failed(b"a\n\xff"))).unwrap();
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
