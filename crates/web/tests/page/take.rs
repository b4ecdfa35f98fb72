//! Taking: the page removes nothing before a person says that the file is there, and each message
//! is in one output only.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use baton::inspect::ErrorsCommit;
use baton::{Inspector, Target};
use serde_json::{Value, json};

use crate::support::{Answer, Site, block_on, start_server, wait_until};

/// A take of a page without a token.
struct Take<'a> {
    site: &'a Site,
    begun: Value,
}

impl<'a> Take<'a> {
    /// Takes all messages in the store.
    fn all(site: &'a Site) -> Self {
        let found = site.get("/api/errors").json();
        Self::of(site, &found, &json!("all"))
    }

    fn of(site: &'a Site, found: &Value, what: &Value) -> Self {
        let body = json!({ "look": found["look"], "what": what });
        let begun = site.action("/api/errors/take", &body, &site.csrf()).send();
        let begun = begun.json();
        Self { site, begun }
    }

    fn path(&self) -> String {
        format!("/api/errors/take/{}", self.begun["take"].as_str().unwrap())
    }

    fn file(&self) -> Answer {
        self.site.get(&format!("{}/file", self.path()))
    }

    /// The numbers in the file.
    fn save(&self) -> Vec<u64> {
        let file = self.file();
        assert_eq!(file.status, 200, "{}", file.text());
        seqs(&file.text())
    }

    fn end(&self, verdict: &str) -> Answer {
        let body = json!({ "verdict": verdict });
        let csrf = self.site.csrf();
        self.site.action(&self.path(), &body, &csrf).send()
    }
}

fn seqs(lines: &str) -> Vec<u64> {
    lines
        .lines()
        .map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            line["seq"].as_u64().unwrap()
        })
        .collect()
}

fn ended(removed: u64, put_back: u64, lost: u64) -> Value {
    json!({ "removed": removed, "put_back": put_back, "lost": lost })
}

fn total(site: &Site) -> u64 {
    site.get("/api/errors").json()["total"].as_u64().unwrap()
}

#[test]
fn nothing_is_removed_before_the_person_says_that_the_file_is_there() {
    let site = Site::acting();
    site.fail(1, "no", b"first");
    site.fail(2, "no", b"\xff\n");
    site.fail(3, "yes", b"other");
    let found = site.get("/api/errors").json();
    site.fail(4, "no", b"new");
    let take = Take::of(&site, &found, &json!({ "reason": "no" }));
    assert_eq!(
        (
            &take.begun["count"],
            &take.begun["missing"],
            &take.begun["answer_within_s"]
        ),
        (&json!(2), &json!(0), &json!(600))
    );
    assert_eq!(site.texts().len(), 4, "all are there");
    assert_eq!(total(&site), 2, "but two are claimed");

    // The file was never sent, so the page does not accept this answer.
    let refused = take.end("remove");
    assert_eq!(refused.status, 409, "{refused:?}");
    assert_eq!(site.texts().len(), 4);

    let file = take.file();
    assert_eq!(file.header("content-type"), Some("application/x-ndjson"));
    let name = take.begun["file"].as_str().unwrap();
    assert_eq!(
        file.header("content-disposition"),
        Some(format!("attachment; filename=\"{name}\"").as_str())
    );
    let lines: Vec<Value> = file
        .text()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(
        lines,
        [
            json!({ "seq": 1, "at": "2023-11-14T22:13:20.001Z", "node": "node1",
                "reason": "no", "attempt": 1, "text": "first" }),
            json!({ "seq": 2, "at": "2023-11-14T22:13:20.002Z", "node": "node1",
                "reason": "no", "attempt": 1, "text": "\u{fffd}\n", "text_hex": "ff0a" }),
        ]
    );
    assert_eq!(take.save(), [1, 2], "it can be saved again");
    assert_eq!(site.texts().len(), 4);
    assert_eq!(take.end("remove").json(), ended(2, 0, 0));
    assert_eq!(site.texts(), ["other", "new"]);
    assert_eq!(take.end("put_back").status, 410);
    assert_eq!(take.file().status, 410);
    assert_eq!(site.texts(), ["other", "new"]);
}

#[test]
fn messages_that_are_put_back_are_as_before() {
    let site = Site::acting();
    site.fail_many(250, |_| "no");
    let take = Take::all(&site);
    assert_eq!(take.save().len(), 250);
    assert_eq!(take.end("put_back").json(), ended(0, 250, 0));
    assert_eq!((site.texts().len(), total(&site)), (250, 250));
    assert_eq!(take.end("remove").status, 410);
    let again = Take::all(&site);
    assert_eq!(again.save(), (1..=250).collect::<Vec<_>>());
    assert_eq!(again.end("remove").json(), ended(250, 0, 0));
    assert!(site.texts().is_empty());
}

#[test]
fn without_the_whole_file_nothing_can_be_removed() {
    let site = Site::acting();
    // More than the buffers between server and client can take.
    for seq in 1..=40 {
        site.fail(seq, "no", &vec![b'x'; 1 << 20]);
    }
    let take = Take::all(&site);
    let path = format!("{}/file", take.path());
    let mut stream = site.request("GET", &path).start();
    let mut some = [0; 1000];
    std::io::Read::read_exact(&mut stream, &mut some).unwrap();
    drop(stream);
    assert_eq!(take.end("remove").status, 409);
    assert_eq!(site.texts().len(), 40);
    assert_eq!(take.end("put_back").json(), ended(0, 40, 0));
}

