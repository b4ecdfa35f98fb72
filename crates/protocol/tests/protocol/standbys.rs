//! The line of standbys, and the roster.

use std::time::Duration;

use baton_protocol::{Beat, BeatCall, Store};

use crate::support::{Fleet, LONG, beat, beat_call};

async fn first_in_line(store: &Store) -> bool {
    match beat(store).await {
        Beat::Worker { place, .. } => place > 0,
        Beat::Generator { .. } => panic!("{} is the generator", store.node()),
    }
}

/// Nodes that have beaten once, in this order; the first is the generator.
async fn joined(fleet: &Fleet, names: &[&str]) -> Vec<Store> {
    let mut nodes = Vec::new();
    for name in names {
        let node = fleet.node(name).await;
        let _ = beat(&node).await;
        nodes.push(node);
    }
    // Two may have joined in the same millisecond; the tests want the order of their names.
    for (place, name) in names.iter().enumerate() {
        let place = (place + 1).to_string();
        fleet
            .write(&["ZADD", &fleet.keys.joined, &place, name])
            .await;
    }
    nodes
}

#[tokio::test]
async fn only_two_standbys_are_first_in_line() {
    let fleet = Fleet::new().await;
    let nodes = joined(&fleet, &["a", "b", "c", "d", "e"]).await;
    let mut first = Vec::new();
    for node in &nodes[1..] {
        first.push(first_in_line(node).await);
    }
    assert_eq!(first, [true, true, false, false]);
}

#[tokio::test]
async fn a_standby_knows_from_its_first_beat_that_it_is_first_in_line() {
    let fleet = Fleet::new().await;
    let mut first = Vec::new();
    let nodes = joined(&fleet, &["a"]).await;
    for name in ["b", "c", "d"] {
        let node = fleet.node(name).await;
        first.push((first_in_line(&node).await, node));
    }
    let first: Vec<bool> = first.iter().map(|(first, _)| *first).collect();
    assert_eq!(first, [true, true, false]);
    drop(nodes);
}

#[tokio::test]
async fn the_first_standbys_beat_often_and_the_others_as_often_as_the_lease_needs() {
    let fleet = Fleet::new().await;
    let nodes = joined(&fleet, &["a", "b", "c", "d"]).await;
    let mut pauses = Vec::new();
    for node in &nodes {
        let ttl = Duration::from_millis(1500);
        let (Beat::Generator { next, .. } | Beat::Worker { next, .. }) =
            node.beat(beat_call(ttl, 0)).await.unwrap();
        pauses.push(next.as_millis());
    }
    assert_eq!(pauses, [500, 50, 50, 1500]);
}

#[tokio::test]
async fn a_later_node_moves_up_when_those_before_it_die() {
    let fleet = Fleet::new().await;
    let mut nodes = joined(&fleet, &["a", "b", "c", "d", "e"]).await;
    assert!(!first_in_line(&nodes[3]).await);
    nodes.drain(1..3);
    fleet.wait_absent("b").await;
    fleet.wait_absent("c").await;
    assert!(first_in_line(&nodes[1]).await, "d");
    assert!(first_in_line(&nodes[2]).await, "e");
    assert_eq!(fleet.only("joined").await, ["joined: {a=1, d=4, e=5}"]);
}

/// How many standbys a generator hears of.
async fn standbys(generator: &Store) -> u64 {
    match beat(generator).await {
        Beat::Generator { standbys, .. } => standbys,
        Beat::Worker { .. } => panic!("{} is a worker", generator.node()),
    }
}

#[tokio::test]
async fn a_generator_hears_whether_other_nodes_are_present_and_the_first_of_them_calls_it() {
    let fleet = Fleet::new().await;
    let a = fleet.node("a").await;
    assert_eq!(standbys(&a).await, 0);
    let b = fleet.node("b").await;
    let _ = beat(&b).await;
    tokio::time::timeout(LONG, a.wait_called()).await.unwrap();
    assert_eq!(standbys(&a).await, 1);
    let (c, d) = (fleet.node("c").await, fleet.node("d").await);
    let _ = (beat(&c).await, beat(&d).await);
    assert_eq!(standbys(&a).await, 2);
    drop((b, c, d));
    for name in ["b", "c", "d"] {
        fleet.wait_absent(name).await;
    }
    assert_eq!(standbys(&a).await, 0);
}

#[tokio::test]
async fn a_silent_standby_loses_its_place_though_it_is_connected() {
    let fleet = Fleet::new().await;
    let nodes = joined(&fleet, &["a", "b", "c", "d"]).await;
    let (now, _): (u64, u64) = fleet.raw(&["TIME"]).await;
    let minute_ago = ((now - 60) * 1000).to_string();
    fleet
        .write(&["ZADD", &fleet.keys.seen, &minute_ago, "b"])
        .await;
    let ttl = Duration::from_millis(1500);
    let Beat::Worker { place, .. } = nodes[3].beat(beat_call(ttl, 0)).await.unwrap() else {
        panic!("d is the generator");
    };
    assert_eq!(place, 2);
    assert_eq!(fleet.only("joined").await, ["joined: {a=1, c=3, d=4}"]);
    // Its next beat puts it at the end of the line.
    let _ = nodes[1].beat(beat_call(ttl, 0)).await.unwrap();
    assert_eq!(
        fleet.only("joined").await,
        ["joined: {a=1, b=TIME, c=3, d=4}"]
    );
}

