//! Actions: who may act, and on which messages.

use std::thread;

use serde_json::{Value, json};

use crate::support::{Site, TOKEN};
use crate::take::drain;

fn search(site: &Site, query: &str) -> Value {
    site.get(&format!("/api/errors{query}")).json()
}

fn settle(site: &Site, found: &Value, what: Value, action: &str) -> Value {
    let body = json!({ "look": found["look"], "what": what, "action": action });
    site.action("/api/errors/settle", &body, &site.csrf())
        .send()
        .json()
}

fn outcome(dropped: u64, retried: u64, missing: u64, unfit: u64) -> Value {
    json!({ "dropped": dropped, "retried": retried, "missing": missing, "unfit": unfit })
}

#[test]
fn a_page_without_actions_refuses_them_and_says_why() {
    let site = Site::open();
    site.fail(1, "no", b"text");
    let found = search(&site, "");
    for path in ["/api/errors/settle", "/api/errors/take"] {
        let body = json!({ "look": found["look"], "what": "all", "action": "drop" });
        let answer = site.action(path, &body, &site.csrf()).send();
        assert_eq!(answer.status, 403);
        assert!(
            answer.error().contains("--allow-actions"),
            "{}",
            answer.error()
        );
    }
    assert_eq!(site.texts(), ["text"]);
}

#[test]
fn only_our_own_page_can_act_for_a_person() {
    let site = Site::locked();
    site.fail(1, "no", b"text");
    let (mine, other) = (site.log_in(), site.log_in());
    let csrf = |cookie: &str| {
        let session = site.request("GET", "/api/session").header("Cookie", cookie);
        session.send().json()["csrf"].as_str().unwrap().to_owned()
    };
    let search = site.request("GET", "/api/errors").header("Cookie", &mine);
    let found = search.send().json();
    let body = json!({ "look": found["look"], "what": "all", "action": "drop" });
    for path in ["/api/errors/settle", "/api/errors/take"] {
        let good = site
            .action(path, &body, &csrf(&mine))
            .header("Cookie", &mine);
        let with = |name: &str, value: &str| good.clone().without(name).header(name, value);
        for (name, bad) in [
            ("no CSRF token", good.clone().without("X-CSRF-Token")),
            ("empty CSRF token", with("X-CSRF-Token", "")),
            ("wrong CSRF token", with("X-CSRF-Token", &"0".repeat(64))),
            (
                "another session's CSRF token",
                with("X-CSRF-Token", &csrf(&other)),
            ),
            ("another site", with("Origin", "http://evil.example")),
            ("another port", with("Origin", "http://127.0.0.1:1")),
            ("no site", with("Origin", "null")),
            ("no header tells", good.clone().without("Origin")),
            (
                "another site, told otherwise",
                good.clone()
                    .without("Origin")
                    .header("Sec-Fetch-Site", "cross-site"),
            ),
        ] {
            assert_eq!(bad.send().status, 403, "{name}");
        }
        let form = with("Content-Type", "text/plain").send();
        assert_eq!(form.status, 415);
        let anonymous = good.clone().without("Cookie").send();
        assert_eq!(anonymous.status, 401);
    }
    assert_eq!(site.texts(), ["text"], "none of them did anything");
    let good = site
        .action("/api/errors/settle", &body, &csrf(&mine))
        .header("Cookie", &mine);
    let told_otherwise = good
        .without("Origin")
        .header("Sec-Fetch-Site", "same-origin");
    assert_eq!(told_otherwise.send().json(), outcome(1, 0, 0, 0));
    assert!(site.texts().is_empty());
}

