//! The state of a fleet as text.
//!
//! One line per key, sorted by name. Fields and members are sorted, too; packs and records are
//! decoded. The keys of all packs have one line, as if they were the fields of a hash `packs`; so
//! have those of all staged packs, of long records, and of staged records. A time becomes `TIME` and the
//! server's run id `RUN`: the rest is the same each time a test runs.

use baton::FleetName;
use baton_protocol::{Note, Pack, record};
use redis::FromRedisValue;
use redis::aio::MultiplexedConnection;

/// Of a longer text only the length is printed.
const MAX_TEXT: usize = 60;

/// The lines. A test compares it with an array of `&str`.
#[derive(PartialEq, Eq)]
pub(crate) struct Dump(Vec<String>);

impl Dump {
    /// Only the lines of these keys.
    pub(crate) fn only(&self, keys: &str) -> Self {
        let wanted = |line: &&String| {
            let key = line.split_once(": ").map(|(key, _)| key);
            key.is_some_and(|key| keys.split(' ').any(|wanted| wanted == key))
        };
        Self(self.0.iter().filter(wanted).cloned().collect())
    }
}

impl Dump {
    /// All lines but those of keys that begin so.
    pub(crate) fn without(mut self, prefix: &str) -> Self {
        self.0.retain(|line| !line.starts_with(prefix));
        self
    }
}

impl<const N: usize> PartialEq<[&str; N]> for Dump {
    fn eq(&self, lines: &[&str; N]) -> bool {
        self.0 == lines
    }
}

impl std::fmt::Debug for Dump {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for line in &self.0 {
            write!(f, "\n    {line:?},")?;
        }
        Ok(())
    }
}

/// Reads every key that matches the pattern.
pub(crate) async fn dump(
    raw: &mut MultiplexedConnection,
    pattern: &str,
    fleet: &FleetName,
) -> Dump {
    let info: String = query(raw, &["INFO", "server"]).await;
    let run_id = info
        .lines()
        .find_map(|line| line.strip_prefix("run_id:"))
        .map(|run_id| run_id[..8].to_owned())
        .unwrap();
    let mut lines = Vec::new();
    let mut named = ["pack", "staged", "record", "staged_record"].map(|kind| (kind, Vec::new()));
    let keys: Vec<String> = query(raw, &["KEYS", pattern]).await;
    for key in keys {
        let name = key
            .replace(&format!("{{{fleet}}}:"), "")
            .replace(&format!("{{{fleet}:0}}:"), "");
        let name = name.strip_prefix("baton:").unwrap_or(&name);
        let printed = value(raw, &key, name, &run_id).await;
        let (kind, end) = name.split_once(':').unwrap_or((name, ""));
        match named.iter_mut().find(|(name, _)| *name == kind) {
            Some((_, keys)) if !end.is_empty() => keys.push(format!("{end}={printed}")),
            _ => lines.push(format!("{name}: {printed}")),
        }
    }
    for (kind, keys) in named {
        let name = match kind {
            "pack" => "packs",
            kind => kind,
        };
        if !keys.is_empty() {
            lines.push(format!("{name}: {}", braces(keys)));
        }
    }
    lines.sort();
    Dump(lines)
}

async fn query<T: FromRedisValue>(raw: &mut MultiplexedConnection, words: &[&str]) -> T {
    let mut command = redis::cmd(words[0]);
    words[1..].iter().for_each(|word| {
        command.arg(word);
    });
    command.query_async(raw).await.unwrap()
}

