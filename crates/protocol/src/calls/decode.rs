//! Decodes the answers of all calls. The calls are elsewhere, so that tests can decode hostile
//! answers.

mod fleet_state;

use std::collections::HashSet;
use std::time::Duration;

use redis::Value;

use super::answer::{array, bytes, exact, number, pairs, string, strings, unexpected, worded};
use super::{
    Beat, Claim, ClaimedPack, Commit, ErrorsClaim, ErrorsCommit, Extend, Fence, GiveBack, PROTOCOL,
    Park, Paused, Progress, Publish, Reclaimed, Seal, Settled,
};
use crate::bounds::MAX_PARTITIONS;
use crate::encoding::note::Note;
use crate::encoding::pack::Range;
use crate::encoding::parcel::Parcel;
use crate::error::says_not_executed;
use crate::keys::{FleetName, Keys};
use crate::server_info::ServerInfo;
use crate::{Error, FailedPreview, record, scripts};

pub use crate::encoding::takeover::parse as takeover;
pub use crate::error::classify as error;
pub use fleet_state::{census, fleet_state, now_ms, partition_state, roster};

/// Decodes the answer to `beat`.
pub fn beat(fleet: &FleetName, ours: u32, answer: &Value) -> Result<Beat, Error> {
    let call = scripts::BEAT.name;
    let millis = |value| Ok::<_, Error>(Duration::from_millis(number(call, value)?));
    match worded(call, answer)? {
        (b"generator", [epoch, next, now, standbys, last]) => Ok(Beat::Generator {
            epoch: number(call, epoch)?,
            next: millis(next)?,
            now_ms: number(call, now)?,
            standbys: number(call, standbys)?,
            last: number(call, last)?,
        }),
        (b"worker", [generator, epoch, next, now, place, last]) => Ok(Beat::Worker {
            generator: string(call, generator)?,
            epoch: number(call, epoch)?,
            next: millis(next)?,
            now_ms: number(call, now)?,
            place: number(call, place)?,
            last: number(call, last)?,
        }),
        (b"protocol", [theirs]) => Err(foreign_protocol(fleet, string(call, theirs)?)),
        (b"partitions", [theirs]) => {
            let theirs = partition_count(&Keys::new(fleet).meta, &string(call, theirs)?)?;
            Err(other_partitions(fleet, theirs, ours))
        }
        _ => Err(unexpected(call, answer)),
    }
}

/// The error of a node that asks for `ours` partitions where the fleet has `theirs`.
pub(super) fn other_partitions(fleet: &FleetName, theirs: u32, ours: u32) -> Error {
    let fleet = fleet.as_str().to_owned();
    Error::Partitions {
        fleet,
        theirs,
        ours,
    }
}

/// Decodes `protocol` and `partitions` of a fleet: how many partitions it has, if there is a fleet.
pub(super) fn stored_partitions(key: &str, answer: &Value) -> Result<Option<u32>, Error> {
    match array("HMGET", answer)? {
        [Value::Nil, Value::Nil] => Ok(None),
        [_, Value::Nil] => Ok(Some(1)),
        [_, stored] => partition_count(key, &string("HMGET", stored)?).map(Some),
        _ => Err(unexpected("HMGET", answer)),
    }
}

/// A number of partitions that a fleet can have.
fn partition_count(key: &str, stored: &str) -> Result<u32, Error> {
    let count = stored.parse().ok();
    count
        .filter(|count| (1..=MAX_PARTITIONS).contains(count))
        .ok_or_else(|| {
            Error::Refused(format!(
                "BADVALUE {key} partitions is {stored:?}: a fleet has 1 to {MAX_PARTITIONS}"
            ))
        })
}

/// Decodes the answer to `park`.
pub fn park(answer: &Value) -> Result<Park, Error> {
    let call = scripts::PARK.name;
    match worded(call, answer)? {
        (b"ok", []) => Ok(Park::Ok),
        (b"fenced", [node, epoch]) => Ok(Park::Fenced {
            node: string(call, node)?,
            epoch: number(call, epoch)?,
        }),
        _ => Err(unexpected(call, answer)),
    }
}

