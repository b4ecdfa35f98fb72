//! A server that lost its scripts is sent them again, at any call.

use baton::Inspector;
use baton_protocol::{
    Beat, Commit, ErrorsClaim, ErrorsCommit, Extend, Failure, GiveBack, Part, Publish, Seal,
    Settle, Settled,
};

use crate::support::{Fleet, beat, failed, publish, settle_all};

#[tokio::test]
async fn every_call_works_after_the_scripts_were_flushed() {
    let fleet = Fleet::new().await;
    let (g, w) = (fleet.node("g").await, fleet.lane("w").await);
    let flush = async || {
        fleet.write(&["SCRIPT", "FLUSH"]).await;
    };
    flush().await;
    g.preflight(false).await.unwrap();
    flush().await;
    assert!(matches!(beat(&g).await, Beat::Generator { epoch: 1, .. }));
    flush().await;
    assert!(matches!(g.seal(1).await.unwrap(), Seal::Sealed { .. }));
    flush().await;
    assert!(publish(&g, 1, 5).await.is_written());
    flush().await;
    assert_eq!(publish(&g, 1, 5).await, Publish::Already { last: 5 });
    flush().await;
    assert!(g.void(1, 6, 7, false).await.unwrap().is_written());
    flush().await;
    let _ = g.pause(&Part::ALL).await.unwrap();
    flush().await;
    let _ = g.resume(&Part::ALL).await.unwrap();
    flush().await;
    assert_eq!(w.take(1, 3).await, "m1 m2 m3");
    flush().await;
    assert_eq!(w.extend(1).await, Extend::Held);
    flush().await;
    let records = [failed(1, "m1")];
    let commit = w.commit_failed(1, 1..=2, &records);
    assert_eq!(commit.await, Commit::Done);
    flush().await;
    assert_eq!(w.commit(1, 1..=2).await, Commit::Already);
    flush().await;
    assert_eq!(w.give_back(1).await, GiveBack::Ok);
    flush().await;
    assert_eq!(w.take_and_stall(2, 9).await, "m3");
    flush().await;
    assert_eq!(g.reclaim().await.unwrap().messages, 1);
    flush().await;
    assert_eq!(w.drain(3, 9, 9999).await, ErrorsClaim::Claimed(vec![1]));
    flush().await;
    let drained = w.store.errors_commit(&w.slot, 3, 0).await.unwrap();
    assert_eq!(drained, ErrorsCommit::Done);
    flush().await;
    let seen = [Failure::short(1, records[0].clone())];
    let dropped = settle_all(&g, Settle::Drop, &seen).await.unwrap();
    assert_eq!(dropped, [Settled::Dropped]);
    flush().await;
    assert!(
        Inspector::over(g.clone())
            .snapshot()
            .await
            .unwrap()
            .balanced
    );
    flush().await;
    assert!(g.census().await.unwrap().balanced());
    flush().await;
    assert_eq!(g.roster().await.unwrap().nodes.len(), 1);
    flush().await;
    assert_eq!(g.forget().await.unwrap(), Vec::<String>::new());
    flush().await;
    assert!(g.leave().await.unwrap());
    assert_eq!(
        fleet.dump().await,
        [
            "errors_ids: {free=2, last=1}",
            "fence: {cursor=10, epoch=1, last=7, node=g}",
            "generator: {epoch=1, since=TIME}",
            "left: {1=3}",
            "meta: {partitions=1, protocol=1}",
            "packs: {1=[m1 m2 m3 m4 m5]}",
            "queue: [1 5 3 3 1, 1 5 4 5 0]",
            "stats: {done=1, dropped=1, failed=1, void=2}",
            "takeovers: [1 g TIME GAP first ]",
            "workers: {w:0=3 0 0 TIME}",
        ]
    );
}
