//! census: every message is in exactly one place, and the check can fail.

use std::collections::BTreeMap;

use baton_protocol::{Census, Commit, ErrorsClaim, ErrorsCommit, GiveBack};

use crate::support::{Fleet, failed, publish};

fn claimed_by(node: &str, count: u64) -> BTreeMap<String, u64> {
    let claimed = (count > 0).then(|| (node.to_owned(), count));
    claimed.into_iter().collect()
}

#[tokio::test]
async fn the_books_balance_in_every_state_of_a_message() {
    let fleet = Fleet::new().await;
    let (g, w) = (fleet.generator().await, fleet.lane("w").await);
    let expect = async |state: &str, counts: [u64; 6]| {
        let census = g.census().await.unwrap();
        let [published, done, failed, pending, claimed, errors] = counts;
        let expected = Census {
            published,
            done,
            failed,
            pending,
            claimed,
            errors,
            foreign: census.foreign,
            retried: 0,
            dropped: 0,
            counted: true,
            now_ms: census.now_ms,
            claimed_by: claimed_by("w", claimed),
            ..Census::default()
        };
        assert_eq!(census, expected, "{state}");
        assert!(census.balanced(), "{state}");
    };
    expect("nothing", [0, 0, 0, 0, 0, 0]).await;
    assert!(publish(&g, 1, 5).await.is_written());
    expect("published", [5, 0, 0, 5, 0, 0]).await;
    assert_eq!(w.take(1, 3).await, "m1 m2 m3");
    expect("claimed", [5, 0, 0, 2, 3, 0]).await;
    assert_eq!(w.commit(1, 1..=1).await, Commit::Done);
    expect("a prefix committed", [5, 1, 0, 2, 2, 0]).await;
    assert_eq!(w.give_back(1).await, GiveBack::Ok);
    expect("given back", [5, 1, 0, 4, 0, 0]).await;
    assert_eq!(w.take_and_stall(2, 2).await, "m2 m3");
    let _ = w.store.reclaim().await.unwrap();
    expect("reclaimed", [5, 1, 0, 4, 0, 0]).await;
    assert_eq!(w.take(3, 1).await, "m2 (1)");
    let records = [failed(2, "m2")];
    let commit = w.commit_failed(3, 2..=2, &records);
    assert_eq!(commit.await, Commit::Done);
    expect("failed", [5, 1, 1, 3, 0, 1]).await;
    for name in ["x", "y", "z"] {
        assert!(fleet.death(name, 1, &g).await.starts_with("m3"));
    }
    fleet.age_suspects().await;
    assert_eq!(w.take(6, 9).await, "m4 m5", "m3 was poison");
    expect("poison", [5, 1, 2, 0, 2, 2]).await;
    let d = fleet.lane("d").await;
    assert_eq!(d.drain(1, 1, 1).await, ErrorsClaim::Claimed(vec![1]));
    expect("held by a drain", [5, 1, 2, 0, 2, 2]).await;
    let drained = d.store.errors_commit(&d.slot, 1, 1).await.unwrap();
    assert_eq!(drained, ErrorsCommit::Done);
    expect("drained", [5, 1, 2, 0, 2, 1]).await;
    fleet.write(&["RPUSH", &fleet.keys.queue, "garbage"]).await;
    expect("garbage", [5, 1, 2, 0, 2, 1]).await;
}

#[tokio::test]
async fn the_books_balance_with_void_numbers_and_only_if_they_are_counted() {
    let fleet = Fleet::new().await;
    let (g, w) = fleet.with_messages(3).await;
    assert!(g.void(1, 4, 9, false).await.unwrap().is_written());
    assert!(publish(&g, 10, 1).await.is_written());
    assert_eq!(w.take(1, 1).await, "m1");
    assert_eq!(w.commit(1, 1..=1).await, Commit::Done);
    let census = g.census().await.unwrap();
    let expected = Census {
        published: 10,
        done: 1,
        pending: 3,
        void: 6,
        counted: true,
        now_ms: census.now_ms,
        ..Census::default()
    };
    assert_eq!(census, expected);
    assert!(census.balanced());
    fleet.write(&["HDEL", &fleet.keys.stats, "void"]).await;
    assert!(!g.census().await.unwrap().balanced());
}

#[tokio::test]
async fn the_census_counts_the_claimed_messages_of_each_node() {
    let fleet = Fleet::new().await;
    let (g, w) = fleet.with_messages(6).await;
    let x = fleet.lane("x").await;
    assert_eq!(w.take(1, 2).await, "m1 m2");
    assert_eq!(w.sibling(1).take(1, 1).await, "m3");
    assert_eq!(x.take(1, 2).await, "m4 m5");
    let mut claimed = claimed_by("w", 3);
    claimed.append(&mut claimed_by("x", 2));
    assert_eq!(g.census().await.unwrap().claimed_by, claimed);
}

#[tokio::test]
async fn a_census_notices_a_range_that_was_removed_from_the_queue() {
    let fleet = Fleet::new().await;
    let (g, _w) = fleet.with_messages(3).await;
    assert!(publish(&g, 4, 1).await.is_written());
    fleet.write(&["LPOP", &fleet.keys.queue]).await;
    let census = g.census().await.unwrap();
    assert!(!census.balanced());
    assert_eq!((census.published, census.pending), (4, 1));
}

#[tokio::test]
async fn a_census_notices_a_range_that_was_queued_twice() {
    let fleet = Fleet::new().await;
    let (g, _w) = fleet.with_messages(3).await;
    fleet
        .write(&["RPUSH", &fleet.keys.queue, "1 3 2 2 0"])
        .await;
    assert!(!g.census().await.unwrap().balanced());
}

#[tokio::test]
async fn a_census_notices_a_claim_that_was_removed() {
    let fleet = Fleet::new().await;
    let (g, w) = fleet.with_messages(3).await;
    assert_eq!(w.take(1, 2).await, "m1 m2");
    fleet.write(&["HDEL", &fleet.keys.claims, "w:0"]).await;
    let census = g.census().await.unwrap();
    assert!(!census.balanced());
    assert_eq!((census.pending, census.claimed), (1, 0));
}

#[tokio::test]
async fn a_census_notices_a_counter_that_was_changed() {
    let fleet = Fleet::new().await;
    let (g, _w) = fleet.with_messages(3).await;
    for field in ["done", "failed"] {
        fleet.write(&["HSET", &fleet.keys.stats, field, "1"]).await;
        assert!(!g.census().await.unwrap().balanced(), "{field}");
        fleet.write(&["HDEL", &fleet.keys.stats, field]).await;
    }
    assert!(g.census().await.unwrap().balanced());
}

#[tokio::test]
async fn the_length_of_a_very_long_queue_is_computed_from_the_counters() {
    const RANGES: u64 = 100_001;
    let fleet = Fleet::new().await;
    let g = fleet.generator().await;
    let last = ["HSET", &fleet.keys.fence, "last", &RANGES.to_string()];
    fleet.write(&last).await;
    assert!(g.census().await.unwrap().counted);
    let mut singles = redis::cmd("RPUSH");
    singles.arg(&fleet.keys.queue);
    for seq in 1..=RANGES {
        singles.arg(format!("{seq} 1 {seq} {seq} 0"));
    }
    fleet.send(&singles).await;
    let census = g.census().await.unwrap();
    assert!(census.balanced() && !census.counted);
    assert_eq!(census.pending, RANGES);
    fleet.write(&["LPOP", &fleet.keys.queue]).await;
    let census = g.census().await.unwrap();
    assert!(census.counted && !census.balanced(), "counted again");
}