/// Decodes the packs that are parked in a partition.
pub fn parked(answer: &Value) -> Result<Vec<Parcel>, Error> {
    let mut parcels = Vec::new();
    for (_, value) in pairs("HGETALL", answer)? {
        parcels.extend(Parcel::decode(bytes("HGETALL", value)?));
    }
    Ok(parcels)
}

/// Decodes the answer to `ring`.
pub fn ring(answer: &Value) -> Result<(), Error> {
    let call = scripts::RING.name;
    match worded(call, answer)? {
        (b"ok", []) => Ok(()),
        _ => Err(unexpected(call, answer)),
    }
}

/// Decodes the answer to `tell`: the last number of the partition.
pub fn tell(answer: &Value) -> Result<u64, Error> {
    let call = scripts::TELL.name;
    match worded(call, answer)? {
        (b"ok", [last]) => number(call, last),
        _ => Err(unexpected(call, answer)),
    }
}

/// Decodes the answer to `leave`: whether the node held the lease.
pub fn leave(answer: &Value) -> Result<bool, Error> {
    let call = scripts::LEAVE.name;
    match worded(call, answer)? {
        (b"resigned", []) => Ok(true),
        (b"left", []) => Ok(false),
        _ => Err(unexpected(call, answer)),
    }
}

/// Decodes the answer to `free`: which node held the lease that was freed.
pub fn free(answer: &Value) -> Result<Option<String>, Error> {
    let call = scripts::FREE.name;
    match worded(call, answer)? {
        (b"freed", [holder]) => Ok(Some(string(call, holder)?)),
        (b"kept", []) => Ok(None),
        _ => Err(unexpected(call, answer)),
    }
}

/// Decodes the answer to `forget`.
pub fn forget(answer: &Value) -> Result<Vec<String>, Error> {
    strings(scripts::FORGET.name, answer)
}

/// Decodes the answer to `seal`. `fence` is its key, for the error.
pub fn seal(fence: &str, answer: &Value) -> Result<Seal, Error> {
    let call = scripts::SEAL.name;
    match worded(call, answer)? {
        (b"sealed", [last, cursor, known, made]) => Ok(Seal::Sealed {
            last: number(call, last)?,
            cursor: bytes(call, cursor)?.to_vec(),
            known: number(call, known)?,
            made: read_made(call, fence, made)?,
        }),
        (b"fenced", [node, epoch]) => Ok(Seal::Fenced {
            node: string(call, node)?,
            epoch: number(call, epoch)?,
        }),
        _ => Err(unexpected(call, answer)),
    }
}

/// What the fleet had made; nothing if the text is empty.
fn read_made(call: &'static str, fence: &str, made: &Value) -> Result<Progress, Error> {
    match string(call, made)?.as_str() {
        "" => Ok(Progress::default()),
        text => Progress::parse(text).ok_or_else(|| {
            Error::Refused(format!(
                "BADVALUE {fence} made holds {text:?}, which is not two numbers"
            ))
        }),
    }
}

/// Decodes the answer to `fence`.
pub fn fence(answer: &Value) -> Result<Fence, Error> {
    let call = "HMGET fence";
    let count = |value: &Value| match value {
        Value::Nil => Ok(0),
        value => number(call, value),
    };
    match array(call, answer)? {
        [node, epoch, last] => Ok(Fence {
            node: match node {
                Value::Nil => String::new(),
                node => string(call, node)?,
            },
            epoch: count(epoch)?,
            last: count(last)?,
        }),
        _ => Err(unexpected(call, answer)),
    }
}

