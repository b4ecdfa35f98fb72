//! Servers that are not there, not fit, or not ours: a clear line, exit code 1, nothing lost.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use baton_server::PrivateServer;
use redis::Commands;

use crate::seeder::{Seeder, texts, with_failures};
use crate::support::{
    assert_waits, baton, connections, dead_port, on, redis, run, send, server, wait_until,
};

const COMMANDS: [&str; 4] = ["getErrors", "errors", "status", "clean"];

#[track_caller]
fn assert_fails_fast(args: &[&str], parts: &[&str]) {
    let began = Instant::now();
    let ended = run(baton(args));
    assert!(
        began.elapsed() < Duration::from_secs(6),
        "{args:?}: {:?}",
        began.elapsed()
    );
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (Some(1), ""),
        "{args:?}: {}",
        ended.stderr
    );
    // Beside what a person reads while it waits.
    let words = ended.stderr.lines();
    let last_words = words.filter(|line| !line.ends_with("waiting for it"));
    assert_eq!(last_words.count(), 1, "{args:?}: {}", ended.stderr);
    for part in parts {
        ended.complains(part);
    }
}

#[test]
fn without_a_redis_commands_fail_within_seconds() {
    let url = format!("redis://127.0.0.1:{}", dead_port());
    for command in COMMANDS {
        assert_fails_fast(&[command, "--redis", &url], &["baton: ", &url, "refused"]);
        assert_fails_fast(
            &[command],
            &["no Redis answers on localhost:", "--redis", "baton run"],
        );
    }
    assert_fails_fast(
        &["status", "--redis", "unix:///no/such.sock"],
        &["unix:///no/such.sock"],
    );
}

#[test]
fn a_server_that_never_answers_is_given_up() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", silent.local_addr().unwrap());
    assert_fails_fast(&["status", "--redis", &url], &[&url]);
}

#[test]
fn something_that_is_not_redis_is_no_redis() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", other.local_addr().unwrap());
    let answer = std::thread::spawn(move || {
        let (mut stream, _) = other.accept().unwrap();
        std::io::Write::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        // The other side ends it.
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
    assert_fails_fast(&["status", "--redis", &url], &[&url]);
    answer.join().unwrap();
}

#[test]
fn a_key_of_another_type_is_named_and_left_alone() {
    let server = server();
    let seed = Seeder::new(&server);
    let key = &seed.store.keys().errors;
    send(&server, &["SET", key, "mine"]);
    for command in ["getErrors", "clean", "run"] {
        let ended = on(&server, &[command]);
        assert_eq!(ended.code, Some(1), "{command}");
        ended.complains(key);
    }
    assert_eq!(redis(&server).get(key), Ok("mine".to_owned()));
}

#[test]
fn a_read_only_replica_is_refused_and_its_primary_untouched() {
    let primary = server();
    let mut seed = Seeder::new(&primary);
    seed.fail(&texts(1..=3));
    let replica = PrivateServer::builder()
        .config(
            "replicaof",
            format!("127.0.0.1 {}", primary.port().unwrap()),
        )
        .config("repl-diskless-sync-delay", "0")
        .start()
        .unwrap();
    let key = &seed.store.keys().errors;
    wait_until("the replica to follow", || {
        redis(&replica).hlen(key) == Ok(3_u64)
    });
    for command in ["getErrors", "clean"] {
        let ended = on(&replica, &[command]);
        assert_eq!(ended.code, Some(1), "{command}");
        ended.complains("read-only replica");
    }
    // A node waits: the replica may be promoted.
    let node = baton(&["--redis", &replica.url()]);
    assert_waits(node, &["read-only replica"], || connections(&replica));
    // Commands that only read work, and print a warning.
    assert_eq!(on(&replica, &["errors"]).lines().len(), 3);
    let status = on(&replica, &["status"]);
    status.says("server     a read-only replica, on which");
    status.says("warning: this server is a read-only replica");
    on(&primary, &["status"]).says("; 1 replica\n");
    assert_eq!(seed.waiting(), texts(1..=3));
}

#[test]
fn a_user_without_a_needed_command_is_told_which_and_nothing_is_lost() {
    let (server, seed) = with_failures(3);
    send(
        &server,
        &[
            "ACL", "SETUSER", "poor", "on", ">pw", "~*", "&*", "+@all", "-hset", "-lpush",
        ],
    );
    let url = format!("redis://poor:pw@127.0.0.1:{}", server.port().unwrap());
    for command in ["getErrors", "clean", "run"] {
        let ended = run(baton(&[command, "--redis", &url]));
        assert_eq!(ended.code, Some(1), "{command}");
        for name in ["hset", "lpush"] {
            ended.complains(name);
        }
    }
    assert_eq!(seed.waiting(), texts(1..=3));
}

#[test]
fn a_node_refuses_a_fleet_of_another_protocol() {
    let server = server();
    let seed = Seeder::new(&server);
    send(
        &server,
        &["HSET", &seed.store.keys().meta, "protocol", "99"],
    );
    let ended = on(&server, &["run"]);
    assert_eq!(ended.code, Some(1));
    ended.complains("protocol 99");
}

#[test]
fn a_server_that_deletes_keys_is_refused_unless_one_insists() {
    let server = PrivateServer::builder()
        .config("maxmemory-policy", "allkeys-lru")
        .start()
        .unwrap();
    let ended = on(&server, &["run"]);
    assert_eq!(ended.code, Some(1));
    ended.complains("--allow-eviction");
}