#[test]
fn a_page_without_a_token_needs_the_csrf_token_too() {
    let site = Site::acting();
    site.fail(1, "no", b"text");
    let found = search(&site, "");
    let body = json!({ "look": found["look"], "what": "all", "action": "drop" });
    let good = site.action("/api/errors/settle", &body, &site.csrf());
    assert_eq!(good.clone().without("X-CSRF-Token").send().status, 403);
    assert_eq!(good.clone().without("Origin").send().status, 403);
    // A token that the page does not have does not help.
    let bearer = good.clone().without("X-CSRF-Token");
    let bearer = bearer.header("Authorization", "Bearer x");
    assert_eq!(bearer.send().status, 403);
    assert_eq!(good.send().json(), outcome(1, 0, 0, 0));
}

#[test]
fn a_program_with_the_token_needs_no_csrf_token_but_no_other_site_can_use_it() {
    let site = Site::locked();
    site.fail(1, "no", b"text");
    let bearer = format!("Bearer {TOKEN}");
    let search = site.request("GET", "/api/errors");
    let found = search.header("Authorization", &bearer).send().json();
    let body = json!({ "look": found["look"], "what": "all", "action": "drop" });
    let good = site
        .action("/api/errors/settle", &body, "")
        .without("X-CSRF-Token")
        .without("Origin")
        .header("Authorization", &bearer);
    let foreign = good.clone().header("Origin", "http://evil.example");
    assert_eq!(foreign.send().status, 403);
    assert_eq!(good.send().json(), outcome(1, 0, 0, 0));
}

#[test]
fn a_message_that_failed_after_the_search_is_not_settled() {
    let site = Site::acting();
    site.set_failed(10);
    for seq in 1..=3 {
        site.fail(seq, "no", format!("old {seq}").as_bytes());
    }
    let found = search(&site, "");
    site.fail(4, "no", b"new");
    assert_eq!(
        settle(&site, &found, json!({ "reason": "no" }), "drop"),
        outcome(3, 0, 0, 0)
    );
    assert_eq!(site.texts(), ["new"]);
    assert_eq!(
        settle(&site, &found, json!("all"), "drop"),
        outcome(0, 0, 3, 0)
    );
    assert_eq!(
        settle(&site, &found, json!("all"), "retry"),
        outcome(0, 0, 3, 0)
    );
    assert_eq!(site.texts(), ["new"]);
}

#[test]
fn an_action_is_bounded_by_its_search() {
    let site = Site::acting();
    for (seq, reason) in [(1, "one"), (2, "two"), (3, "one"), (4, "two")] {
        site.fail(seq, reason, format!("text {seq}").as_bytes());
    }
    let found = search(&site, "?reason=one");
    assert_eq!(
        settle(&site, &found, json!({ "reason": "two" }), "drop"),
        outcome(0, 0, 0, 0)
    );
    let found = search(&site, "?search=TEXT%203");
    assert_eq!(
        settle(&site, &found, json!("all"), "drop"),
        outcome(1, 0, 0, 0)
    );
    assert_eq!(site.texts(), ["text 1", "text 2", "text 4"]);
    let id = search(&site, "")["messages"][0]["id"].clone();
    assert_eq!(
        settle(&site, &found, json!({ "id": id }), "drop"),
        outcome(0, 0, 0, 0),
        "it is of another search"
    );
    let found = search(&site, "");
    assert_eq!(
        settle(&site, &found, json!({ "id": id }), "drop"),
        outcome(1, 0, 0, 0)
    );
    assert_eq!(site.texts(), ["text 1", "text 2"]);
    let found = search(&site, "");
    assert_eq!(
        settle(&site, &found, json!({ "reason": "two" }), "drop"),
        outcome(1, 0, 0, 0)
    );
    assert_eq!(site.texts(), ["text 1"]);
}

#[test]
fn a_retried_message_waits_in_the_queue_again() {
    let site = Site::acting();
    site.set_failed(10);
    site.fail(7, "no", b"again");
    site.fail(99, "no", b"of no fleet");
    site.push(b"garbage");
    let found = search(&site, "");
    assert_eq!(
        settle(&site, &found, json!("all"), "retry"),
        outcome(0, 1, 0, 2)
    );
    assert_eq!(site.texts(), ["of no fleet", "garbage"]);
    let snapshot = site.snapshot();
    assert_eq!(
        (snapshot.pending, snapshot.retried, snapshot.errors),
        (1, 1, 2)
    );
    assert!(snapshot.balanced, "{snapshot:?}");
}

