//! `baton pause`, `baton resume` and `baton drain`.

use std::time::Duration;

use baton_log::LogEvent;
use baton_processes::Fleet;
use rustix::process::Signal;
use serde_json::Value;

use crate::seeder::{Seeder, texts};
use crate::shared::{fleet_of, wait_status};
use crate::support::{baton, end, on, read_line, send, server, signal};

#[test]
fn a_pause_says_what_it_did_and_status_shows_it_until_a_resume() {
    let server = server();
    let _seed = Seeder::new(&server);
    let paused = on(&server, &["pause", "generator"]);
    assert_eq!(paused.code, Some(0), "{paused:?}");
    assert_eq!(
        paused.lines(),
        ["paused the generator; `baton resume generator` ends it"]
    );
    paused.complains("no node of the fleet \"default\" is alive");

    let both = on(&server, &["pause"]);
    assert_eq!(both.code, Some(0), "{both:?}");
    both.says("the generator had been paused for ");
    both.says("paused the workers; `baton resume workers` ends it\n");

    let status = on(&server, &["status"]);
    assert_eq!(status.code, Some(0), "{status:?}");
    status.says("\npaused     generator for ");
    status.says(" s, workers for ");
    status.says("; `baton resume` ends it\n");
    let json: Value = serde_json::from_str(&on(&server, &["status", "--json"]).stdout).unwrap();
    for part in ["generator", "workers"] {
        let paused = &json["paused"];
        assert!(paused[format!("{part}_since_ms")].is_u64(), "{paused}");
        assert!(paused[format!("{part}_since")].is_string(), "{paused}");
    }

    let resumed = on(&server, &["resume", "workers"]);
    assert_eq!(resumed.code, Some(0), "{resumed:?}");
    resumed.says("resumed the workers, after ");
    let resumed = on(&server, &["resume"]);
    resumed.says("resumed the generator, after ");
    resumed.says("the workers had not been paused\n");
    let status = on(&server, &["status"]);
    assert!(!status.stdout.contains("paused"), "{status:?}");
    let json: Value = serde_json::from_str(&on(&server, &["status", "--json"]).stdout).unwrap();
    assert!(json["paused"]["generator_since_ms"].is_null(), "{json}");
}

#[test]
fn a_part_that_does_not_exist_is_refused_and_the_help_names_both() {
    let server = server();
    let ended = on(&server, &["pause", "queue"]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    ended.complains("generator");
    let help = on(&server, &["pause", "--help"]);
    for words in ["generator", "workers", "baton drain", "baton_paused"] {
        help.says(words);
    }
}

#[test]
fn a_user_without_the_rights_is_told_so_and_nothing_is_paused() {
    let server = server();
    let rules = "on >secret ~* &* +@all -hset";
    let words: Vec<&str> = ["ACL", "SETUSER", "viewer"]
        .into_iter()
        .chain(rules.split(' '))
        .collect();
    send(&server, &words);
    let url = server.url().replace("redis://", "redis://viewer:secret@");
    let ended = crate::support::run(baton(&["--redis", &url, "pause"]));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    ended.complains("hset");
    let status = on(&server, &["status"]);
    assert!(!status.stdout.contains("paused"), "{status:?}");
}

#[test]
fn a_drain_without_wait_pauses_the_generator_and_says_what_is_left() {
    let server = server();
    let mut seed = Seeder::new(&server);
    seed.delay(&texts(1..=1), Duration::from_secs(600));
    seed.publish(&texts(2..=4));
    seed.claim(1);
    let drain = on(&server, &["drain"]);
    assert_eq!(drain.code, Some(0), "{drain:?}");
    drain.says("paused the generator; `baton resume generator` ends it\n");
    drain.says("4 messages have not ended: 2 pending, 1 claimed, 1 delayed, the first due in 9m 5");
    on(&server, &["status"]).says("\npaused     generator for ");
}

#[test]
fn a_drain_of_a_fleet_at_rest_returns_at_once() {
    let server = server();
    let drain = on(&server, &["drain", "--wait"]);
    assert_eq!(drain.code, Some(0), "{drain:?}");
    drain.says("drained: every message has ended\n");
    drain.complains("no node of the fleet");
}

/// A fleet in which each message fails once and waits for its next attempt.
fn fleet_with_delays(server: &baton_server::PrivateServer) -> Fleet {
    let args = "--interval 5ms --attempts 2 --backoff 300ms..300ms --exec false";
    fleet_of(3, server, args)
}

#[test]
fn a_drain_waits_for_delayed_messages_too() {
    let server = server();
    let fleet = fleet_with_delays(&server);
    wait_status(&server, "delayed messages", |status| status.delayed > 3);
    let drain = on(&server, &["drain", "--wait"]);
    assert_eq!(drain.code, Some(0), "{drain:?}");
    drain.says("drained: every message has ended\n");
    drain.complains("messages have not ended: ");
    let status = wait_status(&server, "the books", |_| true);
    assert_eq!(
        (status.pending, status.claimed, status.delayed),
        (0, 0, 0),
        "{status:?}"
    );
    assert_eq!(status.failed, status.published, "{status:?}");
    assert!(status.published > 3 && status.balanced, "{status:?}");
    let warned = fleet.told().into_iter().find(
        |told| matches!(told.event(), LogEvent::Warning { text } if text.contains("queue is full")),
    );
    assert!(warned.is_none(), "a paused queue is not full: {warned:?}");
}

#[test]
fn a_drain_that_can_not_end_says_why_and_ctrl_c_leaves_the_generator_paused() {
    let server = server();
    let mut seed = Seeder::new(&server);
    seed.publish(&texts(1..=3));
    // No node of the roster holds it.
    seed.claim(1);
    on(&server, &["pause", "workers"]);
    let url = server.url();
    let mut drain = baton(&["--redis", &url, "drain", "--wait"])
        .spawn()
        .unwrap();
    let mut stderr = drain.stderr.take().unwrap();
    let mut said = Vec::new();
    while !said
        .iter()
        .any(|line: &String| line.contains("workers are paused"))
    {
        said.push(read_line(&mut stderr));
    }
    on(&server, &["resume", "workers"]);
    while !said
        .iter()
        .any(|line: &String| line.contains("no worker is alive"))
    {
        said.push(read_line(&mut stderr));
    }
    signal(&drain, Signal::INT);
    let last = read_line(&mut stderr);
    assert_eq!(
        last,
        "baton: interrupted: 3 messages have not ended: 2 pending, 1 claimed, 0 delayed; the \
         generator stays paused until `baton resume generator`"
    );
    assert_eq!(end(drain).code, Some(130));
    on(&server, &["status"]).says("\npaused     generator for ");
}

#[test]
fn a_drain_ends_with_an_error_if_another_client_resumes_the_generator() {
    let server = server();
    let mut seed = Seeder::new(&server);
    seed.publish(&texts(1..=3));
    let url = server.url();
    let mut drain = baton(&["--redis", &url, "drain", "--wait"])
        .spawn()
        .unwrap();
    let mut stdout = drain.stdout.take().unwrap();
    assert!(read_line(&mut stdout).starts_with("paused the generator"));
    on(&server, &["resume"]);
    let ended = end(drain);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    ended.complains("another client has resumed it");
}
