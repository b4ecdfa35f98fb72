//! Reads the whole state of a fleet from Redis, key by key.
//!
//! Anything that no script of ours writes is an error: an unknown key or field, a number with a
//! leading zero.

mod values;

use std::collections::BTreeMap;

use baton_model::call::Ring;
use baton_model::state::{
    Body, Claim, EndedClaim, Entry, Fence, How, Lease, LedgerEntry, Ms, Node, Note, Pack,
    ParcelField, Paused, RunId, Slot, State, Takeover, Text,
};
use baton_protocol::{Entry as StoredEntry, Keys};

use crate::encoding;
use crate::event::Unmodelled;
use crate::raw_connection::Value;
use values::{
    bytes, digits, elements, fields, is_empty, list, map, node_of, number, read_ids, read_run_id,
    strange, text, time_of,
};

/// How many nodes there are.
pub(crate) const NODES: Node = 10;

/// The state of a fleet in Redis.
pub(crate) struct RedisState {
    /// Redis's clock in ms.
    pub(crate) at: Ms,
    pub(crate) state: State,
    pub(crate) unmodelled: Unmodelled,
    /// What the nodes have heard on their ring channels since the read before, by node.
    pub(crate) rings: Vec<Ring>,
}

/// The keys of an application.
pub(crate) struct App {
    /// A counter, to which commits add.
    pub(crate) counter: String,
    /// A list, so that adding to it as to a counter fails.
    pub(crate) list: String,
}

