//! `baton retry` and `baton drop`: what they settle, ask, print and leave alone.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Stdio};
use std::time::Duration;

use baton_protocol::record::{encode, failed_once};
use baton_server::PrivateServer;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::seeder::{AT_MS, Seeder, with_failures};
use crate::shared::pty;
use crate::support::{Ended, baton, end, on, run, server, signal, status, wait_until};

/// What a command prints as JSON.
#[track_caller]
fn outcome(ended: &Ended) -> Value {
    serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{ended:#?}"))
}

/// The books of the fleet.
fn books(server: &PrivateServer) -> Value {
    status(baton(&["--redis", &server.url()]))
}

#[test]
fn a_message_is_retried_by_its_number() {
    let (server, seed) = with_failures(3);
    let ended = on(&server, &["retry", "--seq", "2", "--yes"]);
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (Some(0), "1 retried\n")
    );
    ended.complains("baton: 1 failed message matches:\n  #2  2023-11-14T22:13:20.123Z  no such customer  \"m2\"\n");
    assert_eq!(seed.waiting(), ["m1", "m3"]);
    let books = books(&server);
    assert_eq!(
        (&books["pending"], &books["retried"], &books["dropped"]),
        (&json!(1), &json!(1), &json!(0))
    );
    // It is gone, so there is nothing to do.
    let again = on(&server, &["retry", "--seq", "2", "--yes", "--json"]);
    assert_eq!(
        (again.code, outcome(&again)["matched"].clone()),
        (Some(0), json!(0))
    );
    again.complains("baton: no failed message matches");
}

#[test]
fn a_filter_s_worth_is_dropped_and_counted() {
    let (server, seed) = with_failures(1203);
    let ended = on(
        &server,
        &["drop", "--seq", "2..1202", "--reason", "such", "--yes"],
    );
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (Some(0), "1,201 dropped\n")
    );
    ended.complains("baton: 1,201 failed messages match:\n  #2  ");
    ended.complains("\n  and 1,196 more\n");
    assert_eq!(seed.waiting(), ["m1", "m1203"]);
    let books = books(&server);
    assert_eq!(
        (
            &books["dropped"],
            &books["failed"],
            &books["errors"],
            &books["balanced"]
        ),
        (&json!(1201), &json!(1203), &json!(2), &json!(true))
    );
    let table = on(&server, &["status"]);
    table.says("2 failed messages wait for `baton getErrors`; 1201 dropped");
}

#[test]
fn each_kind_of_outcome_is_counted() {
    let (server, seed) = with_failures(4);
    seed.put(
        &server,
        &[
            b"garbage".to_vec(),
            // Forged: a number that was never published, and a record too long for a script.
            encode(&failed_once(99, AT_MS, "n", "forged", "x")),
            encode(&failed_once(1, AT_MS, "n", "long", vec![b'x'; 600 << 10])),
        ],
    );
    let ended = on(&server, &["retry", "--all", "--yes", "--json"]);
    let expected = json!({
        "matched": 7, "retried": 4, "dropped": 0, "missing": 0, "unfit": 3, "held": 0
    });
    assert_eq!((ended.code, outcome(&ended)), (Some(1), expected));
    assert_eq!(seed.waiting().len(), 3);
    // What cannot be retried can be dropped.
    let ended = on(&server, &["drop", "--all", "--yes", "--json"]);
    let expected = json!({
        "matched": 3, "retried": 0, "dropped": 3, "missing": 0, "unfit": 0, "held": 0
    });
    assert_eq!((ended.code, outcome(&ended)), (Some(0), expected));
    assert_eq!(seed.waiting(), [""; 0]);
}

#[test]
fn what_a_drain_holds_is_left_out_and_counted() {
    let (server, seed) = with_failures(150);
    let drained = seed.drain_some(Duration::from_secs(600));
    assert_eq!(drained, 100);
    let ended = on(&server, &["drop", "--all", "--yes", "--json"]);
    let expected = json!({
        "matched": 50, "retried": 0, "dropped": 50, "missing": 0, "unfit": 0, "held": 100
    });
    assert_eq!((ended.code, outcome(&ended)), (Some(0), expected));
    ended.complains("left out 100 failed messages");
    assert_eq!(books(&server)["errors"], json!(100));
}

