//! errors_settle: drops or retries exactly the failed messages that the call names.

use baton_protocol::{
    Commit, CommitCall, Digest, ErrorsClaim, ErrorsCommit, Failure, PublishCall, Settle, Settled,
    record,
};

use crate::support::{
    Fleet, LONG, Lane, commit_call, failed, pack, publish, publish_call, settle_all,
};

/// A record with its id.
fn at(id: u64, record: &[u8]) -> Failure {
    let record = record.to_vec();
    Failure::short(id, record)
}

async fn settle(lane: &Lane, what: Settle, seen: &[Failure]) -> Vec<Settled> {
    let settled = settle_all(&lane.store, what, seen).await.unwrap();
    assert!(lane.store.census().await.unwrap().balanced());
    settled
}

async fn drop_it(lane: &Lane, id: u64, record: &[u8]) -> Settled {
    settle(lane, Settle::Drop, &[at(id, record)]).await[0]
}

async fn retry(lane: &Lane, id: u64, record: &[u8]) -> Settled {
    settle(lane, Settle::Retry, &[at(id, record)]).await[0]
}

/// A fleet in which all `count` messages of one pack failed.
async fn all_failed(fleet: &Fleet, count: u64) -> (Lane, Vec<Vec<u8>>) {
    let (_g, w) = fleet.with_messages(count).await;
    let _ = w.take(1, count).await;
    let records: Vec<Vec<u8>> = (1..=count)
        .map(|seq| failed(seq, format!("m{seq}")))
        .collect();
    let commit = w.commit_failed(1, 1..=count, &records).await;
    assert_eq!(commit, Commit::Done);
    (w, records)
}

async fn push(fleet: &Fleet, record: &[u8]) {
    fleet.fail(&[record]).await;
}

const KEPT: &str = "claims deadlines errors left packs queue stats";

#[tokio::test]
async fn one_record_of_many_is_dropped() {
    let fleet = Fleet::new().await;
    let (w, records) = all_failed(&fleet, 3).await;
    assert_eq!(drop_it(&w, 2, &records[1]).await, Settled::Dropped);
    assert_eq!(
        fleet.only(KEPT).await,
        [
            "errors: {1=1 at 5 by w try 1: bad: m1, 3=3 at 5 by w try 1: bad: m3}",
            "stats: {dropped=1, failed=3}",
        ]
    );
    let before = fleet.dump().await;
    assert_eq!(drop_it(&w, 2, &records[1]).await, Settled::Missing);
    assert_eq!(fleet.dump().await, before, "asked again");
}

#[tokio::test]
async fn a_record_keeps_its_id_when_others_are_dropped() {
    let fleet = Fleet::new().await;
    let (w, records) = all_failed(&fleet, 3).await;
    let seen: Vec<Failure> = (1..)
        .zip(&records)
        .map(|(id, record)| at(id, record))
        .collect();
    assert_eq!(drop_it(&w, 1, &records[0]).await, Settled::Dropped);
    assert_eq!(
        settle(&w, Settle::Drop, &seen).await,
        [Settled::Missing, Settled::Dropped, Settled::Dropped]
    );
    assert_eq!(fleet.only("errors").await, [""; 0]);
}

#[tokio::test]
async fn a_record_with_another_id_is_not_touched() {
    let fleet = Fleet::new().await;
    let (w, records) = all_failed(&fleet, 2).await;
    let before = fleet.dump().await;
    for id in [0, 1, 3, u64::MAX] {
        assert_eq!(drop_it(&w, id, &records[1]).await, Settled::Missing, "{id}");
        assert_eq!(retry(&w, id, &records[1]).await, Settled::Missing, "{id}");
    }
    assert_eq!(fleet.dump().await, before);
}

#[tokio::test]
async fn a_record_that_differs_in_one_byte_is_missing() {
    let fleet = Fleet::new().await;
    let (w, records) = all_failed(&fleet, 2).await;
    let mut other = records[0].clone();
    *other.last_mut().unwrap() ^= 1;
    let before = fleet.dump().await;
    for what in [Settle::Drop, Settle::Retry] {
        assert_eq!(settle(&w, what, &[at(1, &other)]).await, [Settled::Missing]);
    }
    assert_eq!(fleet.dump().await, before);
}

#[tokio::test]
async fn a_record_that_a_drain_holds_is_missing() {
    let fleet = Fleet::new().await;
    let (w, records) = all_failed(&fleet, 1).await;
    assert_eq!(w.drain(2, 9, 9999).await, ErrorsClaim::Claimed(vec![1]));
    let before = fleet.dump().await;
    assert_eq!(retry(&w, 1, &records[0]).await, Settled::Missing);
    assert_eq!(drop_it(&w, 1, &records[0]).await, Settled::Missing);
    assert_eq!(fleet.dump().await, before);
}

