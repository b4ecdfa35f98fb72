//! `baton errors`: it prints failed messages and leaves them in the store.

use baton_protocol::record::{encode, failed_once};
use serde_json::{Value, json};

use crate::seeder::{AT, AT_MS, line, with_failures};
use crate::support::{end, on, read_line, run, server, shell, start_get_errors, wait_until};

#[test]
fn errors_prints_what_get_errors_would_and_leaves_it() {
    let (server, seed) = with_failures(1500);
    for _ in 0..2 {
        let printed = on(&server, &["errors"]);
        let expected: Vec<String> = (1..=1500)
            .map(|seq| line(seq, &format!("m{seq}")))
            .collect();
        assert_eq!(
            (printed.code, printed.lines()),
            (Some(0), expected.iter().map(String::as_str).collect())
        );
    }
    let json = on(&server, &["errors", "--json"]);
    let last: Value = serde_json::from_str(json.lines()[1499]).unwrap();
    assert_eq!(
        (&last["seq"], &last["text"]),
        (&json!(1500), &json!("m1500"))
    );
    assert_eq!(seed.waiting().len(), 1500);

    let mut command = shell("$BATON errors | head -n 2");
    command.env("REDIS_URL", server.url());
    let head = run(command);
    assert_eq!((head.lines().len(), head.stderr.as_str()), (2, ""));
}

#[test]
fn what_a_dead_get_errors_held_is_printed_though_no_node_runs() {
    let (server, seed) = with_failures(150);
    let (mut taker, mut stdout) = start_get_errors(&server);
    // It holds a hundred, and its reader has taken one.
    assert_eq!(read_line(&mut stdout), line(1, "m1"));
    let printed = on(&server, &["errors"]);
    assert_eq!(printed.lines().len(), 50, "{printed:#?}");
    printed.complains("left out 100 failed messages, held by another `baton getErrors`");

    taker.kill().unwrap();
    end(taker);
    // The server has to notice that its connections are closed.
    wait_until("all of them", || {
        on(&server, &["errors"]).lines().len() == 150
    });
    let printed = on(&server, &["errors"]);
    let all: Vec<String> = (1..=150).map(|seq| line(seq, &format!("m{seq}"))).collect();
    assert_eq!(
        (printed.lines(), printed.stderr.as_str()),
        (all.iter().map(String::as_str).collect(), "")
    );
    let groups = on(&server, &["errors", "--by", "reason"]);
    groups.says("150\t");
    // They are found from the newest on, too, and can be settled.
    let dropped = on(&server, &["drop", "--seq", "2..3", "--yes"]);
    assert_eq!(dropped.code, Some(0), "{dropped:#?}");
    assert_eq!(seed.waiting().len(), 148);
}

#[test]
fn errors_of_an_empty_store_are_none() {
    let printed = on(&server(), &["errors"]);
    assert_eq!((printed.code, printed.stdout.as_str()), (Some(0), ""));
    assert_eq!(printed.stderr, "baton: no failed messages\n");
}

/// The texts that `baton errors` prints with these flags.
#[track_caller]
fn texts_of(server: &baton_server::PrivateServer, flags: &[&str]) -> Vec<String> {
    let args: Vec<&str> = ["errors", "--json"].iter().chain(flags).copied().collect();
    let printed = on(server, &args);
    assert_eq!(printed.code, Some(0), "{printed:#?}");
    let text = |line: &&str| {
        let line: Value = serde_json::from_str(line).unwrap();
        line["text"].as_str().unwrap().to_owned()
    };
    printed.lines().iter().map(text).collect()
}

#[test]
fn filters_choose_and_combine() {
    let (server, seed) = with_failures(3);
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let now_ms = u64::try_from(now.as_millis()).unwrap();
    seed.put(
        &server,
        &[
            encode(&failed_once(4, now_ms - 60_000, "other", "timeout", "late")),
            encode(&failed_once(
                5,
                now_ms - 7_200_000,
                "other",
                "timeout",
                "later",
            )),
            b"garbage".to_vec(),
        ],
    );
    for (flags, expected) in [
        (&["--seq", "2"][..], &["m2"][..]),
        (&["--seq", "2..4"], &["m2", "m3", "late"]),
        (&["--seq", "0"], &["garbage"]),
        (&["--seq", "4..18446744073709551615"], &["late", "later"]),
        (&["--reason", "such cust"], &["m1", "m2", "m3"]),
        (&["--node", "other"], &["late", "later"]),
        (&["--node", "oth"], &[]),
        (&["--since", "1h"], &["late"]),
        (&["--since", "3h ago"], &["late", "later"]),
        (&["--since", AT], &["m1", "m2", "m3", "late", "later"]),
        (&["--since", "2023-11-15"], &["late", "later"]),
        (
            &["--node", "other", "--since", "1h", "--seq", "1..4"],
            &["late"],
        ),
        (&["--node", "other", "--reason", "such"], &[]),
    ] {
        assert_eq!(texts_of(&server, flags), expected, "{flags:?}");
    }
    let none = on(&server, &["errors", "--seq", "99"]);
    assert_eq!(none.code, Some(0));
    assert_eq!(none.stderr, "baton: no failed message matches\n");
    assert_eq!(seed.waiting().len(), 6);
}

#[test]
fn a_filter_that_makes_no_sense_is_refused() {
    for (flag, value) in [
        ("--reason", ""),
        ("--node", ""),
        ("--since", "yesterday"),
        ("--since", "2"),
        ("--seq", "5..3"),
        ("--seq", "-1"),
        ("--seq", "99999999999999999999"),
        ("--by", "node"),
    ] {
        let ended = run(crate::support::baton(&[
            "errors",
            &format!("{flag}={value}"),
        ]));
        assert_eq!(ended.code, Some(2), "{flag}={value}: {ended:#?}");
        ended.complains(flag);
    }
}

#[test]
fn groups_by_reason_ignore_numbers() {
    let (server, seed) = with_failures(2);
    seed.put(
        &server,
        &[
            encode(&failed_once(
                7,
                AT_MS + 1000,
                "n",
                "timeout after 1042 ms",
                "a",
            )),
            encode(&failed_once(
                8,
                AT_MS + 3000,
                "n",
                "timeout after 7 ms",
                "b",
            )),
            encode(&failed_once(
                9,
                AT_MS + 2000,
                "n",
                "timeout after 9.5 ms",
                "c",
            )),
            b"garbage".to_vec(),
        ],
    );
    let printed = on(&server, &["errors", "--by", "reason"]);
    let (first, last) = ("2023-11-14T22:13:21.123Z", "2023-11-14T22:13:23.123Z");
    assert_eq!(
        printed.lines(),
        [
            format!("3\t{first}\t{last}\t#9\ttimeout after N ms"),
            format!("2\t{AT}\t{AT}\t#2\tno such customer"),
            "1\t-\t-\t-\tnot an error record of this fleet".to_owned(),
        ]
    );
    let printed = on(
        &server,
        &["errors", "--by", "reason", "--json", "--node", "n"],
    );
    let group: Value = serde_json::from_str(&printed.stdout).unwrap();
    let expected = json!({
        "reason": "timeout after N ms", "count": 3, "first": first, "last": last, "example": 9
    });
    assert_eq!(group, expected);
    assert_eq!(seed.waiting().len(), 6);
}
