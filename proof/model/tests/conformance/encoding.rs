//! How Redis stores names, texts and records of the model.

use baton_model::state::{
    AttemptReason, Entry, Idle, Node, Note, Origin, ParcelField, Range, Reason, Record, RunId, Seq,
    Sleeper, Slot, Suspects, Text,
};
use baton_protocol::bounds::{MAX_EXACT, SHORT_RECORD_BYTES};
use baton_protocol::{Digest, Keys, Pack, PackBuilder, PackKeys, Parcel, Progress, record};

/// The time in the packs and records that this test makes.
const MADE_MS: u64 = 5;
/// The reason of rejected messages.
const REJECTED: &str = "bad";
/// Some texts are so long that a few of them make a large pack, and some make one that no lane gets
/// along.
const LONG_TEXT: usize = 300;
const HUGE_TEXT: usize = 17_000;

/// A node's name.
pub(crate) fn node(node: Node) -> String {
    format!("n{node}")
}

/// A name's node.
pub(crate) fn read_node(name: &str) -> Option<Node> {
    name.strip_prefix('n')?.parse().ok()
}

/// A slot as the library takes it.
pub(crate) fn slot(slot: Slot) -> baton_protocol::Slot {
    let node = node(slot.node);
    match slot.lane {
        Slot::HANDED => baton_protocol::Slot::handed(&node),
        lane => baton_protocol::Slot::new(&node, lane),
    }
}

/// A slot from its name.
pub(crate) fn read_slot(name: &str) -> Option<Slot> {
    let (node, part) = name.split_once(':')?;
    let node = read_node(node)?;
    match part {
        "handed" => Some(Slot::handed(node)),
        lane => Some(Slot {
            node,
            lane: lane.parse().ok().filter(|lane| *lane != Slot::HANDED)?,
        }),
    }
}

/// A member of `idle`.
pub(crate) fn sleeper((of, run_id): Sleeper) -> String {
    format!("{}@{run_id:08x}", node(of))
}

/// A member of `idle` from its name.
pub(crate) fn read_sleeper(name: &str) -> Option<Sleeper> {
    let (node, run_id) = name.split_once('@')?;
    let found = (read_node(node)?, RunId::from_str_radix(run_id, 16).ok()?);
    (sleeper(found) == name).then_some(found)
}

/// Parts of the score in `idle` behind the point.
const WANT_PARTS: f64 = 1024.0;

/// The score of a member of `idle`. A double has room for all of it.
pub(crate) fn score(idle: Idle) -> f64 {
    idle.since as f64 + idle.want as f64 / WANT_PARTS
}

/// What a score says.
pub(crate) fn read_score(words: &str) -> Option<Idle> {
    let number: f64 = words.parse().ok()?;
    let idle = Idle {
        since: number.floor() as i64,
        want: (number.fract() * WANT_PARTS) as u64,
    };
    (score(idle) == number && idle.want > 0).then_some(idle)
}

/// The bytes of a text.
pub(crate) fn text(text: Text) -> String {
    let mut words = format!("m{text}");
    let length = match text {
        text if text % 40 == 20 => HUGE_TEXT,
        text if text % 5 == 0 => LONG_TEXT,
        _ => words.len(),
    };
    words.extend(std::iter::repeat_n('.', length - words.len()));
    words
}

/// The bytes of a foreign entry. Many look like a range.
pub(crate) fn foreign(text: Text) -> String {
    let (before, after) = (text - 1, text + 1);
    match text % 12 {
        1 => format!("{text} 2 {before} {text} 0"),
        2 => format!("{text} 2 {after} {text} 0"),
        3 => format!("{text} 1 {text} {after} 0"),
        4 => format!("0 {text} 0 0 0"),
        5 => format!("{text} 1 {text} {text} {}", "0".repeat(90)),
        6 => format!("{text} {MAX_EXACT} {text} {MAX_EXACT} 0"),
        7 => format!("{text} 1001 {text} {text} 0"),
        8 => format!("{text} 1 {text} {text} 0 9"),
        9 => format!("{text} 1 {text} {text} 0 9 n1 n2"),
        10 => format!("{text} 1 {text} {text} 0 9 {}", "n1,".repeat(130)),
        _ => format!("vandal {text}"),
    }
}

fn read_text(bytes: &[u8]) -> Option<Text> {
    let words = str::from_utf8(bytes).ok()?;
    let number = words.strip_prefix('m')?.split('.').next()?.parse().ok()?;
    (text(number) == words).then_some(number)
}

/// The number of a foreign entry.
pub(crate) fn read_foreign(bytes: &[u8]) -> Option<Text> {
    let words = str::from_utf8(bytes).ok()?;
    let mut numbers = words.split(' ').filter_map(|word| word.parse().ok());
    numbers.find(|text| *text > 0 && foreign(*text) == words)
}

/// A word that a generator drew.
fn origin(origin: Origin) -> String {
    match origin {
        0 => String::new(),
        origin => format!("o{origin}"),
    }
}

fn read_origin(word: &str) -> Option<Origin> {
    match word {
        "" => Some(0),
        word => word.strip_prefix('o')?.parse().ok(),
    }
}

