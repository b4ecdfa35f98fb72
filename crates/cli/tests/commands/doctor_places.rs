//! `baton doctor` on servers that Sentinels or a cluster name.

use baton_server::{Fsync, PrivateServer, SentinelGroup};

use crate::doctor::{Report, wait_followed};
use crate::support::{baton, redis, run, send, wait_until};

#[test]
fn sentinels_are_counted_and_their_quorum_is_told() {
    let mut group = SentinelGroup::start(&PrivateServer::builder(), 1).unwrap();
    wait_followed(&group.servers[0], 1);
    let url = group.url();
    let master = group.servers[0].port().unwrap();
    let address = format!("master 127.0.0.1:{master}");
    let level = &["--durability", "replicas:1"][..];
    let report = Report::of(&url, level);
    report.has("sentinels", "ok", &["3 of 3 answer", "quorum 2", &address]);
    report.has("replicas", "ok", &["1 in sync"]);
    assert_eq!(report.marked("fail"), [""; 0]);
    Report::of(&url, &[]).has("min-replicas", "warn", &["a failover loses them"]);

    // One Sentinel watches another server under the same name.
    let other = PrivateServer::builder().start().unwrap();
    let (odd, port) = (&group.sentinels[2], other.port().unwrap());
    send(odd, &["SENTINEL", "REMOVE", "fleet"]);
    let port = port.to_string();
    send(
        odd,
        &["SENTINEL", "MONITOR", "fleet", "127.0.0.1", &port, "2"],
    );
    let report = Report::of(&url, level);
    report.has("sentinels", "warn", &["do not agree", &port, "try again"]);

    group.sentinels[2].kill9();
    let report = Report::of(&url, level);
    let words = [
        "2 of 3 answer",
        "refused",
        "needs 2 to notice and 2 to agree",
    ];
    report.has("sentinels", "warn", &words);
    for sentinel in &mut group.sentinels {
        sentinel.kill9();
    }
    let report = Report::of(&url, level);
    report.has("sentinels", "fail", &["none answers", "refused"]);
    report.has("connection", "fail", &["no Sentinel answers"]);
}

#[test]
fn a_replica_that_sentinels_know_counts_though_it_is_away() {
    let mut group = SentinelGroup::start(&PrivateServer::builder(), 2).unwrap();
    wait_followed(&group.servers[0], 2);
    group.servers[1].kill9();
    let level = &["--durability", "replicas:1"][..];
    wait_followed(&group.servers[0], 1);
    let report = Report::of(&group.url(), level);
    report.has("replicas", "warn", &["1 in sync", "any of the 2 may be"]);
}

/// A server that is a whole cluster, with these ranges of slots.
fn cluster(slots: &[(u32, u32)], coverage: &str) -> PrivateServer {
    let settings = PrivateServer::builder().appendonly(Fsync::Always);
    let settings = settings.config("cluster-enabled", "yes");
    let settings = settings.config("cluster-require-full-coverage", coverage);
    let server = settings.start().unwrap();
    for (first, last) in slots {
        for slots in (*first..=*last).collect::<Vec<_>>().chunks(4096) {
            let mut command = redis::cmd("CLUSTER");
            command.arg("ADDSLOTS").arg(slots);
            command.exec(&mut redis(&server)).unwrap();
        }
    }
    server
}

fn wait_state(server: &PrivateServer, state: &str) {
    wait_until(state, || {
        let mut command = redis::cmd("CLUSTER");
        let info: String = command.arg("INFO").query(&mut redis(server)).unwrap();
        info.contains(&format!("cluster_state:{state}"))
    });
}

fn cluster_url(server: &PrivateServer) -> String {
    server.url().replace("redis://", "redis+cluster://")
}

/// The slot of the fleet `default`.
fn slot(server: &PrivateServer) -> u32 {
    let mut command = redis::cmd("CLUSTER");
    command.arg("KEYSLOT").arg("baton:{default:0}:fence");
    command.query(&mut redis(server)).unwrap()
}

#[test]
fn a_cluster_must_cover_all_slots() {
    let whole = cluster(&[(0, 16383)], "no");
    wait_state(&whole, "ok");
    let slot = slot(&whole);
    let (url, at) = (cluster_url(&whole), format!("slot {slot} is on 127.0.0.1"));
    let report = Report::of(&url, &[]);
    report.has(
        "cluster",
        "ok",
        &[&at, "it has 1 masters, and 16384 of 16384 slots are served"],
    );
    report.has("cluster", "ok", &["its 16 partitions: 16 on 127.0.0.1:"]);
    report.has("replicas", "warn", &["no server can take over"]);
    assert_eq!(report.marked("fail"), [""; 0]);
    let setting = "cluster-require-full-coverage";
    send(&whole, &["CONFIG", "SET", setting, "yes"]);
    let report = Report::of(&url, &[]);
    report.has("cluster", "warn", &["while any master is down", setting]);

    // Two slots of others are missing.
    let hole = (slot + 10) % 16000;
    let ranges = [(0, hole), (hole + 3, 16383)];
    let holed = cluster(&ranges, "no");
    wait_state(&holed, "ok");
    let report = Report::of(&cluster_url(&holed), &[]);
    report.has("cluster", "warn", &["16382 of 16384", "bring back"]);
    let closed = cluster(&ranges, "yes");
    wait_state(&closed, "fail");
    let report = Report::of(&cluster_url(&closed), &[]);
    report.has("cluster", "fail", &["16382 of 16384", "CLUSTERDOWN"]);
    // The fleet's own slot is missing.
    let lost = cluster(&[(0, slot - 1), (slot + 1, 16383)], "no");
    let report = Report::of(&cluster_url(&lost), &[]);
    report.has("connection", "fail", &["has slot", "does not cover"]);
}

#[test]
fn a_client_of_a_cluster_needs_two_rights_more_and_doctor_a_third() {
    let server = cluster(&[(0, 16383)], "no");
    wait_state(&server, "ok");
    let url = cluster_url(&server).replace("://", "://baton-default-node:pw@");
    let rule = run(baton(&["acl", "node", "--redis", &url])).stdout;
    let words: Vec<&str> = rule.split_whitespace().chain([">pw"]).collect();
    send(&server, &words);
    let report = Report::of(&url, &[]);
    report.has("rights", "ok", &[]);
    report.has("cluster", "warn", &["the rest is unknown", "CLUSTER INFO"]);
    for right in ["+cluster|keyslot", "+cluster|slots"] {
        let less: Vec<&str> = words
            .iter()
            .copied()
            .filter(|word| *word != right)
            .collect();
        assert_eq!(less.len() + 1, words.len());
        send(&server, &less);
        Report::of(&url, &[]).has("connection", "fail", &[&right[1..]]);
    }
    send(&server, &[&words[..], &["+cluster|info"]].concat());
    Report::of(&url, &[]).has("cluster", "ok", &["16384 of 16384"]);
    // A server in cluster mode has another URL.
    Report::of(&server.url(), &[]).has("connection", "fail", &["redis+cluster://"]);
}
