//! Failed messages through an inspector: an id stands for one record, to the byte.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use baton::inspect::{ErrorsCommit, FailedCursor, FailedId};
use baton::{Error, FleetName, Inspector, Setting, Target};
use baton_server::PrivateServer;
use redis::Commands;

const ERRORS: &str = "baton:{failed:0}:errors";
const ERRORS_IDS: &str = "baton:{failed:0}:errors_ids";
const TTL: Duration = Duration::from_secs(30);

/// A fleet whose errors store has one record, the client of that fleet, and the record's id.
async fn one_failed_message(server: &PrivateServer) -> (Inspector, FailedId) {
    let mut redis = connect(server);
    let _: () = redis.hset(ERRORS, 1, "old bytes").unwrap();
    let _: () = redis.hset(ERRORS_IDS, "last", 1).unwrap();
    let target = Target::parse(&server.url()).unwrap();
    let fleet = FleetName::new("failed").unwrap();
    let inspector = Inspector::connect(&target, &fleet).await.unwrap();
    let page = inspector
        .failed_messages(FailedCursor::NEWEST, 10)
        .await
        .unwrap();
    assert_eq!((page.messages.len(), page.next), (1, None));
    (inspector, page.messages[0].id)
}

fn connect(server: &PrivateServer) -> redis::Connection {
    let client = redis::Client::open(server.url()).unwrap();
    client.get_connection().unwrap()
}

#[tokio::test]
async fn a_record_that_changed_is_neither_read_nor_settled_nor_taken() {
    let server = PrivateServer::builder().start().unwrap();
    let (inspector, id) = one_failed_message(&server).await;
    // A server that lost its data gives the same number to another record.
    let mut redis = connect(&server);
    let _: () = redis.hset(ERRORS, 1, "new bytes").unwrap();

    assert_eq!(inspector.failed_message(id).await.unwrap(), None);
    for settlement in [inspector.drop(&[id]).await, inspector.retry(&[id]).await] {
        assert!(settlement.error.is_none(), "{settlement:?}");
        let (dropped, retried) = (settlement.dropped, settlement.retried);
        assert_eq!((dropped, retried, settlement.missing), (0, 0, 1));
    }
    assert_eq!(inspector.take(&[id], TTL).await.unwrap().count(), 0);

    assert_eq!(inspector.claimed_count().await.unwrap(), 0);
    assert_eq!(redis.hget::<_, _, String>(ERRORS, 1).unwrap(), "new bytes");
}

#[tokio::test]
async fn an_id_that_was_handed_out_as_text_finds_its_message() {
    let server = PrivateServer::builder().start().unwrap();
    let (inspector, id) = one_failed_message(&server).await;
    let id: FailedId = id.to_string().parse().unwrap();
    let failed = inspector.failed_message(id).await.unwrap().unwrap();
    assert_eq!((failed.id, failed.message.text), (id, b"old bytes".into()));
    let settlement = inspector.drop(&[id]).await;
    assert_eq!((settlement.dropped, settlement.missing), (1, 0));
    assert_eq!(inspector.failed_count().await.unwrap(), 0);
}

#[tokio::test]
async fn an_inspector_drains_as_often_as_it_likes_and_batch_after_batch() {
    let server = PrivateServer::builder().start().unwrap();
    let (inspector, _) = one_failed_message(&server).await;
    let mut first = inspector.drain(TTL).await.unwrap();
    assert_eq!(first.next().await.unwrap().len(), 1);
    let early = first.next().await;
    assert!(matches!(early, Err(Error::Refused(_))), "{early:?}");
    assert_eq!(first.commit(0).await.unwrap(), ErrorsCommit::Done);
    assert_eq!(first.next().await.unwrap().len(), 1, "it was given back");
    assert_eq!(first.commit(1).await.unwrap(), ErrorsCommit::Done);
    assert_eq!(first.next().await.unwrap().len(), 0);

    let mut redis = connect(&server);
    let _: () = redis.hset(ERRORS, 2, "later").unwrap();
    let _: () = redis.hset(ERRORS_IDS, "last", 2).unwrap();
    let mut second = inspector.drain(TTL).await.unwrap();
    assert_eq!(second.next().await.unwrap().len(), 1);
    assert_eq!(second.commit(1).await.unwrap(), ErrorsCommit::Done);
    assert_eq!(inspector.failed_count().await.unwrap(), 0);
}

#[tokio::test]
async fn a_claim_needs_presence_and_a_time_to_live_that_redis_believes() {
    let server = PrivateServer::builder().start().unwrap();
    let (inspector, id) = one_failed_message(&server).await;
    for ttl in [Duration::ZERO, Duration::from_secs(24 * 3600)] {
        let take = inspector.take(&[id], ttl).await.map(drop);
        let drain = inspector.drain(ttl).await.map(drop);
        for refused in [take, drain] {
            let is_ttl = matches!(
                refused,
                Err(Error::Setting {
                    setting: Setting::ClaimTtl,
                    ..
                })
            );
            assert!(is_ttl, "{ttl:?}: {refused:?}");
        }
    }
    let target = Target::parse(&server.url()).unwrap();
    let fleet = FleetName::new("failed").unwrap();
    let reader = Inspector::connect_read_only(&target, &fleet).await.unwrap();
    for refused in [
        reader.take(&[id], TTL).await.map(drop),
        reader.drain(TTL).await.map(drop),
    ] {
        assert!(matches!(refused, Err(Error::ReadOnlyClient)), "{refused:?}");
    }
    assert_eq!(inspector.claimed_count().await.unwrap(), 0);
}

#[tokio::test]
async fn a_fleet_without_a_ledger_has_nothing_to_audit() {
    let server = PrivateServer::builder().start().unwrap();
    let (inspector, _) = one_failed_message(&server).await;
    let mut redis = connect(&server);
    let _: () = redis.hset("baton:{failed:0}:fence", "last", 7).unwrap();
    let audit = inspector.audit().await;
    assert!(matches!(audit, Err(Error::NoLedger)), "{audit:?}");
}
