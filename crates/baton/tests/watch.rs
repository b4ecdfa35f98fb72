//! Watching a real fleet: while it works, while it does not, and while Redis is away.

#![allow(clippy::unwrap_used)]

mod copies;

use std::sync::Arc;
use std::time::{Duration, Instant};

use baton::inspect::{NodeRole, Point, TakeoverCause, View, Watch};
use baton::{Effects, Handler, HandlerError, Message};
use baton_server::PrivateServer;

use copies::{Fleet, LEASE_TTL, Usual, at_work, until};

fn server() -> PrivateServer {
    PrivateServer::builder().start().unwrap()
}

struct Hangs;

impl Handler for Hangs {
    async fn handle(&self, _: Message<'_>, _: &mut Effects) -> Result<(), HandlerError> {
        std::future::pending().await
    }
}

/// The role of a node, if the view lists it.
fn role(view: &View, node: &str) -> Option<NodeRole> {
    let nodes = &view.snapshot.as_ref()?.nodes;
    Some(nodes.iter().find(|listed| listed.node == node)?.role)
}

/// Whether a fleet has exactly one trouble, and that trouble contains these words.
fn has_only_trouble(view: &View, words: &str) -> bool {
    matches!(&view.health.troubles[..], [trouble] if trouble.contains(words))
}

#[tokio::test]
async fn a_fleet_at_work_is_well_and_its_view_has_rates_and_latencies() {
    let server = server();
    let fleet = Fleet::new(&server.url());
    let watch = fleet.watch();
    let copies = [(); 3].map(|()| fleet.start(Usual));
    let first = at_work(&watch, 3).await;
    let after_ms = first.snapshot.as_ref().unwrap().now_ms + 1000;
    let view = until(&watch, "a second of a healthy fleet", |view| {
        let snapshot = view.snapshot.as_ref().unwrap();
        let all_work = snapshot
            .nodes
            .iter()
            .all(|node| view.trend.per_s(&node.node) > 0.0);
        snapshot.now_ms > after_ms && all_work && view.health.is_well()
    })
    .await;
    assert_eq!((view.fleet.as_str(), &view.trouble), ("watched", &None));

    let snapshot = view.snapshot.as_ref().unwrap();
    assert!(snapshot.balanced && snapshot.counted, "{snapshot:?}");
    let roles = |role| {
        snapshot
            .nodes
            .iter()
            .filter(|node| node.role == role)
            .count()
    };
    assert_eq!(
        (roles(NodeRole::Generator), roles(NodeRole::Worker)),
        (1, 2)
    );
    // No node's beat claims more than the node has counted.
    for copy in &copies {
        let mut nodes = snapshot.nodes.iter();
        let status = nodes.find(|node| node.node == copy.name).unwrap();
        assert!(status.published + status.processed > 0, "{status:?}");
        assert!(status.published <= copy.meter.published(), "{status:?}");
        assert!(status.processed <= copy.meter.processed(), "{status:?}");
    }
    // The generator makes one message every 5 ms, and catches up on what it missed.
    let points: Vec<_> = view.trend.points().collect();
    let mean = |rate: fn(&Point) -> f64| {
        let sum: f64 = points
            .windows(2)
            .map(|pair| rate(pair[1]) * (pair[1].at_ms - pair[0].at_ms) as f64)
            .sum();
        sum / (points[points.len() - 1].at_ms - points[0].at_ms) as f64
    };
    let published = mean(|point| point.published_per_s);
    assert!((100.0..300.0).contains(&published), "{published}");
    let failed = mean(|point| point.failed_per_s) / mean(|point| point.done_per_s);
    assert!((0.08..0.15).contains(&failed), "{failed}");
    let last = points[points.len() - 1];
    let (p50, p99) = (last.p50_s.unwrap(), last.p99_s.unwrap());
    assert!(0.0 < p50 && p50 <= p99 && p99 < 1.0, "{last:?}");
}