#[test]
fn a_command_that_names_no_messages_does_nothing() {
    let (server, seed) = with_failures(1);
    for verb in ["retry", "drop"] {
        for (args, words) in [
            (&["--yes"][..], "which failed messages?"),
            (&["--all"], "add --yes"),
            (&["--seq", "1"], "add --yes"),
            (&["--all", "--seq", "1", "--yes"], "cannot be used with"),
            (
                &["--reason", "", "--yes"],
                "an empty text matches every message",
            ),
            (&["--seq", "2..1", "--yes"], "the first number is larger"),
        ] {
            let args: Vec<&str> = [verb].iter().chain(args).copied().collect();
            let ended = on(&server, &args);
            assert_eq!(
                (ended.code, ended.stdout.as_str()),
                (Some(2), ""),
                "{ended:#?}"
            );
            ended.complains(words);
        }
    }
    // What is in the environment, such as the number of a handler's message, chooses nothing.
    let mut command = baton(&["drop", "--redis", &server.url()]);
    command.envs([("BATON_YES", "1"), ("BATON_ALL", "1"), ("BATON_SEQ", "1")]);
    assert_eq!(run(command).code, Some(2));
    assert_eq!(seed.waiting(), ["m1"]);
}

#[test]
fn an_empty_store_has_nothing_to_settle() {
    let ended = on(&server(), &["drop", "--all", "--yes"]);
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (Some(0), "0 dropped\n")
    );
    ended.complains("baton: no failed message matches");
}

/// Starts `baton drop --all` on a terminal. Returns the terminal's other end.
fn drop_on_terminal(server: &PrivateServer) -> (Child, File) {
    let (terminal, inner) = pty::open(24, 80);
    let mut command = baton(&["drop", "--all", "--redis", &server.url()]);
    command.stdin(Stdio::from(inner.try_clone().unwrap()));
    command.stderr(Stdio::from(inner));
    let child = command.spawn().unwrap();
    (child, File::from(terminal))
}

/// Reads from a terminal until it has printed these words.
fn read_until(terminal: &mut File, words: &str) -> String {
    let mut read = Vec::new();
    let mut bytes = [0; 512];
    while !String::from_utf8_lossy(&read).contains(words) {
        let count = terminal.read(&mut bytes).unwrap();
        assert!(count > 0, "no {words:?}");
        read.extend(&bytes[..count]);
    }
    String::from_utf8(read).unwrap()
}

#[test]
fn a_person_is_asked_and_what_fails_meanwhile_stays() {
    for (answer, dropped) in [
        ("\n", false),
        ("no\n", false),
        ("nyes\n", false),
        ("Y\n", true),
    ] {
        let (server, mut seed) = with_failures(2);
        let (child, mut terminal) = drop_on_terminal(&server);
        let question = read_until(&mut terminal, "[y/N] ");
        assert!(
            question.contains("Drop 2 failed messages for good?"),
            "{question}"
        );
        seed.fail(&["later"]);
        terminal.write_all(answer.as_bytes()).unwrap();
        let ended = end(child);
        let (code, stdout, left) = match dropped {
            true => (0, "2 dropped\n", vec!["later"]),
            false => (1, "", vec!["m1", "m2", "later"]),
        };
        assert_eq!(
            (ended.code, ended.stdout.as_str()),
            (Some(code), stdout),
            "{answer:?}"
        );
        assert_eq!(seed.waiting(), left, "{answer:?}");
    }
}

#[test]
fn an_interrupt_at_the_question_settles_nothing() {
    let (server, seed) = with_failures(2);
    let (child, mut terminal) = drop_on_terminal(&server);
    read_until(&mut terminal, "[y/N] ");
    signal(&child, Signal::INT);
    read_until(&mut terminal, "interrupted: nothing was dropped");
    assert_eq!(end(child).code, Some(130));
    assert_eq!(seed.waiting().len(), 2);
}

#[test]
fn an_interrupt_ends_between_two_batches_and_says_what_was_done() {
    let server = server();
    let seed = Seeder::new(&server);
    let records: Vec<Vec<u8>> = (0..60_000)
        .map(|_| encode(&failed_once(0, AT_MS, "n", "r", "text")))
        .collect();
    seed.put(&server, &records);
    let child = baton(&["drop", "--all", "--yes", "--json", "--redis", &server.url()])
        .spawn()
        .unwrap();
    let mut connection = crate::shared::redis(&server);
    wait_until("the first batch", || {
        let mut dropped = redis::cmd("HGET");
        dropped.arg(&crate::shared::keys().stats).arg("dropped");
        dropped.query::<Option<u64>>(&mut connection).unwrap() > Some(0)
    });
    signal(&child, Signal::INT);
    let ended = end(child);
    let dropped = outcome(&ended)["dropped"].as_u64().unwrap();
    assert!(dropped > 0 && dropped < 60_000, "{ended:#?}");
    assert_eq!(ended.code, Some(130));
    ended.complains("of 60,000 dropped so far");
    let books = books(&server);
    assert_eq!(
        (&books["dropped"], &books["errors"]),
        (&json!(dropped), &json!(60_000 - dropped))
    );
}
