//! A client of a fleet of several partitions sees and settles all of them.

#![allow(clippy::unwrap_used)]

mod away;
mod failed;
mod seeder;

use std::time::Duration;

use baton::inspect::{Limits, Watch};
use baton::{Error, Inspector, Part, Target};
use baton_protocol::Partitions;
use baton_server::PrivateServer;

/// A server for a fleet of three partitions.
pub(crate) fn server() -> PrivateServer {
    PrivateServer::builder().unix_socket().start().unwrap()
}

pub(crate) async fn inspect(url: &str) -> Inspector {
    let target = Target::parse(url).unwrap();
    Inspector::connect(&target, &seeder::name()).await.unwrap()
}

/// In partition p wait p messages, one is claimed, two are done, and one has failed.
async fn at_work(url: &str) -> Partitions {
    let partitions = seeder::begin(url, 3).await;
    for (p, store) in (0..).zip(partitions.all()) {
        seeder::publish(store, 4 + p).await;
        let claimed = seeder::claim(store, 1, 3).await;
        seeder::commit(store, 1, claimed, 1).await;
        seeder::claim(store, 2, 1).await;
    }
    partitions
}

#[tokio::test]
async fn a_snapshot_has_each_partition_and_adds_them_up() {
    let server = server();
    let partitions = at_work(&server.url()).await;
    let snapshot = inspect(&server.url()).await.snapshot().await.unwrap();
    let counts = [
        snapshot.published,
        snapshot.done,
        snapshot.failed,
        snapshot.errors,
        snapshot.claimed,
        snapshot.pending,
    ];
    assert_eq!(counts, [15, 6, 3, 3, 3, 3]);
    assert!(snapshot.balanced && snapshot.counted);
    assert_eq!(snapshot.generator.node.as_deref(), Some("seeder"));
    let nodes: Vec<_> = snapshot.nodes.iter().map(|node| node.claimed).collect();
    assert_eq!(nodes, [3]);
    for (p, partition) in (0..).zip(&snapshot.partitions) {
        assert_eq!(u64::from(partition.partition), p);
        assert_eq!((partition.published, partition.pending), (4 + p, p));
        assert!(partition.balanced && partition.trouble.is_none());
        assert!(!partition.server.is_empty());
    }
    assert_eq!(snapshot.partitions.len(), 3);
    let mut newest: Vec<_> = snapshot
        .newest
        .iter()
        .map(|failed| (failed.partition, failed.seq))
        .collect();
    newest.sort_unstable();
    assert_eq!(newest, [(Some(0), 1), (Some(1), 1), (Some(2), 1)]);

    // One partition whose books do not balance is not hidden by another.
    let mut redis = redis::Client::open(server.url()).unwrap();
    for (p, by) in [(0, 1), (2, -1)] {
        let keys = partitions.all()[p].keys();
        let mut command = redis::cmd("HINCRBY");
        command.arg(&keys.stats).arg("done").arg(by);
        command.exec(&mut redis).unwrap();
    }
    let snapshot = inspect(&server.url()).await.snapshot().await.unwrap();
    assert!(!snapshot.balanced);
    let balanced: Vec<_> = snapshot.partitions.iter().map(|one| one.balanced).collect();
    assert_eq!(balanced, [false, true, false]);
}

#[tokio::test]
async fn a_fleet_of_one_partition_lists_none() {
    let server = server();
    let partitions = seeder::begin(&server.url(), 1).await;
    seeder::end_all(&partitions.all()[0], 3, 1).await;
    let inspector = inspect(&server.url()).await;
    let snapshot = inspector.snapshot().await.unwrap();
    assert_eq!((snapshot.published, snapshot.errors), (3, 1));
    let json = serde_json::to_value(&snapshot).unwrap();
    assert_eq!(json.get("partitions"), None);
    assert_eq!(json["newest"][0].get("partition"), None);
    let page = inspector
        .failed_messages(baton::inspect::FailedCursor::NEWEST, 9)
        .await
        .unwrap();
    assert_eq!(page.messages[0].message.partition, None);
    assert!(!page.messages[0].id.to_string().contains('.'));
}