#[tokio::test]
async fn of_identical_records_only_the_named_ones_are_dropped() {
    let fleet = Fleet::new().await;
    let w = fleet.lane("w").await;
    for record in [b"same", b"else", b"same", b"same"] {
        push(&fleet, record).await;
    }
    let (third, fourth) = (at(3, b"same"), at(4, b"same"));
    assert_eq!(
        settle(&w, Settle::Drop, &[third.clone(), third.clone()]).await,
        [Settled::Dropped, Settled::Missing]
    );
    assert_eq!(
        settle(&w, Settle::Drop, &[third, fourth]).await,
        [Settled::Missing, Settled::Dropped]
    );
    let left = w.failures().await;
    assert_eq!(left, [at(1, b"same"), at(2, b"else")]);
}

#[tokio::test]
async fn records_of_any_bytes_are_dropped() {
    let fleet = Fleet::new().await;
    let w = fleet.lane("w").await;
    let bytes: [&[u8]; 4] = [b"", b" ", b"1", b"\xff\0"];
    for record in bytes {
        push(&fleet, record).await;
    }
    assert_eq!(drop_it(&w, 5, b"").await, Settled::Missing);
    for failure in w.failures().await {
        assert_eq!(
            settle(&w, Settle::Drop, &[failure]).await,
            [Settled::Dropped]
        );
    }
    assert_eq!(
        fleet.dump().await,
        ["errors_ids: {free=5, last=4}", "stats: {dropped=4}"]
    );
}

#[tokio::test]
async fn a_record_that_is_too_long_for_a_script_is_dropped_and_counted_once() {
    let fleet = Fleet::new().await;
    let w = fleet.lane("w").await;
    let long = vec![b'x'; 600 << 10];
    push(&fleet, &long).await;
    let mut other = long.clone();
    other[0] = b'y';
    assert_eq!(drop_it(&w, 1, &other).await, Settled::Missing);
    assert_eq!(fleet.only("stats").await, [""; 0]);
    assert_eq!(drop_it(&w, 1, &long).await, Settled::Dropped);
    assert_eq!(drop_it(&w, 1, &long).await, Settled::Missing);
    assert_eq!(fleet.only("errors stats").await, ["stats: {dropped=1}"]);
}

#[tokio::test]
async fn a_search_begins_behind_the_records_that_were_settled() {
    let fleet = Fleet::new().await;
    let (w, records) = all_failed(&fleet, 5).await;
    let hint = async || fleet.only("errors_ids").await;
    assert_eq!(drop_it(&w, 2, &records[1]).await, Settled::Dropped);
    assert_eq!(hint().await, ["errors_ids: {last=5}"], "1 is free");
    assert_eq!(retry(&w, 1, &records[0]).await, Settled::Retried);
    assert_eq!(hint().await, ["errors_ids: {free=3, last=5}"]);
    // A drain holds 3, and the search passes over it.
    assert_eq!(w.drain(2, 1, 9999).await, ErrorsClaim::Claimed(vec![3]));
    assert_eq!(drop_it(&w, 4, &records[3]).await, Settled::Dropped);
    assert_eq!(hint().await, ["errors_ids: {free=5, last=5}"]);
    let held = w.store.errors_commit(&w.slot, 2, 0).await.unwrap();
    assert_eq!(held, ErrorsCommit::Done);
    assert_eq!(hint().await, ["errors_ids: {free=3, last=5}"]);
    assert_eq!(w.failures().await.len(), 2);
}

#[tokio::test]
async fn a_message_whose_pack_is_gone_waits_again_under_its_own_number() {
    let fleet = Fleet::new().await;
    let (w, records) = all_failed(&fleet, 3).await;
    assert_eq!(retry(&w, 2, &records[1]).await, Settled::Retried);
    assert_eq!(
        fleet.only(KEPT).await,
        [
            "errors: {1=1 at 5 by w try 1: bad: m1, 3=3 at 5 by w try 1: bad: m3}",
            "packs: {2=[m2]}",
            "queue: [2 1 2 2 0]",
            "stats: {failed=3, retried=1}",
        ]
    );
    let before = fleet.dump().await;
    assert_eq!(retry(&w, 2, &records[1]).await, Settled::Missing);
    assert_eq!(fleet.dump().await, before, "asked again");

    assert_eq!(w.take(2, 9).await, "m2");
    assert_eq!(w.commit(2, 2..=2).await, Commit::Done);
    assert_eq!(
        fleet.only("packs left queue claims stats").await,
        ["stats: {done=1, failed=3, retried=1}"]
    );
    assert!(w.store.census().await.unwrap().balanced());
}