/// Reads packs, staged packs, long records and staged records: of each the end of its key, its bytes and
/// its time to live.
const READ_PACKS: &str = "
local all = {}
for i, prefix in ipairs(ARGV) do
  local packs = {}
  for _, key in ipairs(redis.call('KEYS', prefix .. '*')) do
    packs[#packs + 1] = string.sub(key, #prefix + 1)
    local bytes
    if redis.call('TYPE', key).ok == 'hash' then
      bytes = redis.call('HLEN', key) == 1 and redis.call('HGET', key, 'record')
    else
      bytes = redis.call('GET', key)
    end
    packs[#packs + 1] = {bytes, redis.call('TTL', key)}
  end
  all[i] = packs
end
return all";

/// The commands that read everything. The last of them publish a fence on the ring channel of each node
/// that is present: the node hears what was published before, and then the fence.
pub(crate) fn read_commands(keys: &Keys, app: &App, run_id: RunId, fence: &str) -> redis::Pipeline {
    let mut pipe = redis::pipe();
    pipe.cmd("TIME").cmd("DBSIZE");
    for (key, kind) in keys.typed() {
        match kind {
            "hash" => pipe.cmd("HGETALL").arg(key),
            "zset" => pipe.cmd("ZRANGE").arg(key).arg(&[0, -1]).arg("WITHSCORES"),
            _ => pipe.cmd("LRANGE").arg(key).arg(&[0, -1]),
        };
    }
    pipe.cmd("EVAL").arg(READ_PACKS).arg(0);
    let prefixes = [&keys.pack, &keys.staged, &keys.record, &keys.staged_record];
    pipe.arg(&prefixes);
    pipe.cmd("GET").arg(&app.counter);
    pipe.cmd("LRANGE").arg(&app.list).arg(&[0, -1]);
    let presence = (0..NODES).map(|node| format!("{}{}", keys.presence, encoding::node(node)));
    pipe.cmd("PUBSUB")
        .arg("NUMSUB")
        .arg(presence.collect::<Vec<_>>());
    for node in 0..NODES {
        let sleeper = encoding::sleeper((node, run_id));
        pipe.cmd("PUBLISH")
            .arg(format!("{}{sleeper}", keys.presence))
            .arg(fence);
    }
    pipe
}

/// The nodes that hear the fence, from the answers.
pub(crate) fn hearing(answers: &[Value]) -> Vec<Node> {
    let from = answers.len().saturating_sub(NODES.into());
    let heard = (0..).zip(&answers[from..]);
    let heard = heard.filter(|(_, heard)| **heard != Value::Int(0));
    heard.map(|(node, _)| node).collect()
}

/// Reads the answers. `since` is when the sequence began; `run_id` is the server's.
pub(crate) fn read(answers: &[Value], run_id: RunId, since: Ms) -> Result<RedisState, String> {
    let (answers, heard) = answers.split_at(answers.len().saturating_sub(NODES.into()));
    let [time, db_size, keys @ .., packs, counter, list, presence] = answers else {
        return Err(format!("{} answers", answers.len()));
    };
    let [packs, staged, records, staged_records] = elements(packs) else {
        return Err(strange("the packs", packs));
    };
    let named = [packs, staged, records, staged_records];
    let single = keys.iter().chain([counter, list]);
    let single = single.filter(|value| !is_empty(value)).count();
    let named = named.map(|named| elements(named).len() / 2);
    let filled = single + named.iter().sum::<usize>();
    if *db_size != Value::Int(filled as i64) {
        return Err(format!("{filled} keys are known, there are {db_size:?}"));
    }
    let [seconds, micros] = elements(time) else {
        return Err(format!("TIME: {time:?}"));
    };
    let at = (number(seconds)? * 1000 + number(micros)? / 1000) as Ms;
    let mut state = State {
        run_id,
        present: read_presence(presence, heard)?,
        ..State::default()
    };
    // In the order of the commands.
    let [
        generator,
        nodes,
        joined,
        seen,
        meta,
        takeovers,
        fence,
        partition @ ..,
    ] = keys
    else {
        return Err(format!("{} keys", keys.len()));
    };
    read_control(&mut state, [generator, nodes, joined, seen, takeovers])?;
    state.fence = read_fence(fence)?;
    check_staged_records(staged_records)?;
    let records = map(records, digits, lasting)?;
    read_partition(&mut state, partition, records, (since as u64, at as u64))?;
    state.packs = map(packs, digits, |value| pack(value, false))?;
    state.staged = map(staged, encoding::read_staged, |value| pack(value, true))?;
    state.effects = match is_empty(counter) {
        true => 0,
        false => number(counter)?,
    };
    if elements(list).len() != 1 {
        return Err(strange("the application's list", list));
    }
    let unmodelled = read_unmodelled(meta, fence)?;
    Ok(RedisState {
        at,
        state,
        unmodelled,
        rings: Vec::new(),
    })
}

/// Reads the keys about nodes and the lease.
fn read_control(state: &mut State, keys: [&Value; 5]) -> Result<(), String> {
    let [generator, nodes, joined, seen, takeovers] = keys;
    state.nodes = map(nodes, encoding::read_node, read_run_id_of)?;
    state.joined = map(joined, encoding::read_node, time_of)?;
    state.seen = map(seen, encoding::read_node, time_of)?;
    state.takeovers = list(takeovers, takeover)?;
    let names = ["node", "epoch", "until", "since", "run", "waited"];
    let [node, epoch, until, since, run_id, waited] = fields("generator", generator, names)?;
    state.lease = Lease {
        node: node.map(node_of).transpose()?,
        epoch: epoch.map_or(Ok(0), number)?,
        until: until.map_or(Ok(0), time_of)?,
        run_id: run_id.map_or(Ok(0), |run_id| read_run_id(text(run_id)?))?,
        since: since.map(time_of).transpose()?,
        waited: waited.map_or(Ok(0), |run_id| read_run_id(text(run_id)?))?,
    };
    Ok(())
}

/// Reads the keys about messages. Scripts made records `between` these two times.
fn read_partition(
    state: &mut State,
    keys: &[Value],
    mut long_records: BTreeMap<u64, Vec<u8>>,
    between: (u64, u64),
) -> Result<(), String> {
    let [
        queue,
        parked,
        left,
        idle,
        claims,
        deadlines,
        workers,
        delayed,
        notes,
        errors,
        held,
        ids,
        stats,
        ledger,
    ] = keys
    else {
        return Err(format!("{} keys of a partition", keys.len()));
    };
    state.queue = list(queue, entry)?;
    state.parked = read_parked(parked)?;
    state.left = map(left, digits, number)?;
    state.idle = map(idle, encoding::read_sleeper, |value| {
        encoding::read_score(text(value)?).ok_or_else(|| strange("idle", value))
    })?;
    state.claims = map(claims, encoding::read_slot, claim)?;
    state.deadlines = map(deadlines, encoding::read_slot, time_of)?;
    state.workers = map(workers, encoding::read_slot, ended_claim)?;
    let is_delayed = |member: &str| encoding::read_entry(member.as_bytes());
    state.delayed = map(delayed, is_delayed, time_of)?;
    state.notes = map(notes, digits, note)?;
    let stored = map(errors, digits, |value| bytes(value).map(<[u8]>::to_vec))?;
    for (id, stored) in stored {
        let record = match is_stub(&stored) {
            true => long_records.remove(&id),
            false => Some(stored),
        };
        let record = record.and_then(|record| encoding::read_record(&record, between));
        let record = record.ok_or_else(|| strange("errors", errors))?;
        state.errors.insert(id, record);
    }
    if !long_records.is_empty() {
        return Err(format!("no stub stands for {:?}", long_records.keys()));
    }
    state.held = map(held, digits, slot_of)?;
    let names = ["done", "failed", "foreign", "retried", "dropped", "void"];
    let stats = fields("stats", stats, names)?.map(|stat| stat.map_or(Ok(0), number));
    let [done, failed, foreign, retried, dropped, void] = stats;
    (state.done, state.failed) = (done?, failed?);
    (state.foreign, state.retried) = (foreign?, retried?);
    (state.dropped, state.void) = (dropped?, void?);
    state.ledger = list(ledger, ledger_entry)?;
    read_ids_of(state, ids)
}

fn read_parked(hash: &Value) -> Result<BTreeMap<ParcelField, Text>, String> {
    let pairs = elements(hash).as_chunks::<2>().0.iter();
    let pairs = pairs.map(|[name, value]| {
        let parked = encoding::read_parcel(text(name)?, bytes(value)?);
        parked.ok_or_else(|| strange("parked", hash))
    });
    pairs.collect()
}

/// Reads `errors_ids`. Its field `free` is a hint, which must not hide a record.
fn read_ids_of(state: &mut State, ids: &Value) -> Result<(), String> {
    let [last, free] = fields("errors_ids", ids, ["last", "free"])?;
    state.last_id = last.map_or(Ok(0), number)?;
    let free = free.map_or(Ok(1), number)?;
    let hides = state.free_ids().next().is_some_and(|id| id < free);
    match hides || free > state.last_id + 1 {
        true => Err(format!("no search finds {:?} from {free} on", state.errors)),
        false => Ok(()),
    }
}

fn read_unmodelled(meta: &Value, fence: &Value) -> Result<Unmodelled, String> {
    let mut fields_of_fence = elements(fence).as_chunks::<2>().0.iter();
    let born = fields_of_fence.find(|[name, _]| bytes(name) == Ok(b"born"));
    let born = born.map(|[_, word]| text(word)).transpose()?;
    Ok(Unmodelled {
        protocol: match fields("meta", meta, ["protocol", "partitions"])? {
            [None, None] => false,
            [Some(version), Some(count)] if (bytes(version)?, bytes(count)?) == (b"1", b"1") => {
                true
            }
            _ => return Err(strange("meta", meta)),
        },
        born: born.map(str::to_owned),
    })
}

/// Reads who is present: subscribed to the presence channel and to the ring channel of this server.
/// `heard` are the answers to the publishes there.
fn read_presence(counts: &Value, heard: &[Value]) -> Result<u32, String> {
    let mut present = 0;
    let counted = elements(counts).as_chunks::<2>().0.iter();
    for (node, ([_, count], heard)) in counted.zip(heard).enumerate() {
        match (count, heard) {
            (Value::Int(0), Value::Int(0)) => {}
            (Value::Int(1), Value::Int(1)) => present |= 1 << node,
            _ => return Err(format!("n{node}: {count:?} present, {heard:?} heard")),
        }
    }
    Ok(present)
}

fn read_run_id_of(value: &Value) -> Result<RunId, String> {
    match text(value)?.split_once(' ') {
        Some((run_id, crate::real_fleet::ABOUT)) => read_run_id(run_id),
        _ => Err(strange("nodes", value)),
    }
}

fn takeover(value: &Value) -> Result<Takeover, String> {
    let strange = || strange("takeovers", value);
    let words: Vec<&str> = text(value)?.split(' ').collect();
    let [epoch, node, at, gap, how, from] = words[..] else {
        return Err(strange());
    };
    let number = |word| digits(word).ok_or_else(strange);
    let node_of = |name| encoding::read_node(name).ok_or_else(strange);
    Ok(Takeover {
        epoch: number(epoch)?,
        node: node_of(node)?,
        at: number(at)? as Ms,
        gap: number(gap)? as Ms,
        how: match how {
            "first" => How::First,
            "resigned" => How::Resigned,
            "gone" => How::Gone,
            "expired" => How::Expired,
            "raised" => How::Raised,
            _ => return Err(strange()),
        },
        from: match from {
            "" => None,
            from => Some(node_of(from)?),
        },
    })
}

fn read_fence(hash: &Value) -> Result<Fence, String> {
    let names = [
        "node",
        "epoch",
        "last",
        "cursor",
        "born",
        "generator_paused",
        "workers_paused",
        "known",
    ];
    let [node, epoch, last, cursor, born, generator, workers, known] =
        fields("fence", hash, names)?;
    Ok(Fence {
        node: node.map(node_of).transpose()?,
        epoch: epoch.map_or(Ok(0), number)?,
        last: last.map_or(Ok(0), number)?,
        cursor: cursor.map_or(Ok(0), number)?,
        born: born.is_some(),
        known: known.map_or(Ok(0), number)?,
        paused: Paused {
            generator: generator.map(time_of).transpose()?,
            workers: workers.map(time_of).transpose()?,
        },
    })
}

fn entry(value: &Value) -> Result<Entry, String> {
    encoding::read_entry(bytes(value)?).ok_or_else(|| strange("queue", value))
}

fn note(value: &Value) -> Result<Note, String> {
    encoding::read_note(bytes(value)?).ok_or_else(|| strange("notes", value))
}

/// Whether something stands for a long record.
fn is_stub(stored: &[u8]) -> bool {
    stored.starts_with(b"long ")
}

/// The bytes of a long record, which does not expire.
fn lasting(value: &Value) -> Result<Vec<u8>, String> {
    match elements(value) {
        [stored, Value::Int(-1)] => Ok(bytes(stored)?.to_vec()),
        _ => Err(strange("a long record", value)),
    }
}

/// A call that was answered leaves no staged record.
fn check_staged_records(staged: &Value) -> Result<(), String> {
    match is_empty(staged) {
        true => Ok(()),
        false => Err(strange("a staged record", staged)),
    }
}

/// Reads the bytes of a pack and its time to live. Only a staged pack expires.
fn pack(value: &Value, is_staged: bool) -> Result<Pack, String> {
    let [stored, Value::Int(ttl)] = elements(value) else {
        return Err(strange("a pack", value));
    };
    if (*ttl > 0) != is_staged {
        return Err(strange("a pack", value));
    }
    encoding::read_pack(bytes(stored)?).ok_or_else(|| strange("packs", value))
}

fn slot_of(value: &Value) -> Result<Slot, String> {
    encoding::read_slot(text(value)?).ok_or_else(|| strange("errors_held", value))
}

fn claim(value: &Value) -> Result<Claim, String> {
    let strange = || strange("claims", value);
    let mut parts = bytes(value)?.splitn(4, |byte| *byte == b' ');
    let mut part = || parts.next().ok_or_else(strange);
    let (kind, number, run_id, body) = (part()?, part()?, part()?, part()?);
    let word = |bytes| str::from_utf8(bytes).map_err(|_| strange());
    let body = match kind {
        b"m" => encoding::read_range(word(body)?).map(Body::Messages),
        b"e" => read_ids(body).map(Body::Records),
        _ => None,
    };
    Ok(Claim {
        number: digits(word(number)?).ok_or_else(strange)?,
        run_id: read_run_id(word(run_id)?)?,
        body: body.ok_or_else(strange)?,
    })
}

fn ended_claim(value: &Value) -> Result<EndedClaim, String> {
    let numbers: Option<Vec<u64>> = text(value)?.split(' ').map(digits).collect();
    match numbers.as_deref() {
        Some([number, first, last, seconds]) => Ok(EndedClaim {
            number: *number,
            first: *first,
            last: *last,
            at: *seconds as Ms * 1000,
        }),
        _ => Err(strange("workers", value)),
    }
}

fn ledger_entry(value: &Value) -> Result<LedgerEntry, String> {
    let entry = StoredEntry::parse(text(value)?).ok_or_else(|| strange("ledger", value))?;
    let right = |digest, first, last| match digest == encoding::digest(first, last) {
        true => Ok(()),
        false => Err(strange("ledger", value)),
    };
    match entry {
        StoredEntry::Published {
            epoch,
            first,
            last,
            digest,
            ..
        } => {
            right(digest, first, last)?;
            Ok(LedgerEntry::Published { epoch, first, last })
        }
        StoredEntry::Void { first, last, .. } => Ok(LedgerEntry::Void { first, last }),
        StoredEntry::Retried { seq, .. } => Ok(LedgerEntry::Retried { seq }),
        StoredEntry::Delayed { seq, .. } => Ok(LedgerEntry::Delayed { seq }),
        StoredEntry::Ended {
            slot,
            first,
            last,
            failed,
            digest,
            ..
        } => {
            digest.map_or(Ok(()), |digest| right(digest, first, last))?;
            let slot: Slot = encoding::read_slot(&slot).ok_or_else(|| strange("ledger", value))?;
            let handled = digest.is_some();
            Ok(LedgerEntry::Ended {
                slot,
                first,
                last,
                failed,
                handled,
            })
        }
    }
}