/// The reason of an attempt that failed.
fn reason(reason: AttemptReason) -> String {
    format!("r{reason}")
}

fn read_reason(word: &str) -> Option<AttemptReason> {
    word.strip_prefix('r')?.parse().ok()
}

/// The bytes of a note.
pub(crate) fn note(note: &Note) -> Vec<u8> {
    let note = baton_protocol::Note {
        first_reason: reason(note.first),
        last_reason: reason(note.last),
    };
    note.encode()
}

/// The note of some bytes.
pub(crate) fn read_note(bytes: &[u8]) -> Option<Note> {
    let note = baton_protocol::Note::decode(bytes)?;
    Some(Note {
        first: read_reason(&note.first_reason)?,
        last: read_reason(&note.last_reason)?,
    })
}

/// The origin whose messages have keys that their source gave.
const KEYED: Origin = 3;

/// The key of a message.
fn key(of: Origin, seq: Seq, text: Text) -> String {
    match of {
        0 => String::new(),
        KEYED => format!("{}-m{text}", origin(of)),
        _ => format!("{}-{seq}", origin(of)),
    }
}

/// The origin of a key, if it is that of a message with this number and text.
fn read_key(word: &str, seq: Seq, text: Text) -> Option<Origin> {
    let of = read_origin(word.split('-').next()?)?;
    (key(of, seq, text) == word).then_some(of)
}

/// A pack of texts.
pub(crate) fn pack(texts: &[Text], of: Origin) -> Vec<u8> {
    let mut pack = PackBuilder::default();
    for number in texts {
        match of {
            KEYED => pack.push_keyed(&key(of, 0, *number), text(*number).as_bytes()),
            _ => pack.push(text(*number).as_bytes()),
        }
    }
    pack.finish(MADE_MS, &origin(of), 0)
}

/// The key of a staged pack.
pub(crate) fn staged(keys: &Keys, node: Node, stage: u64) -> String {
    format!("{}{}:{stage}", keys.staged, self::node(node))
}

/// The node and the number in the key of a staged pack.
pub(crate) fn read_staged(key: &str) -> Option<(Node, u64)> {
    let (node, stage) = key.split_once(':')?;
    Some((read_node(node)?, stage.parse().ok()?))
}

/// Length of the pack that a script makes of one text.
pub(crate) fn lone_pack_bytes(text: Text, of: Origin, seq: Seq) -> u64 {
    let mut pack = PackBuilder::default();
    pack.push_keyed(&key(of, seq, text), self::text(text).as_bytes());
    // Its count takes one byte; the count of a generator's pack takes three.
    pack.finish(MADE_MS, "", seq).len() as u64 - 2
}

/// The pack of some bytes.
pub(crate) fn read_pack(bytes: &[u8]) -> Option<baton_model::state::Pack> {
    let pack = Pack::parse(bytes).ok()?;
    let texts: Option<Vec<Text>> = pack.texts.into_iter().map(read_text).collect();
    let texts = texts?;
    let origin = match pack.keys {
        PackKeys::Origin(word) => read_origin(word)?,
        PackKeys::Each(keys) => read_keys(&keys, &texts)?,
    };
    Some(baton_model::state::Pack {
        texts,
        bytes: bytes.len() as u64,
        origin,
    })
}

/// The name of what is parked there.
pub(crate) fn field((partition, first): ParcelField) -> String {
    Parcel::field(partition as u32, first)
}

/// What is parked there under the number of a text: all of it depends on these.
pub(crate) fn parcel((partition, first): ParcelField, text: Text) -> Parcel {
    let count = text % 3 + 1;
    Parcel {
        partition: partition as u32,
        first,
        count,
        made: Progress {
            packs: text * 7,
            messages: text * 1000 + count,
        },
        digest: text.is_multiple_of(2).then(|| digest(first, text)),
        is_scheduled: text.is_multiple_of(4),
        cursor: text.to_string().into_bytes(),
        pack: pack(&vec![text; count as usize], text % 3 + 1),
    }
}

/// Where these bytes are parked, and the number of their text.
pub(crate) fn read_parcel(name: &str, bytes: &[u8]) -> Option<(ParcelField, Text)> {
    let stored = Parcel::decode(bytes)?;
    let place = (stored.partition as usize, stored.first);
    let text = str::from_utf8(&stored.cursor).ok()?.parse().ok()?;
    let is_whole = field(place) == name && parcel(place, text).encode() == bytes;
    is_whole.then_some((place, text))
}

/// The origin of keys that all have the same.
fn read_keys(keys: &[&str], texts: &[Text]) -> Option<Origin> {
    let read = |(key, text): (&&str, &Text)| {
        // A numbered key is in the pack of its message alone. A record of it must have its number.
        let number = key.rsplit('-').next().and_then(|word| word.parse().ok());
        read_key(key, number.unwrap_or(0), *text)
    };
    let mut origins = keys.iter().zip(texts).map(read);
    let first = origins.next()??;
    origins.all(|origin| origin == Some(first)).then_some(first)
}