/// Decodes the answer to `publish` or `void`.
pub fn publish(call: &'static str, answer: &Value) -> Result<Publish, Error> {
    match worded(call, answer)? {
        (b"ok", [waiting]) => Ok(Publish::Ok {
            waiting: number(call, waiting)?,
        }),
        (b"already", [last]) => Ok(Publish::Already {
            last: number(call, last)?,
        }),
        (b"gap", [last]) => Ok(Publish::Gap {
            last: number(call, last)?,
        }),
        (b"fenced", [node, epoch]) => Ok(Publish::Fenced {
            node: string(call, node)?,
            epoch: number(call, epoch)?,
        }),
        (b"paused", []) => Ok(Publish::Paused),
        (b"full", [open]) => Ok(Publish::Full {
            open: number(call, open)?,
        }),
        (b"missing", []) => Ok(Publish::Missing),
        _ => Err(unexpected(call, answer)),
    }
}

/// Decodes the answer to `claim`.
pub fn claim(answer: &Value) -> Result<Claim, Error> {
    let call = scripts::CLAIM.name;
    match worded(call, answer)? {
        (b"claimed", [range, born, pack]) => {
            let range =
                Range::parse(&string(call, range)?).ok_or_else(|| unexpected(call, range))?;
            Ok(Claim::Claimed {
                range,
                pack: ClaimedPack::read(&string(call, born)?, bytes(call, pack)?),
            })
        }
        (b"empty", []) => Ok(Claim::Empty),
        (b"paused", []) => Ok(Claim::Paused),
        (b"stale", []) => Ok(Claim::Stale),
        (b"held", [held]) => Ok(Claim::Held {
            number: number(call, held)?,
        }),
        _ => Err(unexpected(call, answer)),
    }
}

/// Decodes the answer to `pause`: what was paused before.
pub fn pause(answer: &Value) -> Result<Paused, Error> {
    let call = scripts::PAUSE.name;
    let since = |value: &Value| match bytes(call, value)? {
        b"" => Ok(None),
        _ => number(call, value).map(Some),
    };
    match worded(call, answer)? {
        (b"ok", [generator, workers]) => Ok(Paused {
            generator_since_ms: since(generator)?,
            workers_since_ms: since(workers)?,
        }),
        _ => Err(unexpected(call, answer)),
    }
}

/// Decodes a pack; none if it is missing, or if its key has another type.
pub fn pack(answer: Result<Value, Error>) -> Result<Option<Vec<u8>>, Error> {
    match answer {
        Ok(Value::BulkString(pack)) => Ok(Some(pack)),
        Ok(Value::Nil) => Ok(None),
        Ok(answer) => Err(unexpected("GET", &answer)),
        Err(Error::Refused(why)) if why.starts_with("WRONGTYPE") => Ok(None),
        Err(error) => Err(error),
    }
}

/// Decodes the answer to `extend`.
pub fn extend(answer: &Value) -> Result<Vec<Extend>, Error> {
    let call = scripts::EXTEND.name;
    let words = array(call, answer)?.iter();
    words
        .map(|word| match bytes(call, word)? {
            b"held" => Ok(Extend::Held),
            b"lost" => Ok(Extend::Lost),
            _ => Err(unexpected(call, answer)),
        })
        .collect()
}

/// Decodes the answer to `commit`; none if a long record is not where its stub says.
pub fn commit(answer: &Value) -> Result<Option<Commit>, Error> {
    let call = scripts::COMMIT.name;
    Ok(Some(match worded(call, answer)? {
        (b"missing", []) => return Ok(None),
        (b"done", []) => Commit::Done,
        (b"already", []) => Commit::Already,
        (b"lost", []) => Commit::Lost,
        (b"full", [records]) => Commit::Full {
            records: number(call, records)?,
        },
        (b"refused", [reason]) => Commit::Refused {
            reason: string(call, reason)?,
        },
        _ => return Err(unexpected(call, answer)),
    }))
}