#[tokio::test]
async fn a_killed_redis_is_a_trouble_at_once_unhealthy_after_a_lease_and_the_watch_goes_on() {
    let mut server = server();
    let fleet = Fleet::new(&server.url());
    let watch = fleet.watch();
    let _copies = [(); 2].map(|()| fleet.start(Usual));
    at_work(&watch, 2).await;
    let gone = Instant::now();
    server.kill9();
    let troubled = until(&watch, "trouble", |view| view.trouble.is_some()).await;
    assert!(troubled.health.is_well(), "{:?}", troubled.health);
    let unhealthy = until(&watch, "an unhealthy fleet", |view| !view.health.is_well()).await;
    assert!(
        has_only_trouble(&unhealthy, "the fleet could not be read"),
        "{:?}",
        unhealthy.health
    );
    let after = gone.elapsed();
    let limit = LEASE_TTL;
    // The last snapshot may be a little older than the kill.
    assert!(
        after > limit / 2 && after < limit + Duration::from_secs(3),
        "{after:?}"
    );
    // The last snapshot stays.
    let ages = [&troubled, &unhealthy].map(|view| view.snapshot.as_ref().unwrap().now_ms);
    assert_eq!(ages[0], ages[1]);
    server.restart().unwrap();
    let well = well_again(&watch, &unhealthy).await;
    assert_eq!(well.trouble, None);
}

/// Waits for a newer snapshot of a fleet that is well again.
async fn well_again(watch: &Watch, unhealthy: &View) -> Arc<View> {
    let before_ms = unhealthy.snapshot.as_ref().map(|snapshot| snapshot.now_ms);
    until(watch, "recovery", |view| {
        let now_ms = view.snapshot.as_ref().map(|snapshot| snapshot.now_ms);
        now_ms > before_ms && view.health.is_well() && view.trouble.is_none()
    })
    .await
}

#[tokio::test]
async fn a_redis_that_does_not_answer_is_unhealthy_like_a_dead_one() {
    let mut server = server();
    let fleet = Fleet::new(&server.url());
    let watch = fleet.watch();
    let _copies = [(); 2].map(|()| fleet.start(Usual));
    at_work(&watch, 2).await;
    server.pause().unwrap();
    let unhealthy = until(&watch, "an unhealthy fleet", |view| !view.health.is_well()).await;
    assert!(
        has_only_trouble(&unhealthy, "the fleet could not be read"),
        "{:?}",
        unhealthy.health
    );
    server.resume().unwrap();
    well_again(&watch, &unhealthy).await;
}

#[tokio::test]
async fn a_watch_may_start_before_redis_does() {
    let mut server = server();
    let fleet = Fleet::new(&server.url());
    server.stop().unwrap();
    let watch = fleet.watch();
    let view = until(&watch, "an unhealthy fleet", |view| !view.health.is_well()).await;
    assert!(view.snapshot.is_none() && view.trouble.is_some() && watch.inspector().is_none());
    server.restart().unwrap();
    let _copies = [(); 2].map(|()| fleet.start(Usual));
    at_work(&watch, 2).await;
    well_again(&watch, &view).await;
    assert!(watch.inspector().is_some());
}

#[tokio::test]
async fn a_backlog_that_does_not_move_is_unhealthy_though_all_nodes_live() {
    let server = server();
    let fleet = Fleet::new(&server.url()).claim_ttl(Duration::from_millis(200));
    let watch = fleet.watch();
    let _copies = [(); 2].map(|()| fleet.start(Hangs));
    let unhealthy = until(&watch, "an unhealthy fleet", |view| {
        has_only_trouble(view, "messages wait and none has ended")
    })
    .await;
    let snapshot = unhealthy.snapshot.as_ref().unwrap();
    assert!(snapshot.generator.node.is_some(), "{snapshot:?}");
    assert!(snapshot.claimed > 0 && snapshot.pending > 0, "{snapshot:?}");
    // A worker that works takes what waits.
    let _help = fleet.start(Usual);
    until(&watch, "recovery", |view| view.health.is_well()).await;
}

