//! errors_settle: drops exactly the failed messages that are named, or gives them to the
//! workers again.

use baton::protocol::{Commit, ErrorsClaim, Outcomes, Publish, PublishCall, Seen, Settle, Settled};
use baton::{Digest, FailedMessage};

use crate::support::{Fleet, LONG, Lane, NO_EFFECTS, call, failed, pack, publish};

/// A record at a place of the store.
fn at(index: u64, record: &[u8]) -> Seen {
    let record = record.to_vec();
    Seen { index, record }
}

async fn settle(lane: &Lane, what: Settle, seen: &[Seen]) -> Vec<Settled> {
    let settled = lane.store.errors_settle(what, seen).await.unwrap();
    assert!(lane.store.census().await.unwrap().balanced());
    settled
}

async fn drop_it(lane: &Lane, index: u64, record: &[u8]) -> Settled {
    settle(lane, Settle::Drop, &[at(index, record)]).await[0]
}

async fn retry(lane: &Lane, index: u64, record: &[u8]) -> Settled {
    settle(lane, Settle::Retry, &[at(index, record)]).await[0]
}

/// All of `count` messages of one pack failed.
async fn all_failed(fleet: &Fleet, count: u64) -> (Lane, Vec<Vec<u8>>) {
    let (_g, w) = fleet.with_messages(count).await;
    let _ = w.take(1, count).await;
    let records: Vec<Vec<u8>> = (1..=count)
        .map(|seq| failed(seq, format!("m{seq}")))
        .collect();
    let commit = w.commit_with(1, 1..=count, &records, &NO_EFFECTS).await;
    assert_eq!(commit, Commit::Done);
    (w, records)
}

async fn push(fleet: &Fleet, record: &[u8]) {
    let mut push = redis::cmd("RPUSH");
    push.arg(&fleet.keys.errors).arg(record);
    fleet.send(&push).await;
}

const KEPT: [&str; 7] = [
    "claims",
    "deadlines",
    "errors",
    "left",
    "packs",
    "queue",
    "stats",
];

#[tokio::test]
async fn one_of_many_is_dropped_for_good() {
    let fleet = Fleet::new().await;
    let (w, records) = all_failed(&fleet, 3).await;
    assert_eq!(drop_it(&w, 1, &records[1]).await, Settled::Dropped);
    assert_eq!(
        fleet.dump().await.only(&KEPT),
        [
            "errors: [1 at 5 by w try 1: bad: m1, 3 at 5 by w try 1: bad: m3]",
            "stats: {failed=3}",
        ]
    );
    let before = fleet.dump().await;
    assert_eq!(drop_it(&w, 1, &records[1]).await, Settled::Missing);
    assert_eq!(fleet.dump().await, before, "asked again");
}

#[tokio::test]
async fn a_record_that_moved_is_found() {
    let fleet = Fleet::new().await;
    let (w, records) = all_failed(&fleet, 3).await;
    let seen: Vec<Seen> = (0..)
        .zip(&records)
        .map(|(i, record)| at(i, record))
        .collect();
    assert_eq!(drop_it(&w, 0, &records[0]).await, Settled::Dropped);
    assert_eq!(
        settle(&w, Settle::Drop, &seen).await,
        [Settled::Missing, Settled::Dropped, Settled::Dropped]
    );
    assert_eq!(fleet.dump().await.only(&["errors"]), [""; 0]);
}

#[tokio::test]
async fn a_record_that_differs_in_one_byte_is_missing() {
    let fleet = Fleet::new().await;
    let (w, records) = all_failed(&fleet, 2).await;
    let mut other = records[0].clone();
    *other.last_mut().unwrap() ^= 1;
    let before = fleet.dump().await;
    for what in [Settle::Drop, Settle::Retry] {
        assert_eq!(settle(&w, what, &[at(0, &other)]).await, [Settled::Missing]);
    }
    assert_eq!(fleet.dump().await, before);
}

