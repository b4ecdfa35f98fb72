//! Take: a person's claim on chosen failed messages.

use std::time::Duration;

use baton::Inspector;
use baton::inspect::{Failed, FailedCursor, FailedId, Take, Taken};
use baton_protocol::{
    ErrorsClaim, ErrorsCommit, Extend, Failure, Settle, Settled, Slot, Store, record,
};

use crate::support::{Fleet, LONG, failed, settle_all};

/// All keys but the hint where the search for the oldest begins.
const KEPT: &str = "claims deadlines errors errors_held";

fn failure(seq: u64) -> Failure {
    Failure::short(seq, failed(seq, format!("m{seq}")))
}

fn taken(set: impl FnOnce(&mut Taken)) -> Taken {
    let mut taken = Taken::default();
    set(&mut taken);
    taken
}

async fn with_records(count: u64) -> Fleet {
    let fleet = Fleet::new().await;
    let records: Vec<_> = (1..=count).map(|seq| failure(seq).record).collect();
    fleet.fail(&records).await;
    fleet
}

/// Takes the records with these numbers.
async fn claim(store: &Store, numbers: &[u64], ttl: Duration) -> Take {
    let inspector = Inspector::over(store.clone());
    let page = inspector
        .failed_messages(FailedCursor::NEWEST, 500)
        .await
        .unwrap();
    let id = |number: &u64| {
        let known = page.messages.iter().map(|failed| failed.id);
        let known = known.into_iter().find(|id| id.number() == *number);
        known.unwrap_or_else(|| format!("{number}-0").parse::<FailedId>().unwrap())
    };
    let ids: Vec<FailedId> = numbers.iter().map(id).collect();
    inspector.take(&ids, ttl).await.unwrap()
}

/// The numbers of the records that a take has.
async fn numbers(take: &Take) -> Vec<u64> {
    let all = read_all(take).await;
    assert_eq!(all.len() as u64, take.count());
    all.iter().map(|failed| failed.id.number()).collect()
}

async fn read_all(take: &Take) -> Vec<Failed> {
    let (mut all, mut from) = (Vec::new(), 0);
    loop {
        let (some, next) = take.read(from).await.unwrap();
        all.extend(some);
        match next {
            Some(next) => from = next,
            None => return all,
        }
    }
}

#[tokio::test]
async fn taken_messages_stay_in_the_store_until_they_are_removed() {
    let fleet = with_records(250).await;
    let store = fleet.node("page").await;
    let even: Vec<u64> = (2..=250).step_by(2).collect();
    let take = claim(&store, &even, LONG).await;
    assert_eq!(numbers(&take).await, even);
    for failed in read_all(&take).await {
        let number = failed.id.number();
        assert_eq!(failed.message, record::decode(&failure(number).record));
    }
    assert_eq!(store.census().await.unwrap().errors, 250);
    assert_eq!(store.errors_len().await.unwrap(), 125);
    assert_eq!(take.extend().await.unwrap(), Extend::Held);

    let all = taken(|taken| taken.removed = 125);
    assert_eq!(take.remove().await.unwrap(), all);
    assert_eq!(take.remove().await.unwrap(), all, "asked again");
    assert_eq!(store.census().await.unwrap().errors, 125);
    let page = store.errors_before(None, 500).await.unwrap();
    let odd = (1..=249).rev().step_by(2).map(failure);
    assert!(page.failures.into_iter().eq(odd));
    assert_eq!(page.next, None);
}

#[tokio::test]
async fn taken_messages_are_out_of_reach_for_others() {
    let fleet = with_records(4).await;
    let store = fleet.node("page").await;
    let take = claim(&store, &[2, 3, 9, 3], LONG).await;
    assert_eq!(numbers(&take).await, [2, 3]);
    let other = claim(&store, &[1, 2, 3], LONG).await;
    assert_eq!(numbers(&other).await, [1]);
    let d = fleet.lane("d").await;
    assert_eq!(d.drain(1, 9, 9999).await, ErrorsClaim::Claimed(vec![4]));
    let settled = settle_all(&store, Settle::Drop, &[failure(2)]).await;
    assert_eq!(settled.unwrap(), [Settled::Missing]);
    assert_eq!(d.failures().await, []);
}

#[tokio::test]
async fn taken_messages_that_are_given_back_are_in_the_store_as_before() {
    let fleet = with_records(150).await;
    let before = fleet.only(KEPT).await;
    let store = fleet.node("page").await;
    let ids: Vec<u64> = (1..=150).rev().collect();
    let take = claim(&store, &ids, LONG).await;
    assert_eq!(take.count(), 150);
    let back = taken(|taken| taken.put_back = 150);
    assert_eq!(take.give_back().await.unwrap(), back);
    assert_eq!(fleet.only(KEPT).await, before);
    let _ = take.give_back().await.unwrap();
    let lost = taken(|taken| taken.lost = 150);
    assert_eq!(take.remove().await.unwrap(), lost, "it is too late");
    assert_eq!(fleet.only(KEPT).await, before);
    let d = fleet.lane("d").await;
    assert_eq!(d.drain(1, 2, 9999).await, ErrorsClaim::Claimed(vec![1, 2]));
}

#[tokio::test]
async fn taken_messages_return_when_the_taker_dies() {
    let fleet = with_records(3).await;
    let before = fleet.only(KEPT).await;
    let store = fleet.node("page").await;
    let take = claim(&store, &[1, 2, 3], LONG).await;
    assert_eq!(take.count(), 3);
    drop((take, store));
    fleet.wait_absent("page").await;
    let other = fleet.node("other").await;
    assert_eq!(other.reclaim().await.unwrap().records, 3);
    assert_eq!(fleet.only(KEPT).await, before);
}

#[tokio::test]
async fn a_take_that_expired_removes_nothing() {
    let fleet = with_records(2).await;
    let before = fleet.only(KEPT).await;
    let store = fleet.node("page").await;
    let take = claim(&store, &[1, 2], Duration::from_millis(200)).await;
    while store.reclaim().await.unwrap().records == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(take.extend().await.unwrap(), Extend::Lost);
    let lost = taken(|taken| taken.lost = 2);
    assert_eq!(take.remove().await.unwrap(), lost);
    assert_eq!(fleet.only(KEPT).await, before);
    let again = claim(&store, &[1, 2], Duration::from_secs(60)).await;
    assert_eq!(again.count(), 2);
}

#[tokio::test]
async fn a_removal_that_broke_off_is_reported_when_the_rest_is_given_back() {
    let fleet = with_records(150).await;
    let store = fleet.node("page").await;
    let ids: Vec<u64> = (1..=150).collect();
    let take = claim(&store, &ids, LONG).await;
    // Removes the records of the first claim, like a removal whose answer was lost.
    let claims: Vec<String> = fleet.raw(&["HKEYS", &fleet.keys.claims]).await;
    let number = |slot: &String| slot.rsplit("take").next().unwrap().parse::<u64>().unwrap();
    let first = claims.iter().min_by_key(|slot| number(slot)).unwrap();
    let (node, lane) = first.split_once(':').unwrap();
    let slot = Slot::new(node, lane);
    let held: String = fleet.raw(&["HGET", &fleet.keys.claims, first]).await;
    let count = held.split(' ').count() as u64 - 3;
    let removed = store.errors_commit(&slot, 1, count).await.unwrap();
    assert_eq!(removed, ErrorsCommit::Done);
    let reported = taken(|taken| (taken.removed, taken.put_back) = (count, 150 - count));
    assert_eq!(take.give_back().await.unwrap(), reported);
    assert_eq!(store.errors_len().await.unwrap(), 150 - count);
}
