//! A cluster of real servers: it starts, replaces a master, moves a slot and grows.

#![allow(clippy::unwrap_used)]

mod support;

use std::time::{Duration, Instant};

use baton_server::{ClusterGroup, PrivateServer};
use support::{command, wait_until};

const KEY: &str = "{moving}:a";

fn wait_until_complete(cluster: &ClusterGroup) {
    wait_until("the cluster is complete", || {
        cluster.check_complete().is_ok()
    });
}

fn ask(cluster: &ClusterGroup, server: usize, words: &[&str]) -> String {
    command(&cluster.servers[server].url(), words).unwrap()
}

#[test]
fn a_cluster_is_ready_soon_and_its_servers_know_their_places() {
    let began = Instant::now();
    let cluster = ClusterGroup::start(&PrivateServer::builder(), 3, 1).unwrap();
    // Two seconds, on a machine with a core to spare.
    assert!(began.elapsed() < Duration::from_secs(10));
    cluster.check_complete().unwrap();
    assert_eq!(cluster.servers.len(), 6);
    for (slot, master) in [(0, 0), (5460, 0), (5461, 1), (10922, 2), (16383, 2)] {
        assert_eq!(cluster.owner(slot).unwrap(), master, "{slot}");
    }
    for master in 0..3 {
        assert_eq!(cluster.replicas_of(master).unwrap(), [master + 3]);
        assert_eq!(cluster.master_of(master + 3).unwrap(), master);
        assert_eq!(cluster.master_of(master).unwrap(), master);
    }
    let mut masters = cluster.masters_seen_by(4).unwrap();
    masters.sort_unstable();
    assert_eq!(masters, [0, 1, 2]);
    let ports = cluster.servers.iter().filter_map(PrivateServer::port);
    let hosts: Vec<_> = ports.map(|port| format!("127.0.0.1:{port}")).collect();
    let url = format!("redis+cluster://{}", hosts.join(","));
    assert_eq!(cluster.url(), url);
}

#[test]
fn a_replica_replaces_its_master_and_the_old_one_follows_it() {
    let mut cluster = ClusterGroup::start(&PrivateServer::builder(), 3, 1).unwrap();
    let slot = cluster.slot(KEY).unwrap();
    let old = cluster.owner(slot).unwrap();
    let new = cluster.replicas_of(old).unwrap()[0];
    assert_eq!(ask(&cluster, old, &["SET", KEY, "1"]), "OK");
    cluster.fail_over(new).unwrap();
    wait_until("it is the master", || cluster.owner(slot).ok() == Some(new));
    wait_until_complete(&cluster);
    assert_eq!(ask(&cluster, new, &["GET", KEY]), "1");
    assert_eq!(cluster.replicas_of(new).unwrap(), [old]);
    // A paused master does not know that it was replaced: the others know better.
    cluster.servers[new].pause().unwrap();
    wait_until("the first one is the master again", || {
        cluster.owner(slot).ok() == Some(old)
    });
    assert!(cluster.check_complete().is_err());
    cluster.servers[new].resume().unwrap();
    assert_eq!(cluster.owner(slot).unwrap(), old);
    wait_until_complete(&cluster);
    cluster.servers[old].kill9();
    wait_until("the other one is the master", || {
        cluster.owner(slot).ok() == Some(new)
    });
    cluster.servers[old].restart_unchanged().unwrap();
    wait_until_complete(&cluster);
    assert_eq!(cluster.master_of(old).unwrap(), new);
    assert_eq!(ask(&cluster, new, &["GET", KEY]), "1");
}

#[test]
fn a_slot_moves_with_its_keys_to_a_new_master_and_back_and_the_new_one_goes() {
    let settings = PrivateServer::builder();
    let mut cluster = ClusterGroup::start(&settings, 2, 0).unwrap();
    let slot = cluster.slot(KEY).unwrap();
    let home = cluster.owner(slot).unwrap();
    for number in 0..250 {
        let key = format!("{{moving}}:{number}");
        assert_eq!(ask(&cluster, home, &["SET", &key, "x"]), "OK");
    }
    let new = cluster.add_master().unwrap();
    assert_eq!((new, cluster.servers.len()), (2, 3));
    for to in [new, home] {
        cluster.move_slot(slot, to).unwrap();
        assert_eq!(cluster.owner(slot).unwrap(), to);
        wait_until_complete(&cluster);
        let slot = slot.to_string();
        let count = ask(&cluster, to, &["CLUSTER", "COUNTKEYSINSLOT", &slot]);
        assert_eq!(count, "250");
    }
    cluster.remove_master(new).unwrap();
    wait_until_complete(&cluster);
    assert_eq!(cluster.servers.len(), 2);
    assert_eq!(ask(&cluster, home, &["GET", "{moving}:7"]), "x");
}

#[test]
fn a_cluster_with_a_password_has_replicas_and_moves_slots() {
    let settings = PrivateServer::builder().password("s3cret word");
    let cluster = ClusterGroup::start(&settings, 2, 1).unwrap();
    let slot = cluster.slot(KEY).unwrap();
    let (from, to) = match cluster.owner(slot).unwrap() {
        0 => (0, 1),
        owner => (owner, 0),
    };
    let ask = |server: usize, words: &[&str]| {
        let url = cluster.servers[server].url();
        support::command_with(&url, Some("s3cret word"), words).unwrap()
    };
    assert_eq!(ask(from, &["SET", KEY, "1"]), "OK");
    cluster.move_slot(slot, to).unwrap();
    assert_eq!(ask(to, &["GET", KEY]), "1");
}
