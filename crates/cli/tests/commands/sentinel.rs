//! A server that Sentinels name: what a command and a node say if they cannot.

use std::process::Command;

use baton_server::{PrivateServer, SentinelGroup};

use crate::shared::server_matrix::start_each;
use crate::support::{
    assert_complains, assert_waits, baton, connections, dead_port, run, send, status,
    three_messages,
};

fn at(url: &str) -> Command {
    baton(&["--redis", url])
}

/// A Sentinel that watches the server on this port, and belongs to no group.
fn sentinel_of(server: &PrivateServer) -> PrivateServer {
    let port = server.port().unwrap();
    PrivateServer::builder()
        .sentinel()
        .config("sentinel", format!("monitor fleet 127.0.0.1 {port} 1"))
        .start()
        .unwrap()
}

fn url_of(sentinels: &[&PrivateServer]) -> String {
    let ports = sentinels.iter().map(|sentinel| sentinel.port().unwrap());
    let hosts: Vec<_> = ports.map(|port| format!("127.0.0.1:{port}")).collect();
    format!("redis+sentinel://{}/fleet", hosts.join(","))
}

#[test]
fn a_fleet_lives_on_the_master_and_a_wrong_name_of_the_master_is_told() {
    let group = SentinelGroup::start(&PrivateServer::builder(), 1).unwrap();
    let url = group.url();
    three_messages(|| at(&url));
    assert_eq!(status(at(&url))["done"], 3);
    // The master has the messages.
    let master = group.servers[group.agreed_master().unwrap()].url();
    assert_eq!(status(at(&master))["done"], 3);

    let unknown = url.replace("/fleet", "/other");
    let words = [
        "no Sentinel names the master 'other'",
        "it watches no master of this name",
    ];
    assert_complains(at(&unknown), &words);
    let attempts = || group.sentinels.iter().map(connections).sum();
    assert_waits(at(&unknown), &words, attempts);
}

#[test]
fn sentinels_that_do_not_answer_are_named_one_by_one() {
    let (one, two) = (dead_port(), dead_port());
    let url = format!("redis+sentinel://127.0.0.1:{one},127.0.0.1:{two}/fleet");
    let (one, two) = (
        format!("127.0.0.1:{one}: Connection refused"),
        format!("127.0.0.1:{two}: Connection refused"),
    );
    assert_complains(at(&url), &["no Sentinel answers", &one, &two]);
}

#[test]
fn a_server_that_is_named_as_a_sentinel_is_told_from_one() {
    let server = PrivateServer::builder().start().unwrap();
    let url = url_of(&[&server]);
    let words = ["this is a server, not a Sentinel"];
    assert_complains(at(&url), &words);
    assert_waits(at(&url), &words, || connections(&server));
}

#[test]
fn sentinels_that_disagree_are_named_with_what_they_say() {
    let servers = [(); 2].map(|()| PrivateServer::builder().start().unwrap());
    let sentinels = [sentinel_of(&servers[0]), sentinel_of(&servers[1])];
    let url = url_of(&[&sentinels[0], &sentinels[1]]);
    let each = [0, 1].map(|at| {
        let (server, sentinel) = (servers[at].port(), sentinels[at].port());
        let (server, sentinel) = (server.unwrap(), sentinel.unwrap());
        format!("127.0.0.1:{server} (by 127.0.0.1:{sentinel})")
    });
    let words = ["the Sentinels disagree", &each[0], &each[1]];
    assert_complains(at(&url), &words);
    let attempts = || sentinels.iter().map(connections).sum();
    assert_waits(at(&url), &words, attempts);
    // Each of them alone has an answer.
    assert_eq!(status(at(&url_of(&[&sentinels[1]])))["published"], 0);
}

#[test]
fn a_replica_that_a_sentinel_calls_the_master_is_told_from_one() {
    let master = PrivateServer::builder().start().unwrap();
    let replica = PrivateServer::builder().start().unwrap();
    let sentinel = sentinel_of(&replica);
    let port = master.port().unwrap().to_string();
    send(&replica, &["REPLICAOF", "127.0.0.1", &port]);
    let words = ["should be the master and is a replica"];
    let url = url_of(&[&sentinel]);
    assert_complains(at(&url), &words);
    assert_waits(at(&url), &words, || connections(&replica));
}

#[test]
fn every_command_refuses_a_sentinel_that_is_named_like_a_server() {
    let builder = || PrivateServer::builder().sentinel();
    for (name, sentinel) in start_each(builder) {
        for command in ["run", "status", "errors", "getErrors", "clean"] {
            let mut program = at(&sentinel.url());
            program.arg(command);
            let ended = run(program);
            assert_eq!(ended.code, Some(1), "{name}, {command}");
            assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
            ended.complains("this is a Sentinel");
            ended.complains("redis+sentinel://");
        }
    }
}

#[test]
fn sentinels_have_a_user_and_a_password_of_their_own() {
    let group = SentinelGroup::builder(PrivateServer::builder().password("s3cret"))
        .replicas(1)
        .sentinel_login("watcher", "s3ntinel")
        .start()
        .unwrap();
    let url = group.url();
    let known = || {
        let mut command = at(&url);
        command.env("REDIS_PASSWORD", "s3cret");
        command
    };
    three_messages(known);
    assert_eq!(status(known())["done"], 3);
    let (without, _) = url.split_once('?').unwrap();
    for url in [without, &url.replace("s3ntinel", "other")] {
        let mut command = at(url);
        command.env("REDIS_PASSWORD", "s3cret");
        let words = "the Sentinel wants a user or password of its own: sentinel_user";
        assert_complains(command, &[words]);
    }
    // The servers' password is another one.
    assert_complains(at(&url), &["NOAUTH, the server wants a password"]);
}
