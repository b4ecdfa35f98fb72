//! The snapshot: the whole fleet, read in one atomic step.

use baton::inspect::{NodeRole, TakeoverCause};
use baton::{Error, Inspector};
use baton_protocol::{BeatCall, Commit, Failure, Seal, Settle, Settled};

use crate::support::{Fleet, LONG, beat, beat_call, failed, publish, settle_all, start};

#[tokio::test]
async fn a_snapshot_of_an_empty_server_is_empty_and_balanced() {
    let fleet = Fleet::new().await;
    let snapshot = Inspector::over(fleet.node("a").await)
        .snapshot()
        .await
        .unwrap();
    assert_eq!(snapshot.fleet, fleet.name.as_str());
    assert!(snapshot.nodes.is_empty() && snapshot.generator.node.is_none());
    assert!(snapshot.takeovers.is_empty() && snapshot.newest.is_empty());
    assert!(snapshot.balanced && snapshot.counted && snapshot.now_ms > 0);
}

#[tokio::test]
async fn a_snapshot_has_nodes_messages_takeovers_and_failures() {
    let fleet = Fleet::new().await;
    let (g, w) = (fleet.node("g").await, fleet.lane("w").await);
    let about = r#"{"host":"h","pid":7,"version":"1.2.3","published":6}"#;
    let _ = g
        .beat(BeatCall {
            about,
            ..beat_call(LONG, 0)
        })
        .await
        .unwrap();
    assert!(matches!(g.seal(1).await.unwrap(), Seal::Sealed { .. }));
    assert!(publish(&g, 1, 6).await.is_written());
    let _ = beat(&w.store).await;
    let dead = fleet.node("dead").await;
    let _ = beat(&dead).await;
    drop(dead);
    fleet.wait_absent("dead").await;
    let _ = w.take(1, 3).await;
    let records = [failed(1, "m1"), failed(2, "m2")];
    let commit = w.commit_failed(1, 1..=3, &records).await;
    assert_eq!(commit, Commit::Done);
    let again = [Failure::short(1, records[0].clone())];
    let retried = settle_all(&g, Settle::Retry, &again).await.unwrap();
    assert_eq!(retried, [Settled::Retried]);
    let _ = w.take(2, 2).await;

    let it = Inspector::over(w.store.clone()).snapshot().await.unwrap();
    let lease = g.roster().await.unwrap().lease;
    assert_eq!(it.generator.node.as_deref(), Some("g"));
    assert_eq!(it.generator.epoch, 1);
    assert_eq!(it.generator.since_ms, Some(lease.since_ms));
    assert_eq!(it.generator.until_ms, lease.until_ms);
    let nodes: Vec<_> = it
        .nodes
        .iter()
        .map(|node| (node.node.as_str(), node.role, node.claimed))
        .collect();
    assert_eq!(
        nodes,
        [
            ("dead", NodeRole::Dead, 0),
            ("g", NodeRole::Generator, 0),
            ("w", NodeRole::Worker, 2)
        ]
    );
    let g = &it.nodes[1];
    assert_eq!((g.host.as_str(), g.pid, g.published), ("h", 7, 6));
    assert_eq!(g.version, "1.2.3");
    assert!(it.nodes.iter().all(|node| node.joined_ms > 0));
    assert!(it.nodes.iter().all(|node| node.seen_ms <= it.now_ms));
    let books = [it.published, it.retried, it.done, it.failed];
    assert_eq!(books, [6, 1, 1, 2]);
    assert_eq!((it.pending, it.claimed, it.errors), (2, 2, 1));
    assert!(it.balanced && it.counted);
    assert_eq!(it.takeovers.len(), 1);
    assert_eq!(it.takeovers[0].how, TakeoverCause::First);
    assert_eq!(it.newest.len(), 1);
    let newest = &it.newest[0];
    assert_eq!((newest.seq, newest.at_ms, newest.attempt), (2, 5, 1));
    assert_eq!((newest.node.as_str(), newest.reason.as_str()), ("w", "bad"));
    assert_eq!((newest.text.as_str(), newest.cut), ("m2", false));
    assert!(!it.server.version.is_empty());
}

