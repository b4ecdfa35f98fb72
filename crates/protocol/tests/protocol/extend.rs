//! extend: only a claim that its slot still has gets a later deadline.

use baton_protocol::{Commit, Extend};

use crate::support::{Fleet, LONG};

#[tokio::test]
async fn a_held_claim_gets_a_later_deadline() {
    let fleet = Fleet::new().await;
    let (_g, w) = fleet.with_messages(2).await;
    assert_eq!(w.take_and_stall(1, 2).await, "m1 m2");
    let before = fleet.dump().await;
    assert_eq!(w.extend(1).await, Extend::Held);
    assert_eq!(fleet.dump().await, before, "times are masked");
    assert_eq!(w.store.reclaim().await.unwrap().messages, 0);
    assert_eq!(w.commit(1, 1..=2).await, Commit::Done);
}

#[tokio::test]
async fn a_claim_that_is_gone_or_never_existed_is_lost() {
    let fleet = Fleet::new().await;
    let (_g, w) = fleet.with_messages(2).await;
    assert_eq!(w.extend(1).await, Extend::Lost, "never there");
    assert_eq!(w.take_and_stall(1, 2).await, "m1 m2");
    assert_eq!(w.extend(2).await, Extend::Lost, "another number");
    assert_eq!(w.sibling(1).extend(1).await, Extend::Lost, "another slot");
    let _ = w.store.reclaim().await.unwrap();
    let before = fleet.dump().await;
    assert_eq!(w.extend(1).await, Extend::Lost, "reclaimed");
    assert_eq!(fleet.dump().await, before);
    assert_eq!(w.take(2, 1).await, "m1 (1)");
    assert_eq!(w.commit(2, 1..=1).await, Commit::Done);
    let before = fleet.dump().await;
    assert_eq!(w.extend(2).await, Extend::Lost, "committed");
    assert_eq!(fleet.dump().await, before);
}

#[tokio::test]
async fn several_claims_are_extended_in_one_call() {
    let fleet = Fleet::new().await;
    let (_g, w) = fleet.with_messages(3).await;
    let lanes = [w.sibling(0), w.sibling(1), w.sibling(2)];
    for lane in &lanes {
        let _ = lane.take_and_stall(1, 1).await;
    }
    let claims: Vec<_> = lanes.iter().map(|lane| (lane.slot.clone(), 1)).collect();
    let claims = [
        claims[0].clone(),
        (claims[1].0.clone(), 9),
        claims[2].clone(),
    ];
    assert_eq!(
        w.store.extend(&claims, LONG).await.unwrap(),
        [Extend::Held, Extend::Lost, Extend::Held]
    );
    assert_eq!(w.store.reclaim().await.unwrap().messages, 1);
    assert_eq!(
        fleet.only("deadlines queue").await,
        ["deadlines: {w:0=TIME, w:2=TIME}", "queue: [1 3 2 2 1]"]
    );
    assert_eq!(w.store.extend(&[], LONG).await.unwrap(), []);
}