/// Decodes the answer to `give_back`.
pub fn give_back(answer: &Value) -> Result<GiveBack, Error> {
    let call = scripts::GIVE_BACK.name;
    match worded(call, answer)? {
        (b"ok", []) => Ok(GiveBack::Ok),
        (b"lost", []) => Ok(GiveBack::Lost),
        _ => Err(unexpected(call, answer)),
    }
}

/// Decodes the answer to `reclaim`.
pub fn reclaim(answer: &Value) -> Result<Reclaimed, Error> {
    let call = scripts::RECLAIM.name;
    match worded(call, answer)? {
        (b"reclaimed", [messages, records, woken, next_due, nodes @ ..]) => Ok(Reclaimed {
            messages: number(call, messages)?,
            records: number(call, records)?,
            woken: number(call, woken)?,
            next_due: match bytes(call, next_due)? {
                b"" => None,
                _ => Some(Duration::from_millis(number(call, next_due)?)),
            },
            nodes: nodes
                .iter()
                .map(|node| string(call, node))
                .collect::<Result<_, _>>()?,
        }),
        _ => Err(unexpected(call, answer)),
    }
}

/// Decodes the number of a claim from what `claims` holds for its slot; none if it holds nothing, or if no
/// script wrote it.
pub fn claim_number(value: &Value) -> Result<Option<u64>, Error> {
    if *value == Value::Nil {
        return Ok(None);
    }
    let claim = str::from_utf8(bytes("HGET", value)?).unwrap_or_default();
    Ok(claim.split(' ').nth(1).and_then(exact))
}

/// Decodes a note; none if it is missing, or if no worker wrote it.
pub fn note(answer: &Value) -> Result<Option<Note>, Error> {
    match answer {
        Value::Nil => Ok(None),
        answer => Ok(Note::decode(bytes("HGET", answer)?)),
    }
}

/// Decodes the answer to `errors_claim`.
pub fn errors_claim(answer: &Value) -> Result<ErrorsClaim, Error> {
    let call = scripts::ERRORS_CLAIM.name;
    match worded(call, answer)? {
        (b"claimed", ids) => {
            let ids = ids.iter().map(|id| number(call, id));
            Ok(ErrorsClaim::Claimed(ids.collect::<Result<_, _>>()?))
        }
        (b"again", []) => Ok(ErrorsClaim::Again),
        (b"empty", []) => Ok(ErrorsClaim::Empty),
        (b"stale", []) => Ok(ErrorsClaim::Stale),
        _ => Err(unexpected(call, answer)),
    }
}

/// Decodes the answer to `errors_commit`.
pub fn errors_commit(answer: &Value) -> Result<ErrorsCommit, Error> {
    let call = scripts::ERRORS_COMMIT.name;
    match worded(call, answer)? {
        (b"done", []) => Ok(ErrorsCommit::Done),
        (b"already", []) => Ok(ErrorsCommit::Already),
        (b"lost", []) => Ok(ErrorsCommit::Lost),
        _ => Err(unexpected(call, answer)),
    }
}

/// Decodes the answer to `errors_settle`.
pub fn errors_settle(answer: &Value) -> Result<Vec<Settled>, Error> {
    let call = scripts::ERRORS_SETTLE.name;
    let words = array(call, answer)?.iter();
    words
        .map(|word| match bytes(call, word)? {
            b"dropped" => Ok(Settled::Dropped),
            b"retried" => Ok(Settled::Retried),
            b"missing" => Ok(Settled::Missing),
            b"unfit" => Ok(Settled::Unfit),
            _ => Err(unexpected(call, answer)),
        })
        .collect()
}

/// Decodes the answer to `newest`.
pub fn newest(answer: &Value) -> Result<Vec<FailedPreview>, Error> {
    let call = scripts::NEWEST.name;
    let pairs = array(call, answer)?.as_chunks::<2>().0.iter();
    pairs
        .map(|[length, record]| {
            let (length, record) = (number(call, length)?, bytes(call, record)?);
            Ok(record::preview(record, length))
        })
        .collect()
}

