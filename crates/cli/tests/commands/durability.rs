//! What a fleet can lose, as the views say it: the level of its nodes, on a server with replicas.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use baton_log::LogEvent;
use baton_server::PrivateServer;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::shared::page::{self, Page};
use crate::shared::redis;
use crate::shared::replicated::{PlantedNode, Replicated};
use crate::shared::wait_until;
use crate::support::{Ended, baton, end, on, read_line, read_log, signal};

fn status(server: &PrivateServer) -> (Ended, Value) {
    let text = on(server, &["status"]);
    assert_eq!(text.code, Some(0), "{}", text.stderr);
    let json = on(server, &["status", "--json"]);
    (text, serde_json::from_str(&json.stdout).unwrap())
}

#[test]
fn nodes_that_wait_for_every_replica_lose_nothing_confirmed() {
    let Replicated { server, replicas } = Replicated::start(2);
    // No node says what it waits for.
    let (text, json) = status(&server);
    text.says("warning: 2 replicas follow asynchronously: a failover can lose the last writes");
    assert!(!text.stdout.contains("\ndurability "), "{}", text.stdout);
    assert_eq!(
        json["durability"],
        json!({"level": null, "levels": {}, "promise": ""})
    );

    let _all = PlantedNode::start(&server, "a", "replicas:2", None);
    let (text, json) = status(&server);
    let promise = "a failover to any of the 2 replicas loses nothing confirmed";
    text.says(&format!("\ndurability replicas:2: {promise}\n"));
    assert!(!text.stdout.contains("warning: "), "{}", text.stdout);
    assert_eq!(
        json["durability"],
        json!({"level": "replicas:2", "levels": {"replicas:2": 1}, "promise": promise})
    );
    assert_eq!(json["nodes"][0]["durability"], "replicas:2");
    for replica in &replicas {
        let address = format!("127.0.0.1:{}", replica.port().unwrap());
        let rows = text.stdout.lines();
        let row = rows.filter(|row| row.starts_with("replicas   "));
        let row = row.collect::<String>();
        let (_, words) = row.split_once(&format!("{address} ")).unwrap_or_default();
        // Replicas acknowledge every second.
        let words = words.trim_start_matches(|c: char| c.is_ascii_digit());
        assert!(
            words.starts_with(" bytes unacknowledged, last heard "),
            "{row}"
        );
    }
    assert_eq!(json["server"]["replicas"], 2);
    assert_eq!(json["server"]["replication"][0]["state"], "online");

    // One of two may be the one that is promoted, or not.
    let _one = PlantedNode::start(&server, "b", "replicas:1", None);
    let (text, json) = status(&server);
    text.says("\ndurability replicas:1: ");
    text.says("warning: nodes wait for 1 of 2 replicas: a failover can promote another one");
    text.says("warning: the nodes differ in durability (1 at replicas:1, 1 at replicas:2)");
    assert_eq!(json["warnings"].as_array().unwrap().len(), 2, "{json}");
}

#[test]
fn a_node_whose_writes_are_not_confirmed_is_named_with_its_reason() {
    let group = Replicated::start(1);
    let server = &group.server;
    let reason = "1 of 2 replicas have the \u{1b}[31mwrites";
    let _node = PlantedNode::start(server, "a", "replicas:2", Some(reason));
    let (text, json) = status(server);
    text.says("\ndurability replicas:2: 1 of 2 replicas follow, so nothing is confirmed");
    text.says(
        "warning: the writes of a are not confirmed: 1 of 2 replicas have the \\x1b[31mwrites\n",
    );
    assert_eq!(json["nodes"][0]["durability_trouble"], reason);
    assert_eq!(
        json["durability_troubles"],
        json!([format!("the writes of a are not confirmed: {reason}")])
    );
}

#[test]
fn a_replica_that_hangs_is_behind_and_the_page_says_so_every_second() {
    let Replicated {
        server,
        mut replicas,
    } = Replicated::start(1);
    let page = Page::start(&server, &[]);
    let replica = format!("replica=\"127.0.0.1:{}\"", replicas[0].port().unwrap());
    let value = |metric: &str| -> Option<u64> {
        let metrics = page::get(&page.addr.to_string(), "/metrics");
        let mut lines = metrics.lines();
        let line = lines.find(|line| line.starts_with(metric) && line.contains(&replica))?;
        line.rsplit(' ').next()?.parse().ok()
    };
    wait_until("a replica that follows", || {
        value("baton_replica_behind_bytes{") == Some(0) && value("baton_replica_online{") == Some(1)
    });
    replicas[0].pause().unwrap();
    redis::cmd("SET")
        .arg("unconfirmed")
        .arg("x".repeat(5000))
        .exec(&mut redis(&server))
        .unwrap();
    let mut lags = BTreeSet::new();
    wait_until("a replica that is behind", || {
        let lag_s = value("baton_replica_lag_seconds{");
        lags.extend(lag_s.filter(|lag_s| *lag_s > 0));
        value("baton_replica_behind_bytes{") >= Some(5000) && lag_s >= Some(9)
    });
    // The page reads the lag every second, or nearly so, and the server's settings more rarely.
    assert!(lags.len() > 2, "{lags:?}");
    let (text, json) = status(&server);
    let listed = &json["server"]["replication"][0];
    assert!(listed["behind_bytes"].as_u64() >= Some(5000), "{listed}");
    assert!(listed["lag_s"].as_u64() >= Some(9), "{listed}");
    assert!(
        !text.stdout.contains(" 0 bytes unacknowledged"),
        "{}",
        text.stdout
    );
    replicas[0].resume().unwrap();
    wait_until("a replica that follows again", || {
        value("baton_replica_behind_bytes{") == Some(0)
    });
}