#[test]
fn when_the_page_ends_its_takes_return() {
    let server = start_server();
    let options = || baton_web::Options {
        allow_actions: true,
        ..baton_web::Options::default()
    };
    let site = Site::on(&server.url(), "127.0.0.1:0", options());
    site.fail_many(50, |_| "no");
    let take = Take::all(&site);
    assert_eq!(take.save().len(), 50);
    let fleet = site.fleet.clone();
    drop(site);
    let site = Site::again(&server.url(), fleet, options());
    wait_until("they return", || total(&site) == 50);
    assert_eq!(site.texts().len(), 50);
}

#[test]
fn two_takes_and_a_drain_at_once_get_each_message_once() {
    let site = Site::acting();
    site.fail_many(3000, |_| "no");
    let searches = [0, 1].map(|_| site.get("/api/errors").json());
    let mut outputs = thread::scope(|scope| {
        let takes = searches.map(|found| {
            let site = &site;
            scope.spawn(move || {
                let take = Take::of(site, &found, &json!("all"));
                if take.begun["take"].is_null() {
                    return Vec::new();
                }
                let saved = take.save();
                let count = saved.len() as u64;
                assert_eq!(take.begun["count"], count);
                assert_eq!(take.begun["missing"], 3000 - count);
                assert_eq!(take.end("remove").json(), ended(count, 0, 0));
                saved
            })
        });
        let drain = scope.spawn(|| drain(&site));
        let mut outputs = takes.map(|take| take.join().unwrap()).to_vec();
        outputs.push(drain.join().unwrap());
        outputs
    });
    assert!(site.texts().is_empty());
    let lengths: Vec<_> = outputs.iter().map(Vec::len).collect();
    let all: Vec<u64> = outputs.iter_mut().flat_map(std::mem::take).collect();
    assert_eq!(all.len(), 3000, "{lengths:?}");
    assert_eq!(BTreeSet::from_iter(all).len(), 3000, "{lengths:?}");
}

/// Drains the store as `baton getErrors` does; returns the sequence numbers.
pub(crate) fn drain(site: &Site) -> Vec<u64> {
    block_on(async {
        let target = Target::parse(&site.url).unwrap();
        let inspector = Inspector::connect(&target, &site.fleet).await.unwrap();
        let mut drain = inspector.drain(Duration::from_secs(30)).await.unwrap();
        let mut printed = Vec::new();
        loop {
            let failed = drain.next().await.unwrap();
            if failed.is_empty() {
                return printed;
            }
            printed.extend(failed.iter().map(|failed| failed.seq));
            let committed = drain.commit(failed.len()).await.unwrap();
            assert_eq!(committed, ErrorsCommit::Done);
        }
    })
}

#[test]
fn takes_that_wait_for_an_answer_are_few() {
    let site = Site::acting();
    site.fail_many(20, |_| "no");
    let found = site.get("/api/errors").json();
    let takes: Vec<_> = (1..=16)
        .map(|id| Take::of(&site, &found, &json!({ "id": id.to_string() })))
        .collect();
    let body = json!({ "look": found["look"], "what": { "id": "17" } });
    let more = || site.action("/api/errors/take", &body, &site.csrf()).send();
    assert_eq!(more().status, 503);
    assert_eq!(takes[0].end("put_back").json(), ended(0, 1, 0));
    assert_eq!(more().status, 200);
}

#[test]
fn what_another_take_has_claimed_is_neither_taken_nor_settled() {
    let site = Site::acting();
    site.set_failed(10);
    site.fail_many(10, |_| "no");
    let found = site.get("/api/errors").json();
    let first = Take::of(&site, &found, &json!({ "id": "3" }));
    let second = Take::of(&site, &found, &json!("all"));
    assert_eq!(
        (&second.begun["count"], &second.begun["missing"]),
        (&json!(9), &json!(1))
    );
    let none = Take::of(&site, &found, &json!("all"));
    assert_eq!(
        (&none.begun["take"], &none.begun["missing"]),
        (&Value::Null, &json!(10))
    );
    for action in ["drop", "retry"] {
        let body = json!({ "look": found["look"], "what": "all", "action": action });
        let settled = site.action("/api/errors/settle", &body, &site.csrf());
        let settled = settled.send().json();
        assert_eq!(settled["missing"], 10, "{settled}");
    }
    assert_eq!(second.end("put_back").json(), ended(0, 9, 0));
    first.save();
    assert_eq!(first.end("remove").json(), ended(1, 0, 0));
    assert_eq!(total(&site), 9);
}

#[test]
fn a_search_from_before_a_loss_of_all_data_touches_no_new_message() {
    let site = Site::acting();
    site.fail_many(3, |_| "old");
    site.set_failed(3);
    let found = site.get("/api/errors").json();
    site.lose_all();
    site.fail_many(3, |_| "new");
    site.set_failed(3);
    let settle = json!({ "look": found["look"], "what": "all", "action": "drop" });
    let dropped = site.action("/api/errors/settle", &settle, &site.csrf());
    let dropped = dropped.send().json();
    assert_eq!(
        (&dropped["dropped"], &dropped["missing"]),
        (&json!(0), &json!(3))
    );
    let look = found["look"].as_str().unwrap();
    let one = site.get(&format!("/api/errors/1?look={look}"));
    assert_eq!(one.status, 404, "{}", one.text());
    let take = Take::of(&site, &found, &json!("all"));
    assert_eq!(
        (&take.begun["count"], &take.begun["missing"]),
        (&json!(0), &json!(3))
    );
    assert_eq!(total(&site), 3);
}
