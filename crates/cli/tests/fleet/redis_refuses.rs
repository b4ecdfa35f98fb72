//! Redis lives and refuses: a demoted primary, another password, too many clients, a disk that
//! takes no snapshot. A node says why, once, does not flood the server, and goes on afterwards.

use std::process::Command;
use std::time::Duration;

use baton_log::{LogEvent, RedisState};
use baton_processes::{Fleet, Told};
use baton_server::{Fsync, PrivateServer};

use crate::shared::page::get;
use crate::shared::server_matrix::start_each;
use crate::shared::wait_until;
use crate::support::{TIMEOUT, fleet_at, fleet_of, is_redis, redis, server, wait_for};

/// How long nodes are watched while Redis refuses.
const WATCHED: Duration = Duration::from_secs(4);
/// Most connections that a node may open in that time: attempts grow from 20 ms to 1 s apart.
const MAX_CONNECTIONS: u64 = 16;
/// Most lines that a node may log in that time.
const MAX_LINES: usize = 6;

fn send(connection: &mut ::redis::Connection, words: &[&str]) {
    let mut command = ::redis::cmd(words[0]);
    command.arg(&words[1..]);
    command.exec(connection).unwrap();
}

/// Cuts every connection but this one.
fn cut_all(connection: &mut ::redis::Connection) {
    for kind in ["normal", "pubsub"] {
        send(
            connection,
            &["CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes"],
        );
    }
}

/// A number of `INFO`.
fn info(connection: &mut ::redis::Connection, field: &str) -> String {
    let info: String = ::redis::cmd("INFO").query(connection).unwrap();
    let value = info
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    value.unwrap_or_default().trim().to_owned()
}

fn opened(connection: &mut ::redis::Connection) -> u64 {
    let opened = info(connection, "total_connections_received");
    opened.parse().unwrap()
}

fn is_lost(told: &Told, reason: &str) -> bool {
    matches!(told.event(), LogEvent::Redis { state: RedisState::Lost, reason: Some(said) }
        if said.contains(reason))
}

fn is_regained(told: &Told) -> bool {
    is_redis(told, RedisState::Regained)
}

/// Each copy says this reason.
#[track_caller]
fn wait_lost(fleet: &Fleet, mark: usize, reason: &str) {
    for copy in fleet.alive() {
        let said = |told: &Told| told.copy == copy && is_lost(told, reason);
        wait_for(fleet, mark, reason, said);
    }
}

/// Each copy says once that Redis is back, and messages end again.
#[track_caller]
fn wait_regained(fleet: &Fleet, mark: usize) {
    for copy in fleet.alive() {
        let said = |told: &Told| told.copy == copy && is_regained(told);
        wait_for(fleet, mark, "Redis back", said);
    }
    let mark = fleet.mark();
    let ended = Told::is_processed;
    wait_for(fleet, mark, "an end", ended);
}

/// Watches the copies while Redis refuses: how often they connect, and what they log. No copy
/// logs a line twice.
#[track_caller]
fn assert_calm(fleet: &Fleet, connection: &mut ::redis::Connection) {
    let (mark, before) = (fleet.mark(), opened(connection));
    fleet.watch_for(WATCHED).unwrap();
    let copies = fleet.alive();
    let connections = opened(connection) - before;
    assert!(
        connections <= MAX_CONNECTIONS * copies.len() as u64,
        "{connections} connections"
    );
    for copy in copies {
        let told = fleet.told_since(mark);
        let lines: Vec<String> = told
            .iter()
            .filter(|told| told.copy == copy)
            .map(|told| match told.event() {
                LogEvent::Redis { reason, .. } => format!("redis {reason:?}"),
                LogEvent::Warning { text } => format!("warning {text}"),
                other => other.name().to_owned(),
            })
            .collect();
        assert!(lines.len() <= MAX_LINES, "{lines:#?}");
        let mut distinct = lines.clone();
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), lines.len(), "{lines:#?}");
    }
}

/// Waits until `/readyz` of a node answers with all these words.
#[track_caller]
fn wait_readiness(port: u16, words: &[&str]) {
    wait_until(&format!("{words:?}"), || {
        let answer = get(&format!("127.0.0.1:{port}"), "/readyz");
        words.iter().all(|word| answer.contains(word))
    });
}

/// What `baton status` complains about.
fn status_complaint(server: &PrivateServer) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
    let output = command.args(["status", "--redis", &server.url()]).output();
    String::from_utf8(output.unwrap().stderr).unwrap()
}

const SLOW: &str = "--interval 20ms --error-rate 0";

#[test]
fn a_demoted_primary_is_not_flooded_and_serves_again_when_it_is_promoted() {
    let server = server();
    let fleet = fleet_of(3, &server, SLOW);
    let mut connection = redis(&server);
    let mark = fleet.mark();
    // A primary that is not there: the server only waits for it.
    send(&mut connection, &["REPLICAOF", "127.0.0.1", "1"]);
    wait_lost(&fleet, mark, "read-only replica");
    assert_calm(&fleet, &mut connection);
    let mark = fleet.mark();
    send(&mut connection, &["REPLICAOF", "NO", "ONE"]);
    wait_regained(&fleet, mark);
}

