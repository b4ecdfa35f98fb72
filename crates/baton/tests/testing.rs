//! How a user tests a handler: a fleet of their own on a private server.
//! `cargo test -p baton-fleet --features testing --test testing`

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use baton::inspect::{NodeRole, Snapshot};
use baton::testing::{Result, TestFleet};
use baton::{Effects, Json, OwnedMessage, Rejected, Source, blocking, handler, interval};
use redis::Commands;

/// An amount per message, and now and then a text that is no amount.
fn amounts() -> impl Source {
    interval(Duration::from_millis(1), |seq, text| {
        let amount = if seq.is_multiple_of(100) {
            "much".to_owned()
        } else {
            seq.to_string()
        };
        text.extend_from_slice(amount.as_bytes());
    })
}

fn start(nodes: usize, messages: u64) -> Result<TestFleet> {
    TestFleet::start(
        nodes,
        |settings| settings.messages(messages),
        || {
            let sum = handler(|Json(amount): Json<i64>| async move {
                let mut effects = Effects::default();
                effects.incr_by("total", amount);
                Ok(effects)
            });
            (amounts(), sum)
        },
    )
}

fn redis(fleet: &TestFleet) -> redis::Connection {
    let client = redis::Client::open(fleet.url()).unwrap();
    client.get_connection().unwrap()
}

#[tokio::test]
async fn the_total_is_exact_though_the_generator_is_killed() -> Result<()> {
    let mut fleet = start(3, 1000)?;
    for _ in 0..2 {
        let generator = fleet.generator().await?;
        fleet.kill(generator);
        fleet.start_node()?;
    }
    let snapshot = fleet.all_ended(1000).await?;
    assert_eq!((snapshot.done, snapshot.failed), (990, 10));
    let errors = fleet.errors().await?;
    let words = "not the JSON that the handler takes: expected value at line 1 column 1";
    assert!(
        errors
            .iter()
            .all(|failed| failed.text == b"much" && failed.reason == words)
    );
    assert_eq!(errors.len(), 10);
    let total: u64 = redis(&fleet).get("total")?;
    assert_eq!(total, (1..=1000).filter(|seq| seq % 100 != 0).sum::<u64>());
    Ok(())
}

#[tokio::test]
async fn a_node_that_is_stopped_leaves_and_one_that_is_killed_does_not() -> Result<()> {
    let mut fleet = start(3, 10)?;
    fleet.all_ended(10).await?;
    let all = |at: &Snapshot| at.nodes.len() == 3;
    fleet.wait_for("three nodes", all).await?;
    fleet.stop(0)?;
    fleet.kill(1);
    let dead = |at: &Snapshot| {
        at.nodes
            .iter()
            .filter(|node| node.role == NodeRole::Dead)
            .count()
    };
    let snapshot = fleet.wait_for("a dead node", |at| dead(at) == 1).await?;
    assert_eq!(snapshot.nodes.len(), 2, "{snapshot:?}");
    Ok(())
}

#[tokio::test]
async fn a_condition_that_does_not_come_true_is_an_error_with_the_snapshot() -> Result<()> {
    let mut fleet = start(1, 10)?;
    fleet.set_timeout(Duration::from_millis(300));
    let error = fleet.all_ended(10).await.unwrap_err().to_string();
    assert!(
        error.starts_with("300ms without the end of 10 messages: Snapshot {"),
        "{error}"
    );
    Ok(())
}

#[tokio::test]
async fn settings_that_cannot_work_are_an_error() {
    let parts = || (amounts(), handler(|_: OwnedMessage| async { Ok(()) }));
    let fleet = TestFleet::start(1, |settings| settings.concurrency(0), parts);
    assert!(
        fleet
            .unwrap_err()
            .to_string()
            .starts_with("the concurrency must lie between")
    );
}

#[tokio::test]
async fn a_fleet_that_is_dropped_leaves_no_server_behind() -> Result<()> {
    let fleet = start(2, 10)?;
    let url = fleet.url();
    drop(fleet);
    assert!(redis::Client::open(url)?.get_connection().is_err());
    Ok(())
}

#[tokio::test]
async fn a_blocking_closure_of_many_lanes_works_on_a_node_with_one_thread() -> Result<()> {
    let mut fleet = TestFleet::start(
        2,
        |settings| settings.messages(200).concurrency(20),
        || {
            let waits = blocking(|message: OwnedMessage| {
                std::thread::sleep(Duration::from_millis(20));
                match message.seq.is_multiple_of(50) {
                    true => Err(Rejected::new("a round number").into()),
                    false => Ok(()),
                }
            });
            (amounts(), waits)
        },
    )?;
    let snapshot = fleet.all_ended(200).await?;
    assert_eq!(
        (snapshot.done, snapshot.failed, snapshot.generator.epoch),
        (196, 4, 1)
    );
    Ok(())
}