#[tokio::test]
async fn the_first_message_of_a_pack_that_still_exists_waits_again_in_its_pack() {
    let fleet = Fleet::new().await;
    let (_g, w) = fleet.with_messages(3).await;
    assert_eq!(w.take(1, 1).await, "m1");
    let record = failed(1, "m1");
    let commit = w.commit_failed(1, 1..=1, std::slice::from_ref(&record));
    assert_eq!(commit.await, Commit::Done);
    assert_eq!(retry(&w, 1, &record).await, Settled::Retried);
    assert_eq!(
        fleet.only(KEPT).await,
        [
            "left: {1=3}",
            "packs: {1=[m1 m2 m3]}",
            "queue: [1 3 2 3 0, 1 3 1 1 0]",
            "stats: {failed=1, retried=1}",
        ]
    );
    assert_eq!(w.take(2, 9).await, "m2 m3");
    assert_eq!(w.commit(2, 2..=3).await, Commit::Done);
    assert_eq!(
        fleet.only("left packs").await,
        ["left: {1=1}", "packs: {1=[m1 m2 m3]}"]
    );
    assert_eq!(w.take(3, 9).await, "m1");
    assert_eq!(w.commit(3, 1..=1).await, Commit::Done);
    assert_eq!(
        fleet.only(KEPT).await,
        ["stats: {done=3, failed=1, retried=1}"]
    );
    assert!(w.store.census().await.unwrap().balanced());
}

#[tokio::test]
async fn another_message_of_a_pack_that_still_exists_gets_a_pack_of_its_own() {
    let fleet = Fleet::new().await;
    let (_g, w) = fleet.with_messages(3).await;
    assert_eq!(w.take(1, 2).await, "m1 m2");
    let record = failed(2, "m2");
    let commit = w.commit_failed(1, 1..=2, std::slice::from_ref(&record));
    assert_eq!(commit.await, Commit::Done);
    assert_eq!(retry(&w, 1, &record).await, Settled::Retried);
    assert_eq!(
        fleet.only(KEPT).await,
        [
            "left: {1=1}",
            "packs: {1=[m1 m2 m3], 2=[m2]}",
            "queue: [1 3 3 3 0, 2 1 2 2 0]",
            "stats: {done=1, failed=1, retried=1}",
        ]
    );
}

#[tokio::test]
async fn a_message_that_fails_again_can_be_retried_again() {
    let fleet = Fleet::new().await;
    let (w, records) = all_failed(&fleet, 1).await;
    for number in 2..5 {
        assert_eq!(retry(&w, number - 1, &records[0]).await, Settled::Retried);
        assert_eq!(w.take(number, 9).await, "m1");
        let commit = w.commit_failed(number, 1..=1, &records).await;
        assert_eq!(commit, Commit::Done);
    }
    assert_eq!(
        fleet.only(KEPT).await,
        [
            "errors: {4=1 at 5 by w try 1: bad: m1}",
            "stats: {failed=4, retried=3}",
        ]
    );
}

#[tokio::test]
async fn a_retried_message_has_no_suspects() {
    let fleet = Fleet::new().await;
    let (g, w) = fleet.with_messages(1).await;
    for name in ["x", "y", "z"] {
        let _ = fleet.death(name, 1, &g).await;
    }
    fleet.age_suspects().await;
    assert_eq!(w.claim(4, 1).await, baton_protocol::Claim::Empty);
    let record = w.failures().await.remove(0).record;
    assert_eq!(retry(&w, 1, &record).await, Settled::Retried);
    assert_eq!(w.take(5, 1).await, "m1");
    assert_eq!(w.commit(5, 1..=1).await, Commit::Done);
}

/// Tries to retry this record, which must change nothing.
async fn is_unfit(fleet: &Fleet, w: &Lane, why: &str, record: &[u8]) {
    push(fleet, record).await;
    let id = w.store.errors_last().await.unwrap();
    let before = fleet.dump().await;
    assert_eq!(retry(w, id, record).await, Settled::Unfit, "{why}");
    assert_eq!(fleet.dump().await, before, "{why}");
    assert_eq!(drop_it(w, id, record).await, Settled::Dropped, "{why}");
}

