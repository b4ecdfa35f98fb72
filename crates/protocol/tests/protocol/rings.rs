//! Rings: messages that come wake the node that is idle longest, and no node sleeps through its messages.

use std::time::Duration;

use baton_protocol::{Claim, ClaimCall, Commit, CommitCall, GiveBack, Seal, Settle, Settled};

use crate::delayed::{delay, wake};
use crate::support::{
    Fleet, LONG, Lane, Listener, commit_call, eventually, failed, publish, settle_all, start,
};

/// Which nodes are idle, the one that is idle longest first; and which of these listeners were rung since
/// the last call. A listener that got messages at once is an error.
async fn waking<const N: usize>(fleet: &Fleet, listeners: [&mut Listener; N]) -> String {
    let idle: Vec<String> = fleet.raw(&["ZRANGE", &fleet.keys.idle, "0", "-1"]).await;
    let end = format!("@{}", fleet.run_id().await);
    let idle: Vec<&str> = idle.iter().map(|it| it.trim_end_matches(&end)).collect();
    let mut rung = Vec::new();
    for listener in listeners {
        for ring in listener.heard(fleet).await {
            assert_eq!((ring.partition, ring.handed), (0, None));
            rung.push(listener.lane.store.node().to_owned());
        }
    }
    format!("idle [{}] rung [{}]", idle.join(" "), rung.join(" "))
}

fn call(lane: &Lane, number: u64, want: u64) -> ClaimCall<'_> {
    ClaimCall {
        slot: &lane.slot,
        number,
        want,
        ttl: LONG,
        alone: true,
    }
}

#[tokio::test]
async fn a_node_whose_claim_finds_nothing_is_idle_until_a_message_rings_for_it() {
    let fleet = Fleet::new().await;
    let (g, x) = (fleet.generator_of(1).await, fleet.lane("x").await);
    assert_eq!(x.take(1, 1).await, "m1");
    let mut w = fleet.listener("w").await;
    // The time and the wish of the first lane stay.
    for (lane, want) in [(w.lane.sibling(0), 3), (w.lane.sibling(1), 5)] {
        assert_eq!(lane.claim(1, want).await, Claim::Empty);
        let idle = fleet.only("idle").await;
        assert_eq!(idle, ["idle: {w@RUN=TIME wants 3}"]);
    }
    assert_eq!(waking(&fleet, [&mut w]).await, "idle [w] rung []");
    assert_eq!(x.give_back(1).await, GiveBack::Ok);
    assert_eq!(waking(&fleet, [&mut w]).await, "idle [] rung [w]");
    assert!(publish(&g, 2, 1).await.is_written());
    assert_eq!(waking(&fleet, [&mut w]).await, "idle [] rung []");
    assert_eq!(
        fleet.dump().await,
        [
            "fence: {cursor=20, epoch=1, last=2, node=g}",
            "packs: {1=[m1], 2=[m2]}",
            "queue: [1 1 1 1 0, 2 1 2 2 0]",
            "workers: {x:0=1 0 0 TIME}",
        ]
    );
}

#[tokio::test]
async fn each_pack_rings_for_the_node_that_is_idle_longest() {
    let fleet = Fleet::new().await;
    let g = fleet.generator_of(1).await;
    let (mut a, mut b) = (fleet.listener("a").await, fleet.listener("b").await);
    // However many messages their lanes want.
    fleet.add_idle("5.0009765625", &a.sleeper()).await;
    fleet.add_idle("4.9765625", &b.sleeper()).await;
    assert!(publish(&g, 2, 1).await.is_written());
    let now = waking(&fleet, [&mut a, &mut b]).await;
    assert_eq!(now, "idle [a] rung [b]");
    assert!(publish(&g, 3, 1).await.is_written());
    let now = waking(&fleet, [&mut a, &mut b]).await;
    assert_eq!(now, "idle [] rung [a]");
}

#[tokio::test]
async fn a_ring_goes_on_behind_absent_nodes_and_is_bounded() {
    let fleet = Fleet::new().await;
    let g = fleet.generator_of(1).await;
    let mut w = fleet.listener("w").await;
    fleet.make_idle(&["dead", "w"]).await;
    // The node as it was at another process of the server.
    fleet.add_idle("1.5", "w@0ddba11").await;
    assert!(publish(&g, 2, 1).await.is_written());
    assert_eq!(waking(&fleet, [&mut w]).await, "idle [] rung [w]");

    let dead = (10..30).map(|number| format!("d{number}"));
    let nodes: Vec<String> = dead.chain(["w".to_owned()]).collect();
    fleet.make_idle(&nodes).await;
    assert!(publish(&g, 3, 1).await.is_written());
    assert_eq!(
        waking(&fleet, [&mut w]).await,
        "idle [d26 d27 d28 d29 w] rung []"
    );
    assert!(publish(&g, 4, 1).await.is_written());
    assert_eq!(waking(&fleet, [&mut w]).await, "idle [] rung [w]");
}

