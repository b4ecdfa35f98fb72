//! `baton run` beside its work: its log, its waiting, its end.

use std::process::Child;

use baton_server::PrivateServer;
use rustix::process::Signal;
use serde_json::Value;

use crate::support::{baton, dead_port, end, on, read_line, server, signal};

fn start(server: &PrivateServer, args: &[&str]) -> Child {
    let url = server.url();
    let mut all = vec!["run", "--redis", &url];
    all.extend(args);
    baton(&all).spawn().unwrap()
}

fn nodes(server: &PrivateServer) -> Value {
    let status: Value = serde_json::from_str(&on(server, &["status", "--json"]).stdout).unwrap();
    status["nodes"].clone()
}

#[test]
fn a_node_whose_log_reader_is_gone_stops_in_good_order() {
    let server = server();
    let mut node = start(&server, &["--interval", "5ms"]);
    let mut stdout = node.stdout.take().unwrap();
    let first = read_line(&mut stdout);
    assert!(first.ends_with("became generator, epoch 1"), "{first}");
    let name = first.split_whitespace().nth(1).unwrap().to_owned();
    assert_eq!(nodes(&server)[0]["node"], name);
    drop(stdout);
    let ended = end(node);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    assert_eq!(nodes(&server), serde_json::json!([]));
}

#[test]
fn a_node_waits_for_its_redis_and_says_so_once() {
    let url = format!("redis://:s3cret@127.0.0.1:{}", dead_port());
    for args in [vec!["--redis", &url], vec!["--no-embedded"]] {
        let mut all = vec!["run", "--log", "json"];
        all.extend(args);
        let mut node = baton(&all).spawn().unwrap();
        let line = read_line(node.stdout.as_mut().unwrap());
        let told: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(
            (&told["event"], &told["state"]),
            (&"redis".into(), &"lost".into()),
            "{line}"
        );
        assert_eq!(told["node"].as_str().unwrap().len(), 10);
        signal(&node, Signal::INT);
        let ended = end(node);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let rest: Vec<Value> = ended
            .lines()
            .iter()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(
            rest.iter().map(|told| &told["event"]).collect::<Vec<_>>(),
            ["stopped"]
        );
        assert!(!format!("{line}{ended:?}").contains("s3cret"));
    }
}
