//! Redis itself goes away, forgets, or is full.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use baton_log::{LogEvent, RedisState};
use baton_processes::{Fleet, History, Told};
use baton_server::PrivateServer;
use redis::Commands;

use crate::support::{
    TIMEOUT, assert_each_once, durable_server, fleet_of, is_redis, keys, messages, redis, server,
    wait_for, wait_status, warns,
};

fn wait_ended(server: &PrivateServer, messages: u64) {
    wait_status(server, "progress", |status| {
        status.done + status.failed >= messages
    });
}

#[test]
fn scripts_forgotten_and_connections_killed_under_load_lose_and_repeat_nothing() {
    const MESSAGES: u64 = 40_000;
    let server = server();
    let args = "--interval 0 --messages 40000 --max-pending 2000";
    let fleet = fleet_of(4, &server, args);
    let mut connection = redis(&server);
    for round in 1..=8 {
        wait_ended(&server, MESSAGES * round / 10);
        if round % 2 == 0 {
            let _: () = ::redis::cmd("SCRIPT")
                .arg("FLUSH")
                .query(&mut connection)
                .unwrap();
        } else {
            let kill = ["NORMAL", "PUBSUB"];
            for kind in kill {
                let _: i64 = ::redis::cmd("CLIENT")
                    .arg("KILL")
                    .arg("TYPE")
                    .arg(kind)
                    .arg("SKIPME")
                    .arg("yes")
                    .query(&mut connection)
                    .unwrap();
            }
        }
    }
    assert_each_once(&fleet, &server, MESSAGES);
    assert!(
        fleet
            .told()
            .iter()
            .any(|told| is_redis(told, RedisState::Lost))
    );
    assert!(
        fleet
            .told()
            .iter()
            .any(|told| is_redis(told, RedisState::Regained))
    );
}

#[test]
fn redis_killed_and_restarted_with_its_append_only_file_under_load_loses_and_repeats_nothing() {
    const MESSAGES: u64 = 20_000;
    let mut server = durable_server();
    let args = "--interval 0 --messages 20000 --max-pending 2000";
    let fleet = fleet_of(4, &server, args);
    for round in 1..=3 {
        wait_ended(&server, MESSAGES * round / 5);
        server.kill9();
        server.restart().unwrap();
    }
    assert_each_once(&fleet, &server, MESSAGES);
}

#[test]
fn a_node_without_redis_waits_says_so_and_joins_when_it_comes() {
    let mut server = server();
    let url = server.url();
    server.kill9();
    let mut fleet = Fleet::new(
        env!("CARGO_BIN_EXE_baton"),
        &["--redis", &url, "--interval", "20ms"],
    );
    fleet.start().unwrap();
    wait_for(&fleet, 0, "it to say so", |told| {
        is_redis(told, RedisState::Lost)
    });
    server.restart().unwrap();
    wait_for(&fleet, 0, "it to generate", Told::is_published);
}

#[test]
fn a_full_redis_refuses_new_messages_whole_and_still_takes_commits() {
    let server = server();
    let mut connection = redis(&server);
    let used: String = ::redis::cmd("INFO")
        .arg("memory")
        .query(&mut connection)
        .unwrap();
    let used: u64 = used
        .lines()
        .find_map(|line| line.strip_prefix("used_memory:"))
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    let set = |connection: &mut ::redis::Connection, limit: u64| {
        let _: () = ::redis::cmd("CONFIG")
            .arg("SET")
            .arg("maxmemory")
            .arg(limit)
            .query(connection)
            .unwrap();
    };
    // Room for the nodes, not for all messages: they take more than 4 MB.
    set(&mut connection, used + 2 * 1024 * 1024);
    let mut fleet = fleet_of(
        1,
        &server,
        "--interval 0 --messages 60000 --max-errors 100000",
    );
    wait_for(&fleet, 0, "a warning", |told| warns(told, "OOM"));
    // Workers drain a server that is full to the brim.
    fleet.start_many(2, TIMEOUT).unwrap();
    wait_for(&fleet, 0, "commits", Told::is_processed);
    set(&mut connection, 0);
    assert_each_once(&fleet, &server, 60_000);
}

