//! beat and leave: one holder, and an epoch that only grows.

use std::time::Duration;

use baton::Error;
use baton_protocol::{Beat, PROTOCOL, Seal};

use crate::support::{EXPIRED, Fleet, LONG, beat, beat_call};

/// The epoch of a node that must hold the lease.
fn epoch(beat: &Beat) -> u64 {
    match beat {
        Beat::Generator { epoch, .. } => *epoch,
        Beat::Worker { .. } => panic!("not the generator: {beat:?}"),
    }
}

/// The holder and its epoch, seen by a node that must not hold the lease.
fn holder(beat: &Beat) -> (&str, u64) {
    match beat {
        Beat::Worker {
            generator, epoch, ..
        } => (generator, *epoch),
        Beat::Generator { .. } => panic!("not a worker: {beat:?}"),
    }
}

#[tokio::test]
async fn the_first_beat_takes_the_lease_with_epoch_one() {
    let fleet = Fleet::new().await;
    let a = fleet.node("a").await;
    let beat = a
        .beat(beat_call(Duration::from_millis(1500), 0))
        .await
        .unwrap();
    let Beat::Generator {
        epoch: 1,
        next,
        now_ms,
        standbys: 0,
        last: 0,
    } = beat
    else {
        panic!("{beat:?}");
    };
    assert_eq!(next, Duration::from_millis(500));
    let lease = a.roster().await.unwrap().lease;
    assert_eq!((lease.since_ms, lease.until_ms), (now_ms, now_ms + 1500));
    assert_eq!(
        fleet.dump().await,
        [
            "generator: {epoch=1, node=a, run=RUN, since=TIME, until=TIME}",
            "joined: {a=TIME}",
            "meta: {partitions=1, protocol=1}",
            "nodes: {a=RUN {}}",
            "seen: {a=TIME}",
            "takeovers: [1 a TIME GAP first ]",
        ]
    );
}

#[tokio::test]
async fn the_second_node_is_a_worker() {
    let fleet = Fleet::new().await;
    let (a, b) = (fleet.node("a").await, fleet.node("b").await);
    assert_eq!(epoch(&beat(&a).await), 1);
    assert_eq!(holder(&beat(&b).await), ("a", 1));
    assert_eq!(
        fleet.dump().await,
        [
            "generator: {epoch=1, node=a, run=RUN, since=TIME, until=TIME}",
            "joined: {a=TIME, b=TIME}",
            "meta: {partitions=1, protocol=1}",
            "nodes: {a=RUN {}, b=RUN {}}",
            "seen: {a=TIME, b=TIME}",
            "takeovers: [1 a TIME GAP first ]",
        ]
    );
}

#[tokio::test]
async fn the_holder_renews_and_keeps_its_epoch() {
    let fleet = Fleet::new().await;
    let (a, b) = (fleet.node("a").await, fleet.node("b").await);
    assert_eq!(epoch(&a.beat(beat_call(EXPIRED, 0)).await.unwrap()), 1);
    let first = b.roster().await.unwrap().lease;
    assert_eq!(epoch(&beat(&a).await), 1);
    let second = b.roster().await.unwrap().lease;
    assert!(second.until_ms >= first.until_ms + 600_000, "{second:?}");
    assert_eq!(second.since_ms, first.since_ms);
    assert_eq!(holder(&beat(&b).await), ("a", 1));
}

#[tokio::test]
async fn an_expired_lease_is_taken_with_the_next_epoch() {
    let fleet = Fleet::new().await;
    let (a, b) = (fleet.node("a").await, fleet.node("b").await);
    assert_eq!(epoch(&a.beat(beat_call(EXPIRED, 0)).await.unwrap()), 1);
    assert_eq!(epoch(&beat(&b).await), 2);
    assert_eq!(holder(&beat(&a).await), ("b", 2));
    assert_eq!(
        fleet.only("generator").await,
        ["generator: {epoch=2, node=b, run=RUN, since=TIME, until=TIME}"]
    );
}

#[tokio::test]
async fn a_holder_that_is_gone_is_replaced_long_before_its_lease_ends() {
    let fleet = Fleet::new().await;
    let (a, b) = (fleet.node("a").await, fleet.node("b").await);
    assert_eq!(epoch(&beat(&a).await), 1);
    assert_eq!(holder(&beat(&b).await), ("a", 1));
    drop(a);
    fleet.wait_absent("a").await;
    assert_eq!(epoch(&beat(&b).await), 2);
    assert_eq!(
        fleet.only("generator joined").await,
        [
            "generator: {epoch=2, node=b, run=RUN, since=TIME, until=TIME}",
            "joined: {b=TIME}",
        ]
    );
}