#[tokio::test]
async fn a_record_in_a_drain_s_hands_is_missing() {
    let fleet = Fleet::new().await;
    let (w, records) = all_failed(&fleet, 1).await;
    let claim = w.store.errors_claim(&w.slot, 2, 9, 9999, LONG).await;
    assert!(matches!(claim.unwrap(), ErrorsClaim::Claimed(_)));
    let before = fleet.dump().await;
    assert_eq!(retry(&w, 0, &records[0]).await, Settled::Missing);
    assert_eq!(drop_it(&w, 0, &records[0]).await, Settled::Missing);
    assert_eq!(fleet.dump().await, before);
}

#[tokio::test]
async fn records_that_are_the_same_to_the_byte_are_dropped_one_by_one() {
    let fleet = Fleet::new().await;
    let w = fleet.lane("w").await;
    for record in [b"same", b"else", b"same", b"same"] {
        push(&fleet, record).await;
    }
    let same = at(2, b"same");
    assert_eq!(
        settle(&w, Settle::Drop, &[same.clone(), same.clone()]).await,
        [Settled::Dropped; 2]
    );
    assert_eq!(
        settle(&w, Settle::Drop, &[same.clone(), same]).await,
        [Settled::Dropped, Settled::Missing]
    );
    let left = w.store.errors_look(0, 9).await.unwrap();
    assert_eq!(left, [b"else".to_vec()]);
}

#[tokio::test]
async fn no_bytes_are_special() {
    let fleet = Fleet::new().await;
    let w = fleet.lane("w").await;
    // What the script writes over a record that is on its way out, and what looks like it.
    let bytes: [&[u8]; 5] = [b"settled", b"settled.", b"", b"baton: settled", b"\xff\0"];
    for record in bytes {
        push(&fleet, record).await;
    }
    let named = [at(4, bytes[4]), at(0, b"settled.."), at(1, b"settled.")];
    assert_eq!(
        settle(&w, Settle::Drop, &named).await,
        [Settled::Dropped, Settled::Missing, Settled::Dropped]
    );
    let left = w.store.errors_look(0, 9).await.unwrap();
    assert_eq!(left, [bytes[0], bytes[2], bytes[3]]);
    for record in &left {
        assert_eq!(drop_it(&w, 9, record).await, Settled::Dropped);
    }
    assert_eq!(fleet.dump().await, [""; 0]);
}

#[tokio::test]
async fn an_index_that_no_list_has_changes_nothing() {
    let fleet = Fleet::new().await;
    let (w, records) = all_failed(&fleet, 2).await;
    let before = fleet.dump().await;
    let seen = [at(0, &records[0]), at(u64::MAX, &records[1])];
    assert!(w.store.errors_settle(Settle::Drop, &seen).await.is_err());
    assert_eq!(fleet.dump().await, before);
}

#[tokio::test]
async fn a_message_whose_pack_is_gone_waits_again_under_its_own_number() {
    let fleet = Fleet::new().await;
    let (w, records) = all_failed(&fleet, 3).await;
    let _: () = fleet.raw(&["DEL", &fleet.keys.bell]).await;
    assert_eq!(retry(&w, 1, &records[1]).await, Settled::Retried);
    assert_eq!(
        fleet.dump().await.only(&KEPT),
        [
            "errors: [1 at 5 by w try 1: bad: m1, 3 at 5 by w try 1: bad: m3]",
            "packs: {2=[m2]}",
            "queue: [2 1 2 2 0]",
            "stats: {failed=3, retried=1}",
        ]
    );
    assert_eq!(fleet.dump().await.only(&["bell"]), ["bell: [1]"]);
    let before = fleet.dump().await;
    assert_eq!(retry(&w, 1, &records[1]).await, Settled::Missing);
    assert_eq!(fleet.dump().await, before, "asked again");

    assert_eq!(w.take(2, 9).await, "m2");
    assert_eq!(w.commit(2, 2..=2).await, Commit::Done);
    assert_eq!(
        fleet
            .dump()
            .await
            .only(&["packs", "left", "queue", "claims", "stats"]),
        ["stats: {done=1, failed=3, retried=1}"]
    );
    assert!(w.store.census().await.unwrap().balanced());
}

