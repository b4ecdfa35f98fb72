//! The rows of the table about what can be lost: the server's settings, what the nodes wait for, how the
//! replicas follow.

use std::fmt::Write as _;

use baton::inspect::{Replica, Snapshot};

use super::table::escaped;

/// Max replicas that the table describes one by one.
const MAX_REPLICAS: usize = 4;

/// The settings of the server.
pub(super) fn server(snapshot: &Snapshot) -> String {
    let server = &snapshot.server;
    let aof = match (server.aof, &server.appendfsync) {
        (false, _) => "appendonly no".to_owned(),
        (true, Some(policy)) => format!("appendonly yes, appendfsync {}", escaped(policy)),
        (true, None) => "appendonly yes, appendfsync unknown".to_owned(),
    };
    let memory = match server.maxmemory {
        0 => "no maxmemory".to_owned(),
        bytes => format!("maxmemory {bytes}"),
    };
    let role = match server.read_only_replica {
        // Only the server to which a node is connected knows that it is there.
        true => "a read-only replica, on which the nodes of its master look absent; ",
        false => "",
    };
    let replicas = match server.replicas {
        1 => "1 replica".to_owned(),
        replicas => format!("{replicas} replicas"),
    };
    format!(
        "{role}{aof}; {memory}, {}; {replicas}",
        escaped(&server.maxmemory_policy),
    )
}

/// What the nodes wait for, and what that is worth; none if no node says it.
pub(super) fn durability(snapshot: &Snapshot) -> Option<String> {
    let durability = &snapshot.durability;
    let level = durability.level.as_deref()?;
    Some(format!(
        "{}: {}",
        escaped(level),
        escaped(&durability.promise)
    ))
}

/// How the replicas follow; none if there is none.
pub(super) fn replicas(snapshot: &Snapshot) -> Option<String> {
    let replicas = &snapshot.server.replication;
    let listed = replicas.iter().take(MAX_REPLICAS).map(replica);
    let mut words = listed.collect::<Vec<_>>().join("; ");
    let others = replicas.len().saturating_sub(MAX_REPLICAS);
    if others > 0 {
        // Writing to a string cannot fail.
        let _ = write!(words, "; and {others} more");
    }
    (!words.is_empty()).then_some(words)
}

fn replica(replica: &Replica) -> String {
    let (address, state) = (escaped(&replica.address), escaped(&replica.state));
    match (replica.is_online(), replica.lag_s) {
        (true, Some(lag_s)) => format!(
            "{address} {} bytes unacknowledged, last heard {lag_s} s ago",
            replica.behind_bytes
        ),
        _ => format!("{address} does not follow yet ({state})"),
    }
}