#[tokio::test]
async fn a_snapshot_has_the_beginning_of_the_newest_failures_newest_first() {
    let fleet = Fleet::new().await;
    let store = fleet.node("a").await;
    let mut records: Vec<Vec<u8>> = (1..30).map(|seq| failed(seq, format!("m{seq}"))).collect();
    records.extend([failed(30, vec![b'x'; 5000]), b"garbage".to_vec()]);
    fleet.fail(&records).await;
    let snapshot = Inspector::over(store.clone()).snapshot().await.unwrap();
    assert_eq!(snapshot.errors, 31);
    let numbers: Vec<u64> = snapshot.newest.iter().map(|failed| failed.seq).collect();
    let expected: Vec<u64> = [0].into_iter().chain((12..=30).rev()).collect();
    assert_eq!(numbers, expected);
    assert_eq!(snapshot.newest[0].text, "garbage");
    let long = &snapshot.newest[1];
    assert!(long.cut && (1900..2048).contains(&long.text.len()));
    assert_eq!(long.reason, "bad");
    assert!(!snapshot.newest[2].cut);
}

#[tokio::test]
async fn a_server_that_lost_the_scripts_is_sent_them_again() {
    let fleet = Fleet::new().await;
    let (g, _w) = fleet.with_messages(3).await;
    for _ in 0..2 {
        fleet.write(&["SCRIPT", "FLUSH"]).await;
        assert_eq!(
            Inspector::over(g.clone()).snapshot().await.unwrap().pending,
            3
        );
        assert_eq!(
            Inspector::over(g.clone()).snapshot().await.unwrap().pending,
            3
        );
    }
}

#[tokio::test]
async fn a_fleet_of_another_protocol_is_not_read() {
    let fleet = Fleet::new().await;
    let (g, _w) = fleet.with_messages(3).await;
    fleet
        .write(&["HSET", &fleet.keys.meta, "protocol", "0"])
        .await;
    let error = Inspector::over(g.clone()).snapshot().await.unwrap_err();
    assert!(
        matches!(&error, Error::Protocol { theirs, .. } if theirs == "0"),
        "{error:?}"
    );
}

#[tokio::test]
async fn reading_a_snapshot_changes_nothing() {
    let fleet = Fleet::new().await;
    let (g, w) = fleet.with_messages(3).await;
    let _ = beat(&g).await;
    let _ = w.take(1, 2).await;
    let before = fleet.dump().await;
    let _ = Inspector::over(w.store.clone()).snapshot().await.unwrap();
    assert_eq!(fleet.dump().await, before);
}

/// How often the server ran a command.
async fn runs(fleet: &Fleet, command: &str) -> u64 {
    let stats: String = fleet.raw(&["INFO", "commandstats"]).await;
    let head = format!("cmdstat_{command}:calls=");
    let line = stats.lines().find_map(|line| line.strip_prefix(&head));
    let calls = line.and_then(|line| line.split(',').next());
    calls.map_or(0, |calls| calls.parse().unwrap())
}

#[tokio::test]
async fn all_of_a_snapshot_is_read_in_one_transaction() {
    // Only this test's commands are counted.
    let server = start();
    let fleet = Fleet::on(&server.url()).await;
    let node = fleet.node("a").await;
    // The first snapshot sends the script.
    let _ = Inspector::over(node.clone()).snapshot().await.unwrap();
    fleet.write(&["CONFIG", "RESETSTAT"]).await;
    let _ = Inspector::over(node.clone()).snapshot().await.unwrap();
    for (command, times) in [("multi", 1), ("exec", 1), ("hgetall", 2), ("time", 2)] {
        assert_eq!(runs(&fleet, command).await, times, "{command}");
    }
}
