//! The errors store: a record is deleted only by the commit of the drain that holds it.

use baton_protocol::{
    Commit, ErrorsClaim, ErrorsCommit, Extend, Failure, GiveBack, Reclaimed, Settle,
};

use crate::support::{EXPIRED, Fleet, Lane, commit_call, failed, settle_all};

const BYTES: u64 = 1 << 20;
/// All keys but the hint where the search for the oldest begins.
const KEPT: &str = "claims deadlines errors errors_held workers";

/// A drain on a store with records 1..=count.
async fn with_records(fleet: &Fleet, count: u64) -> Lane {
    let records = (1..=count).map(|seq| failed(seq, format!("m{seq}")));
    fleet.fail(&records.collect::<Vec<_>>()).await;
    fleet.lane("d").await
}

async fn claim(drain: &Lane, number: u64, max: u64) -> ErrorsClaim {
    drain.drain(number, max, BYTES).await
}

async fn commit(drain: &Lane, number: u64, printed: u64) -> ErrorsCommit {
    let commit = drain.store.errors_commit(&drain.slot, number, printed);
    commit.await.unwrap()
}

/// The ids of claimed records.
fn numbers(claim: &ErrorsClaim) -> &[u64] {
    let ErrorsClaim::Claimed(ids) = claim else {
        panic!("nothing was claimed: {claim:?}");
    };
    ids
}

#[tokio::test]
async fn a_drain_claims_the_oldest_records() {
    let fleet = Fleet::new().await;
    let d = with_records(&fleet, 3).await;
    assert_eq!(numbers(&claim(&d, 1, 2).await), [1, 2]);
    assert_eq!(
        fleet.dump().await,
        [
            "claims: {d:0=e 1 RUN 1 2}",
            "deadlines: {d:0=TIME}",
            "errors: {1=1 at 5 by w try 1: bad: m1, 2=2 at 5 by w try 1: bad: m2, \
             3=3 at 5 by w try 1: bad: m3}",
            "errors_held: {1=d:0, 2=d:0}",
            "errors_ids: {free=3, last=3}",
        ]
    );
    assert_eq!(d.store.errors_len().await.unwrap(), 1);
    assert_eq!(d.store.census().await.unwrap().errors, 3);
}

#[tokio::test]
async fn a_repeated_claim_returns_the_same_records() {
    let fleet = Fleet::new().await;
    let d = with_records(&fleet, 3).await;
    let first = claim(&d, 1, 2).await;
    let before = fleet.dump().await;
    assert_eq!(claim(&d, 1, 2).await, first);
    assert_eq!(claim(&d, 1, 9).await, first);
    assert_eq!(
        claim(&d, 2, 9).await,
        ErrorsClaim::Stale,
        "while it holds 1"
    );
    assert_eq!(fleet.dump().await, before);
}

#[tokio::test]
async fn a_claim_on_an_empty_store_is_empty() {
    let fleet = Fleet::new().await;
    let d = fleet.lane("d").await;
    assert_eq!(claim(&d, 1, 9).await, ErrorsClaim::Empty);
    assert_eq!(commit(&d, 1, 0).await, ErrorsCommit::Lost);
    assert_eq!(fleet.dump().await, [""; 0]);
}

#[tokio::test]
async fn printed_records_are_deleted_and_the_rest_returns_in_order() {
    let fleet = Fleet::new().await;
    let d = with_records(&fleet, 5).await;
    assert_eq!(numbers(&claim(&d, 1, 4).await), [1, 2, 3, 4]);
    assert_eq!(commit(&d, 1, 1).await, ErrorsCommit::Done);
    assert_eq!(
        fleet.dump().await,
        [
            "errors: {2=2 at 5 by w try 1: bad: m2, 3=3 at 5 by w try 1: bad: m3, \
             4=4 at 5 by w try 1: bad: m4, 5=5 at 5 by w try 1: bad: m5}",
            "errors_ids: {free=2, last=5}",
            "workers: {d:0=1 0 1 TIME}",
        ]
    );
    let before = fleet.dump().await;
    assert_eq!(commit(&d, 1, 1).await, ErrorsCommit::Already);
    assert_eq!(claim(&d, 1, 4).await, ErrorsClaim::Stale);
    assert_eq!(fleet.dump().await, before);
    assert_eq!(numbers(&claim(&d, 2, 9).await), [2, 3, 4, 5]);
    assert_eq!(commit(&d, 2, 4).await, ErrorsCommit::Done);
    assert_eq!(
        fleet.dump().await,
        ["errors_ids: {free=6, last=5}", "workers: {d:0=2 0 4 TIME}"]
    );
}

