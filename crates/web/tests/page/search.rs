//! Searching failed messages.

use serde_json::{Value, json};

use crate::support::Site;

#[test]
fn a_search_lists_the_newest_first_and_counts_all() {
    let site = Site::open();
    site.fail(1, "one", b"first");
    site.fail(2, "two", b"second");
    site.fail(3, "one", b"third");
    let found = site.get("/api/errors?limit=2").json();
    assert_eq!(
        (&found["total"], &found["matching"]),
        (&json!(3), &json!(3))
    );
    assert_eq!(found["complete"], true);
    assert_eq!(
        found["groups"],
        json!([{ "reason": "one", "count": 2 }, { "reason": "two", "count": 1 }])
    );
    let mut newest = found["messages"][0].clone();
    assert_eq!(newest["id"], "3");
    newest["id"] = Value::Null;
    assert_eq!(
        newest,
        json!({ "id": null, "seq": 3, "at_ms": 1_700_000_000_003_u64, "node": "node1",
            "reason": "one", "attempt": 1, "text": "third", "cut": false })
    );
    assert_eq!(found["messages"].as_array().unwrap().len(), 2);
}

#[test]
fn a_search_finds_text_reason_node_and_number_in_any_case() {
    let site = Site::open();
    site.fail(17, "No such Customer", "Grüße".as_bytes());
    site.fail(18, "other", b"\xffhalf");
    let found = |query: &str| {
        let found = site.get(&format!("/api/errors?{query}")).json();
        let messages = found["messages"].as_array().unwrap().clone();
        let seqs: Vec<_> = messages
            .iter()
            .map(|one| one["seq"].as_u64().unwrap())
            .collect();
        assert_eq!(found["matching"], seqs.len() as u64);
        seqs
    };
    assert_eq!(found("search=customer"), [17]);
    assert_eq!(found("search=GR%C3%9CSSE"), [0; 0]);
    assert_eq!(found("search=GR%C3%9C"), [17]);
    assert_eq!(found("search=half"), [18]);
    assert_eq!(found("search=NODE1"), [18, 17]);
    assert_eq!(found("search=%2318"), [18]);
    assert_eq!(found("reason=other"), [18]);
    assert_eq!(found("reason=Other"), [0; 0]);
    assert_eq!(found("search=&reason="), [18, 17]);
    assert_eq!(found("search=half&reason=No+such+Customer"), [0; 0]);
    // The groups do not depend on the reason that is asked for.
    let found = site.get("/api/errors?reason=other").json();
    assert_eq!(found["groups"].as_array().unwrap().len(), 2);
}

#[test]
fn hostile_texts_stay_texts_and_are_cut() {
    let site = Site::open();
    let hostile = "<script>alert(1)</script>\u{1b}[31m\u{202e}".to_owned() + &"x".repeat(10_000);
    site.fail(1, &hostile, hostile.as_bytes());
    let answer = site.get("/api/errors");
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let found = answer.json();
    let brief = &found["messages"][0];
    assert_eq!(brief["cut"], true);
    assert_eq!(brief["text"].as_str().unwrap().chars().count(), 500);
    assert_eq!(brief["reason"].as_str().unwrap().chars().count(), 500);
    assert_eq!(found["groups"][0]["reason"], brief["reason"]);
    let id = brief["id"].as_str().unwrap();
    let path = format!("/api/errors/{id}?look={}", found["look"].as_str().unwrap());
    let whole = site.get(&path).json();
    assert_eq!(whole["text"], hostile);
    assert_eq!(whole["reason"], hostile);
    assert_eq!(
        (&whole["cut"], &whole["text_hex"]),
        (&json!(false), &Value::Null)
    );
}

#[test]
fn only_messages_of_the_search_can_be_read_in_full() {
    let site = Site::open();
    site.push(b"\xfe\xffgarbage");
    site.fail(2, "no", b"text");
    let found = site.get("/api/errors?search=garbage").json();
    let name = found["look"].as_str().unwrap();
    let id = found["messages"][0]["id"].as_str().unwrap();
    let whole = site.get(&format!("/api/errors/{id}?look={name}")).json();
    assert_eq!(whole["seq"], 0);
    assert_eq!(whole["text_hex"], "feff67617262616765");
    let all = site.get("/api/errors").json();
    let other = all["messages"][0]["id"].as_str().unwrap();
    for id in [other, &"0".repeat(32), "x"] {
        let answer = site.get(&format!("/api/errors/{id}?look={name}"));
        assert_eq!(answer.status, 404, "{id}");
    }
    assert_eq!(site.get(&format!("/api/errors/{id}")).status, 400);
}

#[test]
fn a_limit_has_a_limit() {
    let site = Site::open();
    for seq in 1..=300 {
        site.fail(seq, &format!("reason {seq}"), b"text");
    }
    let listed = |query: &str| {
        let found = site.get(&format!("/api/errors{query}")).json();
        assert!(found["groups"].as_array().unwrap().len() <= 200);
        found["messages"].as_array().unwrap().len()
    };
    assert_eq!(listed(""), 50);
    assert_eq!(listed("?limit=0"), 0);
    assert_eq!(listed("?limit=1000000"), 200);
    assert_eq!(site.get("/api/errors?limit=-1").status, 400);
}