#[tokio::test]
async fn a_pause_stops_all_partitions_and_a_resume_lets_all_go_on() {
    let server = server();
    let partitions = at_work(&server.url()).await;
    let inspector = inspect(&server.url()).await;
    let before = inspector.pause(&Part::ALL).await.unwrap();
    assert_eq!(before, baton::inspect::Paused::default());
    let paused = async || {
        let mut paused = Vec::new();
        for store in partitions.all() {
            let census = store.census().await.unwrap();
            paused.push(Part::ALL.map(|part| census.paused.since_ms(part).is_some()));
        }
        paused
    };
    assert_eq!(paused().await, [[true, true]; 3]);
    let snapshot = inspector.snapshot().await.unwrap();
    assert!(snapshot.paused.generator_since_ms.is_some());

    let _ = partitions.all()[1].resume(&[Part::Workers]).await.unwrap();
    // What is paused in one partition is paused; what was paused in all of them had been paused.
    let snapshot = inspector.snapshot().await.unwrap();
    assert!(snapshot.paused.workers_since_ms.is_some());
    let before = inspector.pause(&Part::ALL).await.unwrap();
    assert!(before.generator_since_ms.is_some() && before.workers_since_ms.is_none());
    assert_eq!(paused().await, [[true, true]; 3]);

    let before = inspector.resume(&[Part::Generator]).await.unwrap();
    assert!(before.generator_since_ms.is_some());
    assert_eq!(paused().await, [[false, true]; 3]);
}

#[tokio::test]
async fn an_audit_covers_all_partitions_and_names_the_one_with_a_finding() {
    let server = server();
    let partitions = seeder::begin(&server.url(), 3).await;
    for (p, store) in (0..).zip(partitions.all()) {
        seeder::end_all(store, 4 + p, p).await;
    }
    let inspector = inspect(&server.url()).await;
    let audit = inspector.audit().await.unwrap();
    let counts = (audit.published, audit.done, audit.failed, audit.lost);
    assert_eq!(counts, (15, 12, 3, 0));
    assert_eq!(audit.findings, []);

    let mut redis = redis::Client::open(server.url()).unwrap();
    let mut command = redis::cmd("HINCRBY");
    let stats = &partitions.all()[1].keys().stats;
    command
        .arg(stats)
        .arg("retried")
        .arg(1)
        .exec(&mut redis)
        .unwrap();
    let audit = inspector.audit().await.unwrap();
    let findings: Vec<_> = audit.findings.iter().map(ToString::to_string).collect();
    assert_eq!(
        findings,
        ["partition 1: retried is counted as 1, the ledger has 0"]
    );
}

#[tokio::test]
async fn a_fleet_without_ledgers_cannot_be_audited() {
    let server = server();
    let partitions = seeder::begin(&server.url(), 3).await;
    seeder::end_all(&partitions.all()[2], 3, 0).await;
    let mut redis = redis::Client::open(server.url()).unwrap();
    let mut command = redis::cmd("DEL");
    let ledger = &partitions.all()[2].keys().ledger;
    command.arg(ledger).exec(&mut redis).unwrap();
    let audit = inspect(&server.url()).await.audit().await;
    assert!(matches!(audit, Err(Error::NoLedger)), "{audit:?}");
}

#[tokio::test]
async fn a_watch_that_began_before_its_fleet_learns_how_many_partitions_there_are() {
    let server = server();
    let target = Target::parse(&server.url()).unwrap();
    let every = Duration::from_millis(20);
    let watch = Watch::start(target, seeder::name(), every, Limits::default());
    let mut views = watch.views();
    let mut until = async |partitions: usize| {
        let read = async {
            while let Some(view) = views.next().await {
                let snapshot = view.snapshot.as_ref().filter(|_| view.trouble.is_none());
                if snapshot.is_some_and(|snapshot| snapshot.partitions.len() == partitions) {
                    return;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(10), read)
            .await
            .unwrap();
    };
    until(0).await;
    let _partitions = seeder::begin(&server.url(), 3).await;
    until(3).await;
}