#[tokio::test]
async fn a_record_that_is_no_message_of_the_fleet_cannot_be_retried() {
    let fleet = Fleet::new().await;
    let (g, w) = fleet.with_messages(1).await;
    assert_eq!(w.take(1, 1).await, "m1");
    assert_eq!(w.commit(1, 1..=1).await, Commit::Done);
    assert!(publish(&g, 2, 1).await.is_written());
    assert!(publish(&g, 3, 3).await.is_written());
    is_unfit(&fleet, &w, "foreign bytes", b"garbage").await;
    is_unfit(&fleet, &w, "nothing at all", b"").await;
    is_unfit(&fleet, &w, "never a message", &failed(0, "x")).await;
    is_unfit(&fleet, &w, "not yet a message", &failed(6, "x")).await;
    is_unfit(&fleet, &w, "beyond counting", &failed(u64::MAX, "x")).await;
    is_unfit(&fleet, &w, "waits, alone in its pack", &failed(2, "m2")).await;
    is_unfit(&fleet, &w, "waits, as all of its pack", &failed(3, "m3")).await;
    let longer = [failed(1, "m1"), b"x".to_vec()].concat();
    is_unfit(&fleet, &w, "bytes behind its end", &longer).await;
    is_unfit(&fleet, &w, "cut short", &failed(1, "m1")[..8]).await;
    // [1.5, 5, "w", "bad", 1, "m"]: a double instead of a number; and no number at all.
    let half = b"\x96\xcb\x3f\xf8\0\0\0\0\0\0\x05\xa1w\xa3bad\x01\xa1m";
    is_unfit(&fleet, &w, "half a number", half).await;
    is_unfit(
        &fleet,
        &w,
        "no number",
        b"\x96\xa11\x05\xa1w\xa3bad\x01\xa1m",
    )
    .await;
    is_unfit(&fleet, &w, "lists in lists", &vec![0x91; 100_000]).await;
    fleet.write(&["DEL", &fleet.keys.pack_key(3)]).await;
    fleet.write(&["HSET", &fleet.keys.left, "3", "2"]).await;
    is_unfit(
        &fleet,
        &w,
        "of a pack that a person deleted",
        &failed(3, "m3"),
    )
    .await;
}

#[tokio::test]
async fn of_two_records_of_one_message_only_one_is_retried() {
    let fleet = Fleet::new().await;
    let (w, records) = all_failed(&fleet, 1).await;
    let other = baton_protocol::record::encode(&{
        let mut made = record::decode(&records[0]);
        made.at_ms = 6;
        made
    });
    push(&fleet, &other).await;
    let seen = [at(1, &records[0]), at(2, &other)];
    assert_eq!(
        settle(&w, Settle::Retry, &seen).await,
        [Settled::Retried, Settled::Unfit]
    );
    assert_eq!(retry(&w, 2, &other).await, Settled::Unfit, "while it waits");
    assert_eq!(w.take(2, 9).await, "m1");
    assert_eq!(
        retry(&w, 2, &other).await,
        Settled::Unfit,
        "while a worker has claimed it"
    );
    assert_eq!(
        fleet.only("errors packs stats").await,
        [
            "errors: {2=1 at 6 by w try 1: bad: m1}",
            "packs: {1=[m1]}",
            "stats: {failed=1, retried=1}",
        ]
    );
}

#[tokio::test]
async fn a_thousand_records_are_settled_in_several_calls() {
    let fleet = Fleet::new().await;
    let w = fleet.lane("w").await;
    let g = fleet.generator().await;
    assert!(publish(&g, 1, 1000).await.is_written());
    let _ = w.take(1, 1000).await;
    let records: Vec<_> = (1..=1000)
        .map(|seq| failed(seq, format!("m{seq}")))
        .collect();
    let outcomes = CommitCall {
        max_errors: 1000,
        ..commit_call(1..=1000, &records)
    };
    assert_eq!(w.commit_outcomes(1, outcomes).await, Commit::Done);
    let seen: Vec<Failure> = (1..)
        .zip(&records)
        .map(|(id, record)| at(id, record))
        .collect();
    let settled = settle(&w, Settle::Retry, &seen).await;
    assert!(settled.iter().all(|settled| *settled == Settled::Retried));
    let census = w.store.census().await.unwrap();
    assert_eq!(
        (census.pending, census.retried, census.errors),
        (1000, 1000, 0)
    );
}

#[tokio::test]
async fn the_ledger_has_an_entry_for_a_retry_but_not_for_a_drop() {
    let fleet = Fleet::new().await;
    let g = fleet.generator().await;
    let w = fleet.lane("w").await;
    let pack = pack(1, 2);
    let digest = Some(Digest::default());
    let call = PublishCall {
        stage: 1,
        is_staged: false,
        claim_ttl: LONG,
        digest,
        ..publish_call(1, 2, &pack)
    };
    assert!(g.publish(call).await.unwrap().is_written());
    let _ = w.take(1, 2).await;
    let records = [failed(1, "m1"), failed(2, "m2")];
    let outcomes = CommitCall {
        digest,
        ..commit_call(1..=2, &records)
    };
    assert_eq!(w.commit_outcomes(1, outcomes).await, Commit::Done);
    assert_eq!(drop_it(&w, 1, &records[0]).await, Settled::Dropped);
    assert_eq!(retry(&w, 2, &records[1]).await, Settled::Retried);
    assert_eq!(
        fleet.only("ledger").await,
        ["ledger: [p 1 1 2 0000000000000000 TIME, c w:0 1 2 2 0000000000000000 TIME, r 2 TIME]"]
    );
}