#[tokio::test]
async fn without_a_standby_a_killed_generator_is_dead_and_the_fleet_unhealthy_until_the_next() {
    let server = server();
    let fleet = Fleet::new(&server.url());
    let watch = fleet.watch();
    let alone = fleet.start(Usual);
    let name = alone.name.clone();
    until(&watch, "a generator", |view| {
        role(view, &name) == Some(NodeRole::Generator)
    })
    .await;
    alone.kill().await;
    let unhealthy = until(&watch, "an unhealthy fleet", |view| !view.health.is_well()).await;
    assert!(
        has_only_trouble(&unhealthy, "no generator has renewed the lease"),
        "{:?}",
        unhealthy.health
    );
    assert_eq!(role(&unhealthy, &name), Some(NodeRole::Dead));
    assert_eq!(unhealthy.snapshot.as_ref().unwrap().generator.epoch, 1);
    let next = fleet.start(Usual);
    let well = well_again(&watch, &unhealthy).await;
    let takeover = &well.snapshot.as_ref().unwrap().takeovers[0];
    assert_eq!((takeover.epoch, &takeover.node), (2, &next.name));
    assert!(
        matches!(takeover.how, TakeoverCause::Gone | TakeoverCause::Expired),
        "{takeover:?}"
    );
    // No node recorded its death, so the gap counts from the last renewal of the lease.
    assert!(takeover.gap_ms >= 500, "{takeover:?}");
}

#[tokio::test]
async fn a_node_that_leaves_disappears_and_one_that_is_killed_is_dead() {
    let server = server();
    let fleet = Fleet::new(&server.url());
    let watch = fleet.watch();
    let [leaves, killed, stays] = [(); 3].map(|()| fleet.start(Usual));
    at_work(&watch, 3).await;
    let (left, dead) = (leaves.name.clone(), killed.name.clone());
    leaves.stop().await;
    killed.kill().await;
    let view = until(&watch, "one is gone and one is dead", |view| {
        role(view, &left).is_none() && role(view, &dead) == Some(NodeRole::Dead)
    })
    .await;
    assert_eq!(view.snapshot.as_ref().unwrap().nodes.len(), 2);
    assert_eq!(view.trend.per_s(&left), 0.0);
    assert_eq!(view.trend.per_s(&dead), 0.0);
    let (stays, last) = (stays.name, "the last one generates");
    until(&watch, last, |view| {
        role(view, &stays) == Some(NodeRole::Generator)
    })
    .await;
}

#[tokio::test]
async fn a_dropped_watch_ends_its_views() {
    let server = server();
    let fleet = Fleet::new(&server.url());
    let watch = fleet.watch();
    until(&watch, "a snapshot", |view| view.snapshot.is_some()).await;
    let mut views = watch.views();
    drop(watch);
    let ended = async { while views.next().await.is_some() {} };
    tokio::time::timeout(Duration::from_secs(10), ended)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_node_says_when_it_has_joined_and_by_when_its_loop_turns_again() {
    let mut server = PrivateServer::builder().start().unwrap();
    let fleet = Fleet::new(&server.url());
    let copy = fleet.start(Usual);
    copy.meter.joined().await;
    // Its loop turns while Redis answers, and while it does not.
    for is_up in [true, false] {
        if !is_up {
            server.kill9();
        }
        let mut before = copy.meter.next_turn_due().unwrap();
        for _ in 0..3 {
            let deadline = Instant::now() + Duration::from_secs(20);
            while copy.meter.next_turn_due().unwrap() == before {
                assert!(Instant::now() < deadline, "no turn, Redis up: {is_up}");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            before = copy.meter.next_turn_due().unwrap();
            assert!(before > Instant::now());
        }
    }
    copy.stop().await;
}