#[test]
fn garbage_in_the_queue_goes_to_errors_with_its_bytes_and_workers_live_on() {
    let server = server();
    let fleet = fleet_of(3, &server, "--interval 20ms --error-rate 0");
    let mut connection = redis(&server);
    for garbage in [
        &b"garbage"[..],
        b"\xff\x00\x1b[31m",
        b"1 1 1 1 0 x",
        b"99999999 1 99999999 99999999 0",
    ] {
        let _: () = connection.rpush(keys().queue, garbage).unwrap();
    }
    let status = wait_status(&server, "it to be sorted out", |status| status.errors == 4);
    assert!(status.balanced, "{status:?}");
    assert_eq!((status.foreign, status.failed), (4, 0));
    let kept: BTreeMap<u64, Vec<u8>> = connection.hgetall(keys().errors).unwrap();
    let kept: Vec<_> = kept
        .values()
        .map(|record| baton_protocol::record::decode(record).text)
        .collect();
    assert_eq!(
        kept,
        [
            &b"garbage"[..],
            b"\xff\x00\x1b[31m",
            b"1 1 1 1 0 x",
            b"99999999 1 99999999 99999999 0"
        ]
    );
    let mark = fleet.mark();
    wait_for(&fleet, mark, "work to go on", Told::is_processed);
}

#[test]
fn a_pack_that_cannot_be_read_fails_with_its_bytes_and_workers_live_on() {
    let server = server();
    let fleet = fleet_of(1, &server, "--interval 20ms --messages 5 --error-rate 0");
    wait_for(&fleet, 0, "all published", |told| {
        told.is_published() && told.covers(5)
    });
    let mut connection = redis(&server);
    let _: () = connection.set(keys().pack_key(3), "not a pack").unwrap();
    let mut fleet = fleet;
    fleet.start_many(1, TIMEOUT).unwrap();
    assert_each_once(&fleet, &server, 5);
    let kept: BTreeMap<u64, Vec<u8>> = connection.hgetall(keys().errors).unwrap();
    let kept = baton_protocol::record::decode(&kept[&1]);
    assert_eq!((kept.seq, kept.text.as_slice()), (3, &b"not a pack"[..]));
}

#[test]
fn a_lost_ring_delays_no_worker_for_long() {
    let server = server();
    // One idle worker is first in line and rings again within a beat.
    let fleet = fleet_of(2, &server, "--interval 300ms --error-rate 0");
    let mut connection = redis(&server);
    wait_for(&fleet, 0, "a worker", Told::is_processed);
    let deadline = Instant::now() + TIMEOUT;
    let mut lost = 0;
    while lost < 3 {
        assert!(Instant::now() < deadline, "the worker falls asleep");
        // A ring takes the node out of `idle`. This one goes nowhere.
        let rung: Vec<(String, f64)> = connection.zpopmin(keys().idle, 1).unwrap();
        lost += rung.len();
    }
    let published = wait_for(&fleet, fleet.mark(), "a message", Told::is_published);
    let processed = wait_for(&fleet, 0, "its end", |told| {
        told.is_processed() && told.covers(messages(&published).0)
    });
    // Without a ring, a worker looks again only after five seconds.
    assert!(processed.at.saturating_duration_since(published.at) < Duration::from_secs(3));
}

#[test]
fn a_fleet_whose_redis_lost_everything_goes_on_behind_the_numbers_that_it_gave() {
    let mut server = server();
    let fleet = fleet_of(3, &server, "--interval 20ms");
    for round in 1..=2 {
        // More than a generator keeps of what Redis confirmed.
        let enough = |told: &Told| told.is_processed() && messages(told).1 > round * 250;
        wait_for(&fleet, 0, "messages", enough);
        // Without persistence a restarted server knows nothing.
        server.kill9();
        let mark = fleet.mark();
        server.restart().unwrap();
        let is_void = |told: &Told| matches!(told.event(), LogEvent::Void { .. });
        let void = wait_for(&fleet, mark, "void numbers", is_void);
        let &LogEvent::Void { first: 1, last } = void.event() else {
            panic!("all numbers are void: {void:?}");
        };
        let next = wait_for(&fleet, mark, "a message behind them", |told| {
            told.is_published() && messages(told).0 > last
        });
        assert_eq!(messages(&next).0, last + 1);
        wait_for(&fleet, mark, "its end", |told| {
            told.is_processed() && told.covers(last + 1)
        });
    }
    let history = History::new(&fleet.told());
    assert_eq!(history.published_twice(), Vec::<u64>::new());
}
