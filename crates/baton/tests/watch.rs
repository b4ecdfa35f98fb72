//! Watching a real fleet: what is seen while it works, when it does not, and when Redis is gone.

#![allow(clippy::unwrap_used)]

mod copies;

use std::sync::Arc;
use std::time::{Duration, Instant};

use baton::inspect::{How, NodeRole, Point, View, Watch};
use baton::{Effects, Handler, Message, Rejected};
use baton_server::PrivateServer;

use copies::{Fleet, LEASE_TTL, Usual, at_work, until};

fn server() -> PrivateServer {
    PrivateServer::builder().start().unwrap()
}

struct Hangs;

impl Handler for Hangs {
    async fn handle(&self, _: Message<'_>, _: &mut Effects) -> Result<(), Rejected> {
        std::future::pending().await
    }
}

/// The role of a node, if it is known.
fn role(seen: &View, node: &str) -> Option<NodeRole> {
    let nodes = &seen.snapshot.as_ref()?.nodes;
    Some(nodes.iter().find(|listed| listed.node == node)?.role)
}

/// Whether a fleet has exactly one trouble, in these words.
fn ails(seen: &View, words: &str) -> bool {
    matches!(&seen.health.troubles[..], [trouble] if trouble.contains(words))
}

#[tokio::test]
async fn a_fleet_at_work_is_well_and_its_speed_and_latency_are_told() {
    let server = server();
    let fleet = Fleet::new(&server.url());
    let watch = fleet.watch();
    let copies = [(); 3].map(|()| fleet.start(Usual));
    let first = at_work(&watch, 3).await;
    let after_ms = first.snapshot.as_ref().unwrap().now_ms + 1000;
    let seen = until(&watch, "a second of it, in good health", |seen| {
        let snapshot = seen.snapshot.as_ref().unwrap();
        let all_work = snapshot
            .nodes
            .iter()
            .all(|node| seen.trend.per_s(&node.node) > 0.0);
        snapshot.now_ms > after_ms && all_work && seen.health.is_well()
    })
    .await;
    assert_eq!((seen.fleet.as_str(), &seen.trouble), ("watched", &None));

    let snapshot = seen.snapshot.as_ref().unwrap();
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
    // What nodes said of themselves is what they had counted by then.
    for copy in &copies {
        let mut nodes = snapshot.nodes.iter();
        let told = nodes.find(|node| node.node == copy.name).unwrap();
        assert!(told.published + told.processed > 0, "{told:?}");
        assert!(told.published <= copy.meter.published(), "{told:?}");
        assert!(told.processed <= copy.meter.processed(), "{told:?}");
    }
    // One every 5 ms, and what was missed is made up for.
    let points: Vec<_> = seen.trend.points().collect();
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
async fn redis_that_is_gone_is_a_trouble_at_once_an_illness_after_a_lease_and_no_end() {
    let mut server = server();
    let fleet = Fleet::new(&server.url());
    let watch = fleet.watch();
    let _copies = [(); 2].map(|()| fleet.start(Usual));
    at_work(&watch, 2).await;
    let gone = Instant::now();
    server.kill9();
    let troubled = until(&watch, "trouble", |seen| seen.trouble.is_some()).await;
    assert!(troubled.health.is_well(), "{:?}", troubled.health);
    let ill = until(&watch, "illness", |seen| !seen.health.is_well()).await;
    assert!(
        ails(&ill, "the fleet could not be read"),
        "{:?}",
        ill.health
    );
    let after = gone.elapsed();
    let limit = LEASE_TTL;
    // The last reading may be a little older than the end.
    assert!(
        after > limit / 2 && after < limit + Duration::from_secs(3),
        "{after:?}"
    );
    // The last snapshot stays.
    let ages = [&troubled, &ill].map(|seen| seen.snapshot.as_ref().unwrap().now_ms);
    assert_eq!(ages[0], ages[1]);
    server.restart().unwrap();
    let well = at_work_after(&watch, &ill).await;
    assert_eq!(well.trouble, None);
}

/// Waits until a fleet is well again and was read anew.
async fn at_work_after(watch: &Watch, ill: &View) -> Arc<View> {
    let before_ms = ill.snapshot.as_ref().map(|snapshot| snapshot.now_ms);
    until(watch, "recovery", |seen| {
        let now_ms = seen.snapshot.as_ref().map(|snapshot| snapshot.now_ms);
        now_ms > before_ms && seen.health.is_well() && seen.trouble.is_none()
    })
    .await
}

#[tokio::test]
async fn redis_that_is_silent_is_as_good_as_gone() {
    let mut server = server();
    let fleet = Fleet::new(&server.url());
    let watch = fleet.watch();
    let _copies = [(); 2].map(|()| fleet.start(Usual));
    at_work(&watch, 2).await;
    server.pause().unwrap();
    let ill = until(&watch, "illness", |seen| !seen.health.is_well()).await;
    assert!(
        ails(&ill, "the fleet could not be read"),
        "{:?}",
        ill.health
    );
    server.resume().unwrap();
    at_work_after(&watch, &ill).await;
}

#[tokio::test]
async fn a_watch_may_start_before_redis_does() {
    let mut server = server();
    let fleet = Fleet::new(&server.url());
    server.stop().unwrap();
    let watch = fleet.watch();
    let seen = until(&watch, "illness", |seen| !seen.health.is_well()).await;
    assert!(seen.snapshot.is_none() && seen.trouble.is_some() && watch.inspector().is_none());
    server.restart().unwrap();
    let _copies = [(); 2].map(|()| fleet.start(Usual));
    at_work(&watch, 2).await;
    at_work_after(&watch, &seen).await;
    assert!(watch.inspector().is_some());
}

#[tokio::test]
async fn a_backlog_that_nobody_works_off_is_an_illness_though_everybody_lives() {
    let server = server();
    let fleet = Fleet::new(&server.url()).claim_ttl(Duration::from_millis(200));
    let watch = fleet.watch();
    let _copies = [(); 2].map(|()| fleet.start(Hangs));
    let ill = until(&watch, "illness", |seen| {
        ails(seen, "messages wait and none has ended")
    })
    .await;
    let snapshot = ill.snapshot.as_ref().unwrap();
    assert!(snapshot.generator.node.is_some(), "{snapshot:?}");
    assert!(snapshot.claimed > 0 && snapshot.pending > 0, "{snapshot:?}");
    // One that works takes what waits.
    let _help = fleet.start(Usual);
    until(&watch, "recovery", |seen| seen.health.is_well()).await;
}

#[tokio::test]
async fn a_killed_generator_without_a_standby_is_dead_and_an_illness_until_the_next_comes() {
    let server = server();
    let fleet = Fleet::new(&server.url());
    let watch = fleet.watch();
    let alone = fleet.start(Usual);
    let name = alone.name.clone();
    until(&watch, "a generator", |seen| {
        role(seen, &name) == Some(NodeRole::Generator)
    })
    .await;
    alone.kill().await;
    let ill = until(&watch, "illness", |seen| !seen.health.is_well()).await;
    assert!(
        ails(&ill, "no generator has renewed the lease"),
        "{:?}",
        ill.health
    );
    assert_eq!(role(&ill, &name), Some(NodeRole::Dead));
    assert_eq!(ill.snapshot.as_ref().unwrap().generator.epoch, 1);
    let next = fleet.start(Usual);
    let well = at_work_after(&watch, &ill).await;
    let takeover = &well.snapshot.as_ref().unwrap().takeovers[0];
    assert_eq!((takeover.epoch, &takeover.node), (2, &next.name));
    assert!(
        matches!(takeover.how, How::Gone | How::Expired),
        "{takeover:?}"
    );
    // It knows nothing of its own death, so the lease tells how long nobody generated.
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
    let seen = until(&watch, "both are gone", |seen| {
        role(seen, &left).is_none() && role(seen, &dead) == Some(NodeRole::Dead)
    })
    .await;
    assert_eq!(seen.snapshot.as_ref().unwrap().nodes.len(), 2);
    assert_eq!(seen.trend.per_s(&left), 0.0);
    assert_eq!(seen.trend.per_s(&dead), 0.0);
    let (stays, last) = (stays.name, "the last one generates");
    until(&watch, last, |seen| {
        role(seen, &stays) == Some(NodeRole::Generator)
    })
    .await;
}

#[tokio::test]
async fn a_watch_that_is_dropped_reads_no_more() {
    let server = server();
    let fleet = Fleet::new(&server.url());
    let watch = fleet.watch();
    until(&watch, "a reading", |seen| seen.snapshot.is_some()).await;
    let mut views = watch.views();
    drop(watch);
    let ended = async { while views.next().await.is_some() {} };
    tokio::time::timeout(Duration::from_secs(10), ended)
        .await
        .unwrap();
}
