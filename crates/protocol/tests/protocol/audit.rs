//! The ledger and the audit: a script writes its entry in the same step, and the audit finds scripts
//! that do something else.

use std::ops::RangeInclusive;

use baton::Effects;
use baton::inspect::{Audit, Finding};
use baton_protocol::{
    Commit, CommitCall, Digest, Failure, Ledger, Publish, PublishCall, Settle, Settled, Store,
};

use crate::delayed::{SOON, delay, wake};
use crate::support::{
    Fleet, LONG, Lane, NO_EFFECTS, commit_call, failed, pack, publish_call, settle_all,
};

/// The digest of messages as [`pack`] makes them, in the pack that begins with `first`.
fn digest(pack: u64, messages: RangeInclusive<u64>) -> Digest {
    let mut digest = Digest::default();
    for seq in messages {
        digest.add(seq - pack, format!("m{seq}").as_bytes());
    }
    digest
}

async fn publish(g: &Store, first: u64, count: u64) -> Publish {
    let pack = pack(first, count);
    let call = PublishCall {
        stage: 1,
        is_staged: false,
        claim_ttl: LONG,
        digest: Some(digest(first, first..=first + count - 1)),
        ..publish_call(first, count, &pack)
    };
    g.publish(call).await.unwrap()
}

/// Commits messages of the pack that begins with 1.
async fn commit(
    lane: &Lane,
    number: u64,
    ended: RangeInclusive<u64>,
    failed: &[Vec<u8>],
    effects: &Effects,
) -> Commit {
    let outcomes = CommitCall {
        effects,
        max_errors: 1,
        digest: Some(digest(1, ended.clone())),
        ..commit_call(ended, failed)
    };
    lane.commit_outcomes(number, outcomes).await
}

async fn audit(store: &Store) -> Audit {
    let ledger = Ledger::read(store).await.unwrap();
    baton_protocol::audit::audit(store, &ledger).await.unwrap()
}

/// An audit that found nothing wrong.
fn sound(published: u64, done: u64, failed: u64, retried: u64) -> Audit {
    let mut audit = Audit::default();
    (audit.published, audit.done) = (published, done);
    (audit.failed, audit.retried) = (failed, retried);
    audit
}

/// A fleet with this many messages waiting in one pack, its generator and its worker.
async fn audited(count: u64) -> (Fleet, Store, Lane) {
    let fleet = Fleet::new().await;
    let (g, w) = (fleet.generator().await, fleet.lane("w").await);
    assert!(publish(&g, 1, count).await.is_written());
    (fleet, g, w)
}

async fn findings(store: &Store) -> Vec<String> {
    let audit = audit(store).await;
    audit.findings.iter().map(Finding::to_string).collect()
}

#[tokio::test]
async fn the_ledger_has_each_publish_and_each_end_once_with_its_digest() {
    let (fleet, g, w) = audited(3).await;
    assert_eq!(publish(&g, 1, 3).await, Publish::Already { last: 3 });
    assert_eq!(publish(&g, 7, 1).await, Publish::Gap { last: 3 });
    let records = [failed(2, "m2")];
    assert_eq!(w.take(1, 2).await, "m1 m2");
    for answer in [Commit::Done, Commit::Already] {
        let again = commit(&w, 1, 1..=2, &records, &NO_EFFECTS).await;
        assert_eq!(again, answer);
    }
    assert_eq!(w.take(2, 2).await, "m3");
    let ledger = fleet.only("ledger").await;
    let lines = format!(
        "ledger: [p 1 1 3 {} TIME, c w:0 1 2 1 {} TIME]",
        digest(1, 1..=3),
        digest(1, 1..=2)
    );
    assert_eq!(ledger, [lines.as_str()]);
}

#[tokio::test]
async fn the_ledger_has_no_entry_for_a_refused_call() {
    let (fleet, _g, w) = audited(3).await;
    let before = fleet.only("ledger").await;
    let old = fleet.node("old").await;
    assert!(matches!(publish(&old, 4, 1).await, Publish::Fenced { .. }));
    assert_eq!(commit(&w, 1, 1..=1, &[], &NO_EFFECTS).await, Commit::Lost);
    assert_eq!(w.take(1, 3).await, "m1 m2 m3");
    let records = [failed(1, "m1"), failed(2, "m2")];
    let full = commit(&w, 1, 1..=2, &records, &NO_EFFECTS).await;
    assert_eq!(full, Commit::Full { records: 0 });
    let mut effects = Effects::default();
    effects.incr_by(&fleet.keys.fence, 1);
    let refused = commit(&w, 1, 1..=1, &[], &effects).await;
    assert!(matches!(refused, Commit::Refused { .. }), "{refused:?}");
    assert_eq!(fleet.only("ledger").await, before);
}

