//! Bells: a message wakes the node that is idle longest, and no node sleeps through its message.

use std::time::{Duration, Instant};

use baton_protocol::{Claim, ClaimCall, GiveBack, Seal, Settle, Settled, Store};

use crate::support::{
    Fleet, LONG, Lane, commit_call, eventually, failed, publish, settle_all, start,
};

/// A lane that is not woken claims after five seconds.
const BEFORE_THE_TIMEOUT: Duration = Duration::from_secs(4);

fn call(lane: &Lane, number: u64) -> ClaimCall<'_> {
    ClaimCall {
        slot: &lane.slot,
        number,
        want: 1,
        ttl: LONG,
        alone: true,
    }
}

/// Which nodes are idle, and whose bells have a token.
async fn waking(fleet: &Fleet) -> String {
    let idle: Vec<String> = fleet.raw(&["ZRANGE", &fleet.keys.idle, "0", "-1"]).await;
    let pattern = fleet.keys.bell_key("*").replace(['{', '}'], "?");
    let mut bells: Vec<String> = fleet.raw(&["KEYS", &pattern]).await;
    bells.sort();
    let prefix = fleet.keys.bell.len();
    let bells: Vec<&str> = bells.iter().map(|bell| &bell[prefix..]).collect();
    format!("idle [{}] rung [{}]", idle.join(" "), bells.join(" "))
}

/// Makes nodes idle, the first one longest.
async fn idle(fleet: &Fleet, nodes: &[&str]) {
    for (since, node) in (1..).zip(nodes) {
        let since = since.to_string();
        fleet.write(&["ZADD", &fleet.keys.idle, &since, node]).await;
    }
}

#[tokio::test]
async fn a_node_whose_claim_finds_nothing_is_idle_until_a_message_rings_its_bell() {
    let fleet = Fleet::new().await;
    let g = fleet.generator().await;
    let w = fleet.lane("w").await;
    for lane in [&w, &w.sibling(1)] {
        assert_eq!(lane.claim(1, 1).await, Claim::Empty);
        assert_eq!(
            fleet.dump().await,
            ["fence: {epoch=1, node=g}", "idle: {w=TIME}"]
        );
    }
    assert!(publish(&g, 1, 1).await.is_written());
    assert_eq!(
        fleet.dump().await,
        [
            "fence: {cursor=10, epoch=1, last=1, node=g}",
            "packs: {1=[m1]}",
            "queue: [1 1 1 1 0]",
        ]
    );
    assert!(publish(&g, 2, 1).await.is_written());
    assert_eq!(fleet.only("bell:w").await, ["bell:w: [1]"]);
    let ttl: i64 = fleet.raw(&["TTL", &fleet.keys.bell_key("w")]).await;
    assert!((1..=10).contains(&ttl), "a token that expires: {ttl}");
}

#[tokio::test]
async fn each_message_rings_for_the_node_that_is_idle_longest() {
    let fleet = Fleet::new().await;
    let g = fleet.generator().await;
    let _nodes = [fleet.node("b").await, fleet.node("a").await];
    idle(&fleet, &["b", "a"]).await;
    assert!(publish(&g, 1, 1).await.is_written());
    assert_eq!(waking(&fleet).await, "idle [a] rung [b]");
    assert!(publish(&g, 2, 1).await.is_written());
    assert_eq!(waking(&fleet).await, "idle [] rung [a b]");
}

#[tokio::test]
async fn a_ring_goes_on_behind_dead_nodes_and_is_bounded() {
    let fleet = Fleet::new().await;
    let g = fleet.generator().await;
    let _w = fleet.node("w").await;
    idle(&fleet, &["dead", "w"]).await;
    assert!(publish(&g, 1, 1).await.is_written());
    assert_eq!(waking(&fleet).await, "idle [] rung [dead w]");

    fleet.write(&["DEL", &fleet.keys.bell_key("w")]).await;
    let dead: Vec<String> = (10..30).map(|n| format!("d{n}")).collect();
    let dead = dead.iter().map(String::as_str);
    idle(&fleet, &dead.chain(["w"]).collect::<Vec<_>>()).await;
    assert!(publish(&g, 2, 1).await.is_written());
    assert!(
        waking(&fleet)
            .await
            .starts_with("idle [d26 d27 d28 d29 w] ")
    );
    assert!(publish(&g, 3, 1).await.is_written());
    assert!(waking(&fleet).await.starts_with("idle [] "));
    assert_eq!(fleet.only("bell:w").await, ["bell:w: [1]"]);
}

