//! Staged effects: written with the commit, once, or not at all.

use baton::Effects;
use baton_protocol::Commit;

use crate::support::{Fleet, Lane, commit_call, failed};

/// A worker that has claimed messages 1 and 2.
async fn holding(fleet: &Fleet) -> Lane {
    let (_g, w) = fleet.with_messages(2).await;
    assert_eq!(w.take(1, 2).await, "m1 m2");
    w
}

#[tokio::test]
async fn every_verb_takes_effect_in_the_step_of_the_commit() {
    let fleet = Fleet::new().await;
    let w = holding(&fleet).await;
    fleet.write(&["SET", &fleet.app("old"), "x"]).await;
    fleet.write(&["RPUSH", &fleet.app("was-list"), "x"]).await;
    let mut effects = Effects::default();
    effects.set(fleet.app("string"), b"\xffv");
    effects.set(fleet.app("was-list"), "now a string");
    effects.del(fleet.app("old"));
    effects.incr_by(fleet.app("count"), 5);
    effects.incr_by(fleet.app("count"), -7);
    effects.hset(fleet.app("hash"), "f", "v");
    effects.hset(fleet.app("hash"), "g", "v");
    effects.hincr_by(fleet.app("sums"), "f", 3);
    effects.hincr_by(fleet.app("sums"), "f", 4);
    effects.hincr_by(fleet.app("sums"), "g", -1);
    effects.rpush(fleet.app("list"), "a");
    effects.rpush(fleet.app("list"), "b");
    effects.sadd(fleet.app("set"), "a");
    effects.zadd(fleet.app("zset"), -3, "m");
    let records = [failed(2, "m2")];
    let committed = w.commit_with(1, 1..=2, &records, &effects).await;
    assert_eq!(committed, Commit::Done);
    assert_eq!(
        fleet.dump().await,
        [
            "app:count: '-2'",
            "app:hash: {f=v, g=v}",
            "app:list: [a, b]",
            "app:set: {a}",
            r"app:string: '\xffv'",
            "app:sums: {f=7, g=-1}",
            "app:was-list: 'now a string'",
            "app:zset: {m=-3}",
            "errors: {1=2 at 5 by w try 1: bad: m2}",
            "errors_ids: {last=1}",
            "fence: {cursor=10, epoch=1, last=2, node=g}",
            "stats: {done=1, failed=1}",
            "workers: {w:0=1 1 2 TIME}",
        ]
    );
}

#[tokio::test]
async fn effects_are_applied_once_when_the_commit_is_repeated() {
    let fleet = Fleet::new().await;
    let w = holding(&fleet).await;
    let mut effects = Effects::default();
    effects.incr_by(fleet.app("count"), 1);
    effects.rpush(fleet.app("list"), "a");
    let commit = async || w.commit_with(1, 1..=2, &[], &effects).await;
    assert_eq!(commit().await, Commit::Done);
    let before = fleet.dump().await;
    assert_eq!(commit().await, Commit::Already);
    assert_eq!(fleet.dump().await, before);
}

#[tokio::test]
async fn effects_of_a_lost_claim_are_not_applied() {
    let fleet = Fleet::new().await;
    let (_g, w) = fleet.with_messages(1).await;
    assert_eq!(w.take_and_stall(1, 1).await, "m1");
    let _ = w.store.reclaim().await.unwrap();
    let before = fleet.dump().await;
    let mut effects = Effects::default();
    effects.incr_by(fleet.app("count"), 1);
    assert_eq!(w.commit_with(1, 1..=1, &[], &effects).await, Commit::Lost);
    assert_eq!(fleet.dump().await, before);
}

/// Stages an effect that works, then one that does not. The commit must write nothing, name the key,
/// and leave the claim, so that a commit without effects succeeds.
async fn refused(seed: &[&[&str]], stage: impl Fn(&mut Effects, &dyn Fn(&str) -> String)) {
    let fleet = Fleet::new().await;
    let w = holding(&fleet).await;
    for words in seed {
        let key = fleet.app("bad");
        let words: Vec<&str> = words
            .iter()
            .map(|word| if *word == "bad" { &key } else { *word })
            .collect();
        let _: redis::Value = fleet.raw(&words).await;
    }
    let before = fleet.dump().await;
    let mut effects = Effects::default();
    effects.incr_by(fleet.app("good"), 1);
    stage(&mut effects, &|name| fleet.app(name));
    effects.rpush(fleet.app("later"), "1");
    let records = [failed(2, "m2")];
    let outcomes = baton_protocol::CommitCall {
        effects: &effects,
        ..commit_call(1..=2, &records)
    };
    let answer = w.store.commit(&w.slot, 1, outcomes).await;
    assert_eq!(fleet.dump().await, before, "{answer:?}");
    let Ok(Commit::Refused { reason }) = answer else {
        panic!("{answer:?}");
    };
    assert!(reason.contains(&fleet.app("bad")), "{reason}");
    assert_eq!(w.commit(1, 1..=2).await, Commit::Done);
}