#[tokio::test]
async fn a_claim_rings_only_if_it_leaves_messages() {
    let fleet = Fleet::new().await;
    let (_g, w) = fleet.with_messages(3).await;
    let mut x = fleet.listener("x").await;
    fleet.make_idle(&["x"]).await;
    assert_eq!(w.take(1, 2).await, "m1 m2");
    assert_eq!(waking(&fleet, [&mut x]).await, "idle [] rung [x]");
    fleet.make_idle(&["x"]).await;
    assert_eq!(w.sibling(1).take(1, 2).await, "m3");
    assert_eq!(waking(&fleet, [&mut x]).await, "idle [x] rung []");
}

#[tokio::test]
async fn messages_that_come_back_ring() {
    let fleet = Fleet::new().await;
    let (g, w) = fleet.with_messages(2).await;
    let mut x = fleet.listener("x").await;
    let mut rings = async |what: &str| {
        assert_eq!(waking(&fleet, [&mut x]).await, "idle [] rung [x]", "{what}");
        fleet.make_idle(&["x"]).await;
    };
    assert_eq!(w.take(1, 2).await, "m1 m2");
    fleet.make_idle(&["x"]).await;
    let kept = w.store.give_back_after(&w.slot, 1, 1).await.unwrap();
    assert_eq!(kept, GiveBack::Ok);
    rings("the end of a claim").await;
    assert_eq!(w.give_back(1).await, GiveBack::Ok);
    rings("a claim").await;

    assert_eq!(w.take(2, 1).await, "m1");
    rings("what the claim left").await;
    let last = w.store.give_back_last(&w.slot, 2).await.unwrap();
    assert_eq!(last, GiveBack::Ok);
    rings("to the end of the queue").await;

    assert_eq!(w.take(3, 1).await, "m2");
    rings("what the claim left").await;
    assert_eq!(w.sibling(1).take_and_stall(1, 1).await, "m1");
    assert_eq!(g.reclaim().await.unwrap().messages, 1);
    rings("reclaimed").await;

    assert_eq!(w.sibling(1).take(2, 1).await, "m1 (1)");
    let delayed = [delay(1, true, Duration::ZERO)];
    let outcomes = CommitCall {
        delayed: &delayed,
        ..commit_call(1..=1, &[])
    };
    let ended = w.sibling(1).commit_outcomes(2, outcomes).await;
    assert_eq!(ended, Commit::Done);
    let _ = wake(&w, 1).await;
    rings("due").await;

    assert_eq!(w.sibling(1).take(3, 1).await, "m1 (2)");
    let records = [failed(1, "m1")];
    let ended = w.sibling(1).commit_failed(3, 1..=1, &records).await;
    assert_eq!(ended, Commit::Done);
    let failures = w.failures().await;
    let settled = settle_all(&g, Settle::Retry, &failures).await.unwrap();
    assert_eq!(settled, [Settled::Retried]);
    rings("retried").await;
}

#[tokio::test]
async fn a_generator_is_not_idle() {
    let fleet = Fleet::new().await;
    let g = fleet.generator_of(1).await;
    let [mut w, mut x] = [fleet.listener("w").await, fleet.listener("x").await];
    let lane = Lane::new(g.clone());
    assert_eq!(lane.take(1, 1).await, "m1");
    assert_eq!(lane.sibling(1).claim(1, 1).await, Claim::Empty);
    assert_eq!(fleet.only("idle").await, [""; 0], "the generator");

    assert_eq!(w.lane.claim(1, 1).await, Claim::Empty);
    fleet.make_idle(&["x"]).await;
    let sealed = w.lane.store.seal(2).await.unwrap();
    assert!(matches!(sealed, Seal::Sealed { .. }));
    let now = waking(&fleet, [&mut w, &mut x]).await;
    assert_eq!(now, "idle [x] rung []", "no message waits");
    assert_eq!(lane.give_back(1).await, GiveBack::Ok);
    let now = waking(&fleet, [&mut w, &mut x]).await;
    assert_eq!(now, "idle [] rung [x]");
    fleet.make_idle(&["w", "x"]).await;
    let sealed = w.lane.store.seal(3).await.unwrap();
    assert!(matches!(sealed, Seal::Sealed { .. }));
    let now = waking(&fleet, [&mut w, &mut x]).await;
    assert_eq!(now, "idle [] rung [x]", "a message waits");
}

