//! The metrics of the server's replicas.

use baton::inspect::{Replica, Snapshot};

use super::exposition::{Exposition, labels};

/// Writes how far each replica is behind.
pub(super) fn write(out: &mut Exposition, snapshot: &Snapshot) {
    let mut replicas: Vec<(String, &Replica)> = snapshot
        .server
        .replication
        .iter()
        .map(|replica| {
            let names = [("fleet", &*snapshot.fleet), ("replica", &*replica.address)];
            (labels(&names), replica)
        })
        .collect();
    // A series must not come twice.
    replicas.sort_by(|a, b| a.0.cmp(&b.0));
    replicas.dedup_by(|a, b| a.0 == b.0);
    if replicas.is_empty() {
        return;
    }
    out.gauge(
        "baton_replica_online",
        "1 if the replica follows, 0 while it copies the data for the first time.",
        replicas
            .iter()
            .map(|(labels, replica)| (labels, u8::from(replica.is_online()))),
    );
    out.gauge(
        "baton_replica_behind_bytes",
        "Bytes of the server's writes that the replica has not acknowledged; each does every second.",
        replicas
            .iter()
            .map(|(labels, replica)| (labels, replica.behind_bytes)),
    );
    let mut heard = replicas
        .iter()
        .filter_map(|(labels, replica)| Some((labels, replica.lag_s?)))
        .peekable();
    if heard.peek().is_some() {
        out.gauge(
            "baton_replica_lag_seconds",
            "Time since the replica last acknowledged; absent while it does not follow.",
            heard,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_replica_has_one_series_of_each_metric() {
        let mut snapshot = Snapshot::default();
        snapshot.fleet = "f".to_owned();
        let replica = |address: &str, behind_bytes, lag_s: Option<u64>| {
            let mut replica = Replica::default();
            replica.address = address.to_owned();
            (replica.behind_bytes, replica.lag_s) = (behind_bytes, lag_s);
            replica.state = if lag_s.is_some() { "online" } else { "sync" }.to_owned();
            replica
        };
        snapshot.server.replication = vec![
            replica("b:1", 7, Some(1)),
            replica("a:1\"", 9, None),
            replica("b:1", 8, Some(1)),
        ];
        let mut out = Exposition::default();
        write(&mut out, &snapshot);
        let lines: Vec<&str> = out
            .text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .collect();
        assert_eq!(
            lines,
            [
                "baton_replica_online{fleet=\"f\",replica=\"a:1\\\"\"} 0",
                "baton_replica_online{fleet=\"f\",replica=\"b:1\"} 1",
                "baton_replica_behind_bytes{fleet=\"f\",replica=\"a:1\\\"\"} 9",
                "baton_replica_behind_bytes{fleet=\"f\",replica=\"b:1\"} 7",
                "baton_replica_lag_seconds{fleet=\"f\",replica=\"b:1\"} 1",
            ]
        );
        let mut out = Exposition::default();
        write(&mut out, &Snapshot::default());
        assert_eq!(out.text, "");
    }
}