#[tokio::test]
async fn the_first_message_of_a_pack_that_lives_waits_again_in_its_pack() {
    let fleet = Fleet::new().await;
    let (_g, w) = fleet.with_messages(3).await;
    assert_eq!(w.take(1, 1).await, "m1");
    let record = failed(1, "m1");
    let commit = w.commit_with(1, 1..=1, std::slice::from_ref(&record), &NO_EFFECTS);
    assert_eq!(commit.await, Commit::Done);
    assert_eq!(retry(&w, 0, &record).await, Settled::Retried);
    assert_eq!(
        fleet.dump().await.only(&KEPT),
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
        fleet.dump().await.only(&["left", "packs"]),
        ["left: {1=1}", "packs: {1=[m1 m2 m3]}"]
    );
    assert_eq!(w.take(3, 9).await, "m1");
    assert_eq!(w.commit(3, 1..=1).await, Commit::Done);
    assert_eq!(
        fleet.dump().await.only(&KEPT),
        ["stats: {done=3, failed=1, retried=1}"]
    );
    assert!(w.store.census().await.unwrap().balanced());
}

#[tokio::test]
async fn another_message_of_a_pack_that_lives_gets_a_pack_of_its_own() {
    let fleet = Fleet::new().await;
    let (_g, w) = fleet.with_messages(3).await;
    assert_eq!(w.take(1, 2).await, "m1 m2");
    let record = failed(2, "m2");
    let commit = w.commit_with(1, 1..=2, std::slice::from_ref(&record), &NO_EFFECTS);
    assert_eq!(commit.await, Commit::Done);
    assert_eq!(retry(&w, 0, &record).await, Settled::Retried);
    assert_eq!(
        fleet.dump().await.only(&KEPT),
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
        assert_eq!(retry(&w, 0, &records[0]).await, Settled::Retried);
        assert_eq!(w.take(number, 9).await, "m1");
        let commit = w.commit_with(number, 1..=1, &records, &NO_EFFECTS).await;
        assert_eq!(commit, Commit::Done);
    }
    assert_eq!(
        fleet.dump().await.only(&KEPT),
        [
            "errors: [1 at 5 by w try 1: bad: m1]",
            "stats: {failed=4, retried=3}",
        ]
    );
}

#[tokio::test]
async fn a_message_that_killed_its_workers_may_try_as_often_again() {
    let fleet = Fleet::new().await;
    let (_g, w) = fleet.with_messages(1).await;
    for number in [1, 2, 3] {
        let _ = w.take_and_stall(number, 1).await;
        let _ = w.store.reclaim().await.unwrap();
    }
    assert_eq!(w.claim(4, 1).await, baton::protocol::Claim::Empty);
    let record = w.store.errors_look(0, 1).await.unwrap().remove(0);
    assert_eq!(retry(&w, 0, &record).await, Settled::Retried);
    assert_eq!(w.take(5, 1).await, "m1");
    assert_eq!(w.commit(5, 1..=1).await, Commit::Done);
}

/// Nothing of a store with this record is changed by trying to retry it.
async fn is_unfit(fleet: &Fleet, w: &Lane, why: &str, record: &[u8]) {
    push(fleet, record).await;
    let before = fleet.dump().await;
    assert_eq!(retry(w, 0, record).await, Settled::Unfit, "{why}");
    assert_eq!(fleet.dump().await, before, "{why}");
    assert_eq!(drop_it(w, 0, record).await, Settled::Dropped, "{why}");
}