#[tokio::test]
async fn a_node_that_was_silent_for_ten_minutes_is_forgotten() {
    let fleet = Fleet::new().await;
    let nodes = joined(&fleet, &["a", "b", "c"]).await;
    fleet.write(&["ZADD", &fleet.keys.seen, "1", "b"]).await;
    let _ = beat(&nodes[2]).await;
    assert_eq!(
        fleet.dump().await,
        [
            "generator: {epoch=1, node=a, run=RUN, since=TIME, until=TIME}",
            "joined: {a=1, c=3}",
            "meta: {partitions=1, protocol=1}",
            "nodes: {a=RUN {}, c=RUN {}}",
            "seen: {a=TIME, c=TIME}",
            "takeovers: [1 a TIME GAP first ]",
        ]
    );
}

#[tokio::test]
async fn forget_removes_only_absent_nodes() {
    let fleet = Fleet::new().await;
    let mut nodes = joined(&fleet, &["a", "b", "c"]).await;
    drop(nodes.remove(1));
    fleet.wait_absent("b").await;
    assert_eq!(nodes[0].forget().await.unwrap(), ["b"]);
    assert_eq!(
        fleet.dump().await,
        [
            "generator: {epoch=1, node=a, run=RUN, since=TIME, until=TIME}",
            "joined: {a=1, c=3}",
            "meta: {partitions=1, protocol=1}",
            "nodes: {a=RUN {}, c=RUN {}}",
            "seen: {a=TIME, c=TIME}",
            "takeovers: [1 a TIME GAP first ]",
        ]
    );
    assert_eq!(nodes[0].forget().await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn the_roster_has_the_nodes_and_the_lease() {
    let fleet = Fleet::new().await;
    let a = fleet.node("a").await;
    let empty = a.roster().await.unwrap();
    assert_eq!((empty.lease.node, empty.lease.epoch), (None, 0));
    assert_eq!(empty.nodes, []);

    let b = fleet.node("b").await;
    let _ = a
        .beat(BeatCall {
            about: r#"{"host":"x y"}"#,
            ..beat_call(LONG, 0)
        })
        .await
        .unwrap();
    let _ = beat(&b).await;
    drop(b);
    fleet.wait_absent("b").await;
    let mut roster = a.roster().await.unwrap();
    assert_eq!(roster.lease.node.as_deref(), Some("a"));
    assert_eq!(roster.lease.epoch, 1);
    assert!(roster.lease.since_ms <= roster.now_ms && roster.now_ms < roster.lease.until_ms);
    roster.nodes.sort_by(|one, other| one.node.cmp(&other.node));
    let nodes: Vec<_> = roster
        .nodes
        .iter()
        .map(|node| (node.node.as_str(), node.about.as_str(), node.present))
        .collect();
    assert_eq!(
        nodes,
        [("a", r#"{"host":"x y"}"#, true), ("b", "{}", false)]
    );
}

/// The beat of a node that never generates.
fn declines() -> BeatCall<'static> {
    BeatCall {
        is_candidate: false,
        ..beat_call(LONG, 0)
    }
}

#[tokio::test]
async fn a_node_that_never_generates_takes_no_lease_and_stands_behind_all_others() {
    let fleet = Fleet::new().await;
    // Its name is the first: of nodes that join in the same millisecond it is first in line.
    let (worker, a, b) = (
        fleet.node("0").await,
        fleet.node("a").await,
        fleet.node("b").await,
    );
    let Beat::Worker {
        generator, epoch, ..
    } = worker.beat(declines()).await.unwrap()
    else {
        panic!("a node that declines has the lease");
    };
    assert_eq!((generator.as_str(), epoch), ("", 0));
    let Beat::Generator { standbys, .. } = a.beat(beat_call(LONG, 0)).await.unwrap() else {
        panic!("a free lease is not taken");
    };
    assert_eq!(standbys, 1, "a worker beside the generator");
    let place = |beat: Beat| match beat {
        Beat::Worker { place, .. } => place,
        Beat::Generator { .. } => panic!("two generators"),
    };
    let _ = b.beat(beat_call(LONG, 0)).await.unwrap();
    assert_eq!(place(b.beat(beat_call(LONG, 0)).await.unwrap()), 1);
    assert_eq!(place(worker.beat(declines()).await.unwrap()), 2);
}

#[tokio::test]
async fn a_holder_that_declines_gives_up_its_lease_and_calls_the_next() {
    let fleet = Fleet::new().await;
    let (a, b) = (fleet.node("a").await, fleet.node("b").await);
    let _ = a.beat(beat_call(LONG, 0)).await.unwrap();
    let _ = b.beat(beat_call(LONG, 0)).await.unwrap();
    let Beat::Worker { generator, .. } = a.beat(declines()).await.unwrap() else {
        panic!("a node that declines keeps the lease");
    };
    assert_eq!(generator, "");
    tokio::time::timeout(LONG, b.wait_called()).await.unwrap();
    assert!(matches!(
        b.beat(beat_call(LONG, 0)).await.unwrap(),
        Beat::Generator { epoch: 2, .. }
    ));
}
