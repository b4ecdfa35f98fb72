//! Taking, dropping and retrying: who may, and on what.

use std::thread;

use serde_json::{Value, json};

use crate::support::{Site, TOKEN};
use crate::take::drain;

fn look(site: &Site, query: &str) -> Value {
    site.get(&format!("/api/errors{query}")).json()
}

fn settle(site: &Site, look: &Value, what: Value, action: &str) -> Value {
    let body = json!({ "look": look["look"], "what": what, "action": action });
    site.action("/api/errors/settle", &body, &site.csrf())
        .send()
        .json()
}

fn outcome(dropped: u64, retried: u64, missing: u64, unfit: u64) -> Value {
    json!({ "dropped": dropped, "retried": retried, "missing": missing, "unfit": unfit })
}

#[test]
fn a_page_that_only_shows_refuses_in_words() {
    let site = Site::open();
    site.fail(1, "no", b"text");
    let look = look(&site, "");
    for path in ["/api/errors/settle", "/api/errors/take"] {
        let body = json!({ "look": look["look"], "what": "all", "action": "drop" });
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
    let looked = site.request("GET", "/api/errors").header("Cookie", &mine);
    let look = looked.send().json();
    let body = json!({ "look": look["look"], "what": "all", "action": "drop" });
    for path in ["/api/errors/settle", "/api/errors/take"] {
        let good = site
            .action(path, &body, &csrf(&mine))
            .header("Cookie", &mine);
        let with = |name: &str, value: &str| good.clone().without(name).header(name, value);
        for (name, bad) in [
            ("no proof", good.clone().without("X-CSRF-Token")),
            ("empty proof", with("X-CSRF-Token", "")),
            ("wrong proof", with("X-CSRF-Token", &"0".repeat(64))),
            (
                "another session's proof",
                with("X-CSRF-Token", &csrf(&other)),
            ),
            ("another site", with("Origin", "http://evil.example")),
            ("another port", with("Origin", "http://127.0.0.1:1")),
            ("no site", with("Origin", "null")),
            ("nobody tells", good.clone().without("Origin")),
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
        let nobody = good.clone().without("Cookie").send();
        assert_eq!(nobody.status, 401);
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
fn a_page_without_a_token_needs_the_proof_too() {
    let site = Site::acting();
    site.fail(1, "no", b"text");
    let look = look(&site, "");
    let body = json!({ "look": look["look"], "what": "all", "action": "drop" });
    let good = site.action("/api/errors/settle", &body, &site.csrf());
    assert_eq!(good.clone().without("X-CSRF-Token").send().status, 403);
    assert_eq!(good.clone().without("Origin").send().status, 403);
    // The words of a stranger's token do not help.
    let bearer = good.clone().without("X-CSRF-Token");
    let bearer = bearer.header("Authorization", "Bearer x");
    assert_eq!(bearer.send().status, 403);
    assert_eq!(good.send().json(), outcome(1, 0, 0, 0));
}

#[test]
fn a_program_with_the_token_needs_no_proof_but_no_other_site_can_use_it() {
    let site = Site::locked();
    site.fail(1, "no", b"text");
    let bearer = format!("Bearer {TOKEN}");
    let looked = site.request("GET", "/api/errors");
    let look = looked.header("Authorization", &bearer).send().json();
    let body = json!({ "look": look["look"], "what": "all", "action": "drop" });
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
fn what_failed_after_the_look_is_not_swept_along() {
    let site = Site::acting();
    site.had(10);
    for seq in 1..=3 {
        site.fail(seq, "no", format!("old {seq}").as_bytes());
    }
    let seen = look(&site, "");
    site.fail(4, "no", b"new");
    assert_eq!(
        settle(&site, &seen, json!({ "reason": "no" }), "drop"),
        outcome(3, 0, 0, 0)
    );
    assert_eq!(site.texts(), ["new"]);
    assert_eq!(
        settle(&site, &seen, json!("all"), "drop"),
        outcome(0, 0, 3, 0)
    );
    assert_eq!(
        settle(&site, &seen, json!("all"), "retry"),
        outcome(0, 0, 3, 0)
    );
    assert_eq!(site.texts(), ["new"]);
}

#[test]
fn an_action_is_bounded_by_what_was_searched_for() {
    let site = Site::acting();
    for (seq, reason) in [(1, "one"), (2, "two"), (3, "one"), (4, "two")] {
        site.fail(seq, reason, format!("text {seq}").as_bytes());
    }
    let seen = look(&site, "?reason=one");
    assert_eq!(
        settle(&site, &seen, json!({ "reason": "two" }), "drop"),
        outcome(0, 0, 0, 0)
    );
    let seen = look(&site, "?search=TEXT%203");
    assert_eq!(
        settle(&site, &seen, json!("all"), "drop"),
        outcome(1, 0, 0, 0)
    );
    assert_eq!(site.texts(), ["text 1", "text 2", "text 4"]);
    let id = look(&site, "")["messages"][0]["id"].clone();
    assert_eq!(
        settle(&site, &seen, json!({ "id": id }), "drop"),
        outcome(0, 0, 0, 0),
        "it is of another look"
    );
    let seen = look(&site, "");
    assert_eq!(
        settle(&site, &seen, json!({ "id": id }), "drop"),
        outcome(1, 0, 0, 0)
    );
    assert_eq!(site.texts(), ["text 1", "text 2"]);
    let seen = look(&site, "");
    assert_eq!(
        settle(&site, &seen, json!({ "reason": "two" }), "drop"),
        outcome(1, 0, 0, 0)
    );
    assert_eq!(site.texts(), ["text 1"]);
}

#[test]
fn a_retried_message_waits_in_the_queue_again() {
    let site = Site::acting();
    site.had(10);
    site.fail(7, "no", b"again");
    site.fail(99, "no", b"of no fleet");
    site.push(b"garbage");
    let seen = look(&site, "");
    assert_eq!(
        settle(&site, &seen, json!("all"), "retry"),
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
fn an_unknown_look_is_gone() {
    let site = Site::acting();
    site.fail(1, "no", b"text");
    look(&site, "");
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
    site.had(10_000);
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
    let seen = look(&site, "?limit=5");
    assert_eq!(
        (&seen["total"], &seen["matching"]),
        (&json!(3003), &json!(3003))
    );
    site.push(b"garbage");
    assert_eq!(
        settle(&site, &seen, json!({ "reason": "three" }), "retry"),
        outcome(0, 1000, 0, 0)
    );
    assert_eq!(site.snapshot().pending, 1000);
    assert_eq!(
        settle(&site, &seen, json!("all"), "drop"),
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
    site.had(10_000);
    for action in ["drop", "retry"] {
        site.fail_many(5000, |_| "no");
        let seen = look(&site, "?limit=1");
        let (settled, drained) = thread::scope(|scope| {
            let drained = scope.spawn(|| drain(&site).len() as u64);
            let settled = settle(&site, &seen, json!("all"), action);
            (settled, drained.join().unwrap())
        });
        let count = |field: &str| settled[field].as_u64().unwrap();
        let done = count("dropped") + count("retried");
        assert_eq!(done + count("missing"), 5000, "{settled}");
        // What the drain held for a moment and printed, the page had not; nothing is left.
        assert_eq!(done + drained, 5000, "{settled} {drained}");
        assert!(site.texts().is_empty());
    }
}

#[test]
fn of_a_very_full_store_the_newest_part_is_looked_at_and_only_that_is_settled() {
    let site = Site::acting();
    site.fail_many(100_020, |seq| if seq % 1000 == 7 { "rare" } else { "no" });
    let seen = look(&site, "?limit=1");
    assert_eq!(
        (&seen["total"], &seen["matching"]),
        (&json!(100_020), &json!(100_000))
    );
    assert_eq!(seen["complete"], false);
    assert_eq!(seen["messages"][0]["seq"], 100_020);
    let rare = json!({ "reason": "rare" });
    assert_eq!(settle(&site, &seen, rare, "drop"), outcome(100, 0, 0, 0));
    let texts = site.texts();
    assert_eq!(texts.len(), 99_920);
    // The one that lies before what was looked at, of the same reason.
    assert_eq!(texts[6], "text 7");
}