/// An entry of the queue or of `delayed`.
pub(crate) fn read_entry(bytes: &[u8]) -> Option<Entry> {
    let foreign = read_foreign(bytes).map(Entry::Foreign);
    foreign.or_else(|| read_range(str::from_utf8(bytes).ok()?).map(Entry::Range))
}

/// The bytes of an entry.
pub(crate) fn write_entry(entry: &Entry) -> String {
    match entry {
        Entry::Range(range) => write_range(range),
        Entry::Foreign(text) => foreign(*text),
    }
}

/// A range of the library's as the model has it.
pub(crate) fn range(range: baton_protocol::Range) -> Range {
    Range {
        pack: range.pack,
        count: range.count,
        first: range.first,
        last: range.last,
        returns: range.returns,
        // Only Redis has them.
        suspects: Suspects::default(),
    }
}

/// A run id; empty if the caller knew none.
fn write_run_id(run_id: RunId) -> String {
    match run_id {
        0 => String::new(),
        run_id => format!("{run_id:08x}"),
    }
}

fn read_run_id(word: &str) -> Option<RunId> {
    match word {
        "" => Some(0),
        word => RunId::from_str_radix(word, 16).ok(),
    }
}

/// A range with its suspects, in whatever order they are named.
pub(crate) fn read_range(words: &str) -> Option<Range> {
    let range = range(baton_protocol::Range::parse(words)?);
    let mut behind = words.split(' ').skip(5);
    let suspects = match (behind.next(), behind.next(), behind.next()) {
        (Some(since), Some(run_id), Some(names)) => {
            let mut nodes = names.split(',').map(|name| Some(1 << read_node(name)?));
            let nodes = nodes.try_fold(0, |all, node| Some(all | node?))?;
            Suspects::new(nodes, since.parse().ok()?, read_run_id(run_id)?)
        }
        _ => Suspects::default(),
    };
    Some(Range { suspects, ..range })
}

/// A range as a script writes it.
pub(crate) fn write_range(range: &Range) -> String {
    let Range {
        pack,
        count,
        first,
        last,
        returns,
        suspects: Suspects {
            nodes,
            since,
            run_id,
        },
    } = range;
    let numbers = format!("{pack} {count} {first} {last} {returns}");
    let names = (0..32).filter(|name| nodes & (1 << name) != 0).map(node);
    match names.collect::<Vec<_>>().join(",") {
        names if names.is_empty() => numbers,
        names => format!("{numbers} {since} {} {names}", write_run_id(*run_id)),
    }
}

/// How many workers died with a message, if it failed for that.
fn read_deaths(reason: &str) -> Option<u64> {
    let deaths = reason.strip_prefix("its worker died ")?;
    deaths.strip_suffix(" times")?.parse().ok()
}

/// A digest for some messages. Any will do: scripts only store it.
pub(crate) fn digest(first: Seq, last: Seq) -> Digest {
    Digest::of(first, &last.to_be_bytes())
}

/// The record of a message that was rejected.
pub(crate) fn record(record: &Record) -> Vec<u8> {
    let text = text(record.text);
    let mut failed = record::failed_once(record.seq, MADE_MS, &node(0), REJECTED, text);
    failed.attempt = record.attempt;
    failed.key = key(record.origin, record.seq, record.text);
    failed.first_reason = record.first_reason.map(reason).unwrap_or_default();
    if record.text.is_multiple_of(5) {
        // So long that the record gets a key of its own.
        failed.reason += &" ".repeat(SHORT_RECORD_BYTES);
    }
    record::encode(&failed)
}

/// Whether a commit gives this record a key of its own.
pub(crate) fn is_long(record: &Record) -> bool {
    record.reason == Reason::Rejected && self::record(record).len() > SHORT_RECORD_BYTES
}

/// Decodes a record. If a script made it, its time must be between these two.
pub(crate) fn read_record(bytes: &[u8], between: (u64, u64)) -> Option<Record> {
    let failed = record::decode(bytes);
    let (reason, text) = match failed.reason.trim_end() {
        REJECTED => (Reason::Rejected, read_text(&failed.text)?),
        "not a message of this fleet" => (Reason::Foreign, read_foreign(&failed.text)?),
        "its text is missing in Redis" => {
            read_range(str::from_utf8(&failed.text).ok()?)?;
            (Reason::TextMissing, 0)
        }
        // Its text may be a whole pack, if a person deleted the pack that it was in.
        reason => {
            let poison = Reason::Poison(read_deaths(reason)?);
            match Pack::parse(&failed.text) {
                Ok(_) => (poison, 0),
                Err(_) => (poison, read_text(&failed.text)?),
            }
        }
    };
    let origin = read_key(&failed.key, failed.seq, text)?;
    let first_reason = match failed.first_reason.as_str() {
        "" => None,
        word => Some(read_reason(word)?),
    };
    let by_a_script = reason != Reason::Rejected;
    let right_time = match by_a_script {
        true => (between.0..=between.1).contains(&failed.at_ms),
        false => failed.at_ms == MADE_MS,
    };
    let right_node = read_node(&failed.node).is_some();
    (right_time && right_node).then_some(Record {
        seq: failed.seq,
        text,
        attempt: failed.attempt,
        reason,
        origin,
        first_reason,
    })
}
