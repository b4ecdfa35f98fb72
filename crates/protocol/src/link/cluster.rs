//! What the servers of a cluster say: which of them has a key's slot.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use redis::Value;
use tokio::time::Instant;

use super::connect::unreachable;
use super::locate::{Address, connect, lock};
use super::pool::Refusal;
use crate::Error;
use crate::target::Target;

/// Why a target that names a cluster cannot use a single server.
pub(super) const NOT_IN_A_CLUSTER: &str =
    "the server is not in cluster mode: name it with redis://";

/// How long a table of slots counts as new, and so does it that no server answers. The partitions of a
/// fleet lose a server at the same moment, and one of them asks for all.
const FRESH: Duration = Duration::from_millis(50);

/// Which master has which slots, as a server of the cluster said.
#[derive(Debug, PartialEq, Eq)]
struct Table {
    /// First slot, last slot, master.
    ranges: Vec<(u16, u16, Address)>,
}

impl Table {
    fn owner(&self, slot: u16) -> Option<Address> {
        let has = |range: &&(u16, u16, Address)| (range.0..=range.1).contains(&slot);
        self.ranges.iter().find(has).map(|range| range.2.clone())
    }

    /// All masters.
    fn masters(&self) -> Vec<Address> {
        let mut masters = Vec::new();
        for (_, _, master) in &self.ranges {
            if !masters.contains(master) {
                masters.push(master.clone());
            }
        }
        masters
    }
}

/// A master, and the first and the last slot of each of its ranges.
pub(super) type Share = (Address, Vec<(u16, u16)>);

/// All masters with their slots, as the first server that answers says.
pub(super) async fn masters(target: &Target, seeds: &[(String, u16)]) -> Result<Vec<Share>, Error> {
    let seeds = seeds.iter().map(|(host, port)| Address {
        host: host.clone(),
        port: *port,
    });
    let asked = ask_all(target, seeds, 0).await;
    let (mut table, _) = asked.map_err(|unknown| unknown.error)?;
    table.ranges.sort_by_key(|range| range.0);
    let slots = |master: &Address| {
        let ranges = table.ranges.iter().filter(|range| range.2 == *master);
        ranges.map(|range| (range.0, range.1)).collect()
    };
    let masters = table.masters().into_iter();
    Ok(masters
        .map(|master| (master.clone(), slots(&master)))
        .collect())
}

/// What this process knows of the slots of a cluster.
#[derive(Default)]
pub(super) struct Slots {
    /// The last table, or why no server gave one, and when the servers were asked. The lock is held while
    /// one caller asks: the others wait, and take its answer.
    answer: tokio::sync::Mutex<Option<(Instant, Result<Table, Refusal>)>>,
    /// Servers of the cluster, beside those that the target names.
    members: Mutex<Vec<Address>>,
    /// Set when a server says that a slot has moved: the table is old.
    is_stale: AtomicBool,
}

impl Slots {
    /// The server that has the slot.
    pub(super) async fn owner(
        &self,
        target: &Target,
        seeds: &[(String, u16)],
        slot: u16,
    ) -> Result<Address, Error> {
        let mut answer = self.answer.lock().await;
        let is_fresh = !self.is_stale.swap(false, Ordering::Relaxed);
        let fresh = answer.as_ref();
        let fresh = fresh.filter(|(at, _)| is_fresh && at.elapsed() < FRESH);
        match fresh.map(|(_, answer)| answer) {
            Some(Ok(table)) => {
                if let Some(address) = table.owner(slot) {
                    return Ok(address);
                }
            }
            Some(Err(why)) => return Err(why.error()),
            None => {}
        }
        let seeds = seeds.iter().map(|(host, port)| Address {
            host: host.clone(),
            port: *port,
        });
        let members = lock(&self.members).clone();
        let asked_at = Instant::now();
        match ask_all(target, members.into_iter().chain(seeds), slot).await {
            Ok((found, address)) => {
                *lock(&self.members) = found.masters();
                *answer = Some((asked_at, Ok(found)));
                Ok(address)
            }
            Err(Unknown { error, is_shared }) => {
                let why = Refusal::of(&error).filter(|_| is_shared);
                *answer = why.map(|why| (Instant::now(), Err(why)));
                Err(error)
            }
        }
    }

    /// A server says that a slot has moved.
    pub(super) fn moved(&self) {
        self.is_stale.store(true, Ordering::Relaxed);
    }
}

/// Why no server is known for a slot.
struct Unknown {
    error: Error,
    /// Whether that holds for every slot: no server answered.
    is_shared: bool,
}

