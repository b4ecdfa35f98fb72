//! Failed messages whose records are long: the worker stages each with a plain command, and the commit
//! gives it a key of its own.

use baton::Inspector;
use baton_protocol::bounds::SHORT_RECORD_BYTES;
use baton_protocol::{
    Commit, CommitCall, ErrorsClaim, ErrorsCommit, Failure, Settle, Settled, record,
};

use crate::support::{Fleet, Lane, commit_call, failed, settle_all, start};

/// A record that is too long to pass through the script of a commit.
fn long(seq: u64) -> Vec<u8> {
    failed(seq, vec![b'a' + seq as u8; SHORT_RECORD_BYTES])
}

/// A worker that holds messages 1 to 3.
async fn holding(fleet: &Fleet) -> Lane {
    let (_g, w) = fleet.with_messages(3).await;
    assert_eq!(w.take(1, 3).await, "m1 m2 m3");
    w
}

/// A worker that has committed three failed messages: a short record, and two long ones.
async fn with_failures(fleet: &Fleet) -> (Lane, [Vec<u8>; 3]) {
    let w = holding(fleet).await;
    let records = [failed(1, "m1"), long(2), long(3)];
    let commit = w.commit_failed(1, 1..=3, &records).await;
    assert_eq!(commit, Commit::Done);
    (w, records)
}

/// The keys that begin like this, each with its time to live.
async fn keys(fleet: &Fleet, prefix: &str) -> Vec<(String, i64)> {
    let mut names: Vec<String> = fleet.raw(&["KEYS", &format!("{prefix}*")]).await;
    names.sort();
    let mut keys = Vec::new();
    for name in names {
        let ttl = fleet.raw(&["TTL", &name]).await;
        keys.push((name[prefix.len()..].to_owned(), ttl));
    }
    keys
}

async fn long_keys(fleet: &Fleet) -> Vec<(String, i64)> {
    keys(fleet, &fleet.keys.record).await
}

fn lasting(id: u64) -> (String, i64) {
    (id.to_string(), -1)
}

fn records_of(failures: &[Failure]) -> Vec<&[u8]> {
    failures.iter().map(|it| it.record.as_slice()).collect()
}

#[tokio::test]
async fn a_long_record_has_a_key_that_does_not_expire_until_it_is_drained() {
    let fleet = Fleet::new().await;
    let (w, records) = with_failures(&fleet).await;
    assert_eq!(long_keys(&fleet).await, [lasting(2), lasting(3)]);
    assert_eq!(keys(&fleet, &fleet.keys.staged_record).await, []);
    let stored: u64 = fleet.raw(&["HSTRLEN", &fleet.keys.errors, "2"]).await;
    assert!(stored < 100, "{stored} bytes stand for the record");
    assert_eq!(records_of(&w.failures().await), records);

    let ErrorsClaim::Claimed(ids) = w.drain(2, 9, 1 << 20).await else {
        panic!("no records");
    };
    let (failures, _) = w.store.errors_read(&ids).await.unwrap();
    assert_eq!(records_of(&failures), records);
    let drained = w.store.errors_commit(&w.slot, 2, 2).await.unwrap();
    assert_eq!(drained, ErrorsCommit::Done);
    assert_eq!(long_keys(&fleet).await, [lasting(3)]);
    assert_eq!(records_of(&w.failures().await), records[2..]);
}

#[tokio::test]
async fn a_repeated_commit_leaves_long_records_as_they_are() {
    let fleet = Fleet::new().await;
    let (w, records) = with_failures(&fleet).await;
    let commit = w.commit_failed(1, 1..=3, &records).await;
    assert_eq!(commit, Commit::Already);
    assert_eq!(long_keys(&fleet).await, [lasting(2), lasting(3)]);
    assert_eq!(records_of(&w.failures().await), records);
}

#[tokio::test]
async fn a_refused_commit_leaves_nothing_staged() {
    let fleet = Fleet::new().await;
    let w = holding(&fleet).await;
    let records = [long(1)];
    let no_room = CommitCall {
        max_errors: 0,
        ..commit_call(1..=1, &records)
    };
    for _ in 0..2 {
        let full = w.commit_outcomes(1, no_room).await;
        assert_eq!(full, Commit::Full { records: 0 });
        assert_eq!(keys(&fleet, &fleet.keys.staged_record).await, []);
    }
    assert_eq!(w.commit_failed(1, 1..=1, &records).await, Commit::Done);
    assert_eq!(records_of(&w.failures().await), records);
    let lost = w.commit_failed(7, 2..=2, &[long(2)]).await;
    assert_eq!(lost, Commit::Lost);
    assert_eq!(keys(&fleet, &fleet.keys.staged_record).await, []);
}

#[tokio::test]
async fn a_staged_record_that_does_not_expire_is_not_taken() {
    let fleet = Fleet::new().await;
    let w = holding(&fleet).await;
    let records = [long(1)];
    // A worker that staged its record and did not live to give it a time to live.
    let user = "u";
    for words in [
        &[
            "ACL", "SETUSER", user, "reset", "on", ">secret", "+@all", "-expire",
        ][..],
        &["ACL", "SETUSER", user, "~*", "&*"],
    ] {
        fleet.write(words).await;
    }
    let store = fleet.node_as(user, "w").await.unwrap();
    let limited = Lane::new(store);
    assert_eq!(
        limited.commit_failed(1, 1..=1, &records).await,
        Commit::Done
    );
    let failures = w.failures().await;
    assert_eq!(records_of(&failures), records);
    assert!(failures[0].stub.is_none(), "it was sent with its record");
    assert_eq!(keys(&fleet, &fleet.keys.staged_record).await, []);
}