#[tokio::test]
async fn an_effect_on_a_key_of_another_type_writes_nothing_at_all() {
    refused(&[&["SET", "bad", "x"]], |e, key| {
        e.hset(key("bad"), "f", "v")
    })
    .await;
    refused(&[&["SET", "bad", "1"]], |e, key| {
        e.hincr_by(key("bad"), "f", 1)
    })
    .await;
    refused(&[&["SET", "bad", "x"]], |e, key| e.rpush(key("bad"), "v")).await;
    refused(&[&["SET", "bad", "x"]], |e, key| e.sadd(key("bad"), "v")).await;
    refused(&[&["SADD", "bad", "x"]], |e, key| {
        e.zadd(key("bad"), 1, "v")
    })
    .await;
    refused(&[&["SADD", "bad", "x"]], |e, key| e.incr_by(key("bad"), 1)).await;
}

#[tokio::test]
async fn an_effect_that_adds_to_a_text_that_is_no_number_writes_nothing_at_all() {
    for value in ["x", "", "1.5", " 1", "1 ", "0x1", "1e3"] {
        refused(&[&["SET", "bad", value]], |e, key| e.incr_by(key("bad"), 1)).await;
        refused(&[&["HSET", "bad", "f", value]], |e, key| {
            e.hincr_by(key("bad"), "f", 1);
        })
        .await;
    }
}

#[tokio::test]
async fn an_effect_that_adds_to_digits_redis_does_not_count_with_writes_nothing_at_all() {
    for value in ["007", "-0", "00", "-01", "+1"] {
        refused(&[&["SET", "bad", value]], |e, key| e.incr_by(key("bad"), 1)).await;
        refused(&[&["HSET", "bad", "f", value]], |e, key| {
            e.hincr_by(key("bad"), "f", 1);
        })
        .await;
    }
}

#[tokio::test]
async fn an_effect_that_overflows_writes_nothing_at_all() {
    let limit = 9_007_199_254_740_991_i64;
    for value in ["9223372036854775807", "9007199254740991"] {
        refused(&[&["SET", "bad", value]], |e, key| e.incr_by(key("bad"), 1)).await;
        refused(&[&["HSET", "bad", "f", value]], |e, key| {
            e.hincr_by(key("bad"), "f", 1);
        })
        .await;
    }
    refused(&[], |e, key| e.incr_by(key("bad"), i64::MAX)).await;
    refused(&[], |e, key| e.incr_by(key("bad"), i64::MIN)).await;
    // Each alone would work.
    refused(&[], |e, key| {
        e.incr_by(key("bad"), limit);
        e.incr_by(key("bad"), 1);
    })
    .await;
    refused(&[], |e, key| {
        e.hincr_by(key("bad"), "f", limit);
        e.hincr_by(key("bad"), "f", 1);
    })
    .await;
    // The sum would fit, but Redis cannot read the value.
    refused(&[&["SET", "bad", "9223372036854775808"]], |e, key| {
        e.incr_by(key("bad"), i64::MIN);
    })
    .await;
}

#[tokio::test]
async fn counters_reach_down_to_minus_2_to_the_53() {
    let fleet = Fleet::new().await;
    let w = holding(&fleet).await;
    let limit = 9_007_199_254_740_991_i64;
    let mut effects = Effects::default();
    effects.incr_by(fleet.app("up"), limit);
    effects.incr_by(fleet.app("down"), -limit);
    effects.hincr_by(fleet.app("hash"), "down", -limit);
    let committed = w.commit_with(1, 1..=2, &[], &effects).await;
    assert_eq!(committed, Commit::Done);
}

#[tokio::test]
async fn two_verbs_on_one_key_in_one_commit_write_nothing_at_all() {
    refused(&[], |e, key| {
        e.set(key("bad"), "x");
        e.incr_by(key("bad"), 1);
    })
    .await;
    refused(&[], |e, key| {
        e.rpush(key("bad"), "x");
        e.sadd(key("bad"), "x");
    })
    .await;
}
