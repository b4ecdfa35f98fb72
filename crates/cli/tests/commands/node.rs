//! `baton run` beside its work: its log, its waiting, its end.

use std::process::Child;

use baton_server::PrivateServer;
use rustix::process::Signal;
use serde_json::Value;

use crate::support::{
    baton, baton_in_terminal, dead_port, end, on, read_line, server, shell, signal, wait_until,
};

fn start(server: &PrivateServer, args: &[&str]) -> Child {
    let url = server.url();
    let mut all = vec!["run", "--redis", &url];
    all.extend(args);
    baton_in_terminal(&all).spawn().unwrap()
}

fn status(server: &PrivateServer) -> Value {
    serde_json::from_str(&on(server, &["status", "--json"]).stdout).unwrap()
}

fn nodes(server: &PrivateServer) -> Value {
    status(server)["nodes"].clone()
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

#[test]
fn a_node_whose_terminal_closes_finishes_its_message_and_stops_in_good_order() {
    let server = server();
    let work = ["--generator-works", "always", "--work", "1s"];
    let mut node = start(&server, &[&work[..], &["--messages", "1"]].concat());
    wait_until("a busy node", || status(&server)["claimed"] == 1);
    // The shell of a closing terminal sends the signal, and so does the system when the shell ends.
    wait_until("its end", || {
        signal(&node, Signal::HUP);
        node.try_wait().unwrap().is_some()
    });
    let ended = end(node);
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert_eq!(status(&server)["claimed"], 0);
    let words: Vec<&str> = ended.lines();
    let ends = [" processed #1 done", " processed #1 failed", " stopped"];
    let told = |end: &str| words.iter().any(|line| line.ends_with(end));
    assert!(
        (told(ends[0]) || told(ends[1])) && told(ends[2]),
        "{words:?}"
    );
}

#[test]
fn a_node_that_was_started_to_outlive_its_terminal_does() {
    let server = server();
    // As `nohup` does.
    let mut command = shell("trap '' HUP; exec $BATON run --interval 20ms");
    command.env("REDIS_URL", server.url());
    let node = command.spawn().unwrap();
    let published = || status(&server)["published"].as_u64().unwrap();
    wait_until("a message", || published() > 0);
    signal(&node, Signal::HUP);
    let before = published();
    wait_until("more messages", || published() > before + 10);
    signal(&node, Signal::TERM);
    assert_eq!(end(node).code, Some(0));
}
