//! `baton status`: it says where every message is and changes nothing.

use serde_json::{Value, json};

use crate::seeder::{Seeder, texts, with_failures};
use crate::support::{on, send, server};

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
        "balanced: published 10 = done 0 + failed 6 + pending 3 + claimed 1\n",
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
    let mut seed = Seeder::new(&server);
    seed.publish(&texts(1..=3));
    send(&server, &["HINCRBY", &seed.store.keys().stats, "done", "1"]);
    let status = on(&server, &["status"]);
    assert_eq!(status.code, Some(1));
    let expected = "NOT BALANCED: published 3 ≠ done 1 + failed 0 + pending 3 + claimed 0";
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
