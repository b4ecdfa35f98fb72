//! reclaim: the claims of the dead return, those of the living stay.

use baton_protocol::{Claim, Reclaimed};

use crate::support::{Fleet, publish};

fn reclaimed(messages: u64, nodes: &[&str]) -> Reclaimed {
    Reclaimed {
        messages,
        records: 0,
        nodes: nodes.iter().map(|node| (*node).to_owned()).collect(),
        ..Reclaimed::default()
    }
}

#[tokio::test]
async fn a_claim_past_its_deadline_returns_with_the_name_of_its_worker() {
    let fleet = Fleet::new().await;
    let (g, w) = fleet.with_messages(3).await;
    assert!(publish(&g, 4, 1).await.is_written());
    assert_eq!(w.take_and_stall(1, 3).await, "m1 m2 m3");
    assert_eq!(g.reclaim().await.unwrap(), reclaimed(3, &["w"]));
    assert_eq!(
        fleet.dump().await,
        [
            "fence: {cursor=40, epoch=1, last=4, node=g}",
            "packs: {1=[m1 m2 m3], 4=[m4]}",
            "queue: [1 3 1 3 1, 4 1 4 4 0]",
        ]
    );
    let before = fleet.dump().await;
    assert_eq!(g.reclaim().await.unwrap(), reclaimed(0, &[]));
    assert_eq!(fleet.dump().await, before);
}

#[tokio::test]
async fn the_claims_of_a_worker_that_is_gone_return_long_before_their_deadline() {
    let fleet = Fleet::new().await;
    let (g, w) = fleet.with_messages(4).await;
    let x = fleet.lane("x").await;
    assert_eq!(w.take(1, 1).await, "m1");
    assert_eq!(w.sibling(1).take(1, 1).await, "m2");
    assert_eq!(x.take(1, 1).await, "m3");
    drop(w);
    fleet.wait_absent("w").await;
    assert_eq!(g.reclaim().await.unwrap(), reclaimed(2, &["w"]));
    assert_eq!(
        fleet.only("claims deadlines stats").await,
        ["claims: {x:0=m 1 RUN 1 4 3 3 0}", "deadlines: {x:0=TIME}",]
    );
    let queue: Vec<String> = fleet.raw(&["LRANGE", &fleet.keys.queue, "0", "-1"]).await;
    assert_eq!(queue.len(), 3);
    assert_eq!(queue[2], "1 4 4 4 0");
}

#[tokio::test]
async fn the_claims_of_the_living_stay() {
    let fleet = Fleet::new().await;
    let (g, w) = fleet.with_messages(2).await;
    assert_eq!(w.take(1, 1).await, "m1");
    let before = fleet.dump().await;
    assert_eq!(g.reclaim().await.unwrap(), reclaimed(0, &[]));
    assert_eq!(g.reclaim_absent().await.unwrap(), reclaimed(0, &[]));
    assert_eq!(fleet.dump().await, before);
}

#[tokio::test]
async fn absence_proves_nothing_about_a_claim_of_another_run_id() {
    let fleet = Fleet::new().await;
    let (g, w) = fleet.with_messages(2).await;
    assert_eq!(w.take(1, 2).await, "m1 m2");
    drop(w);
    fleet.wait_absent("w").await;
    let claims = &fleet.keys.claims;
    fleet
        .write(&["HSET", claims, "w:0", "m 1 0ddba11 1 2 1 2 0"])
        .await;
    let before = fleet.dump().await;
    assert_eq!(g.reclaim().await.unwrap(), reclaimed(0, &[]));
    assert_eq!(fleet.dump().await, before);
    fleet
        .write(&["ZADD", &fleet.keys.deadlines, "1", "w:0"])
        .await;
    assert_eq!(g.reclaim().await.unwrap(), reclaimed(2, &["w"]));
}

#[tokio::test]
async fn one_reclaim_checks_a_bounded_number_of_claims() {
    let fleet = Fleet::new().await;
    let (g, w) = fleet.with_messages(70).await;
    for lane in 0..70 {
        let _ = w.sibling(lane).take(1, 1).await;
    }
    drop(w);
    fleet.wait_absent("w").await;
    // The 64 earliest deadlines and the two latest.
    assert_eq!(g.reclaim().await.unwrap(), reclaimed(66, &["w"]));
    assert_eq!(g.reclaim().await.unwrap(), reclaimed(4, &["w"]));
    assert!(g.census().await.unwrap().balanced());
}

#[tokio::test]
async fn a_deadline_without_a_claim_is_cleared_away() {
    let fleet = Fleet::new().await;
    let g = fleet.generator().await;
    fleet
        .write(&["ZADD", &fleet.keys.deadlines, "1", "w:0"])
        .await;
    assert_eq!(g.reclaim().await.unwrap(), reclaimed(0, &[]));
    assert_eq!(fleet.dump().await, ["fence: {epoch=1, node=g}"]);
}

#[tokio::test]
async fn slots_that_ended_no_claim_for_ten_minutes_are_forgotten() {
    let fleet = Fleet::new().await;
    let (g, w) = fleet.with_messages(1).await;
    assert_eq!(w.take(1, 1).await, "m1");
    let _ = w.commit(1, 1..=1).await;
    fleet
        .write(&["HSET", &fleet.keys.workers, "old:0", "7 1 1 1000"])
        .await;
    let _ = g.reclaim().await.unwrap();
    assert_eq!(fleet.only("workers").await, ["workers: {w:0=1 1 1 TIME}"]);
}

#[tokio::test]
async fn a_claim_that_no_script_wrote_goes_through_the_queue_to_errors() {
    let fleet = Fleet::new().await;
    let (g, w) = (fleet.generator().await, fleet.lane("w").await);
    let keys = &fleet.keys;
    fleet.write(&["HSET", &keys.claims, "v:0", "vandal"]).await;
    fleet.write(&["ZADD", &keys.deadlines, "1", "v:0"]).await;
    let _ = g.reclaim().await.unwrap();
    assert_eq!(fleet.only("queue").await, ["queue: [vandal]"]);
    assert_eq!(w.claim(1, 1).await, Claim::Empty);
    assert_eq!(
        fleet.dump().await,
        [
            "errors: {1=0 at TIME by w try 1: not a message of this fleet: vandal}",
            "errors_ids: {last=1}",
            "fence: {epoch=1, node=g}",
            "idle: {w@RUN=TIME wants 1}",
            "stats: {foreign=1}",
        ]
    );
}

#[tokio::test]
async fn a_drain_s_claim_that_no_script_wrote_is_kept_and_does_not_stop_the_others() {
    let fleet = Fleet::new().await;
    let (g, w) = fleet.with_messages(1).await;
    assert_eq!(w.take_and_stall(1, 1).await, "m1");
    let keys = &fleet.keys;
    fleet
        .write(&["HSET", &keys.claims, "v:0", "e 1  vandal"])
        .await;
    fleet.write(&["ZADD", &keys.deadlines, "1", "v:0"]).await;
    assert_eq!(g.reclaim().await.unwrap().messages, 1);
    assert_eq!(w.take(2, 1).await, "m1 (1)");
    assert_eq!(w.sibling(1).claim(1, 1).await, Claim::Empty);
    assert_eq!(
        fleet.only("errors").await,
        ["errors: {1=0 at TIME by w try 1: not a message of this fleet: e 1  vandal}"]
    );
}
