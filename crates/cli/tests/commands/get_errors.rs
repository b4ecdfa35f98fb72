//! `baton getErrors`: prints, removes, and loses nothing on the way.

use std::io::Read;
use std::thread;

use redis::Commands;
use rustix::process::Signal;
use serde_json::json;

use crate::seeder::{Seeder, line, texts, with_failures};
use crate::shared::replicated::PlantedNode;
use crate::support::{
    baton, end, on, read_line, redis, run, send, server, signal, start_get_errors,
};

#[test]
fn all_failed_messages_are_printed_in_their_order_and_removed() {
    let (server, seed) = with_failures(600);

    let first = on(&server, &["getErrors"]);
    let expected: Vec<String> = (1..=600).map(|seq| line(seq, &format!("m{seq}"))).collect();
    assert_eq!(first.lines(), expected);
    assert_eq!(
        first.stderr,
        "baton: 600 failed messages printed and removed\n"
    );
    assert_eq!((first.code, seed.waiting().len()), (Some(0), 0));

    let second = on(&server, &["getErrors"]);
    assert_eq!((second.code, second.stdout.as_str()), (Some(0), ""));
    assert_eq!(second.stderr, "baton: no failed messages\n");
}

#[test]
fn json_has_all_fields_and_all_bytes() {
    let server = server();
    let mut seed = Seeder::new(&server);
    seed.fail(&[&b"plain"[..], b"\xff\x1b[31m", b"two\nlines"]);
    let taken = on(&server, &["getErrors", "--json"]);
    let head = r#""at":"2023-11-14T22:13:20.123Z","node":"seeder","reason":"no such customer","attempt":1"#;
    assert_eq!(
        taken.lines(),
        [
            format!(r#"{{"seq":1,{head},"key":"0123456789-1","text":"plain"}}"#),
            format!(
                r#"{{"seq":2,{head},"key":"0123456789-2","text":"{}\u001b[31m","text_hex":"ff1b5b33316d"}}"#,
                '\u{fffd}'
            ),
            format!(r#"{{"seq":3,{head},"key":"0123456789-3","text":"two\nlines"}}"#),
        ]
    );
}

#[test]
fn a_text_of_a_mebibyte_passes_through_a_pipe() {
    let server = server();
    let mut seed = Seeder::new(&server);
    let long = "x".repeat(1 << 20);
    seed.fail(&[long.as_str(), "short"]);
    let taken = on(&server, &["getErrors"]);
    assert_eq!(taken.lines(), [line(1, &long), line(2, "short")]);
    assert_eq!(seed.waiting(), Vec::<String>::new());
}

#[test]
fn whatever_lies_in_the_errors_store_is_printed_escaped_and_removed() {
    let server = server();
    let mut seed = Seeder::new(&server);
    seed.fail(&["\u{1b}]0;owned\u{7}\ttab\\".as_bytes(), b"\xc3half"]);
    let keys = seed.store.keys();
    for garbage in [&b"garbage"[..], b"", b"\x96\x01\x02", b"\x00\xff\x1b[2J"] {
        let id: u64 = redis(&server).hincr(&keys.errors_ids, "last", 1).unwrap();
        let _: u64 = redis(&server).hset(&keys.errors, id, garbage).unwrap();
    }
    let taken = on(&server, &["getErrors"]);
    let foreign = |text: &str| format!("-\t-\t-\tnot an error record of this fleet\t{text}");
    assert_eq!(
        taken.lines(),
        [
            line(1, "\\x1b]0;owned\\x07\\ttab\\\\"),
            line(2, "\\xc3half"),
            foreign("garbage"),
            foreign(""),
            foreign("\\x96\\x01\\x02"),
            foreign("\\x00\\xff\\x1b[2J"),
        ]
    );
    assert_eq!(
        (taken.code, redis(&server).exists(&keys.errors)),
        (Some(0), Ok(false))
    );
}

#[test]
fn two_at_once_print_each_message_once() {
    let (server, seed) = with_failures(3000);
    let url = server.url();
    let takers: Vec<_> = (0..2)
        .map(|_| {
            let command = baton(&["getErrors", "--redis", &url]);
            thread::spawn(move || run(command))
        })
        .collect();
    let mut lines: Vec<String> = Vec::new();
    for taker in takers {
        let taken = taker.join().unwrap();
        assert_eq!(taken.code, Some(0), "{}", taken.stderr);
        lines.extend(taken.lines().into_iter().map(str::to_owned));
    }
    let mut expected: Vec<String> = (1..=3000)
        .map(|seq| line(seq, &format!("m{seq}")))
        .collect();
    lines.sort();
    expected.sort();
    assert_eq!(lines, expected);
    assert_eq!(seed.waiting().len(), 0);
}

#[test]
fn failures_that_arrive_meanwhile_do_not_keep_it_running() {
    let (server, mut seed) = with_failures(10);
    let (child, mut stdout) = start_get_errors(&server);
    for seq in 1..=10 {
        assert_eq!(read_line(&mut stdout), line(seq, &format!("m{seq}")));
        seed.fail(&[format!("m{}", 10 + seq)]);
    }
    assert_eq!(read_line(&mut stdout), "");
    assert_eq!(end(child).code, Some(0));
    assert_eq!(seed.waiting(), texts(11..=20));
}

#[test]
fn killed_in_the_middle_it_has_removed_nothing_that_was_not_read() {
    let (server, seed) = with_failures(400);
    let (mut child, mut stdout) = start_get_errors(&server);
    let mut read = std::collections::BTreeSet::new();
    for _ in 0..300 {
        read.insert(read_line(&mut stdout));
    }
    child.kill().unwrap();
    end(child);

    let second = on(&server, &["getErrors"]);
    assert_eq!(second.code, Some(0), "{}", second.stderr);
    // What was committed before the kill was read; what was not is printed again.
    assert!(second.lines().len() >= 100, "{}", second.lines().len());
    read.extend(second.lines().into_iter().map(str::to_owned));
    let expected = (1..=400).map(|seq| line(seq, &format!("m{seq}"))).collect();
    assert_eq!(read, expected);
    assert_eq!(seed.waiting().len(), 0);
}

#[test]
fn interrupted_it_removes_what_was_read_and_gives_back_the_rest() {
    for (sent, code) in [(Signal::HUP, 129), (Signal::INT, 130), (Signal::TERM, 143)] {
        let (server, seed) = with_failures(10);
        let (child, mut stdout) = start_get_errors(&server);
        for seq in 1..=3 {
            assert_eq!(read_line(&mut stdout), line(seq, &format!("m{seq}")));
        }
        signal(&child, sent);
        let ended = end(child);
        assert_eq!(ended.code, Some(code));
        assert_eq!(
            ended.stderr,
            "baton: interrupted: 3 failed messages printed and removed, 7 remain\n"
        );
        assert_eq!(seed.waiting(), texts(4..=10));
        drop(stdout);
    }
}

#[test]
fn it_works_on_a_server_whose_memory_is_full() {
    let (server, seed) = with_failures(10);
    send(&server, &["CONFIG", "SET", "maxmemory", "1"]);
    let taken = on(&server, &["getErrors"]);
    assert_eq!(
        (taken.code, taken.lines().len()),
        (Some(0), 10),
        "{}",
        taken.stderr
    );
    assert_eq!(seed.waiting().len(), 0);
}

#[test]
fn a_slow_reader_gets_everything() {
    let (server, seed) = with_failures(5);
    let (mut child, mut stdout) = start_get_errors(&server);
    // The first line stays in the pipe until the program has long been waiting for its reader.
    crate::support::wait_until("the first line", || {
        rustix::io::ioctl_fionread(&stdout).unwrap() > 0
    });
    assert!(child.try_wait().unwrap().is_none());
    let mut text = String::new();
    stdout.read_to_string(&mut text).unwrap();
    assert_eq!(text.lines().count(), 5);
    assert_eq!((end(child).code, seed.waiting().len()), (Some(0), 0));
}

#[test]
fn records_whose_ids_are_lost_are_named_and_not_passed_over() {
    let server = server();
    let mut seed = Seeder::new(&server);
    seed.fail(&["first", "second"]);
    send(&server, &["DEL", "baton:{default:0}:errors_ids"]);
    for command in ["getErrors", "errors"] {
        let ended = on(&server, &[command]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
        ended.complains("errors_ids last is missing");
    }
}

#[test]
fn what_another_holds_is_counted_by_those_that_do_not_show_it() {
    let server = server();
    let mut seed = Seeder::new(&server);
    seed.fail(&["first", "second"]);
    let _other = PlantedNode::saying(&server, "other", &json!({}));
    send(
        &server,
        &["HSET", "baton:{default:0}:errors_held", "1", "other:errors"],
    );
    for command in ["errors", "getErrors"] {
        let ended = on(&server, &[command]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert_eq!(ended.lines().len(), 1, "{}", ended.stdout);
        ended.complains("left out 1 failed message, held by another");
    }
}

#[test]
fn a_durability_that_the_server_cannot_give_takes_no_message() {
    let (server, seed) = with_failures(3);
    let fsync = "appendonly is off at the server";
    for (level, reason) in [("replicas:1", "no replica has"), ("fsync", fsync)] {
        for command in [
            &["getErrors"][..],
            &["retry", "--all", "--yes"],
            &["drop", "--all", "--yes"],
        ] {
            let args = [command, &["--durability", level]].concat();
            let ended = on(&server, &args);
            assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
            ended.complains(reason);
        }
        assert_eq!(seed.waiting(), texts(1..=3));
    }
    assert_eq!(on(&server, &["getErrors"]).lines().len(), 3);
}
