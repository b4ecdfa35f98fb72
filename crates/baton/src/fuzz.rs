//! What hostile bytes meet: one function for each kind of bytes that come from Redis or from
//! the user who starts a node.
//!
//! Each takes any bytes at all, decodes them as the library would, does with the result what
//! the library would do, and panics if that is not sound. The fuzz targets in `proof/fuzz/` call
//! these functions; the tests below replay the corpus of each.

use redis::Value;
use std::num::NonZeroU32;

use baton_protocol::bounds::MAX_EXACT;
use baton_protocol::record::{self, seq_of};
use baton_protocol::{
    Beat, Census, Claim, ClaimedPack, Entry, ErrorsClaim, Keys, Ledger, Outcomes, Pack,
    PackBuilder, PackKeys, Publish, Range, Seal, decode,
};

use crate::observe::snapshot::{About, Snapshot};
use crate::source::TickCursor;
use crate::{Batch, Effects, Error, FleetName, Part, Target};
use baton_protocol::{Durability, ServerInfo};

/// What the channels of presence of the corpus begin with.
const PRESENCE: &str = "baton:{hostile}:presence:";
/// Longest error, in characters, for an answer that no script gives.
const ANSWER_CHARS: usize = 300;

/// A batch that takes so many messages, for what fills it in another crate.
pub fn batch(limit: u64) -> Batch {
    Batch::new(1, limit, false, false, PackBuilder::default())
}

/// The texts and the cursor of a batch.
pub fn made(mut batch: Batch) -> (Vec<Vec<u8>>, Option<Vec<u8>>) {
    let pack = batch.pack.finish(1, "origin", 1);
    let texts =
        Pack::parse(&pack).map(|pack| pack.texts.iter().map(|text| text.to_vec()).collect());
    (texts.unwrap_or_default(), batch.cursor)
}

/// A pack, as it lies in Redis.
pub fn pack(data: &[u8]) {
    let Ok(pack) = Pack::parse(data) else {
        return;
    };
    let bytes: usize = pack.texts.iter().map(|text| text.len()).sum();
    assert!(
        bytes + pack.texts.len() <= data.len(),
        "more than there was"
    );
    let mut builder = PackBuilder::default();
    let origin = match &pack.keys {
        PackKeys::Origin(origin) => {
            pack.texts.iter().for_each(|text| builder.push(text));
            origin
        }
        PackKeys::Each(keys) => {
            let messages = keys.iter().zip(&pack.texts);
            messages.for_each(|(key, text)| builder.push_keyed(key, text));
            ""
        }
    };
    let written = builder.finish(pack.at_ms, origin, 1);
    assert_eq!(Pack::parse(&written).ok(), Some(pack));
    assert!(
        Pack::parse(&[data, b"x"].concat()).is_err(),
        "bytes behind its end"
    );
}

/// A record of the errors store.
pub fn failed(data: &[u8]) {
    let failed = record::decode(data);
    assert_eq!(record::decode(&record::encode(&failed)), failed);
    if failed.text.len() < data.len() {
        // A real record: its fields together are no longer than it was, but for bytes that
        // are no UTF-8, each of which becomes a character of three.
        let fields = failed.node.len() + failed.reason.len();
        assert!(fields <= 3 * (data.len() - failed.text.len()));
        assert_eq!(seq_of(data), failed.seq);
        let longer = [data, b"x"].concat();
        assert_eq!(record::decode(&longer).text, longer);
    } else {
        assert_eq!((failed.seq, failed.text.as_slice()), (0, data));
    }
}

/// An answer of the server, read as the answer to every call.
pub fn reply(data: &[u8]) {
    match redis::parse_redis_value(data).and_then(Value::extract_error) {
        Ok(answer) => read_all(&answer),
        Err(error) => drop(decode::error(error).to_string()),
    }
}

