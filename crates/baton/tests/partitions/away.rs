//! A partition whose server is away does not hide the others.

use std::sync::Arc;
use std::time::{Duration, Instant};

use baton::Target;
use baton::inspect::{Limits, Snapshot, View, Watch};
use baton_protocol::Keys;
use baton_server::{ClusterGroup, PrivateServer};

use crate::{inspect, seeder};

const TIMEOUT: Duration = Duration::from_secs(10);

/// A cluster with a partition on each of its servers, each with four messages, of which one failed; a
/// watch of that fleet; and a partition whose server does not have the lease, and that server.
async fn watched() -> (ClusterGroup, Watch, usize, usize) {
    let cluster = ClusterGroup::start(&PrivateServer::builder(), 3, 0).unwrap();
    let partitions = seeder::begin(&cluster.url(), 3).await;
    for store in partitions.all() {
        seeder::end_all(store, 4, 1).await;
    }
    let owner = |keys: &Keys| {
        let slot = cluster.slot(&keys.fence).unwrap();
        cluster.owner(slot).unwrap()
    };
    let control = owner(partitions.control().keys());
    let stores = partitions.all().iter();
    let owners: Vec<usize> = stores.map(|store| owner(store.keys())).collect();
    assert_eq!(owners, [0, 1, 2], "each server has a partition");
    let lost = owners.iter().position(|owner| *owner != control).unwrap();
    let target = Target::parse(&cluster.url()).unwrap();
    let limits = Limits::new(Duration::from_secs(1), Duration::from_secs(5));
    let watch = Watch::start(target, seeder::name(), Duration::from_millis(100), limits);
    until(&watch, |view| view.snapshot.is_some()).await;
    (cluster, watch, lost, owners[lost])
}

/// Waits for a view.
async fn until(watch: &Watch, fits: impl Fn(&View) -> bool) -> Arc<View> {
    let mut views = watch.views();
    let found = async {
        loop {
            let view = views.next().await.unwrap();
            if fits(&view) {
                return view;
            }
        }
    };
    let found = tokio::time::timeout(TIMEOUT, found).await;
    found.unwrap_or_else(|_| panic!("timeout: {:?}", watch.view()))
}

/// Checks that all is known but this partition.
fn assert_only_unread(snapshot: &Snapshot, lost: usize) {
    let obstacles = snapshot.obstacles();
    let words = format!("partition {lost} cannot be read: ");
    assert!(obstacles[0].starts_with(&words), "{obstacles:?}");
    assert_eq!(obstacles.len(), 1);
    let counts = [snapshot.published, snapshot.done, snapshot.failed];
    assert_eq!(counts, [8, 6, 2], "the others");
    assert!(snapshot.balanced, "as far as is known");
    for (p, partition) in snapshot.partitions.iter().enumerate() {
        assert_eq!(partition.trouble.is_some(), p == lost, "{partition:?}");
        let published = if p == lost { 0 } else { 4 };
        assert_eq!(partition.published, published);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_whose_server_is_dead_is_a_trouble_and_the_others_are_read() {
    let (mut cluster, watch, lost, server) = watched().await;
    let inspector = inspect(&cluster.url()).await;
    let snapshot = inspector.snapshot().await.unwrap();
    assert_eq!((snapshot.published, snapshot.obstacles()), (12, vec![]));

    cluster.servers[server].kill9();
    let deadline = Instant::now() + TIMEOUT;
    let snapshot = loop {
        let snapshot = inspector.snapshot().await.unwrap();
        if !snapshot.obstacles().is_empty() {
            break snapshot;
        }
        assert!(Instant::now() < deadline, "timeout: {snapshot:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_only_unread(&snapshot, lost);

    // It is no trouble of the whole reading, but one of the fleet's health.
    let is_unread = |words: &String| {
        let partition = format!("partition {lost} cannot be read: ");
        words.starts_with("not all partitions could be read") && words.contains(&partition)
    };
    let view = until(&watch, |view| view.health.troubles.iter().any(is_unread)).await;
    assert_eq!(view.trouble, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_whose_server_hangs_does_not_hold_up_the_reading_of_the_others() {
    let (mut cluster, watch, lost, server) = watched().await;
    cluster.servers[server].pause().unwrap();
    let paused_ms = watch.view().snapshot.as_ref().unwrap().now_ms;
    let view = until(&watch, |view| {
        let snapshot = view.snapshot.as_ref().unwrap();
        snapshot.now_ms > paused_ms && !snapshot.obstacles().is_empty()
    })
    .await;
    assert_eq!(view.trouble, None);
    assert_only_unread(view.snapshot.as_ref().unwrap(), lost);
}