/// Decodes a long record; none if it is missing, or if its key has another type.
pub fn long_record(answer: Result<Value, Error>) -> Result<Option<Vec<u8>>, Error> {
    match answer {
        Ok(Value::Nil) => Ok(None),
        Ok(value) => Ok(Some(bytes("HGET", &value)?.to_vec())),
        Err(Error::Refused(why)) if why.contains("WRONGTYPE") => Ok(None),
        Err(error) => Err(error),
    }
}

/// Decodes values of a hash; none for a missing field.
pub fn records(answer: &Value) -> Result<Vec<Option<Vec<u8>>>, Error> {
    let call = "HMGET";
    let values = array(call, answer)?.iter();
    values
        .map(|value| match value {
            Value::Nil => Ok(None),
            value => Ok(Some(bytes(call, value)?.to_vec())),
        })
        .collect()
}

/// Decodes the highest id, and the id at which the search for the oldest record begins. The second
/// is a hint: if it is no number, or above the highest id, the search begins at 1.
pub fn error_ids(answer: &Value) -> Result<(u64, u64), Error> {
    let call = "HMGET";
    let [last, free] = array(call, answer)? else {
        return Err(unexpected(call, answer));
    };
    let last = match last {
        Value::Nil => 0,
        last => number(call, last)?,
    };
    let free = number(call, free).ok();
    let free = free.filter(|free| (1..=last + 1).contains(free));
    Ok((last, free.unwrap_or(1)))
}

/// Who holds records of the errors store.
#[derive(Debug, PartialEq, Eq)]
pub struct Holders {
    /// How many records drains hold that live.
    pub living: u64,
    /// The ids of the records that dead drains hold, in order.
    pub abandoned: Vec<u64>,
}

/// Decodes who holds records; `presence` is the prefix of the presence channels.
pub fn holders(presence: &str, answers: &[Value]) -> Result<Holders, Error> {
    let call = "HGETALL";
    let [held, channels] = answers else {
        return Err(unexpected(call, answers));
    };
    let channels = strings(call, channels)?;
    let present: HashSet<&str> = channels
        .iter()
        .filter_map(|channel| channel.strip_prefix(presence))
        .collect();
    let (mut living, mut abandoned) = (0, Vec::new());
    for (id, slot) in pairs(call, held)? {
        let slot = string(call, slot)?;
        match slot.rsplit_once(':') {
            Some((node, _)) if present.contains(node) => living += 1,
            // An id that is no number names no record.
            _ => abandoned.extend(number(call, id).ok()),
        }
    }
    abandoned.sort_unstable();
    Ok(Holders { living, abandoned })
}

/// Decodes which fields of a hash are present.
pub fn are_present(answer: &Value) -> Result<Vec<bool>, Error> {
    let values = array("HMGET", answer)?.iter();
    Ok(values.map(|value| *value != Value::Nil).collect())
}

/// Decodes one step of a scan through a hash: the next cursor (0 at the end), and the fields.
pub fn scanned(answer: &Value) -> Result<(u64, Vec<String>), Error> {
    let call = "HSCAN";
    let [cursor, pairs] = array(call, answer)? else {
        return Err(unexpected(call, answer));
    };
    let cursor = string(call, cursor)?.parse();
    let fields = array(call, pairs)?.iter().step_by(2);
    Ok((
        cursor.map_err(|_| unexpected(call, answer))?,
        fields
            .map(|field| string(call, field))
            .collect::<Result<_, _>>()?,
    ))
}

/// Decodes the elements of a list as texts.
pub fn lines(answer: &Value) -> Result<Vec<String>, Error> {
    strings("LRANGE", answer)
}

/// Decodes a length.
pub fn length(answer: &Value) -> Result<u64, Error> {
    number("HLEN", answer)
}

