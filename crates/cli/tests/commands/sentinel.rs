//! A server that Sentinels name: what a command and a node say if they cannot.

use baton_server::{PrivateServer, SentinelGroup};
use rustix::process::Signal;
use serde_json::Value;

use crate::support::{baton, end, read_line, run, signal, status, three_messages};

fn complaint(url: &str) -> String {
    let mut command = baton(&["--redis", url]);
    command.args(["status", "--json"]);
    let ended = run(command);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    assert!(!ended.stderr.contains("s3cret"), "{}", ended.stderr);
    ended.stderr
}

#[test]
fn a_fleet_lives_on_the_master_and_whoever_names_no_master_is_told() {
    let group = SentinelGroup::start(&PrivateServer::builder(), 1).unwrap();
    let url = group.url();
    three_messages(|| baton(&["--redis", &url]));
    assert_eq!(status(baton(&["--redis", &url]))["done"], 3);
    // The master has the messages, and a replica is no place for a fleet.
    let master = group.servers[group.master().unwrap()].url();
    assert_eq!(status(baton(&["--redis", &master]))["done"], 3);

    let unknown = url.replace("/fleet", "/other");
    let why = complaint(&unknown);
    assert!(
        why.contains("no Sentinel knows the master 'other'"),
        "{why}"
    );
    assert!(why.contains("No such master with that name"), "{why}");

    let mut command = baton(&["--redis", &unknown]);
    command.args(["run", "--log", "json"]);
    let mut node = command.spawn().unwrap();
    let line = read_line(node.stdout.as_mut().unwrap());
    let told: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(
        (&told["event"], &told["state"]),
        (&"redis".into(), &"lost".into())
    );
    assert!(
        line.contains("no Sentinel knows the master 'other'"),
        "{line}"
    );
    signal(&node, Signal::TERM);
    assert_eq!(end(node).code, Some(0));
}

#[test]
fn sentinels_that_do_not_answer_are_named_one_by_one() {
    let server = PrivateServer::builder().start().unwrap();
    let port = server.port().unwrap();
    let url = format!(
        "redis+sentinel://:s3cret@127.0.0.1:1,127.0.0.1:{port}/mymaster?sentinel_password=s3cret"
    );
    let why = complaint(&url);
    for part in [
        "127.0.0.1:1: Connection refused",
        &format!("127.0.0.1:{port}: "),
    ] {
        assert!(why.contains(part), "{part} in {why}");
    }
}