#[tokio::test]
async fn a_fleet_that_is_not_audited_keeps_no_ledger() {
    let fleet = Fleet::new().await;
    let (_g, w) = fleet.with_messages(3).await;
    let _ = w.take(1, 3).await;
    assert_eq!(w.commit(1, 1..=3).await, Commit::Done);
    assert!(fleet.only("ledger").await == []);
}

#[tokio::test]
async fn an_audit_of_a_correct_fleet_finds_nothing() {
    let (_fleet, g, w) = audited(3).await;
    let _ = w.take(1, 2).await;
    let records = [failed(2, "m2")];
    let done = commit(&w, 1, 1..=2, &records, &NO_EFFECTS).await;
    assert_eq!(done, Commit::Done);
    assert_eq!(
        findings(&g).await,
        [
            "lost: #3",
            "handled texts are not the generated ones: #1 to #3",
            "pending is counted as 1, the ledger has 0",
            "done + failed + void is counted as 2, the ledger has 3",
        ],
        "before the end"
    );
    let _ = w.take(2, 2).await;
    let done = commit(&w, 2, 3..=3, &[], &NO_EFFECTS).await;
    assert_eq!(done, Commit::Done);
    assert_eq!(audit(&g).await, sound(3, 2, 1, 0));
}

#[tokio::test]
async fn the_ledger_has_the_end_of_a_poisonous_message() {
    let (fleet, g, w) = audited(2).await;
    for name in ["x", "y", "z"] {
        let _ = fleet.death(name, 2, &g).await;
    }
    fleet.age_suspects().await;
    assert_eq!(w.take(4, 2).await, "m2 (2)");
    let done = commit(&w, 4, 2..=2, &[], &NO_EFFECTS).await;
    assert_eq!(done, Commit::Done);
    assert_eq!(audit(&g).await, sound(2, 1, 1, 0));
}

#[tokio::test]
async fn a_retried_message_ends_once_more() {
    let (_fleet, g, w) = audited(3).await;
    let _ = w.take(1, 1).await;
    // The first message of a pack that still exists keeps its place.
    let first = [failed(1, "m1")];
    assert_eq!(
        commit(&w, 1, 1..=1, &first, &NO_EFFECTS).await,
        Commit::Done
    );
    retry(&g, 1, &first[0]).await;
    let _ = w.take(2, 2).await;
    let third = [failed(3, "m3")];
    assert_eq!(
        commit(&w, 2, 2..=3, &third, &NO_EFFECTS).await,
        Commit::Done
    );
    let _ = w.take(3, 1).await;
    assert_eq!(commit(&w, 3, 1..=1, &[], &NO_EFFECTS).await, Commit::Done);
    // Its pack is gone: it is alone in a new one.
    retry(&g, 2, &third[0]).await;
    assert_eq!(
        findings(&g).await,
        [
            "lost: #3",
            "pending is counted as 1, the ledger has 0",
            "done + failed + void is counted as 4, the ledger has 5",
        ],
        "before its second end"
    );
    assert_eq!(w.take(4, 1).await, "m3");
    let outcomes = CommitCall {
        max_errors: 1,
        digest: Some(Digest::of(0, b"m3")),
        ..commit_call(3..=3, &[])
    };
    assert_eq!(w.commit_outcomes(4, outcomes).await, Commit::Done);
    assert_eq!(audit(&g).await, sound(3, 3, 2, 2));
}

async fn retry(store: &Store, id: u64, record: &[u8]) {
    let record = record.to_vec();
    let seen = [Failure::short(id, record)];
    let retried = settle_all(store, Settle::Retry, &seen).await.unwrap();
    assert_eq!(retried, [Settled::Retried]);
}

/// An audited fleet that voided numbers 4 and 5, and whose messages 1 to 3 and 6 have ended.
async fn with_void() -> (Fleet, Store) {
    let (fleet, g, w) = audited(3).await;
    assert!(g.void(1, 4, 5, true).await.unwrap().is_written());
    assert!(publish(&g, 6, 1).await.is_written());
    let _ = w.take(1, 3).await;
    assert_eq!(commit(&w, 1, 1..=3, &[], &NO_EFFECTS).await, Commit::Done);
    let _ = w.take(2, 1).await;
    let outcomes = CommitCall {
        digest: Some(digest(6, 6..=6)),
        ..commit_call(6..=6, &[])
    };
    assert_eq!(w.commit_outcomes(2, outcomes).await, Commit::Done);
    (fleet, g)
}

#[tokio::test]
async fn void_numbers_are_in_the_ledger_and_the_audit_counts_them() {
    let (fleet, g) = with_void().await;
    let ledger = format!(
        "ledger: [p 1 1 3 {0} TIME, v 4 5 TIME, p 1 6 6 {1} TIME, c w:0 1 3 0 {0} TIME, \
         c w:0 6 6 0 {1} TIME]",
        digest(1, 1..=3),
        digest(6, 6..=6)
    );
    assert_eq!(fleet.only("ledger").await, [ledger.as_str()]);
    let mut expected = sound(6, 4, 0, 0);
    expected.void = 2;
    assert_eq!(audit(&g).await, expected);
}

