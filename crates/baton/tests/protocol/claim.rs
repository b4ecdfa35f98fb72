//! claim: from the head of the queue into a slot's hands, in one step.

use baton::protocol::{Claim, ClaimCall, Commit, GiveBack, Publish};

use crate::support::{Fleet, LONG, Lane, pack, publish};

#[tokio::test]
async fn a_whole_pack_is_claimed() {
    let fleet = Fleet::new().await;
    let (_g, w) = fleet.with_messages(3).await;
    assert_eq!(w.take(1, 100).await, "m1 m2 m3");
    assert_eq!(
        fleet.dump().await,
        [
            "bell: [1]",
            "claims: {w:0=m 1 RUN 1 3 1 3 0}",
            "deadlines: {w:0=TIME}",
            "fence: {cursor=10, epoch=1, last=3, node=g}",
            "packs: {1=[m1 m2 m3]}",
        ]
    );
}

#[tokio::test]
async fn a_large_pack_is_split_and_its_rest_stays_at_the_head() {
    let fleet = Fleet::new().await;
    let (g, w) = fleet.with_messages(5).await;
    assert_eq!(publish(&g, 6, 2).await, Publish::Ok);
    let (x, y) = (fleet.lane("x").await, fleet.lane("y").await);
    assert_eq!(w.take(1, 2).await, "m1 m2");
    assert_eq!(
        fleet.dump().await.only(&["claims", "queue", "stats"]),
        [
            "claims: {w:0=m 1 RUN 1 5 1 2 0}",
            "queue: [1 5 3 5 0, 6 2 6 7 0]",
        ]
    );
    assert_eq!(x.take(1, 1).await, "m3");
    assert_eq!(y.take(1, 9).await, "m4 m5", "never across packs");
    assert_eq!(
        fleet.dump().await,
        [
            "bell: [1]",
            "claims: {w:0=m 1 RUN 1 5 1 2 0, x:0=m 1 RUN 1 5 3 3 0, y:0=m 1 RUN 1 5 4 5 0}",
            "deadlines: {w:0=TIME, x:0=TIME, y:0=TIME}",
            "fence: {cursor=60, epoch=1, last=7, node=g}",
            "packs: {1=[m1 m2 m3 m4 m5], 6=[m6 m7]}",
            "queue: [6 2 6 7 0]",
        ]
    );
}

#[tokio::test]
async fn a_repeated_claim_returns_the_same_messages_and_a_new_deadline() {
    let fleet = Fleet::new().await;
    let (_g, w) = fleet.with_messages(5).await;
    let first = w.claim(1, 2).await;
    let before = fleet.dump().await;
    let _: () = fleet
        .raw(&["ZADD", &fleet.keys.deadlines, "1", "w:0"])
        .await;
    assert_eq!(w.claim(1, 2).await, first);
    assert_eq!(w.claim(1, 5).await, first, "whatever it wants now");
    assert_eq!(fleet.dump().await, before);
}

#[tokio::test]
async fn the_deadline_is_the_ttl_from_now() {
    let fleet = Fleet::new().await;
    let (_g, w) = fleet.with_messages(1).await;
    let before = w.store.census().await.unwrap().now_ms;
    let _ = w.claim_for(1, 1, LONG).await;
    let after = w.store.census().await.unwrap().now_ms;
    let deadline: u64 = fleet.raw(&["ZSCORE", &fleet.keys.deadlines, "w:0"]).await;
    let ttl = u64::try_from(LONG.as_millis()).unwrap();
    assert!((before + ttl..=after + ttl).contains(&deadline));
}

#[tokio::test]
async fn nothing_comes_from_an_empty_queue() {
    let fleet = Fleet::new().await;
    let w = fleet.lane("w").await;
    assert_eq!(w.claim(1, 1).await, Claim::Empty);
    assert_eq!(fleet.dump().await, [""; 0]);
}

#[tokio::test]
async fn a_number_that_was_committed_is_stale() {
    let fleet = Fleet::new().await;
    let (_g, w) = fleet.with_messages(5).await;
    assert_eq!(w.take(2, 2).await, "m1 m2");
    assert_eq!(w.commit(2, 1..=2).await, Commit::Done);
    let before = fleet.dump().await;
    assert_eq!(w.claim(2, 2).await, Claim::Stale);
    assert_eq!(w.claim(1, 2).await, Claim::Stale, "and so is a lower one");
    assert_eq!(fleet.dump().await, before);
    assert_eq!(w.take(3, 2).await, "m3 m4");
}

