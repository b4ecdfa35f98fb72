//! The answers of a transaction as roster, census and fleet state.

use std::collections::{BTreeMap, HashMap, HashSet};

use redis::Value;

use super::{lines, newest, other_partitions, protocol, stored_partitions};
use crate::Error;
use crate::bounds::LINE_END_MS;
use crate::calls::answer::{array, bytes, number, pairs, string, strings, unexpected};
use crate::calls::{Census, FleetState, Lease, PartitionState, Paused, Roster, RosterEntry};
use crate::encoding::pack::Range;
use crate::encoding::takeover;
use crate::keys::FleetName;

/// Decodes a fleet's state; `partitions` is how many the reader takes the fleet to have, `presence` the
/// prefix of the presence channels, `ranges` the max ranges of the queue that were read.
pub fn fleet_state(
    fleet: &FleetName,
    partitions: u32,
    presence: &str,
    ranges: u64,
    answers: &[Value],
) -> Result<FleetState, Error> {
    let Some((nodes, rest)) = answers.split_at_checked(6) else {
        return Err(unexpected("EXEC", answers));
    };
    let Some((messages, [meta, takeovers, records])) = rest.split_at_checked(9) else {
        return Err(unexpected("EXEC", answers));
    };
    let [version, _] = array("HMGET", meta)? else {
        return Err(unexpected("HMGET", meta));
    };
    protocol(fleet, version)?;
    match stored_partitions("meta", meta)? {
        Some(theirs) if theirs != partitions => {
            return Err(other_partitions(fleet, theirs, partitions));
        }
        _ => {}
    }
    Ok(FleetState {
        roster: roster(presence, nodes)?,
        census: census(ranges, messages)?,
        // A line that no script of ours wrote is left out.
        takeovers: lines(takeovers)?
            .iter()
            .filter_map(|line| takeover::parse(line))
            .collect(),
        newest: newest(records)?,
    })
}

/// Decodes the messages of a partition.
pub fn partition_state(ranges: u64, answers: &[Value]) -> Result<PartitionState, Error> {
    let Some((messages, [records])) = answers.split_at_checked(9) else {
        return Err(unexpected("EXEC", answers));
    };
    Ok(PartitionState {
        census: census(ranges, messages)?,
        newest: newest(records)?,
    })
}

/// Decodes a roster; `presence` is the prefix of the presence channels.
pub fn roster(presence: &str, answers: &[Value]) -> Result<Roster, Error> {
    let call = "roster";
    let [time, lease, nodes, joined, seen, channels] = answers else {
        return Err(unexpected(call, answers));
    };
    let [holder, epoch, since, until] = array(call, lease)? else {
        return Err(unexpected(call, lease));
    };
    let (joined, seen) = (scores(call, joined)?, scores(call, seen)?);
    let channels = strings(call, channels)?;
    let present: HashSet<&str> = channels
        .iter()
        .filter_map(|channel| channel.strip_prefix(presence))
        .collect();
    let nodes = pairs(call, nodes)?.iter().map(|(node, about)| {
        let (node, about) = (string(call, node)?, string(call, about)?);
        let time = |times: &HashMap<String, u64>| times.get(&node).copied().unwrap_or_default();
        Ok(RosterEntry {
            // In front of it is the server's run id.
            about: about.split_once(' ').unwrap_or_default().1.to_owned(),
            joined_ms: time(&joined) % LINE_END_MS,
            seen_ms: time(&seen),
            present: present.contains(node.as_str()),
            node,
        })
    });
    Ok(Roster {
        now_ms: now_ms(time)?,
        lease: Lease {
            node: match holder {
                Value::Nil => None,
                holder => Some(string(call, holder)?).filter(|holder| !holder.is_empty()),
            },
            epoch: count("generator epoch", epoch)?,
            since_ms: count("generator since", since)?,
            until_ms: count("generator until", until)?,
        },
        nodes: nodes.collect::<Result<_, Error>>()?,
    })
}