#[tokio::test]
async fn a_seal_that_is_refused_leaves_its_node_idle() {
    let fleet = Fleet::new().await;
    let _g = fleet.generator_of(1).await;
    let mut w = fleet.listener("w").await;
    fleet.make_idle(&["w"]).await;
    let refused = w.lane.store.seal(1).await.unwrap();
    assert!(matches!(refused, Seal::Fenced { .. }));
    assert_eq!(waking(&fleet, [&mut w]).await, "idle [w] rung []");
}

#[tokio::test]
async fn a_lane_that_slept_and_gets_a_message_leaves_its_node_idle_only_for_another_lane() {
    let fleet = Fleet::new().await;
    let g = fleet.generator_of(1).await;
    let mut w = fleet.listener("w").await;
    let awake = async |w: &Listener, number, want, sleepers| {
        let call = call(&w.lane, number, want);
        let claim = w.lane.store.claim_awake(call, sleepers).await;
        assert!(matches!(claim.unwrap(), Claim::Claimed { .. }));
    };
    fleet.make_idle(&["w"]).await;
    awake(&w, 1, 1, 0).await;
    assert_eq!(waking(&fleet, [&mut w]).await, "idle [] rung []");
    assert_eq!(w.lane.give_back(1).await, GiveBack::Ok);

    awake(&w, 2, 7, 1).await;
    let idle = fleet.only("idle").await;
    assert_eq!(idle, ["idle: {w@RUN=TIME wants 7}"]);
    assert_eq!(waking(&fleet, [&mut w]).await, "idle [w] rung []");
    awake(&w, 2, 7, 0).await;
    let now = waking(&fleet, [&mut w]).await;
    assert_eq!(now, "idle [] rung []", "a repeated call");
    assert_eq!(w.lane.give_back(2).await, GiveBack::Ok);

    fleet.make_idle(&["w"]).await;
    assert_eq!(w.lane.take(3, 1).await, "m1");
    let now = waking(&fleet, [&mut w]).await;
    assert_eq!(now, "idle [w] rung []", "a lane that did not sleep");
    assert_eq!(w.lane.give_back(3).await, GiveBack::Ok);

    let _ = w.heard(&fleet).await;
    assert!(publish(&g, 2, 1).await.is_written());
    awake(&w, 4, 1, 1).await;
    let now = waking(&fleet, [&mut w]).await;
    assert_eq!(now, "idle [] rung [w]", "the other lane gets the rest");
}

#[tokio::test]
async fn a_node_stays_idle_with_what_its_lane_wants_and_not_with_what_it_may_have() {
    let fleet = Fleet::new().await;
    let g = fleet.generator_of(2).await;
    assert_eq!(fleet.death("x", 2, &g).await, "m1 m2");
    let w = fleet.lane("w").await;
    // Of messages that a worker may have died with it gets 16 at most.
    let claim = w.store.claim_awake(call(&w, 1, 50), 1).await.unwrap();
    assert!(matches!(claim, Claim::Claimed { range, .. } if range.size() == 2));
    let idle = fleet.only("idle").await;
    assert_eq!(idle, ["idle: {w@RUN=TIME wants 50}"]);
}

#[tokio::test]
async fn a_claim_ahead_that_finds_nothing_leaves_its_busy_node_out_of_idle() {
    let fleet = Fleet::new().await;
    let (_g, w) = fleet.with_messages(1).await;
    assert_eq!(w.take(1, 1).await, "m1");
    assert_eq!(w.sibling(1).claim_beside(1, 1).await, Claim::Empty);
    assert_eq!(fleet.only("idle").await, [""; 0]);
}

#[tokio::test]
async fn a_node_that_was_rung_and_is_busy_rings_on_while_messages_wait() {
    let fleet = Fleet::new().await;
    let _g = fleet.generator_of(1).await;
    let (busy, mut free) = (fleet.node("busy").await, fleet.listener("free").await);
    fleet.make_idle(&["dead", "free"]).await;
    busy.ring_on().await.unwrap();
    assert_eq!(waking(&fleet, [&mut free]).await, "idle [] rung [free]");
    assert_eq!(free.lane.take(1, 1).await, "m1");
    fleet.make_idle(&["free"]).await;
    busy.ring_on().await.unwrap();
    assert_eq!(waking(&fleet, [&mut free]).await, "idle [free] rung []");
}

