//! What hostile bytes reach in the program: the parser of the command line, and the printers of
//! texts from Redis.
//!
//! Each function takes any bytes at all, does with them what the program would do, and panics
//! if the result is not sound. The fuzz targets in `proof/fuzz/` call these functions; the tests
//! below replay the corpus of each.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::sync::LazyLock;
use std::time::Duration;

use baton::inspect::{GeneratorStatus, NodeRole, NodeStatus, Replica, ServerInfo, Snapshot};
use baton::{Event, Target};
use serde_json::Value;

use crate::args::{self, FormatArgs, Refused, run as flags};
use crate::commands::status as fleet_status;
use crate::error_line::error_line;
use crate::{failed_message, json, log, target};
use baton_protocol::Durability;
use baton_protocol::bounds::MAX_EXACT;
use baton_protocol::text::{Escaped, Excerpt};

/// Characters that no printed line may have: they reverse text, break lines, or are invisible.
/// Control characters are forbidden too.
const OBEYED: &str = "\u{ad}\u{61c}\u{180e}\u{200b}\u{200c}\u{200d}\u{200e}\u{200f}\u{2028}\u{2029}\
    \u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2060}\u{2061}\u{2062}\u{2063}\u{2064}\u{2066}\
    \u{2067}\u{2068}\u{2069}\u{206a}\u{206f}\u{feff}\u{fff9}\u{fffa}\u{fffb}\u{e0001}\u{e0020}\
    \u{e0041}\u{e007f}";

const USER: &str = "al1ce";
const PASSWORD: &str = "my s3cret";

/// Checks printed text: it has so many lines, and a terminal obeys nothing in it.
fn check_printable(text: &str, lines: usize) {
    assert!(text.ends_with('\n'), "{text:?}");
    assert_eq!(text.matches('\n').count(), lines, "{text:?}");
    let obeyed = |c: char| (c.is_control() && c != '\n') || OBEYED.contains(c);
    assert!(!text.contains(obeyed), "{text:?}");
}

/// Bytes that are printed as text, escaped or as JSON.
pub fn escape(data: &[u8]) {
    let escaped = Escaped(data).to_string();
    check_printable(&format!("{escaped}\n"), 1);
    assert_eq!(unescaped(&escaped), data);
    assert!(escaped.len() <= 4 * data.len());

    let excerpt = Excerpt {
        bytes: data,
        max_chars: 10,
    };
    let excerpt = excerpt.to_string();
    check_printable(&format!("{excerpt}\n"), 1);
    // Ten characters, each of nine at most, the quotes, and three dots.
    assert!(excerpt.chars().count() <= 10 * 9 + 3, "{excerpt}");
    let inside = excerpt.strip_prefix('"').and_then(|e| e.strip_suffix('"'));
    let inside = inside.map(|inside| inside.replace("\\\\", "").replace("\\\"", ""));
    assert!(inside.is_some_and(|text| !text.contains('"')), "{excerpt}");

    let text = String::from_utf8_lossy(data);
    check_json(&json_line(&text), &Value::from(text.as_ref()));
    let error = error_line(&anyhow::anyhow!("{text}"));
    check_printable(&format!("{error}\n"), 1);
}