#[tokio::test]
async fn a_claim_rings_only_if_it_leaves_messages() {
    let fleet = Fleet::new().await;
    let (_g, w) = fleet.with_messages(3).await;
    let _x = fleet.node("x").await;
    idle(&fleet, &["x"]).await;
    assert_eq!(w.take(1, 2).await, "m1 m2");
    assert_eq!(waking(&fleet).await, "idle [] rung [x]");
    fleet.write(&["DEL", &fleet.keys.bell_key("x")]).await;
    idle(&fleet, &["x"]).await;
    assert_eq!(w.sibling(1).take(1, 2).await, "m3");
    assert_eq!(waking(&fleet).await, "idle [x] rung []");
}

#[tokio::test]
async fn messages_that_come_back_ring() {
    let fleet = Fleet::new().await;
    let (g, w) = fleet.with_messages(1).await;
    let _x = fleet.node("x").await;
    assert_eq!(w.take(1, 1).await, "m1");
    idle(&fleet, &["x"]).await;
    assert_eq!(w.give_back(1).await, GiveBack::Ok);
    assert_eq!(waking(&fleet).await, "idle [] rung [x]", "given back");

    fleet.write(&["DEL", &fleet.keys.bell_key("x")]).await;
    assert_eq!(w.take_and_stall(2, 1).await, "m1");
    idle(&fleet, &["x"]).await;
    assert_eq!(g.reclaim().await.unwrap().messages, 1);
    assert_eq!(waking(&fleet).await, "idle [] rung [x]", "reclaimed");

    fleet.write(&["DEL", &fleet.keys.bell_key("x")]).await;
    assert_eq!(w.take(3, 1).await, "m1 (1)");
    let records = [failed(1, "m1")];
    let ended = w.commit_outcomes(3, commit_call(1..=1, &records)).await;
    assert_eq!(ended, baton_protocol::Commit::Done);
    idle(&fleet, &["x"]).await;
    let failures = w.failures().await;
    let settled = settle_all(&g, Settle::Retry, &failures).await.unwrap();
    assert_eq!(settled, [Settled::Retried]);
    assert_eq!(waking(&fleet).await, "idle [] rung [x]", "retried");
}

#[tokio::test]
async fn a_generator_is_not_idle() {
    let fleet = Fleet::new().await;
    let (g, w) = fleet.with_messages(1).await;
    let lane = Lane::new(g.clone());
    assert_eq!(lane.take(1, 1).await, "m1");
    assert_eq!(lane.sibling(1).claim(1, 1).await, Claim::Empty);
    assert_eq!(waking(&fleet).await, "idle [] rung []", "the generator");

    assert_eq!(w.claim(1, 1).await, Claim::Empty);
    let _x = fleet.node("x").await;
    idle(&fleet, &["x"]).await;
    assert!(matches!(
        w.store.seal(2).await.unwrap(),
        Seal::Sealed { .. }
    ));
    assert_eq!(waking(&fleet).await, "idle [x] rung []", "no message waits");
    assert_eq!(lane.give_back(1).await, GiveBack::Ok);
    fleet.write(&["DEL", &fleet.keys.bell_key("x")]).await;
    idle(&fleet, &["w", "x"]).await;
    assert!(matches!(
        w.store.seal(3).await.unwrap(),
        Seal::Sealed { .. }
    ));
    assert_eq!(waking(&fleet).await, "idle [] rung [x]", "a message waits");
}