#[test]
fn another_password_is_said_by_the_log_by_readyz_and_by_status() {
    let server = server();
    let port = baton_server::free_port().unwrap();
    let http = format!("127.0.0.1:{port}");
    let mut fleet = fleet_of(1, &server, SLOW);
    let own = baton_processes::Own {
        args: vec!["--http".to_owned(), http],
        ..baton_processes::Own::default()
    };
    fleet.start_with(own).unwrap();
    let joined = |told: &Told| told.copy == 1 && matches!(told.event(), LogEvent::Worker { .. });
    wait_for(&fleet, 0, "the second", joined);
    wait_readiness(port, &["200 OK"]);

    let mut connection = redis(&server);
    let mark = fleet.mark();
    send(
        &mut connection,
        &["CONFIG", "SET", "requirepass", "another"],
    );
    cut_all(&mut connection);
    wait_lost(&fleet, mark, "NOAUTH");
    wait_readiness(port, &["503", "NOAUTH"]);
    assert!(status_complaint(&server).contains("NOAUTH"));
    assert_calm(&fleet, &mut connection);
    let mark = fleet.mark();
    send(&mut connection, &["CONFIG", "SET", "requirepass", ""]);
    wait_regained(&fleet, mark);
    wait_readiness(port, &["200 OK"]);
}

#[test]
fn a_user_whose_password_or_rights_changed_is_told_so() {
    let server = server();
    let mut connection = redis(&server);
    let user = ["ACL", "SETUSER", "u"];
    let all = ["reset", "on", ">old", "~*", "&*", "+@all"];
    send(&mut connection, &[&user[..], &all].concat());
    let url = server.url().replace("redis://", "redis://u:old@");
    let fleet = fleet_at(2, &url, SLOW);
    for (change, reason) in [
        (&["resetpass", ">new"][..], "WRONGPASS"),
        (&["resetpass", ">old", "resetchannels"], "NOPERM"),
    ] {
        let mark = fleet.mark();
        send(&mut connection, &[&user[..], change].concat());
        cut_all(&mut connection);
        wait_lost(&fleet, mark, reason);
        let mark = fleet.mark();
        send(&mut connection, &[&user[..], &all].concat());
        wait_regained(&fleet, mark);
    }
}

#[test]
fn a_server_with_too_many_clients_is_quoted_by_nodes_and_by_status() {
    for (name, server) in start_each(PrivateServer::builder) {
        let fleet = fleet_of(2, &server, SLOW);
        let mut connection = redis(&server);
        let mark = fleet.mark();
        send(&mut connection, &["CONFIG", "SET", "maxclients", "1"]);
        cut_all(&mut connection);
        wait_lost(&fleet, mark, "max number of clients reached");
        for _ in 0..10 {
            let complaint = status_complaint(&server);
            let words = "max number of clients reached";
            assert!(complaint.contains(words), "{name}: {complaint}");
        }
        let mark = fleet.mark();
        send(&mut connection, &["CONFIG", "SET", "maxclients", "1000"]);
        wait_regained(&fleet, mark);
    }
}

#[test]
fn a_server_that_cannot_save_is_quoted_and_nothing_is_lost() {
    let folders = tempfile::tempdir().unwrap();
    let numbers = std::cell::Cell::new(0);
    let builder = || {
        numbers.set(numbers.get() + 1);
        let folder = folders.path().join(numbers.get().to_string());
        std::fs::create_dir(&folder).unwrap();
        let builder = PrivateServer::builder().config("save", "3600 1");
        builder.config("dir", folder.to_string_lossy())
    };
    for (number, (name, server)) in (1..).zip(start_each(builder)) {
        let mut fleet = fleet_of(2, &server, SLOW);
        let mut connection = redis(&server);
        // A snapshot is written beside this name and cannot take its place.
        let in_the_way = folders.path().join(number.to_string()).join("dump.rdb");
        std::fs::create_dir(&in_the_way).unwrap();
        let mark = fleet.mark();
        send(&mut connection, &["BGSAVE"]);
        wait_lost(&fleet, mark, "MISCONF");
        // One that starts now waits, too.
        let late = fleet.start().unwrap();
        let waits = |told: &Told| told.copy == late && is_lost(told, "MISCONF");
        wait_for(&fleet, mark, &name, waits);
        assert_calm(&fleet, &mut connection);
        let status = baton_processes::wait_status(
            &server.url(),
            "default",
            TIMEOUT,
            "a warning",
            |status| status.warnings.iter().any(|line| line.contains("MISCONF")),
        );
        assert!(status.unwrap().balanced, "{name}");

        let mark = fleet.mark();
        std::fs::remove_dir(&in_the_way).unwrap();
        send(&mut connection, &["BGSAVE"]);
        wait_regained(&fleet, mark);
    }
}

#[test]
fn a_server_that_still_loads_its_data_is_waited_for_with_that_reason() {
    // After 20,000 keys, 100 µs each, it has loaded for two seconds.
    let mut server = PrivateServer::builder()
        .appendonly(Fsync::Always)
        .config("key-load-delay", "100")
        .start()
        .unwrap();
    let fill = "for i = 1, 20000 do redis.call('SET', 'other:' .. i, i) end";
    send(&mut redis(&server), &["EVAL", fill, "0"]);
    let fleet = fleet_of(2, &server, SLOW);
    let mark = fleet.mark();
    server.kill9();
    server.restart().unwrap();
    wait_lost(&fleet, mark, "loading its data");
    wait_regained(&fleet, mark);
}

#[test]
fn a_server_that_closes_idle_connections_is_no_news() {
    let server = PrivateServer::builder()
        .config("timeout", "1")
        .start()
        .unwrap();
    let fleet = fleet_of(4, &server, "--interval 1s --error-rate 0");
    let mark = fleet.mark();
    fleet.watch_for(Duration::from_secs(5)).unwrap();
    let lines: Vec<Told> = fleet.told_since(mark);
    let redis: Vec<&Told> = lines
        .iter()
        .filter(|told| matches!(told.event(), LogEvent::Redis { .. }))
        .collect();
    assert_eq!(redis.len(), 0, "{redis:?}");
    let took_over = lines.iter().any(Told::is_generator);
    assert!(!took_over, "{lines:?}");
}
