//! The whole state of a fleet, read from Redis key by key.
//!
//! Anything that no script of ours writes is an error: a field too many, a number with a
//! leading zero, a key that nobody knows.

use std::collections::BTreeMap;

use baton_model::state::{
    Body, Claim, Entry, Fence, How, Id, Lease, Line, Ms, Node, Pack, Run, Settled, Slot, State,
    Takeover,
};
use baton_protocol::{Entry as LedgerEntry, Keys};

use crate::event::Beside;
use crate::raw::Value;
use crate::words;

/// Nodes that may be present.
const NODES: Node = 10;

/// What was seen, and when.
pub(crate) struct Look {
    /// Redis's clock in ms.
    pub(crate) at: Ms,
    pub(crate) state: State,
    pub(crate) beside: Beside,
}

/// Where the application of these fleets keeps its data.
pub(crate) struct App {
    /// A counter, to which commits add.
    pub(crate) counter: String,
    /// A list, to which nothing can be added.
    pub(crate) list: String,
}

/// All that there is to ask.
pub(crate) fn questions(keys: &Keys, app: &App) -> redis::Pipeline {
    let mut pipe = redis::pipe();
    pipe.cmd("TIME").cmd("DBSIZE");
    for (key, kind) in keys.typed() {
        match kind {
            "hash" => pipe.cmd("HGETALL").arg(key),
            "zset" => pipe.cmd("ZRANGE").arg(key).arg(&[0, -1]).arg("WITHSCORES"),
            _ => pipe.cmd("LRANGE").arg(key).arg(&[0, -1]),
        };
    }
    pipe.cmd("GET").arg(&app.counter);
    pipe.cmd("LRANGE").arg(&app.list).arg(&[0, -1]);
    let presence = (0..NODES).map(|node| format!("{}{}", keys.presence, words::node(node)));
    pipe.cmd("PUBSUB")
        .arg("NUMSUB")
        .arg(presence.collect::<Vec<_>>());
    pipe
}

/// Reads the answers. `since` is when the sequence began; `run` the run of the server.
pub(crate) fn read(answers: &[Value], run: Run, since: Ms) -> Result<Look, String> {
    let [
        time,
        keys,
        generator,
        nodes,
        joined,
        seen,
        meta,
        takeovers,
        fence,
        queue,
        packs,
        left,
        bell,
        claims,
        deadlines,
        workers,
        errors,
        held,
        ids,
        stats,
        ledger,
        counter,
        list,
        presence,
    ] = answers
    else {
        return Err(format!("{} answers", answers.len()));
    };
    let all = [
        generator, nodes, joined, seen, meta, takeovers, fence, queue, packs, left, bell, claims,
        deadlines, workers, errors, held, ids, stats, ledger, counter, list,
    ];
    let filled = all.iter().filter(|value| !is_empty(value)).count();
    if *keys != Value::Int(filled as i64) {
        return Err(format!("{filled} keys are known, there are {keys:?}"));
    }
    let [seconds, micros] = elements(time) else {
        return Err(format!("TIME: {time:?}"));
    };
    let at = (number(seconds)? * 1000 + number(micros)? / 1000) as Ms;
    let between = (since as u64, at as u64);
    let record = |value: &Value| {
        let record = words::read_record(bytes(value)?, between);
        record.ok_or_else(|| strange("errors", value))
    };

    let mut stats = fields("stats", stats, ["done", "failed", "foreign", "retried"])?.into_iter();
    let mut stat = || stats.next().flatten().map_or(Ok(0), number);
    let mut state = State {
        run,
        present: read_presence(presence)?,
        nodes: map(nodes, words::read_node, read_run_of)?,
        joined: map(joined, words::read_node, time_of)?,
        seen: map(seen, words::read_node, time_of)?,
        takeovers: elements(takeovers)
            .iter()
            .map(takeover)
            .collect::<Result<_, _>>()?,
        fence: read_fence(fence)?,
        queue: elements(queue)
            .iter()
            .map(entry)
            .collect::<Result<_, _>>()?,
        packs: map(packs, seq, pack)?,
        left: map(left, seq, number)?,
        claims: map(claims, words::read_slot, claim)?,
        deadlines: map(deadlines, words::read_slot, time_of)?,
        workers: map(workers, words::read_slot, settled)?,
        errors: map(errors, seq, record)?,
        held: map(held, seq, slot_of)?,
        done: stat()?,
        failed: stat()?,
        foreign: stat()?,
        retried: stat()?,
        bell: match elements(bell) {
            [] => false,
            [token] if bytes(token)? == b"1" => true,
            _ => return Err(strange("bell", bell)),
        },
        ledger: elements(ledger)
            .iter()
            .map(line)
            .collect::<Result<_, _>>()?,
        effects: if is_empty(counter) {
            0
        } else {
            number(counter)?
        },
        ..State::default()
    };
    let [last, free] = fields("errors_ids", ids, ["last", "free"])?;
    state.last_id = last.map_or(Ok(0), number)?;
    // A hint of which the model knows only what it must not do: hide a record.
    let free = free.map_or(Ok(1), number)?;
    if state.free_ids().next().is_some_and(|id| id < free) || free > state.last_id + 1 {
        return Err(format!("no search finds {:?} from {free} on", state.errors));
    }
    if elements(list).len() != 1 {
        return Err(strange("the application's list", list));
    }
    let beside = Beside {
        protocol: match fields("meta", meta, ["protocol"])? {
            [None] => false,
            [Some(version)] if bytes(version)? == b"1" => true,
            _ => return Err(strange("meta", meta)),
        },
        born: {
            let named = elements(fence).as_chunks::<2>().0.iter();
            let mut born = named.filter(|[name, _]| bytes(name) == Ok(b"born"));
            born.next()
                .map(|[_, word]| text(word))
                .transpose()?
                .map(str::to_owned)
        },
    };
    let [node, epoch, until, since, run] = fields(
        "generator",
        generator,
        ["node", "epoch", "until", "since", "run"],
    )?;
    state.lease = Lease {
        node: node.map(node_of).transpose()?,
        epoch: epoch.map_or(Ok(0), number)?,
        until: until.map_or(Ok(0), time_of)?,
        run: run.map_or(Ok(0), |run| read_run(text(run)?))?,
        since: since.map(time_of).transpose()?,
    };
    Ok(Look { at, state, beside })
}

