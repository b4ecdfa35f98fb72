//! `baton bench`: what it reports, what it finds, and that it leaves nothing behind.

use std::path::Path;
use std::time::Duration;

use baton::{FleetName, Target};
use baton_bench::{Plan, ServerProbe, burst, floor, floor_burst};
use baton_protocol::Keys;
use baton_server::PrivateServer;
use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Ended, baton, end, on, redis, run, server, signal, wait_until};

/// The object on the last line.
#[track_caller]
fn figures(ended: &Ended) -> Value {
    assert_eq!(ended.code, Some(0), "{ended:?}");
    serde_json::from_str(ended.lines().last().unwrap()).unwrap()
}

fn keys(server: &PrivateServer) -> Vec<String> {
    let mut keys: Vec<String> = redis::cmd("KEYS")
        .arg("*")
        .query(&mut redis(server))
        .unwrap();
    keys.sort();
    keys
}

/// Starts a bench whose messages take their time, and hurts the queue as soon as there is one.
fn hurt(
    server: &PrivateServer,
    report: &Path,
    hurt: impl Fn(&mut redis::Connection, &str),
) -> Ended {
    let mut bench = baton(&["bench", "--messages", "400", "--work", "5ms"]);
    bench
        .args(["--redis", &server.url(), "--report"])
        .arg(report);
    let bench = bench.spawn().unwrap();
    let queue = || {
        let found = keys(server);
        let queue = found.iter().find(|key| key.ends_with(":queue"));
        // The first fleet only measures memory: it keeps all and claims nothing.
        let claims = found.iter().any(|key| key.ends_with(":claims"));
        queue.filter(|_| claims).cloned()
    };
    let mut name = None;
    wait_until("a queue", || {
        name = queue();
        name.is_some()
    });
    hurt(&mut redis(server), &name.unwrap());
    end(bench)
}

#[test]
fn a_bench_tells_its_figures_and_finds_every_message_once() {
    let figures = figures(&run(baton(&["bench", "--messages", "20000", "--json"])));
    for name in [
        "seconds",
        "rate",
        "floor_rate",
        "ratio",
        "p50_ms",
        "p99_ms",
        "redis_cpu_us",
        "bytes_per_pending",
    ] {
        assert!(figures[name].as_f64().unwrap() > 0.0, "{name}: {figures}");
    }
    assert_eq!(figures["messages"], 20_000);
    assert_eq!(figures["lost"], 0);
    assert_eq!(figures["duplicated"], 0);
    assert_eq!(figures["kills"], 0);
    assert_eq!(figures["clean"], true);
}