/// The bytes that an escaped text stands for.
fn unescaped(escaped: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = escaped;
    while let Some((before, after)) = rest.split_once('\\') {
        bytes.extend_from_slice(before.as_bytes());
        let (code, length) = match after.as_bytes() {
            [b'x', _, _, ..] => (after.get(1..3), 3),
            [b'u', b'{', ..] => {
                let end = after.find('}').unwrap_or_default();
                (after.get(2..end), end + 1)
            }
            _ => (None, 1),
        };
        let code = code.and_then(|code| u32::from_str_radix(code, 16).ok());
        match (after.as_bytes().first(), code.and_then(char::from_u32)) {
            (Some(b'x'), Some(byte)) => bytes.push(byte as u8),
            (Some(b'u'), Some(c)) => bytes.extend_from_slice(c.to_string().as_bytes()),
            (Some(b'n'), _) => bytes.push(b'\n'),
            (Some(b't'), _) => bytes.push(b'\t'),
            (Some(b'r'), _) => bytes.push(b'\r'),
            (Some(b'\\'), _) => bytes.push(b'\\'),
            _ => panic!("a backslash stands for nothing: {escaped}"),
        }
        rest = &after[length..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}

fn json_line(value: &impl serde::Serialize) -> Vec<u8> {
    let mut line = Vec::new();
    assert!(json::write_line(&mut line, value).is_ok());
    line
}

/// Checks a line of JSON: it is safe to print, and reads back as `value`.
fn check_json(line: &[u8], value: &Value) {
    let line = String::from_utf8_lossy(line);
    check_printable(&line, 1);
    assert_eq!(
        serde_json::from_str::<Value>(&line).ok().as_ref(),
        Some(value)
    );
}

/// A record of the errors store, printed.
pub fn record(data: &[u8]) {
    let failed = baton_protocol::record::decode(data);
    let line = |json| {
        let line = failed_message::line(&failed, &FormatArgs { json }).unwrap_or_default();
        String::from_utf8_lossy(&line).into_owned()
    };
    let text = line(false);
    let fields: Vec<&str> = text.split('\t').collect();
    check_printable(&fields.concat(), 1);
    let [_, _, _, _, last] = fields[..] else {
        panic!("not five fields: {text:?}");
    };
    assert_eq!(unescaped(last.trim_end_matches('\n')), failed.text);

    let json = line(true);
    check_printable(&json, 1);
    let object: Value = serde_json::from_str(&json).unwrap_or_default();
    let kept = match object["text_hex"].as_str() {
        Some(hex) => hex.len() == 2 * failed.text.len(),
        None => object["text"].as_str().map(str::as_bytes) == Some(&failed.text),
    };
    assert!(kept, "{json}");
    assert_eq!(object["seq"], failed.seq);
}

/// Texts from Redis in the table and in the object of `baton status`.
pub fn status(data: &[u8]) {
    // A field may be longer than the widest that a format string can pad to.
    let text = String::from_utf8_lossy(data).repeat(17);
    let node = |node: &str| {
        let mut made = NodeStatus::default();
        made.node = node.to_owned();
        made.role = NodeRole::Worker;
        made.host = text.clone();
        made.pid = u64::MAX;
        made.version = text.clone();
        made.published = u64::MAX;
        made.seen_ms = data.len() as u64;
        made
    };
    let mut server = ServerInfo::default();
    server.version = text.clone();
    server.maxmemory_policy = format!("allkeys-{text}");
    server.aof = true;
    server.replicas = 1;
    let mut replica = Replica::default();
    (replica.address, replica.state) = (text.clone(), text.clone());
    server.replication = vec![replica];
    server.appendfsync = Some(text.clone());
    let status = {
        let mut made = Snapshot::default();
        made.fleet = "hostile".to_owned();
        made.generator = {
            let mut made = GeneratorStatus::default();
            made.node = Some(text.clone());
            made.holder = Some(text.clone());
            made.epoch = u64::MAX;
            made.since_ms = Some(u64::MAX);
            made.until_ms = u64::MAX;
            made
        };
        made.nodes = vec![node(&text), node("n0de")];
        made.published = u64::MAX;
        made.foreign = 1;
        made.void = 2;
        made.durability.level = Some(text.clone());
        made.durability.promise = text.clone();
        made.warnings = server.warnings(Durability::None);
        made.server = server;
        made
    };
    let table = fleet_status::table(&status, &text, false);
    check_printable(&table, 16);
    // Below the empty line a row for each node: three cells of 64 characters, each of nine
    // at most, beside figures.
    let (_, rows) = table.split_once("\n\n").unwrap_or_default();
    assert!(rows.lines().any(|row| row.starts_with("n0de")));
    for row in rows.lines().take(3) {
        assert!(row.chars().count() <= 3 * 64 * 9 + 200, "{row}");
    }
}

/// Texts from Redis in the log.
pub fn log(data: &[u8]) {
    let text = String::from_utf8_lossy(data).into_owned();
    let events = [
        Event::Worker {
            generator: text.clone(),
        },
        Event::Published {
            epoch: 1,
            first: 1,
            last: 1,
            text: Some(data.to_vec()),
        },
        Event::Fenced {
            epoch: 1,
            by: Some(text.clone()),
        },
        Event::Reclaimed {
            count: 1,
            nodes: vec![text.clone(), text.clone()],
        },
        Event::Redis {
            up: false,
            reason: Some(text.clone()),
        },
        Event::Warning(baton::Warning::CannotPublish { reason: text }),
    ];
    let at = std::time::UNIX_EPOCH;
    let output = log::Entry::Output { seq: 1, line: data };
    for entry in events.iter().map(log::Entry::Event).chain([output]) {
        let (mut words, mut object) = (Vec::new(), Vec::new());
        log::text::write(&mut words, at, "n0de", &entry);
        check_printable(&String::from_utf8_lossy(&words), 1);
        log::json::write(&mut object, at, "n0de", &entry);
        let object = String::from_utf8_lossy(&object);
        check_printable(&object, 1);
        let read = serde_json::from_str::<baton_log::Line>(&object);
        assert!(read.is_ok_and(|line| line.node == "n0de"), "{object}");
    }
}

/// A command line, a word a line; `URL` stands for one with a password.
pub fn command_line(data: &[u8]) {
    static DEFINITION: LazyLock<clap::Command> = LazyLock::new(args::definition);
    let url = format!("redis://{USER}:{PASSWORD}@");
    let words = data.split(|byte| *byte == b'\n').map(|word| {
        OsString::from_vec(match str::from_utf8(word) {
            Ok(word) => word.replace("URL", &url).into_bytes(),
            Err(_) => word.to_vec(),
        })
    });
    let argv: Vec<OsString> = std::iter::once("baton".into()).chain(words).collect();
    if let Ok(ours) = args::old_spellings::canonical(argv.clone(), &DEFINITION) {
        // No word is lost, and at most `run` is new.
        let bare = |words: &[OsString]| {
            let is_flag = |word: &&OsString| word.as_encoded_bytes().starts_with(b"-");
            words.len() - words.iter().filter(is_flag).count()
        };
        assert!((bare(&argv)..=bare(&argv) + 1).contains(&bare(&ours)));
        assert_eq!(
            args::old_spellings::canonical(ours.clone(), &DEFINITION),
            Ok(ours)
        );
    }
    let printed = match args::read(argv) {
        Ok(_) => String::new(),
        Err(Refused::Words(words)) => words,
        Err(Refused::Parser(error)) => error.to_string(),
    };
    assert_no_secret(&printed, &String::from_utf8_lossy(data));
}

fn assert_no_secret(printed: &str, given: &str) {
    for secret in [USER, "s3cret"] {
        assert!(
            !printed.contains(secret) || given.contains(secret),
            "{printed}"
        );
    }
}

/// The value of a flag.
pub fn values(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let text = text.as_ref();
    for read in [
        flags::interval,
        flags::work,
        flags::claim_ttl,
        args::handler::timeout,
    ] {
        if let Ok(time) = read(text) {
            assert!(time <= Duration::from_secs(366 * 24 * 3600));
            let again = read(&humantime::format_duration(time).to_string());
            assert_eq!(again, Ok(time));
        }
    }
    if let Ok(rate) = flags::error_rate(text) {
        // Would panic outside of its range.
        let _ = rand::random_bool(rate);
    }
    if let Ok(lanes) = flags::concurrency(text) {
        assert!(lanes > 0);
    }
    if let Ok(messages) = flags::messages(text) {
        assert!(messages <= MAX_EXACT);
    }
    if let Some((host, port)) = target::split(text)
        && let Ok(target) = Target::parse(&target::url(host, port))
    {
        let printed = target.to_string();
        assert!(printed.ends_with(&format!(":{port}")), "{printed}");
        assert!(!printed.contains('@'), "{printed}");
    }
    let (before, after) = text.split_once(' ').unwrap_or((text, ""));
    let printed = args::redact(&format!("{before}://{USER}:{PASSWORD}@{after}"));
    assert_no_secret(&printed.unwrap_or_default(), text);
}

#[cfg(test)]
#[path = "../../../proof/fuzz/replay.rs"]
mod replay;

#[cfg(test)]
mod tests {
    use super::*;
    use replay::replay;

    /// What any check may need beside its bytes.
    const FEW_BYTES: u64 = 256 << 10;
    /// What the definition of the command line and its complaints take.
    const PARSER_BYTES: u64 = 16 << 20;
    /// What sixteen copies of a text that is repeated seventeen times take.
    const TABLE_BYTES: u64 = 6 << 20;
    /// Variations of a corpus: many, and some where each takes milliseconds.
    const MANY: u32 = 2000;
    const SOME: u32 = 200;

    #[test]
    fn any_bytes_are_printed_as_text_that_no_terminal_obeys_and_that_can_be_undone() {
        replay("escape", escape, FEW_BYTES, MANY);
    }

    #[test]
    fn any_error_record_is_one_line() {
        replay("record", record, FEW_BYTES, MANY);
    }

    #[test]
    fn any_text_fits_into_the_status() {
        replay("status", status, TABLE_BYTES, SOME);
    }

    #[test]
    fn any_text_fits_into_a_line_of_the_log() {
        replay("log", log, FEW_BYTES, MANY);
    }

    #[test]
    fn any_command_line_is_understood_or_refused_without_its_password() {
        replay("command_line", command_line, PARSER_BYTES, SOME);
    }

    #[test]
    fn any_value_of_a_flag_is_understood_or_refused() {
        replay("values", values, FEW_BYTES, MANY);
    }
}