#[tokio::test]
async fn a_lane_that_slept_and_gets_a_message_leaves_its_node_idle_only_for_another_lane() {
    let fleet = Fleet::new().await;
    let (_g, w) = fleet.with_messages(1).await;
    let awake = async |number, sleepers| {
        let claim = w.store.claim_awake(call(&w, number), sleepers).await;
        assert!(matches!(claim.unwrap(), Claim::Claimed { .. }));
        let idle = waking(&fleet).await;
        assert_eq!(w.give_back(number).await, GiveBack::Ok);
        fleet.write(&["DEL", &fleet.keys.bell_key("w")]).await;
        idle
    };
    idle(&fleet, &["w"]).await;
    assert_eq!(awake(1, 0).await, "idle [] rung []");
    assert_eq!(awake(2, 1).await, "idle [w] rung []");
    idle(&fleet, &["w"]).await;
    assert_eq!(w.take(3, 1).await, "m1");
    assert_eq!(
        waking(&fleet).await,
        "idle [w] rung []",
        "a lane that did not sleep"
    );
}

#[tokio::test]
async fn a_claim_ahead_that_finds_nothing_leaves_its_busy_node_out_of_idle() {
    let fleet = Fleet::new().await;
    let (_g, w) = fleet.with_messages(1).await;
    assert_eq!(w.take(1, 1).await, "m1");
    let ahead = w.sibling(1);
    let call = ClaimCall {
        alone: false,
        ..call(&ahead, 1)
    };
    assert_eq!(w.store.claim(call).await.unwrap(), Claim::Empty);
    assert_eq!(waking(&fleet).await, "idle [] rung []");
}

#[tokio::test]
async fn a_reclaim_removes_the_dead_from_idle_and_rings_while_messages_wait() {
    let fleet = Fleet::new().await;
    let (g, _w) = fleet.with_messages(1).await;
    for _ in 0..2 {
        let _ = g.reclaim().await.unwrap();
        assert_eq!(waking(&fleet).await, "idle [] rung [g]", "the caller");
    }
    let _x = fleet.node("x").await;
    idle(&fleet, &["x"]).await;
    fleet.write(&["DEL", &fleet.keys.bell_key("g")]).await;
    let _ = g.reclaim().await.unwrap();
    assert_eq!(waking(&fleet).await, "idle [] rung [x]");

    fleet.write(&["DEL", &fleet.keys.queue]).await;
    fleet.write(&["DEL", &fleet.keys.bell_key("x")]).await;
    idle(&fleet, &["dead", "x"]).await;
    let _ = g.reclaim().await.unwrap();
    assert_eq!(waking(&fleet).await, "idle [x] rung [dead]");
}

#[tokio::test]
async fn a_bell_of_another_type_harms_only_its_own_node() {
    let fleet = Fleet::new().await;
    let g = fleet.generator().await;
    let (w, x) = (fleet.lane("w").await, fleet.lane("x").await);
    let spoilt = fleet.keys.bell_key("w");
    fleet.write(&["SET", &spoilt, "not ours"]).await;
    idle(&fleet, &["w", "x"]).await;
    for seq in 1..=2 {
        assert!(publish(&g, seq, 1).await.is_written());
    }
    assert_eq!(waking(&fleet).await, "idle [] rung [w x]");
    assert_eq!(fleet.only("bell:w").await, ["bell:w: 'not ours'"]);
    let woken = x.store.bell_turn().await.wait_and_claim(call(&x, 1)).await;
    assert!(matches!(woken.unwrap(), Claim::Claimed { .. }));
    let error = w.store.preflight(false).await.unwrap_err();
    assert!(error.to_string().contains(&spoilt), "{error}");
    assert_eq!(x.sibling(1).take(1, 1).await, "m2");
    let refused = w.store.bell_turn().await.wait_and_claim(call(&w, 1)).await;
    let error = refused.unwrap_err().to_string();
    assert!(error.contains(&spoilt), "{error}");
}

