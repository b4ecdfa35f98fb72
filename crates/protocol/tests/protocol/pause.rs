//! pause: a paused generator publishes nothing, paused workers claim nothing, and all else goes on.

use baton_protocol::{
    Claim, Commit, GiveBack, Part, Publish, PublishCall, Seal, Settle, Settled, Store,
};

use crate::support::{
    Fleet, Lane, commit_call, failed, pack, pack_of, publish, publish_call, settle_all,
};

const GENERATOR: &[Part] = &[Part::Generator];
const WORKERS: &[Part] = &[Part::Workers];

/// Publishes a cursor alone, behind message `last`.
async fn publish_cursor(generator: &Store, last: u64, cursor: &[u8]) -> Publish {
    let call = PublishCall {
        cursor,
        ..publish_call(last + 1, 0, b"")
    };
    generator.publish(call).await.unwrap()
}

/// Which parts were paused before a call, such as `generator workers`.
fn words(paused: baton_protocol::Paused) -> String {
    let parts = Part::ALL.into_iter();
    let parts = parts.filter(|part| paused.since_ms(*part).is_some());
    parts.map(Part::as_str).collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn a_pause_is_a_field_of_the_fence_and_a_resume_removes_it() {
    let fleet = Fleet::new().await;
    let g = fleet.generator().await;
    assert_eq!(words(g.pause(&Part::ALL).await.unwrap()), "");
    assert_eq!(
        fleet.dump().await,
        ["fence: {epoch=1, generator_paused=TIME, node=g, workers_paused=TIME}"]
    );
    assert_eq!(
        words(g.resume(GENERATOR).await.unwrap()),
        "generator workers"
    );
    assert_eq!(
        fleet.dump().await,
        ["fence: {epoch=1, node=g, workers_paused=TIME}"]
    );
    assert_eq!(words(g.resume(&Part::ALL).await.unwrap()), "workers");
    assert_eq!(words(g.resume(&Part::ALL).await.unwrap()), "");
    assert_eq!(fleet.dump().await, ["fence: {epoch=1, node=g}"]);
}

#[tokio::test]
async fn a_second_pause_leaves_the_time_of_the_first() {
    let fleet = Fleet::new().await;
    let g = fleet.generator().await;
    let fence = &fleet.keys.fence;
    fleet
        .write(&["HSET", fence, "generator_paused", "1234"])
        .await;
    let before = g.pause(&Part::ALL).await.unwrap();
    assert_eq!(before.generator_since_ms, Some(1234));
    assert_eq!(before.workers_since_ms, None);
    assert_eq!(
        fleet.dump().await,
        ["fence: {epoch=1, generator_paused=1234, node=g, workers_paused=TIME}"]
    );
    let census = g.census().await.unwrap();
    assert_eq!(census.paused.generator_since_ms, Some(1234));
    let since = census.paused.workers_since_ms.unwrap();
    assert!(since > 1234 && since <= census.now_ms, "{census:?}");
}

#[tokio::test]
async fn a_paused_generator_publishes_neither_messages_nor_a_cursor() {
    let fleet = Fleet::new().await;
    let g = fleet.generator().await;
    assert!(publish(&g, 1, 2).await.is_written());
    let _ = g.pause(GENERATOR).await.unwrap();
    let before = fleet.dump().await;
    let large = pack_of(&[vec![b'x'; 9000]]);
    assert_eq!(publish(&g, 3, 1).await, Publish::Paused);
    assert_eq!(publish_cursor(&g, 2, b"later").await, Publish::Paused);
    assert_eq!(fleet.dump().await, before);
    // What the fleet has is confirmed, and a hole is named.
    assert_eq!(publish(&g, 1, 2).await, Publish::Already { last: 2 });
    assert_eq!(publish(&g, 4, 1).await, Publish::Gap { last: 2 });
    // A large pack stays staged, and needs not be sent again.
    let call = publish_call(3, 1, &large);
    assert_eq!(g.publish(call).await.unwrap(), Publish::Paused);
    let _ = g.resume(GENERATOR).await.unwrap();
    let again = PublishCall {
        is_staged: true,
        ..call
    };
    assert!(g.publish(again).await.unwrap().is_written());
    assert!(publish_cursor(&g, 3, b"later").await.is_written());
    assert_eq!(
        fleet.dump().await,
        [
            "fence: {cursor=later, epoch=1, last=3, node=g}",
            "packs: {1=[m1 m2], 3=[<9000 bytes>]}",
            "queue: [1 2 1 2 0, 3 1 3 3 0]",
        ]
    );
}

#[tokio::test]
async fn a_pause_outlives_the_generator_and_does_not_hide_a_full_queue_or_a_fence() {
    let fleet = Fleet::new().await;
    let (g, b) = (fleet.generator().await, fleet.node("b").await);
    let _ = g.pause(GENERATOR).await.unwrap();
    assert!(matches!(b.seal(2).await.unwrap(), Seal::Sealed { .. }));
    assert!(matches!(publish(&g, 1, 1).await, Publish::Fenced { .. }));
    let pack = pack(1, 1);
    let call = PublishCall {
        epoch: 2,
        max_pending: 0,
        ..publish_call(1, 1, &pack)
    };
    assert_eq!(b.publish(call).await.unwrap(), Publish::Paused);
    let _ = b.resume(GENERATOR).await.unwrap();
    assert_eq!(b.publish(call).await.unwrap(), Publish::Full { open: 0 });
}

#[tokio::test]
async fn paused_workers_claim_nothing_and_their_node_is_idle() {
    let fleet = Fleet::new().await;
    let g = fleet.generator_of(2).await;
    let mut w = fleet.listener("w").await;
    let _ = g.pause(WORKERS).await.unwrap();
    assert_eq!(w.lane.claim(1, 2).await, Claim::Paused);
    let waits = [
        "fence: {cursor=10, epoch=1, last=2, node=g, workers_paused=TIME}",
        "idle: {w@RUN=TIME wants 2}",
        "packs: {1=[m1 m2]}",
        "queue: [1 2 1 2 0]",
    ];
    assert_eq!(fleet.dump().await, waits);
    // The generator's own lanes do not sleep, and a lane that holds another claim does not either.
    assert_eq!(Lane::new(g.clone()).claim(1, 2).await, Claim::Paused);
    let x = fleet.lane("x").await;
    assert_eq!(x.claim_beside(1, 2).await, Claim::Paused);
    assert_eq!(fleet.dump().await, waits);

    let _ = g.resume(WORKERS).await.unwrap();
    assert_eq!(fleet.only("idle").await, [""; 0]);
    assert_eq!(w.heard(&fleet).await.len(), 1, "rung");
    assert_eq!(w.lane.take(1, 2).await, "m1 m2");
}

#[tokio::test]
async fn a_resume_rings_only_for_messages_and_only_if_workers_may_have_them() {
    let fleet = Fleet::new().await;
    let (g, mut w) = (fleet.generator().await, fleet.listener("w").await);
    let mut rings = async || w.heard(&fleet).await.len();
    let _ = g.pause(&Part::ALL).await.unwrap();
    fleet.make_idle(&["dead", "w"]).await;
    let _ = g.resume(&Part::ALL).await.unwrap();
    assert_eq!(rings().await, 0, "nothing waits");
    let _ = g.pause(WORKERS).await.unwrap();
    fleet
        .write(&["RPUSH", &fleet.keys.queue, "1 1 1 1 0"])
        .await;
    let _ = g.resume(GENERATOR).await.unwrap();
    assert_eq!(rings().await, 0, "the workers are paused");
    let _ = g.pause(WORKERS).await.unwrap();
    assert_eq!(rings().await, 0, "a pause rings for no node");
    let _ = g.resume(WORKERS).await.unwrap();
    assert_eq!(rings().await, 1);
    assert_eq!(fleet.only("idle").await, [""; 0]);
}

#[tokio::test]
async fn while_the_workers_are_paused_no_message_leaves_the_queue_not_even_a_foreign_one() {
    let fleet = Fleet::new().await;
    let (g, w) = fleet.with_messages(1).await;
    fleet.write(&["LPUSH", &fleet.keys.queue, "garbage"]).await;
    let _ = g.pause(WORKERS).await.unwrap();
    let before = fleet.dump().await;
    assert_eq!(w.claim(1, 1).await, Claim::Paused);
    assert_eq!(fleet.dump().await.without("idle:"), before);
}

#[tokio::test]
async fn what_was_claimed_before_the_pause_is_extended_committed_given_back_and_reclaimed() {
    let fleet = Fleet::new().await;
    let (g, w) = fleet.with_messages(6).await;
    assert_eq!(w.take(1, 2).await, "m1 m2");
    let stalled = w.sibling(1);
    assert_eq!(stalled.take_and_stall(1, 1).await, "m3");
    let _ = g.pause(&Part::ALL).await.unwrap();
    assert_eq!(w.take(1, 2).await, "m1 m2", "a repeated call");
    assert_eq!(w.extend(1).await, baton_protocol::Extend::Held);
    let records = [failed(1, "m1")];
    let outcomes = commit_call(1..=1, &records);
    assert_eq!(w.commit_outcomes(1, outcomes).await, Commit::Done);
    assert_eq!(w.give_back(1).await, GiveBack::Ok);
    assert_eq!(g.reclaim().await.unwrap().messages, 1);
    let failures = w.failures().await;
    let retried = settle_all(&g, Settle::Retry, &failures).await.unwrap();
    assert_eq!(retried, [Settled::Retried]);
    assert_eq!(w.claim(2, 9).await, Claim::Paused);
    let census = g.census().await.unwrap();
    assert!(census.balanced(), "{census:?}");
    assert_eq!((census.pending, census.claimed), (6, 0));
}

#[tokio::test]
async fn a_value_that_no_operator_wrote_pauses_and_a_resume_removes_it() {
    let fleet = Fleet::new().await;
    let (g, w) = fleet.with_messages(1).await;
    let fence = &fleet.keys.fence;
    for bad in ["", "soon", "-1", "99999999999999999999"] {
        for field in ["generator_paused", "workers_paused"] {
            fleet.write(&["HSET", fence, field, bad]).await;
        }
        assert_eq!(publish(&g, 2, 1).await, Publish::Paused, "{bad:?}");
        assert_eq!(w.claim(1, 1).await, Claim::Paused, "{bad:?}");
        // Views say so, and nodes go on.
        let census = g.census().await.unwrap();
        assert_eq!(words(census.paused), "generator workers", "{bad:?}");
        // A pause replaces it by its own time.
        let before = g.pause(WORKERS).await.unwrap();
        assert_eq!(words(before), "generator workers", "{bad:?}");
        let since: u64 = fleet.raw(&["HGET", fence, "workers_paused"]).await;
        assert!(since > 1_000_000_000_000, "{since}");
        assert_eq!(
            words(g.resume(&Part::ALL).await.unwrap()),
            "generator workers"
        );
    }
    assert!(publish(&g, 2, 1).await.is_written());
    assert_eq!(w.take(1, 1).await, "m1");
}
