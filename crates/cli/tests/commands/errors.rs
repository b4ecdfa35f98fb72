//! `baton errors`: it prints failed messages and leaves them in the store.

use serde_json::{Value, json};

use crate::seeder::{line, with_failures};
use crate::support::{on, run, server, shell};

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
fn errors_of_an_empty_store_are_none() {
    let printed = on(&server(), &["errors"]);
    assert_eq!((printed.code, printed.stdout.as_str()), (Some(0), ""));
    assert_eq!(printed.stderr, "baton: no failed messages\n");
}