/// Waits until so many lanes block on the server.
async fn asleep(fleet: &Fleet, lanes: usize) {
    eventually("lanes sleep", async || {
        let info: String = fleet.raw(&["INFO", "clients"]).await;
        info.contains(&format!("blocked_clients:{lanes}\r\n"))
    })
    .await;
}

/// A lane that claims, sleeps, and claims the first message that it is woken for.
fn sleeper(store: &Store, lane: u64) -> tokio::task::JoinHandle<u64> {
    let lane = Lane::new(store.clone()).sibling(lane);
    tokio::spawn(async move {
        let mut claim = lane.claim(1, 1).await;
        loop {
            match claim {
                Claim::Claimed { range, .. } => return range.first,
                _ => {
                    let turn = lane.store.bell_turn().await;
                    claim = turn.wait_and_claim(call(&lane, 1)).await.unwrap();
                }
            }
        }
    })
}

#[tokio::test]
async fn all_lanes_of_all_nodes_are_woken_one_by_one() {
    let server = start();
    let fleet = Fleet::on(&server.url()).await;
    let g = fleet.generator().await;
    let nodes = [fleet.node("w").await, fleet.node("x").await];
    let lanes: Vec<_> = (0..8)
        .map(|lane| sleeper(&nodes[lane as usize % 2], lane))
        .collect();
    asleep(&fleet, 2).await;
    let began = Instant::now();
    for seq in 1..=8 {
        assert!(publish(&g, seq, 1).await.is_written());
        eventually("the message is claimed", async || {
            fleet.raw::<u64>(&["LLEN", &fleet.keys.queue]).await == 0
        })
        .await;
        assert!(began.elapsed() < BEFORE_THE_TIMEOUT, "message {seq}");
    }
    let mut claimed = Vec::new();
    for lane in lanes {
        claimed.push(lane.await.unwrap());
    }
    claimed.sort_unstable();
    assert_eq!(claimed, [1, 2, 3, 4, 5, 6, 7, 8]);
}

#[tokio::test]
async fn a_node_that_lost_its_presence_connection_in_its_sleep_is_woken() {
    let server = start();
    let fleet = Fleet::on(&server.url()).await;
    let (g, w) = (fleet.generator().await, fleet.node("w").await);
    let lane = sleeper(&w, 0);
    asleep(&fleet, 1).await;
    let began = Instant::now();
    fleet.write(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
    let mut answer = Err(baton::Error::Unavailable(String::new()));
    eventually("the publish is answered", async || {
        let pack = crate::support::pack(1, 1);
        answer = g.publish(crate::support::publish_call(1, 1, &pack)).await;
        answer.is_ok()
    })
    .await;
    assert_eq!(lane.await.unwrap(), 1);
    assert!(began.elapsed() < BEFORE_THE_TIMEOUT);
}

#[tokio::test]
async fn a_lane_that_sleeps_after_a_cancelled_wait_misses_no_message() {
    let server = start();
    let fleet = Fleet::on(&server.url()).await;
    let (g, w) = (fleet.generator().await, fleet.node("w").await);
    let cancelled = sleeper(&w, 0);
    asleep(&fleet, 1).await;
    let began = Instant::now();
    // The token wakes a lane that is not there any more.
    assert_eq!(waking(&fleet).await, "idle [w] rung []");
    fleet.write(&["ZREM", &fleet.keys.idle, "w"]).await;
    cancelled.abort();
    let _ = cancelled.await;
    asleep(&fleet, 0).await;
    let lane = Lane::new(w.clone());
    let waits = tokio::spawn(async move {
        let turn = lane.store.bell_turn().await;
        turn.wait_and_claim(call(&lane, 2)).await
    });
    asleep(&fleet, 1).await;
    assert!(publish(&g, 1, 1).await.is_written());
    assert!(matches!(
        waits.await.unwrap().unwrap(),
        Claim::Claimed { .. }
    ));
    assert!(began.elapsed() < BEFORE_THE_TIMEOUT);
}
