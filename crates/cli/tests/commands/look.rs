//! `baton errors` and `baton status`: they look and change nothing.

use serde_json::{Value, json};

use crate::seed::{Seed, line, texts};
use crate::support::{on, run, send, server, shell};

#[test]
fn errors_prints_what_get_errors_would_and_leaves_it() {
    let server = server();
    let mut seed = Seed::new(&server);
    seed.fail(&texts(1..=1500));
    for _ in 0..2 {
        let looked = on(&server, &["errors"]);
        let expected: Vec<String> = (1..=1500)
            .map(|seq| line(seq, &format!("m{seq}")))
            .collect();
        assert_eq!(
            (looked.code, looked.lines()),
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
fn errors_of_an_empty_store_are_none() {
    let looked = on(&server(), &["errors"]);
    assert_eq!((looked.code, looked.stdout.as_str()), (Some(0), ""));
    assert_eq!(looked.stderr, "baton: no failed messages\n");
}

#[test]
fn status_says_where_every_message_is() {
    let server = server();
    let mut seed = Seed::new(&server);
    seed.fail(&texts(1..=6));
    seed.publish(&texts(7..=10));
    seed.claim(1);
    let status = on(&server, &["status"]);
    assert_eq!(status.code, Some(0), "{}", status.stderr);
    for part in [
        "fleet      default on redis://127.0.0.1:",
        "generator  none at this moment",
        "balanced: published 10 = done 0 + failed 6 + pending 3 + claimed 1\n",
        "6 failed messages wait for `baton getErrors`",
        "appendonly no",
        "nodes      none",
        "\nwarning: appendonly is off",
    ] {
        assert!(
            status.stdout.contains(part),
            "{part:?} is not in\n{}",
            status.stdout
        );
    }

    let status: Value = serde_json::from_str(&on(&server, &["status", "--json"]).stdout).unwrap();
    for (name, value) in [
        ("published", 10),
        ("done", 0),
        ("failed", 6),
        ("pending", 3),
        ("claimed", 1),
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
}

#[test]
fn status_fails_if_the_books_are_not_balanced() {
    let server = server();
    let mut seed = Seed::new(&server);
    seed.publish(&texts(1..=3));
    send(&server, &["HINCRBY", &seed.store.keys().stats, "done", "1"]);
    let status = on(&server, &["status"]);
    assert_eq!(status.code, Some(1));
    let expected = "NOT BALANCED: published 3 ≠ done 1 + failed 0 + pending 3 + claimed 0";
    assert!(status.stdout.contains(expected), "{}", status.stdout);
    let json = on(&server, &["status", "--json"]);
    assert_eq!(json.code, Some(1));
    assert!(
        json.stdout.contains(r#""balanced":false"#),
        "{}",
        json.stdout
    );
}

#[test]
fn names_from_redis_cannot_write_to_the_terminal() {
    let server = server();
    let seed = Seed::new(&server);
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
        let shown = on(&server, args);
        assert!(shown.stdout.contains("evil"), "{args:?}: {shown:?}");
        assert!(!shown.stdout.contains('\u{1b}'), "{args:?}: {shown:?}");
    }
}