#[tokio::test]
async fn a_node_whose_name_no_stub_can_have_stages_nothing() {
    let fleet = Fleet::new().await;
    let (_g, _w) = fleet.with_messages(1).await;
    let w = fleet.lane("a-node").await;
    assert_eq!(w.take(1, 1).await, "m1");
    let records = [long(1)];
    assert_eq!(w.commit_failed(1, 1..=1, &records).await, Commit::Done);
    assert_eq!(records_of(&w.failures().await), records);
    assert_eq!(long_keys(&fleet).await, []);
}

#[tokio::test]
async fn an_empty_value_beside_long_records_is_shown() {
    let fleet = Fleet::new().await;
    let (w, records) = with_failures(&fleet).await;
    fleet.write(&["HSET", &fleet.keys.errors, "1", ""]).await;
    let failures = w.failures().await;
    assert_eq!(records_of(&failures), [&b""[..], &records[1], &records[2]]);
}

#[tokio::test]
async fn a_commit_that_finds_no_staged_record_writes_nothing_and_is_sent_with_its_records() {
    let server = start();
    let fleet = Fleet::on(&server.url()).await;
    let w = holding(&fleet).await;
    let records = [long(1), long(2), failed(3, "m3")];
    let first = w.commit_failed(1, 1..=1, &records[..1]).await;
    assert_eq!(first, Commit::Done);
    // Redis refuses to stage anything, and executes commits.
    fleet.write(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let others = w.commit_failed(1, 2..=3, &records[1..]).await;
    assert_eq!(others, Commit::Done);
    let failures = w.failures().await;
    assert_eq!(records_of(&failures), records);
    let has_key: Vec<bool> = failures.iter().map(|it| it.stub.is_some()).collect();
    assert_eq!(has_key, [true, false, false]);
    fleet.write(&["CONFIG", "SET", "maxmemory", "0"]).await;
    assert_eq!(long_keys(&fleet).await, [lasting(1)]);
    assert!(w.store.census().await.unwrap().balanced());
}

#[tokio::test]
async fn a_long_record_is_retried_with_its_text_and_dropped_with_its_key() {
    let fleet = Fleet::new().await;
    let (w, records) = with_failures(&fleet).await;
    let failures = w.failures().await;
    let settle = async |what, failures| settle_all(&w.store, what, failures).await.unwrap();
    let retried = settle(Settle::Retry, &failures[1..2]).await;
    assert_eq!(retried, [Settled::Retried]);
    assert_eq!(long_keys(&fleet).await, [lasting(3)]);
    let text = record::decode(&records[1]).text;
    let text = String::from_utf8(text).unwrap();
    assert_eq!(w.take(2, 1).await, text);
    let dropped = settle(Settle::Drop, &failures[1..]).await;
    assert_eq!(dropped, [Settled::Missing, Settled::Dropped]);
    assert_eq!(long_keys(&fleet).await, []);
    assert_eq!(records_of(&w.failures().await), records[..1]);
}

#[tokio::test]
async fn another_record_under_the_same_id_is_not_settled() {
    let fleet = Fleet::new().await;
    let (w, records) = with_failures(&fleet).await;
    let seen = w.failures().await;
    // As after a loss of data: the id and the length are the same, the record is another one.
    let (errors, other) = (
        &fleet.keys.errors,
        format!("long {} w:99", records[1].len()),
    );
    fleet.write(&["HSET", errors, "2", &other]).await;
    let settled = settle_all(&w.store, Settle::Drop, &seen[1..2]).await;
    assert_eq!(settled.unwrap(), [Settled::Missing]);
    assert_eq!(long_keys(&fleet).await, [lasting(2), lasting(3)]);
}

#[tokio::test]
async fn a_long_record_that_a_client_deleted_or_replaced_is_shown_as_missing() {
    let fleet = Fleet::new().await;
    let (w, records) = with_failures(&fleet).await;
    fleet.write(&["DEL", &fleet.keys.record_key(2)]).await;
    fleet.write(&["DEL", &fleet.keys.record_key(3)]).await;
    fleet
        .write(&["LPUSH", &fleet.keys.record_key(3), "foreign"])
        .await;
    let failures = w.failures().await;
    assert_eq!(failures[0].record, records[0]);
    for failure in &failures[1..] {
        let shown = record::decode(&failure.record);
        assert_eq!(shown.reason, "its record is missing in Redis");
    }
    let snapshot = Inspector::over(w.store.clone()).snapshot().await.unwrap();
    assert_eq!(snapshot.errors, 3);
    let settle = async |what| settle_all(&w.store, what, &failures[1..]).await.unwrap();
    assert_eq!(settle(Settle::Retry).await, [Settled::Unfit; 2]);
    assert_eq!(settle(Settle::Drop).await, [Settled::Dropped; 2]);
    assert_eq!(
        long_keys(&fleet).await,
        [lasting(3)],
        "the foreign key stays"
    );
}

#[tokio::test]
async fn a_drain_claims_long_records_by_their_length() {
    let fleet = Fleet::new().await;
    let (w, _) = with_failures(&fleet).await;
    let bytes = SHORT_RECORD_BYTES as u64;
    let claim = w.drain(2, 9, bytes).await;
    assert_eq!(claim, ErrorsClaim::Claimed(vec![1, 2]));
}

#[tokio::test]
async fn a_snapshot_shows_how_long_a_long_record_is() {
    let fleet = Fleet::new().await;
    let (w, records) = with_failures(&fleet).await;
    let snapshot = Inspector::over(w.store.clone()).snapshot().await.unwrap();
    let shown: Vec<&str> = snapshot
        .newest
        .iter()
        .map(|it| it.reason.as_str())
        .collect();
    let long = format!(
        "a record of {} bytes, too long to show here",
        records[2].len()
    );
    assert_eq!(shown, [&long, &long, "bad"]);
}
