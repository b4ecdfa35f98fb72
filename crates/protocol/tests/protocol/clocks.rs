//! Times that were written while the clock was wrong.

use baton_protocol::{Beat, Reclaimed};

use crate::support::{Fleet, LONG, beat, eventually};

/// A day, in ms.
const DAY: u64 = 86_400_000;

async fn now(fleet: &Fleet) -> u64 {
    let (seconds, _): (u64, u64) = fleet.raw(&["TIME"]).await;
    seconds * 1000
}

/// A fleet whose generator `g` is dead, and has a lease from a time at which the clock was ahead.
/// The server has restarted since, so that its absence proves nothing.
async fn with_a_lease_of_tomorrow(ahead: u64) -> Fleet {
    let fleet = Fleet::new().await;
    let (g, w) = fleet.with_messages(3).await;
    assert!(matches!(beat(&g).await, Beat::Generator { .. }));
    assert_eq!(w.take(1, 2).await, "m1 m2");
    drop((g, w));
    fleet.wait_absent("g").await;
    fleet.wait_absent("w").await;
    let later = (now(&fleet).await + ahead).to_string();
    let keys = &fleet.keys;
    let lease = ["HSET", &keys.generator, "until", &later, "run", "0ddba11"];
    fleet.write(&lease).await;
    fleet.write(&["HSET", &keys.nodes, "g", "0ddba11 {}"]).await;
    for key in [&keys.seen, &keys.joined] {
        fleet.write(&["ZADD", key, &later, "g"]).await;
    }
    fleet.write(&["ZADD", &keys.deadlines, &later, "w:0"]).await;
    let claim = "m 1 0ddba11 1 3 1 2 0";
    fleet.write(&["HSET", &keys.claims, "w:0", claim]).await;
    fleet
}

#[tokio::test]
async fn a_lease_until_tomorrow_has_expired() {
    let fleet = with_a_lease_of_tomorrow(DAY).await;
    let n = fleet.node("n").await;
    // The server has changed, so the first beat waits for the holder.
    eventually("the lease is taken", async || {
        matches!(beat(&n).await, Beat::Generator { epoch: 2, .. })
    })
    .await;
    let nodes: Vec<String> = fleet.raw(&["HKEYS", &fleet.keys.nodes]).await;
    assert_eq!(nodes, ["n"], "and its holder is forgotten");
}

#[tokio::test]
async fn a_lease_of_an_hour_has_not_expired() {
    let fleet = with_a_lease_of_tomorrow(3_500_000).await;
    let n = fleet.node("n").await;
    assert!(matches!(beat(&n).await, Beat::Worker { epoch: 1, .. }));
    let generator = &fleet.keys.generator;
    let waits: bool = fleet.raw(&["HEXISTS", generator, "waited"]).await;
    assert!(!waits, "for the end of the lease, not for its holder");
}

#[tokio::test]
async fn a_claim_until_tomorrow_has_expired() {
    let fleet = with_a_lease_of_tomorrow(DAY).await;
    let n = fleet.node("n").await;
    let back = Reclaimed {
        messages: 2,
        records: 0,
        nodes: vec!["w".to_owned()],
        ..Reclaimed::default()
    };
    assert_eq!(n.reclaim().await.unwrap(), back);
}

#[tokio::test]
async fn a_claim_until_tomorrow_is_found_behind_many_others() {
    let fleet = with_a_lease_of_tomorrow(DAY).await;
    let x = fleet.lane("x").await;
    for lane in 0..100 {
        let slot = format!("x:{lane}");
        let soon = (now(&fleet).await + 60_000).to_string();
        fleet
            .write(&["ZADD", &fleet.keys.deadlines, &soon, &slot])
            .await;
        let claim = "m 1 0ddba11 1 3 3 3 0";
        fleet
            .write(&["HSET", &fleet.keys.claims, &slot, claim])
            .await;
    }
    assert_eq!(x.store.reclaim().await.unwrap().nodes, ["w"]);
}

#[tokio::test]
async fn a_drain_s_claim_until_tomorrow_has_expired() {
    let fleet = Fleet::new().await;
    fleet.fail(&[crate::support::failed(1, "m1")]).await;
    let d = fleet.lane("d").await;
    let _ = d.drain_for(1, 9, 9999, LONG).await;
    let later = (now(&fleet).await + DAY).to_string();
    let deadlines = &fleet.keys.deadlines;
    fleet.write(&["ZADD", deadlines, &later, "d:0"]).await;
    assert_eq!(d.store.reclaim().await.unwrap().records, 1);
}

#[tokio::test]
async fn a_dead_node_seen_tomorrow_does_not_keep_its_place_in_line() {
    let fleet = Fleet::new().await;
    let g = fleet.node("g").await;
    assert!(matches!(beat(&g).await, Beat::Generator { .. }));
    let later = (now(&fleet).await + DAY).to_string();
    for name in ["dead-1", "dead-2"] {
        let keys = &fleet.keys;
        fleet
            .write(&["HSET", &keys.nodes, name, "0ddba11 {}"])
            .await;
        fleet.write(&["ZADD", &keys.joined, "1", name]).await;
        fleet.write(&["ZADD", &keys.seen, &later, name]).await;
    }
    let n = fleet.node("n").await;
    let Beat::Worker { place, .. } = beat(&n).await else {
        panic!("two generators");
    };
    assert_eq!(place, 1);
}

#[tokio::test]
async fn a_lease_whose_holder_is_gone_can_be_freed_before_it_expires() {
    let fleet = with_a_lease_of_tomorrow(3_500_000).await;
    let n = fleet.node("n").await;
    assert_eq!(n.free().await.unwrap(), Some("g".to_owned()));
    assert_eq!(n.free().await.unwrap(), None);
    assert!(matches!(beat(&n).await, Beat::Generator { epoch: 2, .. }));
    assert_eq!(n.free().await.unwrap(), None, "its holder is there");
}
