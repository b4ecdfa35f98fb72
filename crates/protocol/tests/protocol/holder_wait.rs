//! A lease that expired while the server changed: its holder, which keeps packs, gets time to come
//! back, once per server process.

use baton_protocol::{Beat, BeatCall, Store};

use crate::support::{EXPIRED, Fleet, LONG, beat, beat_call, eventually};

/// The name of a server process before this one.
const OTHER_RUN: &str = "0ddba11a";
/// How long the holder has, in ms.
const WAIT_MS: u64 = 200;

/// A fleet whose holder `a` renewed its lease at another server process, and a node `b`. The lease has
/// expired.
async fn after_a_failover() -> (Fleet, Store, Store) {
    let fleet = Fleet::new().await;
    let (a, b) = (fleet.node("a").await, fleet.node("b").await);
    let taken = a.beat(beat_call(EXPIRED, 0)).await.unwrap();
    assert!(matches!(taken, Beat::Generator { epoch: 1, .. }));
    from_another_server(&fleet).await;
    (fleet, a, b)
}

/// The lease was renewed at another server process, and has expired.
async fn from_another_server(fleet: &Fleet) {
    let generator = &fleet.keys.generator;
    fleet
        .write(&["HSET", generator, "run", OTHER_RUN, "until", "1"])
        .await;
}

fn is_worker_of_a(beat: &Beat) -> bool {
    matches!(beat, Beat::Worker { generator, epoch: 1, .. } if generator == "a")
}

fn epoch_of(beat: &Beat) -> Option<u64> {
    match beat {
        Beat::Generator { epoch, .. } => Some(*epoch),
        Beat::Worker { .. } => None,
    }
}

#[tokio::test]
async fn the_first_beat_waits_for_the_holder() {
    let (fleet, _a, b) = after_a_failover().await;
    let answer = beat(&b).await;
    assert!(is_worker_of_a(&answer), "{answer:?}");
    let lease = b.roster().await.unwrap().lease;
    assert_eq!(lease.until_ms, answer.now_ms() + WAIT_MS);
    let waits = format!(
        "generator: {{epoch=1, node=a, run={OTHER_RUN}, since=TIME, until=TIME, waited=RUN}}"
    );
    assert_eq!(
        fleet.dump().await,
        [
            waits.as_str(),
            "joined: {a=TIME, b=TIME}",
            "meta: {partitions=1, protocol=1}",
            "nodes: {a=RUN {}, b=RUN {}}",
            "seen: {a=TIME, b=TIME}",
            "takeovers: [1 a TIME GAP first ]",
        ]
    );
}

#[tokio::test]
async fn the_holder_that_comes_back_goes_on_under_its_epoch() {
    let (fleet, a, b) = after_a_failover().await;
    assert!(is_worker_of_a(&beat(&b).await));
    assert_eq!(epoch_of(&beat(&a).await), Some(1));
    assert!(is_worker_of_a(&beat(&b).await));
    assert_eq!(
        fleet.only("generator takeovers").await,
        [
            "generator: {epoch=1, node=a, run=RUN, since=TIME, until=TIME, waited=RUN}",
            "takeovers: [1 a TIME GAP first ]",
        ]
    );
}

#[tokio::test]
async fn when_the_wait_is_over_the_next_beat_takes_the_lease() {
    let (fleet, _a, b) = after_a_failover().await;
    assert!(is_worker_of_a(&beat(&b).await));
    let until_ms = b.roster().await.unwrap().lease.until_ms;
    let mut taken = None;
    eventually("the lease is taken", async || {
        let answer = beat(&b).await;
        taken = epoch_of(&answer).map(|epoch| (epoch, answer.now_ms()));
        taken.is_some()
    })
    .await;
    let (epoch, at_ms) = taken.unwrap();
    assert_eq!(epoch, 2);
    assert!(at_ms >= until_ms, "taken {} ms early", until_ms - at_ms);
    assert_eq!(
        fleet.only("generator takeovers").await,
        [
            "generator: {epoch=2, node=b, run=RUN, since=TIME, until=TIME, waited=RUN}",
            "takeovers: [2 b TIME GAP expired a, 1 a TIME GAP first ]",
        ]
    );
}

#[tokio::test]
async fn of_one_server_process_no_beat_waits_twice() {
    let (fleet, _a, b) = after_a_failover().await;
    let c = fleet.node("c").await;
    let begun = beat(&b).await;
    assert!(is_worker_of_a(&begun));
    // So far ahead that the test does not depend on its own pace.
    let generator = &fleet.keys.generator;
    let until_ms = begun.now_ms() + 600_000;
    fleet
        .write(&["HSET", generator, "until", &until_ms.to_string()])
        .await;
    for node in [&b, &c] {
        assert!(is_worker_of_a(&beat(node).await));
        let lease = b.roster().await.unwrap().lease;
        assert_eq!(lease.until_ms, until_ms, "the wait is not prolonged");
    }
    fleet.write(&["HSET", generator, "until", "1"]).await;
    assert_eq!(epoch_of(&beat(&c).await), Some(2));
}

#[tokio::test]
async fn at_the_next_server_process_a_beat_waits_again() {
    let (fleet, _a, b) = after_a_failover().await;
    let generator = &fleet.keys.generator;
    fleet
        .write(&["HSET", generator, "waited", "0ddba11b"])
        .await;
    assert!(is_worker_of_a(&beat(&b).await));
    let waited: String = fleet.raw(&["HGET", generator, "waited"]).await;
    assert_eq!(waited, fleet.run_id().await);
}

#[tokio::test]
async fn a_node_that_may_not_generate_begins_the_wait_too() {
    let (_fleet, _a, b) = after_a_failover().await;
    let declines = BeatCall {
        is_candidate: false,
        ..beat_call(LONG, 0)
    };
    let answer = b.beat(declines).await.unwrap();
    assert!(is_worker_of_a(&answer), "{answer:?}");
    let lease = b.roster().await.unwrap().lease;
    assert_eq!(lease.until_ms, answer.now_ms() + WAIT_MS);
}

#[tokio::test]
async fn a_lease_of_this_server_process_is_taken_at_once() {
    let (fleet, a, b) = after_a_failover().await;
    assert_eq!(
        epoch_of(&a.beat(beat_call(EXPIRED, 0)).await.unwrap()),
        Some(1)
    );
    assert_eq!(epoch_of(&beat(&b).await), Some(2));
    assert_eq!(
        fleet.only("generator").await,
        ["generator: {epoch=2, node=b, run=RUN, since=TIME, until=TIME}"]
    );
}

#[tokio::test]
async fn a_free_lease_is_taken_at_once() {
    let (fleet, a, b) = after_a_failover().await;
    assert!(is_worker_of_a(&beat(&b).await));
    let declines = BeatCall {
        is_candidate: false,
        ..beat_call(LONG, 0)
    };
    let _ = a.beat(declines).await.unwrap();
    assert_eq!(
        fleet.only("generator").await,
        ["generator: {epoch=1, since=TIME}"]
    );
    assert_eq!(epoch_of(&beat(&b).await), Some(2));
}