#[tokio::test]
async fn the_records_of_a_dead_drain_return_in_order() {
    let fleet = Fleet::new().await;
    let d = with_records(&fleet, 4).await;
    let before = fleet.only(KEPT).await;
    assert_eq!(numbers(&claim(&d, 1, 3).await), [1, 2, 3]);
    drop(d);
    fleet.wait_absent("d").await;
    let e = fleet.lane("e").await;
    let reclaimed = Reclaimed {
        messages: 0,
        records: 3,
        nodes: vec!["d".to_owned()],
        ..Reclaimed::default()
    };
    assert_eq!(e.store.reclaim().await.unwrap(), reclaimed);
    assert_eq!(fleet.only(KEPT).await, before);
    assert_eq!(numbers(&claim(&e, 1, 9).await), [1, 2, 3, 4]);
}

#[tokio::test]
async fn a_drain_past_its_deadline_deletes_nothing() {
    let fleet = Fleet::new().await;
    let d = with_records(&fleet, 2).await;
    let before = fleet.only(KEPT).await;
    let held = d.drain_for(1, 9, BYTES, EXPIRED).await;
    assert_eq!(numbers(&held), [1, 2]);
    let e = fleet.lane("e").await;
    assert_eq!(e.store.reclaim().await.unwrap().records, 2);
    assert_eq!(commit(&d, 1, 2).await, ErrorsCommit::Lost);
    assert_eq!(fleet.only(KEPT).await, before);

    assert_eq!(numbers(&claim(&e, 1, 9).await), [1, 2]);
    let before = fleet.dump().await;
    assert_eq!(commit(&d, 1, 2).await, ErrorsCommit::Lost);
    assert_eq!(commit(&e, 2, 2).await, ErrorsCommit::Lost, "other number");
    assert_eq!(fleet.dump().await, before);
}

#[tokio::test]
async fn a_slow_drain_keeps_its_records_and_a_stopped_one_gives_them_back() {
    let fleet = Fleet::new().await;
    let d = with_records(&fleet, 2).await;
    let held = d.drain_for(1, 9, BYTES, EXPIRED).await;
    assert_eq!(numbers(&held), [1, 2]);
    assert_eq!(d.extend(1).await, Extend::Held);
    assert_eq!(d.store.reclaim().await.unwrap().records, 0);
    assert_eq!(d.give_back(1).await, GiveBack::Ok);
    assert_eq!(commit(&d, 1, 2).await, ErrorsCommit::Lost);
    assert_eq!(numbers(&claim(&d, 2, 9).await), [1, 2], "in their order");
}

#[tokio::test]
async fn a_claim_ends_with_the_record_that_reaches_its_bytes() {
    let fleet = Fleet::new().await;
    let d = with_records(&fleet, 4).await;
    let size = failed(1, "m1").len() as u64;
    let take = async |number, bytes| {
        let claim = d.drain(number, 9, bytes).await;
        assert_eq!(commit(&d, number, 0).await, ErrorsCommit::Done);
        numbers(&claim).to_vec()
    };
    assert_eq!(take(1, 1).await, [1], "never none");
    assert_eq!(take(2, 2 * size).await, [1, 2]);
    assert_eq!(take(3, 2 * size + 1).await, [1, 2, 3]);
}

#[tokio::test]
async fn records_of_any_bytes_come_back_as_they_were() {
    let fleet = Fleet::new().await;
    let d = fleet.lane("d").await;
    let long = vec![0xff; 1 << 20];
    let records: [&[u8]; 4] = [b"", b"\xff\x00\n\r not msgpack", b"e 1 x ", &long];
    fleet.fail(&records).await;
    let claimed = d.drain(1, 9, 2 * BYTES).await;
    assert_eq!(claimed, ErrorsClaim::Claimed(vec![1, 2, 3, 4]));
    assert_eq!(d.store.census().await.unwrap().errors, 4);
    let failures: Vec<Failure> = (1..)
        .zip(records)
        .map(|(id, record)| Failure::short(id, record.to_vec()))
        .collect();
    let read = async |ids: &[u64]| d.store.errors_read(ids).await.unwrap();
    // Each call reads about a megabyte, and at least one record.
    assert_eq!(read(&[1, 2, 3, 4]).await, (failures[..3].to_vec(), 3));
    assert_eq!(read(&[4, 3]).await, (failures[3..].to_vec(), 1));
    assert_eq!(read(&[9, 3, 7]).await, (failures[2..3].to_vec(), 3));
    assert_eq!(d.failures().await, [], "a drain holds them");
    assert_eq!(commit(&d, 1, 0).await, ErrorsCommit::Done);
    assert_eq!(d.failures().await, failures);
}