#[test]
fn a_node_is_not_ready_while_a_replica_that_it_waits_for_hangs() {
    let Replicated {
        server,
        mut replicas,
    } = Replicated::start(2);
    let url = server.url();
    let flags = ["--durability", "replicas:2", "--http", "127.0.0.1:0"];
    let run = ["run", "--redis", &url, "--interval", "20ms"];
    let mut node = baton(&[&run[..], &flags].concat()).spawn().unwrap();
    let line = read_line(node.stderr.as_mut().unwrap());
    let address = page::address_in(&line);
    let answers = |path, code, words: &str| page::answers(address, path, code, words);
    let trouble = "baton_node_durability_trouble{";
    let has_trouble = |value: &str| {
        let metrics = page::get(address, "/metrics");
        let mut lines = metrics.lines();
        let line = lines.find(|line| line.starts_with(trouble));
        line.is_some_and(|line| line.ends_with(value))
    };
    wait_until("a node that is ready", || {
        answers("/readyz", "200", "") && answers("/healthz", "200", "") && has_trouble(" 0")
    });
    let (text, json) = status(&server);
    text.says("\ndurability replicas:2: a failover to any of the 2 replicas loses nothing");
    assert_eq!(json["durability"]["levels"], json!({"replicas:2": 1}));

    replicas[1].pause().unwrap();
    let reason = "1 of 2 replicas have the last writes";
    wait_until("a node that is not ready", || {
        let words = format!("the writes of this node are not confirmed: {reason}\n");
        answers("/readyz", "503", &words) && has_trouble(" 1")
    });
    let (text, json) = status(&server);
    let name = json["nodes"][0]["node"].as_str().unwrap();
    text.says(&format!(
        "warning: the writes of {name} are not confirmed: {reason}\n"
    ));
    assert_eq!(json["nodes"][0]["durability_trouble"], reason);
    wait_until("a fleet that is unhealthy", || {
        answers("/healthz", "503", "writes were not confirmed for ")
    });

    replicas[1].resume().unwrap();
    wait_until("a node that is ready again", || {
        answers("/readyz", "200", "") && answers("/healthz", "200", "") && has_trouble(" 0")
    });
    signal(&node, Signal::TERM);
    let ended = end(node);
    assert_eq!(ended.code, Some(0));
    // The log has the end of what it warned of, once.
    let at = |words: &str| {
        let lines = ended.lines().into_iter().enumerate();
        let found = lines.filter(|(_, line)| line.contains(words));
        found.map(|(at, _)| at).collect::<Vec<_>>()
    };
    let warned = at("warning: nothing counts as written for now");
    let over = at("writes count again: the server confirms them");
    assert_eq!((warned.len(), over.len()), (1, 1), "{}", ended.stdout);
    assert!(warned < over, "{}", ended.stdout);
}

#[test]
fn a_node_that_stops_while_nothing_is_confirmed_ends_within_its_grace_and_says_so() {
    let Replicated {
        server,
        mut replicas,
    } = Replicated::start(1);
    let url = server.url();
    let run = [
        "run",
        "--redis",
        &url,
        "--interval",
        "20ms",
        "--log",
        "json",
    ];
    let flags = ["--durability", "replicas:1", "--generator-works", "always"];
    let mut node = baton(&[&run[..], &flags].concat()).spawn().unwrap();
    // Otherwise the node would wait for a reader of its log.
    let mut stdout = node.stdout.take().unwrap();
    let log = thread::spawn(move || std::io::read_to_string(&mut stdout).unwrap());
    wait_until("messages that ended", || {
        status(&server).1["done"].as_u64() > Some(5)
    });
    replicas[0].pause().unwrap();
    wait_until("a beat that says it", || {
        status(&server).1["durability_troubles"] != json!([])
    });
    let began = Instant::now();
    signal(&node, Signal::TERM);
    assert_eq!(end(node).code, Some(0));
    let took = began.elapsed();
    let log = log.join().unwrap();
    let events: Vec<LogEvent> = log.lines().map(|line| read_log(line).event).collect();
    let named = |name: &str| events.iter().filter(|event| event.name() == name).count();
    assert!(named("unconfirmed") > 0, "{log}");
    assert_eq!(named("lost"), 0, "{log}");
    // Five seconds for what may be confirmed after all, and the time that a node takes anyway.
    assert!(took < Duration::from_millis(6500), "{took:?}");
    // What it says is committed has ended, in the books of the server.
    let (_, json) = status(&server);
    assert_eq!(
        (&json["claimed"], &json["balanced"]),
        (&json!(0), &json!(true))
    );
}