#[test]
fn copies_that_are_killed_are_replaced_and_the_report_shows_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bench.html");
    let args = ["bench", "--messages", "60000", "--kill", "3", "--json"];
    let mut command = baton(&args);
    command.arg("--report").arg(&file);
    let figures = figures(&run(command));
    assert_eq!(figures["kills"], 3);
    assert_eq!(figures["clean"], true);
    let page = std::fs::read_to_string(&file).unwrap();
    assert!(page.starts_with("<!doctype html>"));
    assert_eq!(baton_report::check::troubles(&page), Vec::<String>::new());
    assert!(page.contains("60,000 messages, each exactly once"));
    assert!(page.contains("killed at"));
    assert_eq!(page.matches("<svg").count(), 2);
    for outside in ["http:", "https:", "src=", "href=", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn the_medians_of_several_runs_are_printed_for_people() {
    let ended = run(baton(&["bench", "--messages", "5000", "--runs", "3"]));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    ended.says("median of 3");
    ended.says("ours ÷ the unsafe queue");
    ended.says("audit                          clean");
}

#[test]
fn a_message_that_is_lost_is_named_and_the_bench_fails() {
    let server = server();
    let report = tempfile::NamedTempFile::new().unwrap();
    let ended = hurt(&server, report.path(), |redis, queue| {
        // A worker may have claimed what was seen there.
        wait_until("a range that waits", || {
            let range: Option<String> = redis::cmd("LPOP").arg(queue).query(redis).unwrap();
            range.is_some()
        });
    });
    assert_eq!(ended.code, Some(1), "{ended:?}");
    ended.complains("baton: lost: #");
    ended.says("FAILED");
    let page = std::fs::read_to_string(report.path()).unwrap();
    assert!(page.contains("400 messages, and the audit failed"));
    assert!(page.contains("<li>lost: #"));
}

#[test]
fn a_message_that_is_committed_twice_is_named_and_the_bench_fails() {
    let server = server();
    let report = tempfile::NamedTempFile::new().unwrap();
    let ended = hurt(&server, report.path(), |redis, queue| {
        // What is in one worker's hands is handed to another, too.
        let claims = queue.replace(":queue", ":claims");
        let mut range = None;
        wait_until("a claim", || {
            let held: Vec<String> = redis::cmd("HVALS").arg(&claims).query(redis).unwrap();
            range = held.first().map(|held| {
                let words: Vec<&str> = held.split(' ').collect();
                words[3..].join(" ")
            });
            range.is_some()
        });
        let mut push = redis::cmd("LPUSH");
        push.arg(queue).arg(range.unwrap()).exec(redis).unwrap();
    });
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let twice = "baton: committed more than once: #";
    ended.complains(twice);
}

#[test]
fn nothing_is_left_on_a_server_that_was_named() {
    let server = server();
    let ended = on(&server, &["bench", "--messages", "5000"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(keys(&server), Vec::<String>::new());
}

/// How many clients a server has, besides the one that asks.
fn clients(server: &PrivateServer) -> usize {
    let list: String = redis::cmd("CLIENT")
        .arg("LIST")
        .query(&mut redis(server))
        .unwrap();
    list.lines().count() - 1
}

#[test]
fn an_interrupted_bench_leaves_nothing_behind() {
    let server = server();
    let args = ["bench", "--work", "5ms", "--redis", &server.url()];
    let bench = baton(&args).spawn().unwrap();
    wait_until("copies", || clients(&server) >= 3);
    signal(&bench, Signal::INT);
    let ended = end(bench);
    assert_eq!(ended.code, Some(130), "{ended:?}");
    assert_eq!(keys(&server), Vec::<String>::new());
    wait_until("the end of all copies", || clients(&server) == 0);
}

#[test]
fn the_copies_of_a_bench_that_is_killed_end_with_it() {
    let server = server();
    let args = ["bench", "--work", "5ms", "--redis", &server.url()];
    let bench = baton(&args).spawn().unwrap();
    wait_until("copies", || clients(&server) >= 3);
    signal(&bench, Signal::KILL);
    assert_eq!(end(bench).code, None);
    wait_until("the end of all copies", || clients(&server) == 0);
}

#[test]
fn persistence_is_for_the_private_server_only() {
    let server = server();
    let ended = on(&server, &["bench", "--persistence", "always"]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    ended.complains("--persistence");
}

#[test]
fn a_report_that_cannot_be_written_is_said_before_the_first_run() {
    let args = ["bench", "--report", "/no/such/folder/bench.html"];
    let began = std::time::Instant::now();
    let ended = run(baton(&args));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    ended.complains("cannot write");
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_bench_that_cannot_start_leaves_the_report_before_as_it_is() {
    let report = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(report.path(), "the report before").unwrap();
    let mut command = baton(&[
        "bench",
        "--messages",
        "10",
        "--redis",
        "redis://127.0.0.1:1",
    ]);
    command.arg("--report").arg(report.path());
    let ended = run(command);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let kept = std::fs::read_to_string(report.path()).unwrap();
    assert_eq!(kept, "the report before");
}

fn plan(server: &PrivateServer, messages: u64) -> Plan {
    Plan {
        program: env!("CARGO_BIN_EXE_baton").into(),
        target: Target::parse(&server.url()).unwrap(),
        env: vec![("REDIS_URL".to_owned(), server.url())],
        messages,
        size: 64,
        workers: 2,
        kills: 0,
        error_rate: 0.05,
        flags: Vec::new(),
    }
}

#[test]
fn a_burst_is_timed_from_its_first_publish_to_its_last_commit() {
    let server = server();
    for messages in [1, 300] {
        let plan = plan(&server, messages);
        for took in [burst(&plan).unwrap(), floor_burst(&plan, 100).unwrap()] {
            // The copies took longer than this to start.
            let range = Duration::from_micros(1)..Duration::from_millis(500);
            assert!(range.contains(&took), "{messages} messages: {took:?}");
        }
    }
    assert_eq!(keys(&server), Vec::<String>::new());
}

#[test]
fn a_bare_set_and_get_costs_the_server_more_with_larger_texts() {
    let server = server();
    let cost = |size, messages| {
        let plan = Plan {
            size,
            ..plan(&server, messages)
        };
        floor::set_and_get(&plan).unwrap()
    };
    let (small, large) = (cost(64, 500_000), cost(16 << 10, 4000));
    assert!(small > 0.0 && large > 10.0 * small, "{small} {large}");
    assert_eq!(keys(&server), Vec::<String>::new());
}

#[test]
fn what_a_killed_generator_had_staged_is_removed_at_rest_too() {
    let server = server();
    let mut probe = ServerProbe::open(&Target::parse(&server.url()).unwrap()).unwrap();
    let fleet = Keys::new(&FleetName::new("killed").unwrap());
    let staged = format!("{}node:1", fleet.staged);
    redis::cmd("SET")
        .arg(&[staged.as_str(), "a pack"])
        .exec(&mut redis(&server))
        .unwrap();
    probe.remove(&fleet, true).unwrap();
    assert_eq!(keys(&server), Vec::<String>::new());
}