/// Turns the answer that a script got to a command into the answer that a client gets: a hash is a
/// map, and scores are numbers.
pub fn as_client_answer(words: &[&[u8]], answer: Value) -> Result<Value, Error> {
    let call = scripts::TOGETHER.name;
    let pairs = |answer: &Value| {
        let pairs = array(call, answer)?.as_chunks::<2>().0.iter();
        Ok::<_, Error>(pairs.cloned().map(|[a, b]| (a, b)).collect::<Vec<_>>())
    };
    match (words.first().copied(), words.last().copied()) {
        (Some(b"HGETALL"), _) => Ok(Value::Map(pairs(&answer)?)),
        (Some(b"ZRANGE"), Some(b"WITHSCORES")) => {
            let scored = pairs(&answer)?.into_iter().map(|(member, score)| {
                let number = string(call, &score)?.parse().ok();
                let number = number.ok_or_else(|| unexpected(call, &score))?;
                Ok(Value::Array(vec![member, Value::Double(number)]))
            });
            Ok(Value::Array(scored.collect::<Result<_, Error>>()?))
        }
        _ => Ok(answer),
    }
}

/// Decodes the answer to `preflight`: an error if the user may not run one of the commands.
pub fn preflight(answer: &Value) -> Result<(), Error> {
    let missing = strings(scripts::PREFLIGHT.name, answer)?;
    let Some(first) = missing.first() else {
        return Ok(());
    };
    // The server takes no writes at present, from any user.
    if let Some((_, why)) = first.split_once(": ")
        && says_not_executed(why)
    {
        return Err(Error::Unavailable(why.to_owned()));
    }
    let names: Vec<&str> = missing
        .iter()
        .filter_map(|line| line.split(':').next())
        .collect();
    let mut error = format!(
        "the Redis user lacks commands that a fleet needs: {}",
        names.join(", ")
    );
    // Anything but a missing command needs the server's own words.
    let is_of_command = first.contains("NOPERM") || first.contains("ermission");
    let is_of_pattern = ["a key", "a channel", "the keys", "the channel"];
    if !is_of_command || is_of_pattern.iter().any(|words| first.contains(words)) {
        error = format!("{error} ({first})");
    }
    Err(Error::Refused(error))
}

/// Decodes the fleet's protocol version: an error if it is another than ours. Without a version
/// there is no fleet yet, which is fine.
pub fn protocol(fleet: &FleetName, answer: &Value) -> Result<(), Error> {
    match answer {
        Value::Nil => Ok(()),
        found => match string("HGET", found)? {
            ours if ours == PROTOCOL => Ok(()),
            theirs => Err(foreign_protocol(fleet, theirs)),
        },
    }
}

fn foreign_protocol(fleet: &FleetName, theirs: String) -> Error {
    Error::Protocol {
        fleet: fleet.to_string(),
        theirs,
        ours: PROTOCOL,
    }
}

/// Decodes the type of a key: an error if it is another than a fleet needs there.
pub fn key_type(key: &str, needed: &str, answer: &Value) -> Result<(), Error> {
    let found = string("TYPE", answer)?;
    if found != "none" && found != needed {
        return Err(Error::ForeignKey {
            key: key.to_owned(),
            found,
            needed: needed.to_owned(),
        });
    }
    Ok(())
}

/// Decodes the answer to `INFO`.
pub fn info(answer: &Value) -> Result<ServerInfo, Error> {
    Ok(ServerInfo::parse(&string("INFO", answer)?))
}

/// Takes the answer to `INFO replication`.
pub fn replication(server: &mut ServerInfo, answer: &Value) -> Result<(), Error> {
    server.update_replication(&string("INFO", answer)?);
    Ok(())
}

/// Decodes the answer to `CONFIG GET` of one setting.
pub fn setting(answer: &Value) -> Option<String> {
    match answer {
        Value::Map(pairs) => pairs
            .first()
            .and_then(|(_, value)| string("CONFIG", value).ok()),
        _ => None,
    }
}