fn strange(what: &str, value: &Value) -> String {
    format!("{what} holds {value:?}")
}

fn is_empty(value: &Value) -> bool {
    matches!(value, Value::Nil) || matches!(value, Value::Array(values) if values.is_empty())
}

fn elements(value: &Value) -> &[Value] {
    match value {
        Value::Array(values) => values,
        _ => &[],
    }
}

fn bytes(value: &Value) -> Result<&[u8], String> {
    match value {
        Value::Text(bytes) => Ok(bytes),
        _ => Err(format!("{value:?} is not a text")),
    }
}

fn text(value: &Value) -> Result<&str, String> {
    str::from_utf8(bytes(value)?).map_err(|_| format!("{value:?} is not UTF-8"))
}

/// A number as our scripts write it.
fn digits(word: &str) -> Option<u64> {
    let padded = word.len() > 1 && word.starts_with('0');
    word.parse()
        .ok()
        .filter(|_| !padded && !word.starts_with('+'))
}

fn number(value: &Value) -> Result<u64, String> {
    digits(text(value)?).ok_or_else(|| format!("{value:?} is not a number"))
}

fn time_of(value: &Value) -> Result<Ms, String> {
    Ok(number(value)? as Ms)
}

fn node_of(value: &Value) -> Result<Node, String> {
    words::read_node(text(value)?).ok_or_else(|| format!("{value:?} is not a node"))
}

fn seq(word: &str) -> Option<u64> {
    digits(word)
}

fn read_run(word: &str) -> Result<Run, String> {
    let run = Run::from_str_radix(word, 16).ok();
    run.filter(|_| word.len() == 8)
        .ok_or_else(|| format!("{word:?} is not a run"))
}

/// The ids of a drain's claim.
fn read_ids(body: &[u8]) -> Option<Vec<Id>> {
    let ids = str::from_utf8(body).ok()?.split(' ');
    ids.map(digits).collect()
}

/// The fields of a hash that has no others.
fn fields<'a, const N: usize>(
    key: &str,
    hash: &'a Value,
    names: [&str; N],
) -> Result<[Option<&'a Value>; N], String> {
    let mut found = [None; N];
    for [name, value] in elements(hash).as_chunks::<2>().0 {
        match names
            .iter()
            .position(|known| known.as_bytes() == bytes(name).unwrap_or_default())
        {
            Some(at) => found[at] = Some(value),
            None => return Err(strange(key, hash)),
        }
    }
    Ok(found)
}