#[tokio::test]
async fn absence_proves_nothing_about_a_holder_of_another_run_id() {
    let fleet = Fleet::new().await;
    let (a, b) = (fleet.node("a").await, fleet.node("b").await);
    assert_eq!(epoch(&beat(&a).await), 1);
    let keys = &fleet.keys;
    fleet
        .write(&["HSET", &keys.generator, "run", "0ddba11"])
        .await;
    fleet.write(&["HSET", &keys.nodes, "a", "0ddba11 {}"]).await;
    drop(a);
    fleet.wait_absent("a").await;
    assert_eq!(holder(&beat(&b).await), ("a", 1));
    // The wait for the holder is over: see holder_wait.rs.
    let waited = fleet.run_id().await;
    fleet
        .write(&["HSET", &keys.generator, "until", "1", "waited", &waited])
        .await;
    assert_eq!(epoch(&beat(&b).await), 2);
}

#[tokio::test]
async fn the_epoch_never_shrinks() {
    let fleet = Fleet::new().await;
    let (a, b) = (fleet.node("a").await, fleet.node("b").await);
    let mut last = 0;
    for _ in 0..3 {
        for node in [&a, &b] {
            let taken = epoch(&node.beat(beat_call(EXPIRED, 0)).await.unwrap());
            assert_eq!(taken, last + 1);
            last = taken;
        }
        assert!(b.leave().await.unwrap());
    }
}

#[tokio::test]
async fn a_lease_that_redis_lost_is_raised_above_the_fence() {
    let fleet = Fleet::new().await;
    let (a, b) = (fleet.node("a").await, fleet.node("b").await);
    assert!(matches!(a.seal(7).await.unwrap(), Seal::Sealed { .. }));
    assert_eq!(epoch(&beat(&b).await), 1);
    let Seal::Fenced { epoch: fence, .. } = b.seal(1).await.unwrap() else {
        panic!("sealed below the fence");
    };
    assert_eq!(epoch(&b.beat(beat_call(LONG, fence)).await.unwrap()), 8);
    assert_eq!(epoch(&b.beat(beat_call(LONG, fence)).await.unwrap()), 8);
    assert!(matches!(b.seal(8).await.unwrap(), Seal::Sealed { .. }));
    // Another node's lease is not raised.
    assert_eq!(
        holder(&a.beat(beat_call(LONG, 20)).await.unwrap()),
        ("b", 8)
    );
}

#[tokio::test]
async fn a_fleet_of_another_protocol_is_refused_and_not_changed() {
    let fleet = Fleet::new().await;
    let a = fleet.node("a").await;
    fleet
        .write(&["HSET", &fleet.keys.meta, "protocol", "0"])
        .await;
    let error = a.beat(beat_call(LONG, 0)).await.unwrap_err();
    assert!(
        matches!(&error, Error::Protocol { theirs, ours, .. } if theirs == "0" && *ours == PROTOCOL),
        "{error:?}"
    );
    assert!(error.to_string().contains(fleet.name.as_str()), "{error}");
    assert_eq!(fleet.dump().await, ["meta: {protocol=0}"]);
}

#[tokio::test]
async fn leaving_resigns_and_the_next_beat_of_another_takes_over() {
    let fleet = Fleet::new().await;
    let (a, b) = (fleet.node("a").await, fleet.node("b").await);
    assert_eq!(epoch(&beat(&a).await), 1);
    assert_eq!(holder(&beat(&b).await), ("a", 1));
    assert!(a.leave().await.unwrap());
    assert_eq!(
        fleet.dump().await,
        [
            "generator: {epoch=1, since=TIME}",
            "joined: {b=TIME}",
            "meta: {partitions=1, protocol=1}",
            "nodes: {b=RUN {}}",
            "seen: {b=TIME}",
            "takeovers: [1 a TIME GAP first ]",
        ]
    );
    assert!(!a.leave().await.unwrap(), "it left before");
    assert_eq!(epoch(&beat(&b).await), 2);
}

#[tokio::test]
async fn a_worker_that_leaves_does_not_touch_the_lease() {
    let fleet = Fleet::new().await;
    let (a, b) = (fleet.node("a").await, fleet.node("b").await);
    assert_eq!(epoch(&beat(&a).await), 1);
    let before = fleet.dump().await;
    assert_eq!(holder(&beat(&b).await), ("a", 1));
    assert!(!b.leave().await.unwrap());
    assert_eq!(fleet.dump().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_fifty_concurrent_first_beats_exactly_one_takes_the_lease() {
    let fleet = Fleet::new().await;
    let mut nodes = Vec::new();
    for number in 0..50 {
        nodes.push(fleet.node(&format!("n{number}")).await);
    }
    let beats: Vec<_> = nodes
        .into_iter()
        .map(|node| tokio::spawn(async move { (beat(&node).await, node) }))
        .collect();
    let mut generators = Vec::new();
    let mut followed = Vec::new();
    let mut alive = Vec::new();
    for answer in beats {
        let (answer, node) = answer.await.unwrap();
        match answer {
            Beat::Generator { epoch, .. } => generators.push((node.node().to_owned(), epoch)),
            Beat::Worker {
                generator, epoch, ..
            } => followed.push((generator, epoch)),
        }
        alive.push(node);
    }
    assert_eq!(generators.len(), 1, "{generators:?}");
    assert_eq!(generators[0].1, 1);
    assert_eq!(followed, vec![generators[0].clone(); 49]);
}
