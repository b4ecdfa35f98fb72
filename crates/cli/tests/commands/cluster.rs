//! A server in cluster mode that is named like a single one is refused by every command, at once and
//! in words. So is a single server that is named like a cluster.

use baton_server::{ClusterGroup, PrivateServer};

use crate::shared::server_matrix::start_each;
use crate::support::{assert_complains, assert_waits, baton, connections, run, send};

#[test]
fn every_command_refuses_a_server_in_cluster_mode_at_once() {
    let builder = || PrivateServer::builder().config("cluster-enabled", "yes");
    for (name, server) in start_each(builder) {
        for command in [
            &["run"][..],
            &["status"],
            &["status", "--json"],
            &["status", "--watch"],
            &["errors"],
            &["getErrors"],
            &["clean"],
            &["web", "--http", "127.0.0.1:0"],
            &["web", "--http", "127.0.0.1:0", "--allow-actions"],
        ] {
            let mut program = baton(&["--redis", &server.url()]);
            program.args(command);
            let ended = run(program);
            assert_eq!(ended.code, Some(1), "{name}, {command:?}");
            assert_eq!(ended.stdout, "", "{name}, {command:?}");
            assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
            for words in ["cluster mode", "redis+cluster://"] {
                ended.complains(words);
            }
        }
    }
}

#[test]
fn a_cluster_without_all_slots_is_told_and_a_node_waits_for_it() {
    let server = PrivateServer::builder()
        .config("cluster-enabled", "yes")
        .start()
        .unwrap();
    let url = server.url().replace("redis://", "redis+cluster://");
    let at = || baton(&["--redis", &url]);
    let words = ["the cluster does not cover all slots"];
    assert_complains(at(), &words);
    assert_waits(at(), &words, || connections(&server));
    // The fleet's slot has a server, but the cluster is down because others have none.
    send(&server, &["CLUSTER", "ADDSLOTSRANGE", "0", "16000"]);
    let words = ["CLUSTERDOWN", "the cluster does not serve all of its slots"];
    assert_complains(at(), &words);
    assert_waits(at(), &words, || connections(&server));
}

#[test]
fn servers_that_are_no_cluster_are_told_from_one() {
    let sentinel = PrivateServer::builder().sentinel();
    for (server, words) in [
        (
            PrivateServer::builder(),
            "not in cluster mode: name it with redis://",
        ),
        (sentinel, "no server of a cluster"),
    ] {
        let server = server.start().unwrap();
        let url = server.url().replace("redis://", "redis+cluster://");
        let at = || baton(&["--redis", &url]);
        assert_complains(at(), &[words]);
        let mut node = at();
        node.arg("run");
        let ended = run(node);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
        ended.complains(words);
    }
}

#[test]
fn a_seed_that_is_no_server_of_a_cluster_is_passed_over() {
    let cluster = ClusterGroup::start(&PrivateServer::builder(), 1, 0).unwrap();
    let other = PrivateServer::builder().start().unwrap();
    let stray = other.url().replace("redis://", "");
    let stray = stray.trim_end_matches('/');
    let url = cluster
        .url()
        .replace("cluster://", &format!("cluster://{stray},"));
    // Whichever of the two answers first.
    for _ in 0..8 {
        let ended = run(baton(&["status", "--redis", &url]));
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
    // Without any server of a cluster, the first one is named.
    let another = PrivateServer::builder().start().unwrap();
    let another = another.url().replace("redis://", "");
    let url = format!("redis+cluster://{stray},{}", another.trim_end_matches('/'));
    let words = format!("{stray}: the server is not in cluster mode");
    assert_complains(baton(&["--redis", &url]), &[&words]);
}

#[test]
fn a_fleet_that_has_not_decided_how_many_partitions_it_has_is_not_paused() {
    let cluster = ClusterGroup::start(&PrivateServer::builder(), 1, 0).unwrap();
    for command in ["pause", "drain"] {
        let ended = run(baton(&[command, "--redis", &cluster.url()]));
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
        ended.complains("there is no fleet \"default\" yet");
    }
    assert_eq!(keys(&cluster), 0);
}

fn keys(cluster: &ClusterGroup) -> u64 {
    let client = redis::Client::open(cluster.servers[0].url()).unwrap();
    let mut connection = client.get_connection().unwrap();
    redis::cmd("DBSIZE").query(&mut connection).unwrap()
}