#[tokio::test]
async fn an_audit_finds_an_end_of_a_void_number() {
    let (fleet, g) = with_void().await;
    let entry = "c w:0 4 4 0 - 1700000000 0";
    fleet.write(&["RPUSH", &fleet.keys.ledger, entry]).await;
    let found = findings(&g).await;
    assert!(
        found.contains(&"committed more than once: #4".to_owned()),
        "{found:?}"
    );
}

#[tokio::test]
async fn an_audit_finds_void_numbers_that_are_not_counted() {
    let (fleet, g) = with_void().await;
    fleet.write(&["HDEL", &fleet.keys.stats, "void"]).await;
    assert_eq!(
        findings(&g).await,
        [
            "void is counted as 0, the ledger has 2",
            "done + failed + void is counted as 4, the ledger has 6",
        ]
    );
}

/// Commits a whole claim with our script, in which one line is changed.
async fn commit_broken(fleet: &Fleet, number: &str, last: &str, ours: &str, broken: &str) {
    let whole = &baton_protocol::scripts::COMMIT.source;
    assert_eq!(whole.matches(ours).count(), 1, "{ours}");
    let keys = &fleet.keys;
    let mut command = redis::cmd("EVAL");
    command.arg(whole.replace(ours, broken)).arg(9);
    for key in [
        &keys.claims,
        &keys.deadlines,
        &keys.pack,
        &keys.left,
        &keys.workers,
        &keys.stats,
        &keys.errors,
        &keys.ledger,
        &keys.errors_ids,
    ] {
        command.arg(key);
    }
    let last_seq: u64 = last.parse().unwrap();
    let digest = digest(1, 1..=last_seq).to_string();
    for arg in ["w:0", number, "1", last, "10", &digest, "0", "0"] {
        command.arg(arg);
    }
    fleet.send(&command).await;
}

#[tokio::test]
async fn an_audit_finds_a_commit_that_leaves_its_claim() {
    let (fleet, g, w) = audited(3).await;
    let _ = w.take_and_stall(1, 2).await;
    let ours = "if last == held_last then redis.call('ZREM', deadlines, slot) end\n\
                redis.call('HDEL', claims, slot)\n";
    commit_broken(&fleet, "1", "2", ours, "").await;
    let _ = g.reclaim().await.unwrap();
    let late = fleet.lane("late").await;
    assert_eq!(late.take(1, 1).await, "m1 (1)");
    let again = commit(&late, 1, 1..=1, &[], &NO_EFFECTS).await;
    assert_eq!(again, Commit::Done);
    let found = findings(&g).await;
    assert!(
        found.contains(&"committed more than once: #1".to_owned()),
        "{found:?}"
    );
}

#[tokio::test]
async fn an_audit_finds_a_commit_that_drops_the_rest_of_its_claim() {
    let (fleet, g, w) = audited(3).await;
    let _ = w.take(1, 3).await;
    let ours = "redis.call('HDEL', claims, slot)\nif last < held_last then";
    let broken = "redis.call('HDEL', claims, slot)\nif false then";
    commit_broken(&fleet, "1", "1", ours, broken).await;
    assert_eq!(
        findings(&g).await,
        [
            "lost: #2 to #3",
            "handled texts are not the generated ones: #1 to #3",
            "done + failed + void is counted as 1, the ledger has 3",
        ]
    );
}

#[tokio::test]
async fn a_delayed_message_ends_for_the_audit_with_its_last_attempt() {
    let (fleet, g, w) = audited(3).await;
    assert_eq!(w.take(1, 3).await, "m1 m2 m3");
    let delayed = [delay(2, false, SOON)];
    let outcomes = CommitCall {
        delayed: &delayed,
        digest: Some(digest(1, 1..=3)),
        ..commit_call(1..=3, &[])
    };
    assert_eq!(w.commit_outcomes(1, outcomes).await, Commit::Done);
    let ledger = format!(
        "ledger: [p 1 1 3 {0} TIME, c w:0 1 3 0 {0} TIME, d 2 TIME]",
        digest(1, 1..=3)
    );
    assert_eq!(fleet.only("ledger").await, [ledger.as_str()]);
    let waits = [
        "lost: #2",
        "delayed is counted as 1, the ledger has 0",
        "done + failed + void is counted as 2, the ledger has 3",
    ];
    assert_eq!(findings(&g).await, waits);
    wake(&w, 1).await;
    assert_eq!(w.take(2, 1).await, "m2 (1)");
    let outcomes = CommitCall {
        digest: Some(digest(2, 2..=2)),
        ..commit_call(2..=2, &[])
    };
    assert_eq!(w.commit_outcomes(2, outcomes).await, Commit::Done);
    assert_eq!(audit(&g).await, sound(3, 3, 0, 0));
}
