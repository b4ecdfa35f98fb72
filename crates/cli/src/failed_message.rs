//! A failed message as one line of output.

use std::io::Write as _;

use baton::FailedMessage;
use baton_protocol::text::{self, Escaped};

use crate::args::FormatArgs;
use crate::json;

/// The line of a failed message, with its line break.
pub(crate) fn line(failed: &FailedMessage, format: &FormatArgs) -> anyhow::Result<Vec<u8>> {
    let mut line = Vec::with_capacity(failed.text.len() + failed.reason.len() + 64);
    match format.json {
        true => json::write_line(&mut line, failed)?,
        false => text(&mut line, failed)?,
    }
    Ok(line)
}

/// Time, sequence number (with the partition, if there are several), node, reason and text, separated by
/// tabs. Tabs and line breaks inside
/// a field are escaped. A dash stands for an unknown value.
fn text(line: &mut Vec<u8>, failed: &FailedMessage) -> std::io::Result<()> {
    let at = text::moment(failed.at_ms).unwrap_or_else(|| "-".to_owned());
    let seq = match failed.seq {
        0 => "-".to_owned(),
        seq => format!("#{}", text::number(failed.partition, seq)),
    };
    let node = match failed.node.as_str() {
        "" => "-",
        node => node,
    };
    writeln!(
        line,
        "{at}\t{seq}\t{}\t{}\t{}",
        Escaped(node.as_bytes()),
        Escaped(failed.reason.as_bytes()),
        Escaped(&failed.text)
    )
}

#[cfg(test)]
mod tests {
    use baton_protocol::record;

    use super::*;

    fn failed(text: &[u8]) -> FailedMessage {
        let reason = "no\tsuch \u{1b}[1mcustomer";
        let mut failed = record::failed_once(17, 1_700_000_000_123, "k3v9x0a7qm", reason, text);
        failed.attempt = 2;
        failed
    }

    fn printed(failed: &FailedMessage, json: bool) -> String {
        String::from_utf8(line(failed, &FormatArgs { json }).unwrap()).unwrap()
    }

    #[test]
    fn a_line_has_five_fields_whatever_is_in_them() {
        assert_eq!(
            printed(&failed(b"a\tb\nc\xff\\"), false),
            "2023-11-14T22:13:20.123Z\t#17\tk3v9x0a7qm\tno\\tsuch \\x1b[1mcustomer\t\
             a\\tb\\nc\\xff\\\\\n"
        );
        let mut elsewhere = failed(b"a");
        elsewhere.partition = Some(3);
        assert!(printed(&elsewhere, false).contains("\t#3.17\tk3v9x0a7qm\t"));
        let foreign = record::decode(b"garbage");
        assert_eq!(
            printed(&foreign, false),
            "-\t-\t-\tnot an error record of this fleet\tgarbage\n"
        );
    }

    #[test]
    fn json_keeps_every_byte_of_the_text() {
        assert_eq!(
            printed(&failed(b"valid"), true),
            concat!(
                r#"{"seq":17,"at":"2023-11-14T22:13:20.123Z","node":"k3v9x0a7qm","#,
                r#""reason":"no\tsuch \u001b[1mcustomer","attempt":2,"#,
                r#""key":"0123456789-17","text":"valid"}"#,
                "\n"
            )
        );
        let mut elsewhere = failed(b"valid");
        elsewhere.partition = Some(3);
        assert!(printed(&elsewhere, true).starts_with(r#"{"partition":3,"seq":17,"at":"#));
        let line: serde_json::Value =
            serde_json::from_str(&printed(&failed(b"\xff\x00a"), true)).unwrap();
        assert_eq!(line["text"], "\u{fffd}\u{0}a");
        assert_eq!(line["text_hex"], "ff0061");
        let foreign = record::decode(b"garbage");
        assert!(printed(&foreign, true).starts_with(r#"{"seq":0,"at":null,"node":"","#));
    }
}