fn read_all(answer: &Value) {
    let Ok(fleet) = FleetName::new("hostile") else {
        return;
    };
    if let Some(beat) = known(decode::beat(&fleet, 1, answer)) {
        let (Beat::Generator {
            epoch,
            next,
            now_ms,
            last,
            ..
        }
        | Beat::Worker {
            epoch,
            next,
            now_ms,
            last,
            ..
        }) = beat;
        assert!(epoch.max(now_ms).max(last) <= MAX_EXACT && next.as_millis() <= MAX_EXACT.into());
    }
    known(decode::leave(answer));
    known(decode::free(answer));
    known(decode::forget(answer));
    if let Some(Seal::Sealed {
        last,
        cursor,
        known,
        ..
    }) = known(decode::seal("fence", answer))
    {
        assert!(last.max(known) <= MAX_EXACT);
        let tick = str::from_utf8(&cursor).ok().and_then(TickCursor::parse);
        let tick = tick.unwrap_or_default();
        assert!(tick.due_ms.max(tick.known_ms) <= MAX_EXACT);
    }
    if let Some(fence) = known(decode::fence(answer)) {
        assert!(fence.epoch.max(fence.last) <= MAX_EXACT);
    }
    if let Some(
        Publish::Already { last: number }
        | Publish::Gap { last: number }
        | Publish::Full { open: number },
    ) = known(decode::publish("publish", answer))
    {
        assert!(number <= MAX_EXACT);
    }
    if let Some(paused) = known(decode::pause(answer)) {
        let since = Part::ALL.map(|part| paused.since_ms(part));
        assert!(since.into_iter().flatten().all(|ms| ms <= MAX_EXACT));
    }
    match known(decode::claim(answer)) {
        Some(Claim::Claimed {
            range,
            pack: ClaimedPack::Sent(pack),
        }) => claimed(range, &pack),
        Some(Claim::Held { number }) => assert!(number <= MAX_EXACT),
        _ => {}
    }
    known(decode::extend(answer));
    known(decode::commit(answer));
    known(decode::give_back(answer));
    if let Some(reclaimed) = known(decode::reclaim(answer)) {
        assert!(reclaimed.messages.max(reclaimed.records) <= MAX_EXACT);
    }
    if let Value::Array(answers) = answer {
        whole(&fleet, answers);
    }
    known(decode::info(answer));
    if let Some(ErrorsClaim::Claimed(ids)) = known(decode::errors_claim(answer)) {
        assert!(ids.iter().all(|id| *id <= MAX_EXACT));
    }
    known(decode::errors_commit(answer));
    known(decode::errors_settle(answer));
    known(decode::newest(answer));
    for record in known(decode::records(answer)).unwrap_or_default() {
        failed(&record.unwrap_or_default());
    }
    if let Some((last, free)) = known(decode::error_ids(answer)) {
        assert!(last <= MAX_EXACT && (1..=last + 1).contains(&free));
    }
    known(decode::are_present(answer));
    known(decode::scanned(answer));
    for line in known(decode::lines(answer)).unwrap_or_default() {
        takeover(&line);
    }
    known(decode::length(answer));
    known(decode::preflight(answer));
    known(decode::protocol(&fleet, answer));
    known(decode::key_type("key", "list", answer));
    drop(decode::setting(answer));
}

/// Answers of a transaction.
fn whole(fleet: &FleetName, answers: &[Value]) {
    for ranges in [0, 3] {
        let Some(census) = known(decode::census(ranges, answers)) else {
            continue;
        };
        let ended = [
            census.done,
            census.failed,
            census.pending,
            census.claimed,
            census.delayed,
        ];
        let sum: u128 = ended.map(u128::from).iter().sum();
        let open = u128::from(census.published) + u128::from(census.retried);
        assert_eq!(census.balanced(), open == sum);
    }
    known(decode::partition_state(3, answers));
    known(decode::roster(PRESENCE, answers));
    if let Some(reading) = known(decode::fleet_state(fleet, 1, PRESENCE, 3, answers)) {
        let listed = reading.roster.nodes.len();
        let snapshot = Snapshot::of(fleet, reading, None, ServerInfo::default());
        assert!(snapshot.nodes.len() <= listed);
        assert!(snapshot.nodes.is_sorted_by_key(|node| &node.node));
    }
}

/// A line about how the lease changed hands.
fn takeover(line: &str) {
    if let Some(takeover) = decode::takeover(line) {
        assert!(takeover.epoch.max(takeover.at_ms).max(takeover.gap_ms) <= MAX_EXACT);
    }
}

/// The decoded answer. The error of any other answer must be short and safe
/// to print.
fn known<T>(read: Result<T, Error>) -> Option<T> {
    match read {
        Ok(known) => Some(known),
        Err(error @ Error::Answer { .. }) => {
            let words = error.to_string();
            assert!(words.chars().count() <= ANSWER_CHARS, "{words}");
            assert!(!words.chars().any(char::is_control), "{words:?}");
            None
        }
        Err(
            Error::Refused(_)
            | Error::ForeignKey { .. }
            | Error::Protocol { .. }
            | Error::Partitions { .. },
        ) => None,
        Err(error) => panic!("no answer is {error:?}"),
    }
}

/// What a worker does with a claim before any handler sees a message.
fn claimed(range: Range, bytes: &[u8]) {
    assert!((1..=range.count).contains(&range.size()));
    let mut outcomes = Outcomes::new("node", &range, range.first);
    assert!(outcomes.last() < range.first);
    let place = |seq: u64| usize::try_from(seq - range.pack).unwrap_or(usize::MAX);
    let pack = Pack::parse(bytes).ok();
    let texts = pack.and_then(|pack| {
        let texts = pack.texts.get(place(range.first)..=place(range.last));
        texts.map(<[_]>::len)
    });
    match texts {
        Some(texts) => assert_eq!(texts as u64, range.size()),
        None => {
            outcomes.fail_unreadable(range.last, bytes, 1);
            assert!((range.first..=range.last).contains(&outcomes.last()));
        }
    }
}