/// A hash or a sorted set.
fn map<K: Ord, V>(
    pairs: &Value,
    key: impl Fn(&str) -> Option<K>,
    value: impl Fn(&Value) -> Result<V, String>,
) -> Result<BTreeMap<K, V>, String> {
    let pairs = elements(pairs).as_chunks::<2>().0.iter();
    let pairs = pairs.map(|[name, of]| {
        let name = text(name)?;
        let key = key(name).ok_or_else(|| format!("{name:?} is not a name of ours"))?;
        Ok((key, value(of)?))
    });
    pairs.collect()
}

fn read_presence(counts: &Value) -> Result<u32, String> {
    let mut present = 0;
    for (node, [_, count]) in elements(counts).as_chunks::<2>().0.iter().enumerate() {
        match count {
            Value::Int(0) => {}
            Value::Int(1) => present |= 1 << node,
            _ => return Err(strange("presence", counts)),
        }
    }
    Ok(present)
}

fn read_run_of(value: &Value) -> Result<Run, String> {
    match text(value)?.split_once(' ') {
        Some((run, crate::real::ABOUT)) => read_run(run),
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
    let node_of = |name| words::read_node(name).ok_or_else(strange);
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
    let names = ["node", "epoch", "last", "cursor", "born"];
    let [node, epoch, last, cursor, born] = fields("fence", hash, names)?;
    Ok(Fence {
        node: node.map(node_of).transpose()?,
        epoch: epoch.map_or(Ok(0), number)?,
        last: last.map_or(Ok(0), number)?,
        cursor: cursor.map_or(Ok(0), number)?,
        born: born.is_some(),
    })
}

fn entry(value: &Value) -> Result<Entry, String> {
    let foreign = words::read_foreign(bytes(value)?).map(Entry::Foreign);
    let range = || words::read_range(text(value).ok()?).map(Entry::Range);
    foreign
        .or_else(range)
        .ok_or_else(|| strange("queue", value))
}

fn pack(value: &Value) -> Result<Pack, String> {
    let bytes = bytes(value)?;
    let texts = words::read_pack(bytes).ok_or_else(|| strange("packs", value))?;
    Ok(Pack {
        texts,
        bytes: bytes.len() as u64,
    })
}

fn slot_of(value: &Value) -> Result<Slot, String> {
    words::read_slot(text(value)?).ok_or_else(|| strange("errors_held", value))
}

fn claim(value: &Value) -> Result<Claim, String> {
    let strange = || strange("claims", value);
    let mut parts = bytes(value)?.splitn(4, |byte| *byte == b' ');
    let mut part = || parts.next().ok_or_else(strange);
    let (kind, number, run, body) = (part()?, part()?, part()?, part()?);
    let word = |bytes| str::from_utf8(bytes).map_err(|_| strange());
    let body = match kind {
        b"m" => words::read_range(word(body)?).map(Body::Messages),
        b"e" => read_ids(body).map(Body::Records),
        _ => None,
    };
    Ok(Claim {
        number: digits(word(number)?).ok_or_else(strange)?,
        run: read_run(word(run)?)?,
        body: body.ok_or_else(strange)?,
    })
}

fn settled(value: &Value) -> Result<Settled, String> {
    let numbers: Option<Vec<u64>> = text(value)?.split(' ').map(digits).collect();
    match numbers.as_deref() {
        Some([number, first, last, seconds]) => Ok(Settled {
            number: *number,
            first: *first,
            last: *last,
            at: *seconds as Ms * 1000,
        }),
        _ => Err(strange("workers", value)),
    }
}

fn line(value: &Value) -> Result<Line, String> {
    let entry = LedgerEntry::parse(text(value)?).ok_or_else(|| strange("ledger", value))?;
    let right = |digest, first, last| match digest == words::digest(first, last) {
        true => Ok(()),
        false => Err(strange("ledger", value)),
    };
    match entry {
        LedgerEntry::Published {
            epoch,
            first,
            last,
            digest,
            ..
        } => {
            right(digest, first, last)?;
            Ok(Line::Published { epoch, first, last })
        }
        LedgerEntry::Retried { seq, .. } => Ok(Line::Retried { seq }),
        LedgerEntry::Ended {
            slot,
            first,
            last,
            failed,
            digest,
            ..
        } => {
            digest.map_or(Ok(()), |digest| right(digest, first, last))?;
            let slot: Slot = words::read_slot(&slot).ok_or_else(|| strange("ledger", value))?;
            let handled = digest.is_some();
            Ok(Line::Ended {
                slot,
                first,
                last,
                failed,
                handled,
            })
        }
    }
}