#[tokio::test]
async fn what_is_no_message_of_the_fleet_stays_where_it_is() {
    let fleet = Fleet::new().await;
    let (g, w) = fleet.with_messages(1).await;
    assert_eq!(w.take(1, 1).await, "m1");
    assert_eq!(w.commit(1, 1..=1).await, Commit::Done);
    assert_eq!(publish(&g, 2, 1).await, Publish::Ok);
    assert_eq!(publish(&g, 3, 3).await, Publish::Ok);
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
    // [1.5, 5, "w", "bad", 1, "m"], the number as a double, and no number at all.
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
    let _: () = fleet.raw(&["HDEL", &fleet.keys.packs, "3"]).await;
    let _: () = fleet.raw(&["HSET", &fleet.keys.left, "3", "2"]).await;
    is_unfit(
        &fleet,
        &w,
        "of a pack that somebody deleted",
        &failed(3, "m3"),
    )
    .await;
}

#[tokio::test]
async fn of_two_records_of_one_message_one_is_retried() {
    let fleet = Fleet::new().await;
    let (w, records) = all_failed(&fleet, 1).await;
    let other = FailedMessage {
        at_ms: 6,
        ..FailedMessage::decode(&records[0])
    }
    .encode();
    push(&fleet, &other).await;
    let seen = [at(0, &records[0]), at(1, &other)];
    assert_eq!(
        settle(&w, Settle::Retry, &seen).await,
        [Settled::Retried, Settled::Unfit]
    );
    assert_eq!(retry(&w, 0, &other).await, Settled::Unfit, "while it waits");
    assert_eq!(w.take(2, 9).await, "m1");
    assert_eq!(
        retry(&w, 0, &other).await,
        Settled::Unfit,
        "while it is in hand"
    );
    assert_eq!(
        fleet.dump().await.only(&["errors", "packs", "stats"]),
        [
            "errors: [1 at 6 by w try 1: bad: m1]",
            "packs: {1=[m1]}",
            "stats: {failed=1, retried=1}",
        ]
    );
}

#[tokio::test]
async fn a_thousand_records_are_settled_at_once() {
    let fleet = Fleet::new().await;
    let w = fleet.lane("w").await;
    let g = fleet.generator().await;
    assert_eq!(publish(&g, 1, 1000).await, Publish::Ok);
    let _ = w.take(1, 1000).await;
    let records: Vec<_> = (1..=1000)
        .map(|seq| failed(seq, format!("m{seq}")))
        .collect();
    let outcomes = Outcomes {
        first: 1,
        last: 1000,
        failed: &records,
        effects: &NO_EFFECTS,
        max_errors: 1000,
        digest: None,
    };
    assert_eq!(w.commit_outcomes(1, outcomes).await, Commit::Done);
    // The last one was seen where it no longer is, and so was every other.
    let seen: Vec<Seen> = records.iter().map(|record| at(999, record)).collect();
    let settled = settle(&w, Settle::Retry, &seen).await;
    assert!(settled.iter().all(|settled| *settled == Settled::Retried));
    let census = w.store.census().await.unwrap();
    assert_eq!(
        (census.pending, census.retried, census.errors),
        (1000, 1000, 0)
    );
}

#[tokio::test]
async fn the_ledger_tells_of_a_retry_and_not_of_a_drop() {
    let fleet = Fleet::new().await;
    let g = fleet.generator().await;
    let w = fleet.lane("w").await;
    let pack = pack(1, 2);
    let digest = Some(Digest::default());
    let call = PublishCall {
        digest,
        ..call(1, 2, &pack)
    };
    assert_eq!(g.publish(call).await.unwrap(), Publish::Ok);
    let _ = w.take(1, 2).await;
    let records = [failed(1, "m1"), failed(2, "m2")];
    let outcomes = Outcomes {
        first: 1,
        last: 2,
        failed: &records,
        effects: &NO_EFFECTS,
        max_errors: 10,
        digest,
    };
    assert_eq!(w.commit_outcomes(1, outcomes).await, Commit::Done);
    assert_eq!(drop_it(&w, 0, &records[0]).await, Settled::Dropped);
    assert_eq!(retry(&w, 0, &records[1]).await, Settled::Retried);
    assert_eq!(
        fleet.dump().await.only(&["ledger"]),
        ["ledger: [p 1 1 2 0000000000000000 TIME, c w:0 1 2 2 0000000000000000 TIME, r 2 TIME]"]
    );
}