/// The ledger, an entry a line. A line that is no entry is taken for an error record.
pub fn ledger(data: &[u8]) {
    let mut ledger = Ledger::default();
    let mut records = Vec::new();
    for line in data.split(|byte| *byte == b'\n') {
        match str::from_utf8(line).ok().and_then(Entry::parse) {
            Some(entry) => {
                assert_eq!(Entry::parse(&written(&entry)).as_ref(), Some(&entry));
                ledger.entries.push(entry);
            }
            None => records.push((seq_of(line), line.to_vec())),
        }
    }
    records.sort_unstable_by_key(|(seq, _)| *seq);
    let audit = baton_protocol::audit::compare(&ledger, &Census::default(), &records);
    let most = 4 * ledger.entries.len() + records.len() + 10;
    assert!(audit.findings.len() <= most, "{audit:?}");
    for finding in &audit.findings {
        assert!(!finding.to_string().is_empty());
    }
}

/// An entry as a script writes it.
fn written(entry: &Entry) -> String {
    let (first, last) = (entry.first(), entry.last());
    let (s, us) = (entry.at_us() / 1_000_000, entry.at_us() % 1_000_000);
    match entry {
        Entry::Published { epoch, digest, .. } => {
            format!("p {epoch} {first} {last} {digest} {s} {us}")
        }
        Entry::Ended {
            slot,
            failed,
            digest,
            ..
        } => {
            let digest = digest.map_or("-".to_owned(), |digest| digest.to_string());
            format!("c {slot} {first} {last} {failed} {digest} {s} {us}")
        }
        Entry::Retried { seq, .. } => format!("r {seq} {s} {us}"),
        Entry::Delayed { seq, .. } => format!("d {seq} {s} {us}"),
        Entry::Void { .. } => format!("v {first} {last} {s} {us}"),
    }
}

/// The URL of a server, as a user gives it; and the same text beside credentials.
pub fn url(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let shown = |url: String| match Target::parse(&url) {
        Ok(target) => format!("{target} {target:?}"),
        Err(error) => error.to_string(),
    };
    // What is shown does not depend on them.
    for (before, between, after) in [
        ("redis://", ":", format!("@{text}")),
        ("rediss://", ":", format!("@{text}")),
        (&format!("unix:///{text}?user="), "&pass=", String::new()),
        (
            &format!("redis://h?user={text}"),
            "&protocol=",
            String::new(),
        ),
    ] {
        let url = |user, password| format!("{before}{user}{between}{password}{after}");
        assert_eq!(shown(url("al1ce", "s3cret")), shown(url("b0b", "0ther")));
    }
    let Ok(target) = Target::parse(&text) else {
        return;
    };
    let shown = target.to_string();
    let address = shown.split(" db ").next().unwrap_or_default();
    if !address.starts_with("unix:") {
        assert!(!shown.chars().any(char::is_control), "{shown:?}");
        let again = Target::parse(address).map(|target| target.to_string());
        assert_eq!(again.ok().as_deref(), Some(address));
    }
    assert_eq!(target.with_default_password("s3cret").to_string(), shown);
}

/// What the server says about itself.
pub fn info(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let info = baton_protocol::ServerInfo::parse(&text);
    assert!(info.run_id.len() <= 8 && info.run_id.bytes().all(|byte| byte.is_ascii_hexdigit()));
    assert!(info.version.len() + info.maxmemory_policy.len() <= 2 * text.len() + 16);
    let one = Durability::Replicas(NonZeroU32::MIN);
    for level in [Durability::None, Durability::Fsync, one] {
        assert!(info.warnings(level).len() <= 5);
        assert!(info.promise(level).len() <= 200);
    }
    assert!(info.replication.len() <= 32);
}

/// What a node says about itself with every beat.
pub fn about(data: &[u8]) {
    let Ok(about) = serde_json::from_slice::<About>(data) else {
        return;
    };
    let written = serde_json::to_string(&about).unwrap_or_default();
    let again = serde_json::from_str::<About>(&written);
    assert_eq!(again.ok(), Some(about));
}

/// Lines of effects of a program: what is accepted is staged, and no more of it than there was.
pub fn effects(data: &[u8]) {
    let lines = data.split(|byte| *byte == b'\n').count();
    match Effects::parse_lines(data) {
        Ok(effects) => {
            let twice = [data, b"\n", data].concat();
            assert_eq!(
                Effects::parse_lines(&twice).map(|both| both.len()),
                Ok(2 * effects.len())
            );
            assert!(effects.len() <= lines);
        }
        Err(error) => {
            assert!((1..=lines).contains(&error.line), "{error}");
            let words = error.to_string();
            assert!(words.chars().count() <= 2 * ANSWER_CHARS, "{words}");
            assert!(!words.chars().any(char::is_control), "{words:?}");
        }
    }
}

/// The name of a fleet: whatever is accepted leaves one hash tag in every key.
pub fn fleet_name(data: &[u8]) {
    let Ok(name) = FleetName::new(&String::from_utf8_lossy(data)) else {
        return;
    };
    assert_eq!(name.as_str().as_bytes(), data);
    for (key, _) in Keys::new(&name).typed() {
        let tag = key.split(['{', '}']).nth(1).unwrap_or_default();
        assert_eq!(key.matches(['{', '}']).count(), 2, "{key}");
        assert_eq!(tag.split(':').next(), Some(name.as_str()), "{key}");
    }
}

#[cfg(test)]
#[path = "../../../proof/fuzz/replay.rs"]
mod replay;

#[cfg(test)]
mod tests;