#[tokio::test]
async fn a_drain_and_a_worker_of_one_slot_do_not_end_each_other_s_claims() {
    let fleet = Fleet::new().await;
    let (_g, w) = fleet.with_messages(1).await;
    let _ = with_records(&fleet, 1).await;
    assert_eq!(w.take(1, 1).await, "m1");
    assert_eq!(claim(&w, 1, 9).await, ErrorsClaim::Stale);
    let before = fleet.dump().await;
    assert_eq!(commit(&w, 1, 9).await, ErrorsCommit::Lost);
    assert_eq!(fleet.dump().await, before);
}

#[tokio::test]
async fn ids_that_would_overwrite_a_record_or_are_no_numbers_stop_a_commit() {
    for (name, ids) in [
        ("deleted", None),
        ("behind", Some("1")),
        ("no number", Some("1.5")),
        ("not exact", Some("9007199254740993")),
    ] {
        let fleet = Fleet::new().await;
        let (_g, w) = fleet.with_messages(2).await;
        fleet.fail(&["one", "two"]).await;
        assert_eq!(w.take(1, 2).await, "m1 m2");
        let key = &fleet.keys.errors_ids;
        fleet.write(&["DEL", key]).await;
        if let Some(last) = ids {
            fleet.write(&["HSET", key, "last", last]).await;
        }
        let before = fleet.dump().await;
        let records = [failed(1, "m1")];
        let outcomes = commit_call(1..=2, &records);
        let error = w.store.commit(&w.slot, 1, outcomes).await.unwrap_err();
        assert!(error.to_string().contains(key), "{name}: {error}");
        assert!(error.to_string().contains("last"), "{name}: {error}");
        assert_eq!(fleet.dump().await, before, "{name}");
        // What the error tells the person to do.
        fleet.write(&["HSET", key, "last", "2"]).await;
        let commit = w.store.commit(&w.slot, 1, outcomes).await;
        assert_eq!(commit.unwrap(), Commit::Done, "{name}");
        assert_eq!(w.failures().await.len(), 3, "{name}");
    }
}

#[tokio::test]
async fn a_wrong_hint_hides_no_record() {
    for hint in ["x", "99", "-1", "1.5", "0"] {
        let fleet = Fleet::new().await;
        let d = with_records(&fleet, 2).await;
        let key = &fleet.keys.errors_ids;
        fleet.write(&["HSET", key, "free", hint]).await;
        assert_eq!(d.failures().await.len(), 2, "{hint}");
        assert_eq!(numbers(&claim(&d, 1, 9).await), [1, 2], "{hint}");
    }
}

#[tokio::test]
async fn a_retry_on_a_counter_that_is_no_number_changes_nothing() {
    let fleet = Fleet::new().await;
    let (_g, w) = fleet.with_messages(1).await;
    let _ = w.take(1, 1).await;
    let records = [failed(1, "m1")];
    let commit = w.commit_failed(1, 1..=1, &records).await;
    assert_eq!(commit, Commit::Done);
    fleet
        .write(&["HSET", &fleet.keys.stats, "retried", "1.5"])
        .await;
    let before = fleet.dump().await;
    let failures = w.failures().await;
    let error = settle_all(&w.store, Settle::Retry, &failures).await;
    let error = error.unwrap_err().to_string();
    assert!(error.contains(&fleet.keys.stats) && error.contains("retried"));
    assert_eq!(fleet.dump().await, before);
}

#[tokio::test]
async fn pages_in_either_order_have_every_free_record_once() {
    let fleet = Fleet::new().await;
    let records: Vec<Vec<u8>> = (1..=1_300).map(|seq| failed(seq, "m")).collect();
    fleet.fail(&records).await;
    // A hole that is wider than one batch of ids.
    let holes: Vec<String> = (301..=1_000).map(|id| id.to_string()).collect();
    let mut delete = redis::cmd("HDEL");
    delete.arg(&fleet.keys.errors).arg(&holes);
    fleet.send(&delete).await;
    let d = fleet.lane("d").await;
    let held = d.drain(1, 100, 1 << 20).await;
    assert_eq!(numbers(&held).len(), 100);

    let oldest_first: Vec<u64> = d.failures().await.iter().map(|f| f.id).collect();
    let (mut newest_first, mut before) = (Vec::new(), None);
    loop {
        let page = d.store.errors_before(before, 70).await.unwrap();
        assert!((1..=70).contains(&page.failures.len()));
        newest_first.extend(page.failures.iter().map(|failure| failure.id));
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    let free: Vec<u64> = (101..=300).chain(1_001..=1_300).collect();
    assert_eq!(oldest_first, free);
    newest_first.reverse();
    assert_eq!(newest_first, free);
}