#[test]
fn an_unknown_search_is_gone() {
    let site = Site::acting();
    site.fail(1, "no", b"text");
    search(&site, "");
    for path in ["/api/errors/settle", "/api/errors/take"] {
        let body = json!({ "look": "none", "what": "all", "action": "drop" });
        let answer = site.action(path, &body, &site.csrf()).send();
        assert_eq!(answer.status, 410);
        assert!(answer.error().contains("look again"), "{}", answer.error());
    }
    let one = site.get(&format!("/api/errors/{}?look=none", "0".repeat(32)));
    assert_eq!(one.status, 410);
    assert_eq!(site.texts(), ["text"]);
}

#[test]
fn thousands_are_settled_whole_and_exactly() {
    let site = Site::acting();
    site.set_failed(10_000);
    let large = vec![b'x'; 3000];
    for seq in 1..=3000 {
        // Every third is of another reason; some are much larger than others.
        let reason = if seq % 3 == 0 { "three" } else { "other" };
        let text: &[u8] = if seq % 7 == 0 { &large } else { b"small" };
        site.fail(seq, reason, text);
    }
    for _ in 0..3 {
        site.push(b"garbage");
    }
    let found = search(&site, "?limit=5");
    assert_eq!(
        (&found["total"], &found["matching"]),
        (&json!(3003), &json!(3003))
    );
    site.push(b"garbage");
    assert_eq!(
        settle(&site, &found, json!({ "reason": "three" }), "retry"),
        outcome(0, 1000, 0, 0)
    );
    assert_eq!(site.snapshot().pending, 1000);
    assert_eq!(
        settle(&site, &found, json!("all"), "drop"),
        outcome(2003, 0, 1000, 0)
    );
    assert_eq!(
        site.texts(),
        ["garbage"],
        "as many as there were, not one more"
    );
}

#[test]
fn beside_a_drain_every_message_is_counted_once() {
    let site = Site::acting();
    site.set_failed(10_000);
    for action in ["drop", "retry"] {
        site.fail_many(5000, |_| "no");
        let found = search(&site, "?limit=1");
        let (settled, drained) = thread::scope(|scope| {
            let drained = scope.spawn(|| drain(&site).len() as u64);
            let settled = settle(&site, &found, json!("all"), action);
            (settled, drained.join().unwrap())
        });
        let count = |field: &str| settled[field].as_u64().unwrap();
        let done = count("dropped") + count("retried");
        assert_eq!(done + count("missing"), 5000, "{settled}");
        // The page did not get what the drain had claimed; nothing is left.
        assert_eq!(done + drained, 5000, "{settled} {drained}");
        assert!(site.texts().is_empty());
    }
}

#[test]
fn of_a_very_full_store_a_search_reads_the_newest_part_and_only_that_is_settled() {
    let site = Site::acting();
    site.fail_many(100_020, |seq| if seq % 1000 == 7 { "rare" } else { "no" });
    let found = search(&site, "?limit=1");
    assert_eq!(
        (&found["total"], &found["matching"]),
        (&json!(100_020), &json!(100_000))
    );
    assert_eq!(found["complete"], false);
    assert_eq!(found["messages"][0]["seq"], 100_020);
    let rare = json!({ "reason": "rare" });
    assert_eq!(settle(&site, &found, rare, "drop"), outcome(100, 0, 0, 0));
    let texts = site.texts();
    assert_eq!(texts.len(), 99_920);
    // It has the same reason, but is older than what the search read.
    assert_eq!(texts[6], "text 7");
}
