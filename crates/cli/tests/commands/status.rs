//! `baton status`: it says where every message is and changes nothing.

use std::time::{Duration, Instant, UNIX_EPOCH};

use baton_server::PrivateServer;
use redis::Commands;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::seeder::{Seeder, texts, with_failures};
use crate::shared::redis;
use crate::shared::replicated::PlantedNode;
use crate::support::{TIMEOUT, baton, end, on, send, server, signal, wait_until};

#[test]
fn status_says_where_every_message_is() {
    let (server, mut seed) = with_failures(6);
    seed.publish(&texts(7..=10));
    seed.claim(1);
    let status = on(&server, &["status"]);
    assert_eq!(status.code, Some(0), "{}", status.stderr);
    for part in [
        "fleet      default on redis://127.0.0.1:",
        "generator  none at this moment",
        "balanced: published 10 = done 0 + failed 6 + pending 3 + claimed 1 + delayed 0\n",
        "6 failed messages wait for `baton getErrors`",
        "appendonly no",
        "nodes      none",
        "\nwarning: appendonly is off",
    ] {
        status.says(part);
    }

    let status: Value = serde_json::from_str(&on(&server, &["status", "--json"]).stdout).unwrap();
    for (name, value) in [
        ("published", 10),
        ("done", 0),
        ("failed", 6),
        ("pending", 3),
        ("claimed", 1),
        ("delayed", 0),
        ("dropped", 0),
        ("errors", 6),
    ] {
        assert_eq!(status[name], value, "{name}");
    }
    assert_eq!(
        (&status["balanced"], &status["nodes"]),
        (&json!(true), &json!([]))
    );
    assert_eq!(
        (&status["generator"]["node"], &status["generator"]["since"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(
        (&status["next_due_ms"], &status["next_due"]),
        (&Value::Null, &Value::Null)
    );
}

#[test]
fn status_says_how_many_messages_wait_for_their_next_attempts_and_until_when() {
    let server = server();
    let mut seed = Seeder::new(&server);
    seed.delay(&texts(1..=1), Duration::from_secs(600));
    let status = on(&server, &["status"]);
    assert_eq!(status.code, Some(0), "{}", status.stderr);
    status.says("delayed    1 message waits for its next attempt, due in 9m 5");
    seed.delay(&texts(2..=3), Duration::from_secs(50));
    seed.publish(&texts(4..=4));
    let status = on(&server, &["status"]);
    for part in [
        "balanced: published 4 = done 0 + failed 0 + pending 1 + claimed 0 + delayed 3\n",
        "delayed    3 messages wait for their next attempts, the first in ",
    ] {
        status.says(part);
    }
    let status: Value = serde_json::from_str(&on(&server, &["status", "--json"]).stdout).unwrap();
    assert_eq!(
        (&status["delayed"], &status["pending"]),
        (&json!(3), &json!(1))
    );
    assert_eq!(status["balanced"], true);
    let [now_ms, due_ms] = ["now_ms", "next_due_ms"].map(|name| status[name].as_u64().unwrap());
    assert!((1..=50_000).contains(&(due_ms - now_ms)), "{status}");
    let due = humantime::parse_rfc3339(status["next_due"].as_str().unwrap()).unwrap();
    assert_eq!(due, UNIX_EPOCH + Duration::from_millis(due_ms));
    // No node is there to return them to the queue when they are due.
    let delayed = &seed.store.keys().delayed;
    send(
        &server,
        &["ZADD", delayed, "XX", "1", &first_member(&server, delayed)],
    );
    on(&server, &["status"]).says("the first now\n");
}

/// The first member of a sorted set.
fn first_member(server: &PrivateServer, key: &str) -> String {
    let members: Vec<String> = redis(server).zrange(key, 0, 0).unwrap();
    members.into_iter().next().unwrap()
}

#[test]
fn status_warns_of_a_handler_that_cannot_work() {
    let server = server();
    let url = server.url();
    let command = "echo '\u{1b}[31mno jq' >&2; exit 127";
    let node = [
        "run",
        "--redis",
        &url,
        "--interval",
        "20ms",
        "--exec",
        command,
    ];
    let nodes = [0; 2].map(|_| baton(&node).spawn().unwrap());
    let deadline = Instant::now() + TIMEOUT;
    let warning = loop {
        let status = on(&server, &["status"]);
        let mut lines = status.stdout.lines();
        match lines.find(|line| line.contains("cannot work")) {
            Some(line) => break line.to_owned(),
            None => assert!(Instant::now() < deadline, "{}", status.stdout),
        }
    };
    let status: Value = serde_json::from_str(&on(&server, &["status", "--json"]).stdout).unwrap();
    let all = status["nodes"].as_array().unwrap();
    let broken: Vec<&Value> = all
        .iter()
        .filter(|node| node["handler_trouble"].is_string())
        .collect();
    assert_eq!(broken.len(), 1, "{status}");
    let reason = "exit code 127: \u{1b}[31mno jq";
    assert_eq!(
        (&broken[0]["role"], &broken[0]["handler_trouble"]),
        (&json!("worker"), &json!(reason))
    );
    let name = broken[0]["node"].as_str().unwrap();
    let words = format!("the handler of {name} cannot work: {reason}");
    assert_eq!(status["handler_troubles"], json!([words]));
    assert_eq!(
        warning,
        format!("warning: {}", words.replace('\u{1b}', "\\x1b"))
    );
    for node in nodes {
        signal(&node, Signal::TERM);
        assert_eq!(end(node).code, Some(0));
    }
}

#[test]
fn status_counts_the_versions_of_a_mixed_fleet_and_says_nothing_of_a_uniform_one() {
    let server = server();
    let version = env!("CARGO_PKG_VERSION");
    let plant = |name, version| {
        let about = json!({"host": "planted", "pid": 1, "version": version});
        PlantedNode::saying(&server, name, &about)
    };
    let _same = plant("a", version);
    let url = server.url();
    let node = baton(&["run", "--redis", &url]).spawn().unwrap();
    wait_until("the real node to be there", || {
        on(&server, &["status", "--json"])
            .stdout
            .contains(r#""role":"generator""#)
    });
    let status = on(&server, &["status"]).stdout;
    assert!(!status.contains("\nversions "), "{status}");

    let former = plant("b", "0.1.9");
    on(&server, &["status"]).says(&format!(
        "\nversions   {version} (2 nodes), 0.1.9 (1 node)\n"
    ));
    signal(&node, Signal::TERM);
    assert_eq!(end(node).code, Some(0));
    // A node that is gone mixes nothing.
    wait_until("the real node to be gone", || {
        let status = on(&server, &["status"]).stdout;
        status.contains("\nversions   ") && status.contains("(1 node), ")
    });
    drop(former);
    wait_until("the fleet to be uniform", || {
        !on(&server, &["status"]).stdout.contains("\nversions   ")
    });
}

#[test]
fn status_fails_if_the_books_are_not_balanced() {
    let server = server();
    let mut seed = Seeder::new(&server);
    seed.publish(&texts(1..=3));
    send(&server, &["HINCRBY", &seed.store.keys().stats, "done", "1"]);
    let status = on(&server, &["status"]);
    assert_eq!(status.code, Some(1));
    let expected =
        "NOT BALANCED: published 3 ≠ done 1 + failed 0 + pending 3 + claimed 0 + delayed 0";
    status.says(expected);
    let json = on(&server, &["status", "--json"]);
    assert_eq!(json.code, Some(1));
    json.says(r#""balanced":false"#);
}

#[test]
fn names_from_redis_cannot_write_to_the_terminal() {
    let server = server();
    let seed = Seeder::new(&server);
    send(
        &server,
        &[
            "HSET",
            &seed.store.keys().nodes,
            "\u{1b}[2Jevil",
            "0 {\"host\":\"\\u001b[31mred\"}",
        ],
    );
    // View just now, on any clock.
    let seen = &seed.store.keys().seen;
    send(
        &server,
        &["ZADD", seen, "9007199254740991", "\u{1b}[2Jevil"],
    );
    for args in [&["status"][..], &["status", "--json"], &["clean"]] {
        let printed = on(&server, args);
        printed.says("evil");
        assert!(!printed.stdout.contains('\u{1b}'), "{args:?}: {printed:?}");
    }
}
