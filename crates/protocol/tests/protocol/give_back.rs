//! give_back: the rest of a claim is in the queue again, at once and without suspects.

use baton_protocol::{Claim, Commit, GiveBack};

use crate::support::{Fleet, publish};

#[tokio::test]
async fn a_claim_that_is_given_back_is_at_the_head_of_the_queue_without_suspects() {
    let fleet = Fleet::new().await;
    let (g, w) = fleet.with_messages(3).await;
    assert!(publish(&g, 4, 1).await.is_written());
    assert_eq!(w.take(1, 3).await, "m1 m2 m3");
    assert_eq!(w.give_back(1).await, GiveBack::Ok);
    assert_eq!(
        fleet.dump().await,
        [
            "fence: {cursor=40, epoch=1, last=4, node=g}",
            "packs: {1=[m1 m2 m3], 4=[m4]}",
            "queue: [1 3 1 3 0, 4 1 4 4 0]",
            "workers: {w:0=1 0 0 TIME}",
        ]
    );
    assert_eq!(w.take(2, 3).await, "m1 m2 m3", "still delivered together");
}

#[tokio::test]
async fn a_claim_that_is_given_back_to_the_end_stands_behind_all_others() {
    let fleet = Fleet::new().await;
    let (g, w) = fleet.with_messages(3).await;
    assert!(publish(&g, 4, 1).await.is_written());
    assert_eq!(w.take(1, 3).await, "m1 m2 m3");
    let given_back = w.store.give_back_last(&w.slot, 1).await.unwrap();
    assert_eq!(given_back, GiveBack::Ok);
    assert_eq!(
        fleet.dump().await,
        [
            "fence: {cursor=40, epoch=1, last=4, node=g}",
            "packs: {1=[m1 m2 m3], 4=[m4]}",
            "queue: [4 1 4 4 0, 1 3 1 3 0]",
            "workers: {w:0=1 0 0 TIME}",
        ]
    );
}

#[tokio::test]
async fn after_a_prefix_commit_only_the_rest_is_given_back() {
    let fleet = Fleet::new().await;
    let (_g, w) = fleet.with_messages(3).await;
    assert_eq!(w.take(1, 3).await, "m1 m2 m3");
    assert_eq!(w.commit(1, 1..=1).await, Commit::Done);
    assert_eq!(w.give_back(1).await, GiveBack::Ok);
    assert_eq!(
        fleet.dump().await,
        [
            "fence: {cursor=10, epoch=1, last=3, node=g}",
            "left: {1=2}",
            "packs: {1=[m1 m2 m3]}",
            "queue: [1 3 2 3 0]",
            "stats: {done=1}",
            "workers: {w:0=1 0 0 TIME}",
        ]
    );
}

#[tokio::test]
async fn a_second_give_back_is_lost_and_so_are_commit_and_claim() {
    let fleet = Fleet::new().await;
    let (_g, w) = fleet.with_messages(2).await;
    assert_eq!(w.take(1, 2).await, "m1 m2");
    assert_eq!(w.give_back(1).await, GiveBack::Ok);
    let before = fleet.dump().await;
    assert_eq!(w.give_back(1).await, GiveBack::Lost);
    assert_eq!(w.commit(1, 1..=2).await, Commit::Lost);
    assert_eq!(w.claim(1, 2).await, Claim::Stale);
    assert_eq!(fleet.dump().await, before);
}

#[tokio::test]
async fn only_the_claim_that_is_named_is_given_back() {
    let fleet = Fleet::new().await;
    let (_g, w) = fleet.with_messages(2).await;
    assert_eq!(w.take(2, 2).await, "m1 m2");
    let before = fleet.dump().await;
    assert_eq!(w.give_back(1).await, GiveBack::Lost);
    assert_eq!(w.give_back(3).await, GiveBack::Lost);
    assert_eq!(w.sibling(1).give_back(2).await, GiveBack::Lost);
    assert_eq!(fleet.dump().await, before);
}

#[tokio::test]
async fn messages_of_a_dead_worker_keep_their_suspects_when_given_back() {
    let fleet = Fleet::new().await;
    let (_g, w) = fleet.with_messages(1).await;
    assert_eq!(w.take_and_stall(1, 1).await, "m1");
    let _ = w.store.reclaim().await.unwrap();
    assert_eq!(w.take(2, 1).await, "m1 (1)");
    assert_eq!(w.give_back(2).await, GiveBack::Ok);
    assert_eq!(w.take(3, 1).await, "m1 (1)");
}