/// Decodes a census. `pending` and `claimed` are counted from the ranges themselves, so that a
/// wrong counter shows. Only for a queue of more than `ranges` is `pending` computed from the
/// counters.
pub fn census(ranges: u64, answers: &[Value]) -> Result<Census, Error> {
    let call = "census";
    let [
        time,
        fence,
        stats,
        length,
        queue,
        claims,
        delayed,
        next_due,
        errors,
    ] = answers
    else {
        return Err(unexpected(call, answers));
    };
    let [last, generator_paused, workers_paused] = array(call, fence)? else {
        return Err(unexpected(call, fence));
    };
    let [done, failed, foreign, retried, dropped, void] = array(call, stats)? else {
        return Err(unexpected(call, stats));
    };
    let mut census = Census {
        published: count("fence last", last)?,
        done: count("stats done", done)?,
        failed: count("stats failed", failed)?,
        foreign: count("stats foreign", foreign)?,
        retried: count("stats retried", retried)?,
        delayed: number(call, delayed)?,
        next_due_ms: scores(call, next_due)?.into_values().next(),
        dropped: count("stats dropped", dropped)?,
        void: count("stats void", void)?,
        errors: number(call, errors)?,
        counted: number(call, length)? <= ranges,
        now_ms: now_ms(time)?,
        paused: Paused {
            generator_since_ms: paused_since(generator_paused, now_ms(time)?),
            workers_since_ms: paused_since(workers_paused, now_ms(time)?),
        },
        ..Census::default()
    };
    let mut claimed_by = BTreeMap::<String, u64>::new();
    for (slot, claim) in pairs(call, claims)? {
        if let Some(count) = messages(bytes(call, claim)?) {
            let slot = string(call, slot)?;
            let node = slot.split(':').next().unwrap_or_default();
            let own = claimed_by.entry(node.to_owned()).or_default();
            *own = own.saturating_add(count);
            census.claimed = census.claimed.saturating_add(count);
        }
    }
    census.claimed_by = claimed_by;
    census.pending = match census.counted {
        true => array(call, queue)?.iter().try_fold(0u64, |sum, range| {
            let range = Range::parse(&string(call, range)?);
            Ok::<_, Error>(sum.saturating_add(range.map_or(0, |range| range.size())))
        })?,
        false => (census.published + census.retried)
            .saturating_sub(census.done + census.failed)
            .saturating_sub(census.claimed)
            .saturating_sub(census.delayed)
            .saturating_sub(census.void),
    };
    Ok(census)
}

/// How many messages a claim has: "m number run-id range". None if it is a drain's claim, or if no
/// script of ours wrote it.
fn messages(claim: &[u8]) -> Option<u64> {
    let mut words = str::from_utf8(claim).ok()?.splitn(4, ' ');
    let (kind, _number, _run_id) = (words.next()?, words.next()?, words.next()?);
    let range = Range::parse(words.next()?).filter(|_| kind == "m");
    range.map(|range| range.size())
}

/// A number of a hash; 0 if it is missing. `place` names its key and field.
fn count(place: &'static str, value: &Value) -> Result<u64, Error> {
    match value {
        Value::Nil => Ok(0),
        value => number(place, value).map_err(|error| match error {
            Error::Answer { answer, .. } => Error::Refused(format!(
                "BADVALUE {place} holds {answer}, which is not a whole number below 2^53"
            )),
            other => other,
        }),
    }
}

/// Since when a part of the fleet is paused; none if its field is missing. Any value pauses it, so one that
/// is no time counts as now: a resume removes it.
fn paused_since(field: &Value, now_ms: u64) -> Option<u64> {
    match field {
        Value::Nil => None,
        field => Some(count("fence", field).unwrap_or(now_ms)),
    }
}

/// The answer of `TIME` in ms.
pub fn now_ms(time: &Value) -> Result<u64, Error> {
    let call = "TIME";
    let [seconds, micros] = array(call, time)? else {
        return Err(unexpected(call, time));
    };
    let ms = number(call, seconds)?.checked_mul(1000);
    let ms = ms.and_then(|ms| ms.checked_add(number(call, micros).ok()? / 1000));
    ms.ok_or_else(|| unexpected(call, time))
}

/// Members and their times.
fn scores(call: &'static str, answer: &Value) -> Result<HashMap<String, u64>, Error> {
    let pairs = array(call, answer)?.iter().map(|pair| {
        let [member, Value::Double(score)] = array(call, pair)? else {
            return Err(unexpected(call, pair));
        };
        // Times of our scripts fit. Foreign numbers may not, and are clamped.
        Ok((string(call, member)?, *score as u64))
    });
    pairs.collect()
}