async fn value(raw: &mut MultiplexedConnection, key: &str, name: &str, run_id: &str) -> String {
    let kind: String = query(raw, &["TYPE", key]).await;
    match kind.as_str() {
        "string" => {
            let bytes: Vec<u8> = query(raw, &["GET", key]).await;
            match name.split_once(':') {
                Some(("pack" | "staged", _)) => print_pack(&bytes),
                _ => format!("'{}'", text(&bytes)),
            }
        }
        "list" => {
            let elements: Vec<Vec<u8>> = query(raw, &["LRANGE", key, "0", "-1"]).await;
            let print = |element: &Vec<u8>| print_value(name, element, run_id);
            let elements: Vec<String> = elements.iter().map(print).collect();
            format!("[{}]", elements.join(", "))
        }
        "hash" => {
            let fields: Vec<(String, Vec<u8>)> = query(raw, &["HGETALL", key]).await;
            let print = |(field, value): &(String, Vec<u8>)| {
                let value = print_value(name, value, run_id);
                match field.ends_with(":handed") {
                    true => format!("{field}={}", mask_microseconds(&value)),
                    false => format!("{field}={value}"),
                }
            };
            // The field `born` is random.
            let is_fixed = |(field, _): &&(String, Vec<u8>)| name != "fence" || field != "born";
            braces(fields.iter().filter(is_fixed).map(print).collect())
        }
        "zset" => {
            let words = ["ZRANGE", key, "0", "-1", "WITHSCORES"];
            let members: Vec<(String, f64)> = query(raw, &words).await;
            let print = |(member, score): &(String, f64)| {
                let member = member.replace(&format!("@{run_id}"), "@RUN");
                format!("{member}={}", print_score(name, *score, run_id))
            };
            braces(members.iter().map(print).collect())
        }
        "set" => {
            let members: Vec<String> = query(raw, &["SMEMBERS", key]).await;
            braces(members)
        }
        other => panic!("{key} holds a {other}"),
    }
}

/// Parts in braces, sorted by what is before their `=`.
fn braces(mut parts: Vec<String>) -> String {
    parts.sort_by_key(|part| {
        let field = part.split('=').next().unwrap_or_default();
        (field.parse::<u64>().ok(), part.clone())
    });
    format!("{{{}}}", parts.join(", "))
}

fn print_pack(bytes: &[u8]) -> String {
    match Pack::parse(bytes) {
        Ok(pack) => {
            let texts: Vec<String> = pack.texts.iter().map(|bytes| text(bytes)).collect();
            format!("[{}]", texts.join(" "))
        }
        Err(_) => text(bytes),
    }
}

/// Prints one element or value, decoded according to its key.
fn print_value(name: &str, bytes: &[u8], run_id: &str) -> String {
    match name {
        "errors" => print_record(bytes, run_id),
        "notes" => match Note::decode(bytes) {
            Some(note) => format!("{}, {}", note.first_reason, note.last_reason),
            None => text(bytes),
        },
        // Masks its time and its gap.
        "takeovers" => {
            let line = text(bytes);
            let words = line.splitn(6, ' ').enumerate();
            let words = words.map(|(at, word)| match at {
                2 => "TIME",
                3 => "GAP",
                _ => word,
            });
            words.collect::<Vec<_>>().join(" ")
        }
        // Masks its time, the last two words.
        "ledger" => {
            let entry = text(bytes);
            let words: Vec<&str> = entry.split(' ').collect();
            format!("{} TIME", words[..words.len() - 2].join(" "))
        }
        _ => mask(&text(bytes), run_id),
    }
}

/// A time. In `idle`, how many messages the lane wants stands behind the point, in parts of 1,024.
fn print_score(name: &str, score: f64, run_id: &str) -> String {
    match (name, score.fract() * 1024.0) {
        ("idle", want) if want > 0.0 => {
            let since = mask(&score.trunc().to_string(), run_id);
            format!("{since} wants {want}")
        }
        _ => mask(&score.to_string(), run_id),
    }
}

fn print_record(bytes: &[u8], run_id: &str) -> String {
    let failed = record::decode(bytes);
    format!(
        "{} at {} by {} try {}: {}: {}",
        failed.seq,
        mask(&failed.at_ms.to_string(), run_id),
        failed.node,
        failed.attempt,
        failed.reason,
        text(&failed.text)
    )
}

fn text(bytes: &[u8]) -> String {
    if bytes.len() > MAX_TEXT {
        return format!("<{} bytes>", bytes.len());
    }
    bytes.escape_ascii().to_string()
}

/// The number of a claim that a publish made is its time in µs.
fn mask_microseconds(value: &str) -> String {
    let is_time = |word: &str| word.len() == 16 && word.bytes().all(|b| b.is_ascii_digit());
    let words = value.split(' ');
    let words = words.map(|word| if is_time(word) { "TIME" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

fn mask(text: &str, run_id: &str) -> String {
    let digits = |word: &str| word.bytes().all(|b| b.is_ascii_digit());
    // Milliseconds, or the seconds in `workers`.
    let is_time = |word: &str| matches!(word.len(), 10 | 13) && digits(word);
    let word = |word: &str| match word {
        word if word == run_id => "RUN".to_owned(),
        word if is_time(word) => "TIME".to_owned(),
        word => word.to_owned(),
    };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}