#[tokio::test]
async fn a_reclaim_rings_while_messages_wait_and_its_caller_if_no_node_is_idle() {
    let fleet = Fleet::new().await;
    let _g = fleet.generator_of(1).await;
    let [mut w, mut x] = [fleet.listener("w").await, fleet.listener("x").await];
    for _ in 0..2 {
        let _ = w.lane.store.reclaim().await.unwrap();
        let now = waking(&fleet, [&mut w, &mut x]).await;
        assert_eq!(now, "idle [] rung [w]", "the caller");
    }
    fleet.make_idle(&["dead", "x"]).await;
    let _ = w.lane.store.reclaim().await.unwrap();
    let now = waking(&fleet, [&mut w, &mut x]).await;
    assert_eq!(now, "idle [] rung [x]");

    fleet.make_idle(&["dead"]).await;
    let _ = w.lane.store.reclaim().await.unwrap();
    let now = waking(&fleet, [&mut w, &mut x]).await;
    assert_eq!(now, "idle [] rung [w]", "no node that is idle is present");

    fleet.write(&["DEL", &fleet.keys.queue]).await;
    fleet.make_idle(&["x"]).await;
    let _ = w.lane.store.reclaim().await.unwrap();
    let now = waking(&fleet, [&mut w, &mut x]).await;
    assert_eq!(now, "idle [x] rung []", "no message waits");
}

#[tokio::test]
async fn a_reclaim_removes_absent_nodes_from_idle_and_rings_for_none_of_them() {
    let fleet = Fleet::new().await;
    let g = fleet.generator().await;
    let mut x = fleet.listener("x").await;
    fleet.make_idle(&["dead", "x"]).await;
    fleet.add_idle("3", "x@0ddba11").await;
    // Each call examines a few.
    eventually("the absent are removed", async || {
        let _ = g.reclaim().await.unwrap();
        let idle: u64 = fleet.raw(&["ZCARD", &fleet.keys.idle]).await;
        idle == 1
    })
    .await;
    assert_eq!(waking(&fleet, [&mut x]).await, "idle [x] rung []");
}

/// Members of `idle` that no script wrote. `RUN` stands for the server's run id. The node `w` is present.
const FOREIGN_MEMBERS: [&str; 8] = [
    "",
    "@",
    "@RUN",
    "w",
    "w@",
    "w@RUN@RUN",
    "v@RUN",
    "v\n:0 @RUN",
];
const FOREIGN_SCORES: [&str; 6] = ["-inf", "-1.5", "0", "0.9999", "1e300", "inf"];

#[tokio::test]
async fn what_no_script_wrote_into_idle_delays_a_message_until_the_next_reclaim_at_most() {
    let run_id = Fleet::new().await.run_id().await;
    for member in FOREIGN_MEMBERS.map(|member| member.replace("RUN", &run_id)) {
        for score in FOREIGN_SCORES {
            let fleet = Fleet::new().await;
            let g = fleet.generator().await;
            let mut w = fleet.listener("w").await;
            fleet.add_idle(score, &member).await;
            fleet.add_idle("1e13", &w.sleeper()).await;
            assert!(publish(&g, 1, 1).await.is_written());
            let _ = w.lane.store.reclaim().await.unwrap();
            let heard = w.heard(&fleet).await;
            let last = heard.last().unwrap_or_else(|| panic!("{member:?} {score}"));
            let claims = fleet.only("claims queue packs").await;
            match &last.handed {
                Some(_) => assert_eq!(
                    claims,
                    ["claims: {w:handed=m TIME RUN 1 1 1 1 0}", "packs: {1=[m1]}"],
                    "{member:?} {score}"
                ),
                None => assert_eq!(w.lane.take(1, 1).await, "m1", "{member:?} {score}"),
            }
            assert!(g.census().await.unwrap().balanced());
        }
    }
}

#[tokio::test]
async fn a_node_that_lost_its_presence_connection_in_its_sleep_hears_rings_again() {
    let server = start();
    let fleet = Fleet::on(&server.url()).await;
    let (g, mut w) = (fleet.generator().await, fleet.listener("w").await);
    assert_eq!(w.lane.claim(1, 1).await, Claim::Empty);
    let channel = format!("{}{}", fleet.keys.presence, w.sleeper());
    fleet.write(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
    eventually("the node is present again", async || {
        let (_, subscribers): (String, u64) = fleet.raw(&["PUBSUB", "NUMSUB", &channel]).await;
        subscribers == 1
    })
    .await;
    eventually("a connection of the generator, too", async || {
        g.census().await.is_ok()
    })
    .await;
    assert!(publish(&g, 1, 1).await.is_written());
    let heard = w.heard(&fleet).await;
    assert!(
        matches!(&heard[..], [ring] if ring.handed.is_some()),
        "{heard:?}"
    );
}