/// The table of the first of these servers that answers and names a server for the slot. What another one
/// refuses counts only if none does: the result must not depend on who answers first.
async fn ask_all(
    target: &Target,
    asked: impl Iterator<Item = Address>,
    slot: u16,
) -> Result<(Table, Address), Unknown> {
    let mut servers: Vec<Address> = Vec::new();
    for address in asked {
        if !servers.contains(&address) {
            servers.push(address);
        }
    }
    let answers = servers
        .into_iter()
        .enumerate()
        .map(async |(place, address)| (ask(target, &address).await, place, address));
    let mut answers: FuturesUnordered<_> = answers.collect();
    let (mut errors, mut refusals, mut is_shared) = (Vec::new(), Vec::new(), true);
    while let Some((answer, place, address)) = answers.next().await {
        let why = match answer {
            Ok(table) => match table.owner(slot) {
                Some(owner) => return Ok((table, owner)),
                None => {
                    is_shared = false;
                    format!(
                        "no server of the cluster has slot {slot}, where this fleet lives: the cluster \
                         does not cover all slots"
                    )
                }
            },
            Err(Error::Unavailable(why)) => why,
            Err(error) => {
                let why = error.to_string();
                if matches!(error, Error::Refused(_) | Error::Certificate { .. }) {
                    refusals.push((place, error, address.clone()));
                }
                why
            }
        };
        errors.push((place, format!("{address}: {why}")));
    }
    // No server has said where the slot is: the first in the URL says what is wrong with the target.
    let refusal = refusals.into_iter().min_by_key(|(place, ..)| *place);
    if let Some((_, error, address)) = refusal {
        let error = match error {
            Error::Refused(why) if errors.len() > 1 => Error::Refused(format!("{address}: {why}")),
            error => error,
        };
        return Err(Unknown { error, is_shared });
    }
    // In the order of the URL: the same errors must give the same words.
    errors.sort();
    let errors: Vec<_> = errors.into_iter().map(|(_, words)| words).collect();
    let errors = errors.join("; ");
    let error = Error::Unavailable(format!(
        "the cluster names no server for this fleet: {errors}"
    ));
    Err(Unknown { error, is_shared })
}

async fn ask(target: &Target, address: &Address) -> Result<Table, Error> {
    let mut connection = connect(&target.client_at(&address.host, address.port)?).await?;
    let mut command = redis::cmd("CLUSTER");
    command.arg("SLOTS");
    let answer: redis::RedisResult<Value> = command.query_async(&mut connection).await;
    let answer = answer.map_err(|error| explained(unreachable(error)))?;
    Ok(read(&answer, &address.host))
}

/// The refusal of a server that has no cluster, in words that say what to do.
fn explained(error: Error) -> Error {
    match error {
        Error::Refused(why) if why.contains("cluster support disabled") => {
            Error::Refused(NOT_IN_A_CLUSTER.to_owned())
        }
        Error::Refused(why) if why.contains("unknown command") => Error::Refused(
            "this is no server of a cluster: name a Sentinel with redis+sentinel://host,…/master"
                .to_owned(),
        ),
        error => error,
    }
}

/// Reads the answer of `CLUSTER SLOTS`: `[first, last, [host, port, …], …]` for each range of slots.
/// A server that does not know its own host leaves it out.
fn read(slots: &Value, asked_host: &str) -> Table {
    let Value::Array(ranges) = slots else {
        return Table { ranges: Vec::new() };
    };
    let read_range = |range: &Value| {
        let Value::Array(range) = range else {
            return None;
        };
        let [
            Value::Int(first),
            Value::Int(last),
            Value::Array(master),
            ..,
        ] = &range[..]
        else {
            return None;
        };
        let [first, last] = [first, last].map(|slot| u16::try_from(*slot).ok());
        Some((first?, last?, read_address(master, asked_host)?))
    };
    Table {
        ranges: ranges.iter().filter_map(read_range).collect(),
    }
}

fn read_address(master: &[Value], asked_host: &str) -> Option<Address> {
    let [host, Value::Int(port), ..] = master else {
        return None;
    };
    let host = match host {
        Value::BulkString(host) => str::from_utf8(host).ok()?,
        Value::SimpleString(host) => host,
        Value::Nil => "",
        _ => return None,
    };
    let host = match host {
        "" | "?" => asked_host,
        host => host,
    };
    Some(Address {
        host: host.to_owned(),
        port: u16::try_from(*port).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(host: &str, port: u16) -> Address {
        Address {
            host: host.to_owned(),
            port,
        }
    }

    #[test]
    fn the_owner_of_a_slot_is_in_the_table_and_a_hole_is_noticed() {
        let answer = "*3\r\n\
            *4\r\n:0\r\n:99\r\n*3\r\n$8\r\n10.0.0.1\r\n:7001\r\n$1\r\na\r\n*3\r\n$8\r\n10.0.0.9\r\n:7009\r\n$1\r\nx\r\n\
            *3\r\n:100\r\n:199\r\n*3\r\n$0\r\n\r\n:7002\r\n$1\r\nb\r\n\
            *3\r\n:300\r\n:16383\r\n*3\r\n$8\r\n10.0.0.1\r\n:7001\r\n$1\r\na\r\n";
        let slots = redis::parse_redis_value(answer.as_bytes()).unwrap();
        let (one, two) = (address("10.0.0.1", 7001), address("seed", 7002));
        let table = read(&slots, "seed");
        for (slot, owner) in [(0, &one), (99, &one), (150, &two), (300, &one)] {
            assert_eq!(table.owner(slot).as_ref(), Some(owner), "{slot}");
        }
        assert_eq!(table.masters(), [one, two]);
        assert_eq!(table.owner(200), None);
        assert_eq!(read(&Value::Nil, "seed").owner(0), None);
    }
}