#[tokio::test]
async fn a_number_that_was_given_back_is_stale() {
    let fleet = Fleet::new().await;
    let (_g, w) = fleet.with_messages(5).await;
    assert_eq!(w.take(1, 2).await, "m1 m2");
    assert_eq!(w.give_back(1).await, GiveBack::Ok);
    let before = fleet.dump().await;
    assert_eq!(w.claim(1, 2).await, Claim::Stale);
    assert_eq!(fleet.dump().await, before);
}

#[tokio::test]
async fn a_slot_that_holds_one_claim_gets_no_other() {
    let fleet = Fleet::new().await;
    let (_g, w) = fleet.with_messages(5).await;
    assert_eq!(w.take(4, 2).await, "m1 m2");
    let before = fleet.dump().await;
    assert_eq!(w.claim(5, 2).await, Claim::Held { number: 4 });
    assert_eq!(w.claim(3, 2).await, Claim::Held { number: 4 });
    assert_eq!(fleet.dump().await, before);
    assert_eq!(w.sibling(1).take(1, 2).await, "m3 m4", "another lane does");
}

#[tokio::test]
async fn a_claim_that_leaves_work_behind_rings_the_bell_and_another_does_not() {
    let fleet = Fleet::new().await;
    let (_g, w) = fleet.with_messages(3).await;
    let _: () = fleet.raw(&["DEL", &fleet.keys.bell]).await;
    assert_eq!(w.take(1, 2).await, "m1 m2");
    assert_eq!(fleet.dump().await.only(&["bell"]), ["bell: [1]"]);
    let _: () = fleet.raw(&["DEL", &fleet.keys.bell]).await;
    assert_eq!(w.sibling(1).take(1, 2).await, "m3");
    assert_eq!(fleet.dump().await.only(&["bell"]), [""; 0]);
}

#[tokio::test]
async fn a_claim_that_wants_nothing_harms_nothing() {
    let fleet = Fleet::new().await;
    let (_g, w) = fleet.with_messages(2).await;
    let _ = w
        .store
        .claim(ClaimCall {
            slot: &w.slot,
            number: 1,
            want: 0,
            ttl: crate::support::OVER,
            have: None,
        })
        .await;
    let _ = w.store.reclaim().await.unwrap();
    let mut ended = 0;
    for number in 2..10 {
        if let Claim::Claimed { range, .. } = w.claim(number, 5).await {
            assert_eq!(
                w.commit(number, range.first..=range.last).await,
                Commit::Done
            );
            ended += range.size();
        }
    }
    let census = w.store.census().await.unwrap();
    assert_eq!((ended, census.done, census.foreign), (2, 2, 0));
}

/// Claims one message for a slot that says which pack it has; tells whether a pack was sent.
async fn is_sent(lane: &Lane, number: u64, have: (u64, usize)) -> bool {
    let claim = lane.store.claim(ClaimCall {
        slot: &lane.slot,
        number,
        want: 1,
        ttl: LONG,
        have: Some(have),
    });
    match claim.await.unwrap() {
        Claim::Claimed { pack, .. } => pack.is_some(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_pack_that_the_slot_has_is_not_sent_again() {
    let fleet = Fleet::new().await;
    let (_g, w) = fleet.with_messages(9).await;
    let bytes = pack(1, 9).len();
    assert_eq!(w.take(1, 1).await, "m1");
    assert_eq!(w.commit(1, 1..=1).await, Commit::Done);
    assert!(!is_sent(&w, 2, (1, bytes)).await);
    assert_eq!(w.commit(2, 2..=2).await, Commit::Done);
    assert!(is_sent(&w, 3, (1, bytes + 1)).await, "another length");
    assert_eq!(w.commit(3, 3..=3).await, Commit::Done);
    assert!(is_sent(&w, 4, (2, bytes)).await, "another pack");
}

#[tokio::test]
async fn a_slot_that_ended_nothing_in_this_data_is_sent_the_pack_whatever_it_has() {
    let fleet = Fleet::new().await;
    let (_g, w) = fleet.with_messages(9).await;
    let bytes = pack(1, 9).len();
    assert!(is_sent(&w, 7, (1, bytes)).await);
}

#[tokio::test]
async fn a_claim_that_is_asked_for_again_brings_its_pack_again() {
    let fleet = Fleet::new().await;
    let (_g, w) = fleet.with_messages(9).await;
    let bytes = pack(1, 9).len();
    assert_eq!(w.take(1, 1).await, "m1");
    assert_eq!(w.commit(1, 1..=1).await, Commit::Done);
    assert!(!is_sent(&w, 2, (1, bytes)).await);
    assert_eq!(w.take(2, 1).await, "m2");
}
