//! What the servers of a cluster say: which of them has a key's slot.

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use redis::Value;

use super::connect::unreachable;
use super::locate::{Address, connect};
use crate::Error;
use crate::target::Target;

/// Why a target that names a cluster cannot use a single server.
pub(super) const NOT_IN_A_CLUSTER: &str =
    "the server is not in cluster mode: name it with redis://";

/// The master of a slot, and all masters of the cluster.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) address: Address,
    pub(super) members: Vec<Address>,
}

/// The server that has the key's slot, as the first of these servers says that answers.
pub(super) async fn owner(
    target: &Target,
    mut asked: Vec<Address>,
    key: &str,
) -> Result<Owner, Error> {
    let mut seen = Vec::new();
    asked.retain(|address| {
        let is_new = !seen.contains(address);
        seen.push(address.clone());
        is_new
    });
    let answers = asked.into_iter().enumerate().map(async |(place, address)| {
        let answer = ask(target, &address, key).await;
        answer.map_err(|error| (place, address, error))
    });
    let mut answers: FuturesUnordered<_> = answers.collect();
    let mut errors = Vec::new();
    while let Some(answer) = answers.next().await {
        match answer {
            Ok(owner) => return Ok(owner),
            // Who is not let in here is not let in elsewhere.
            Err((_, _, error @ (Error::Refused(_) | Error::Certificate { .. }))) => {
                return Err(error);
            }
            Err((place, address, Error::Unavailable(why))) => {
                errors.push((place, format!("{address}: {why}")));
            }
            Err((place, address, error)) => errors.push((place, format!("{address}: {error}"))),
        }
    }
    // In the order of the URL: the same errors must give the same words.
    errors.sort();
    let errors: Vec<_> = errors.into_iter().map(|(_, words)| words).collect();
    let errors = errors.join("; ");
    Err(Error::Unavailable(format!(
        "the cluster names no server for this fleet: {errors}"
    )))
}

async fn ask(target: &Target, address: &Address, key: &str) -> Result<Owner, Error> {
    let mut connection = connect(&target.client_at(&address.host, address.port)?).await?;
    let mut ask = async |words: &[&str]| -> Result<Value, Error> {
        let mut command = redis::cmd("CLUSTER");
        command.arg(words);
        let answer = command.query_async(&mut connection).await;
        answer.map_err(|error| explained(unreachable(error)))
    };
    let Value::Int(slot) = ask(&["KEYSLOT", key]).await? else {
        return Err(Error::Unavailable("it names no slot".to_owned()));
    };
    let slots = ask(&["SLOTS"]).await?;
    read(&slots, slot, &address.host).ok_or_else(|| {
        Error::Unavailable(format!(
            "no server of the cluster has slot {slot}, where this fleet lives: the cluster does not \
             cover all slots"
        ))
    })
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
fn read(slots: &Value, slot: i64, asked_host: &str) -> Option<Owner> {
    let Value::Array(ranges) = slots else {
        return None;
    };
    let (mut address, mut members) = (None, Vec::new());
    for range in ranges {
        let Value::Array(range) = range else {
            continue;
        };
        let [
            Value::Int(first),
            Value::Int(last),
            Value::Array(master),
            ..,
        ] = &range[..]
        else {
            continue;
        };
        let Some(master) = read_address(master, asked_host) else {
            continue;
        };
        if (*first..=*last).contains(&slot) {
            address = Some(master.clone());
        }
        if !members.contains(&master) {
            members.push(master);
        }
    }
    address.map(|address| Owner { address, members })
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
        for (slot, owner) in [(0, &one), (99, &one), (150, &two), (300, &one)] {
            let found = read(&slots, slot, "seed").unwrap();
            assert_eq!(found.address, *owner, "{slot}");
            assert_eq!(found.members, [one.clone(), two.clone()]);
        }
        assert_eq!(read(&slots, 200, "seed"), None);
        assert_eq!(read(&Value::Nil, 0, "seed"), None);
    }
}
