//! Messages of dead workers come back a few at a time, then alone, then fail; foreign entries fail at
//! once.

use baton_protocol::{Claim, Commit};

use crate::support::{Fleet, pack_of, publish};

#[tokio::test]
async fn messages_of_a_dead_worker_come_back_a_few_at_a_time_and_then_alone() {
    let fleet = Fleet::new().await;
    let (g, w) = fleet.with_messages(40).await;
    fleet.death("x", 40, &g).await;
    assert_eq!(
        fleet.only("queue claims stats").await,
        ["queue: [1 40 1 40 1 TIME RUN x]"]
    );
    let few: Vec<String> = (1..=16).map(|seq| format!("m{seq}")).collect();
    assert_eq!(fleet.death("y", 100, &g).await, few.join(" ") + " (1)");
    assert_eq!(
        fleet.only("queue").await,
        ["queue: [1 40 1 16 2 TIME RUN x,y, 1 40 17 40 1 TIME RUN x]"]
    );
    for seq in 1..=16 {
        assert_eq!(w.take(seq, 100).await, format!("m{seq} (2)"));
        assert_eq!(w.commit(seq, seq..=seq).await, Commit::Done);
    }
    for (number, ended) in [(19, 17..=32), (20, 33..=40)] {
        let _ = w.take(number, 100).await;
        assert_eq!(w.commit(number, ended).await, Commit::Done);
    }
    assert_eq!(
        fleet.dump().await,
        [
            "fence: {cursor=10, epoch=1, last=40, node=g}",
            "stats: {done=40}",
            "workers: {w:0=20 33 40 TIME}",
        ]
    );
}

#[tokio::test]
async fn a_worker_that_wants_fewer_gets_fewer_of_the_returned_messages() {
    let fleet = Fleet::new().await;
    let (g, w) = fleet.with_messages(4).await;
    assert_eq!(fleet.death("x", 4, &g).await, "m1 m2 m3 m4");
    assert_eq!(w.take(2, 2).await, "m1 m2 (1)");
}

#[tokio::test]
async fn a_lane_with_another_claim_gets_no_message_that_a_worker_may_have_died_with() {
    let fleet = Fleet::new().await;
    let (g, w) = fleet.with_messages(2).await;
    assert_eq!(fleet.death("x", 1, &g).await, "m1");
    assert_eq!(w.claim_beside(1, 2).await, Claim::Empty);
    assert_eq!(
        fleet.only("queue claims").await,
        ["queue: [1 2 1 1 1 TIME RUN x, 1 2 2 2 0]"]
    );
    assert_eq!(w.take(1, 2).await, "m1 (1)");
    let beside = w.sibling(1);
    let Claim::Claimed { range, .. } = beside.claim_beside(1, 2).await else {
        panic!("m2 has no suspect");
    };
    assert_eq!((range.first, range.last, range.returns), (2, 2, 0));
}

#[tokio::test]
async fn a_death_counts_only_for_the_messages_of_its_claim() {
    let fleet = Fleet::new().await;
    let (g, _w) = fleet.with_messages(2).await;
    assert_eq!(fleet.death("x", 2, &g).await, "m1 m2");
    assert_eq!(fleet.death("y", 1, &g).await, "m1 (1)");
    assert_eq!(
        fleet.only("queue").await,
        ["queue: [1 2 1 1 2 TIME RUN x,y, 1 2 2 2 1 TIME RUN x]"]
    );
}

#[tokio::test]
async fn a_message_that_killed_three_workers_fails_and_its_neighbours_wait_on() {
    let fleet = Fleet::new().await;
    let (g, w) = fleet.with_messages(3).await;
    assert_eq!(fleet.death("x", 3, &g).await, "m1 m2 m3");
    assert_eq!(fleet.death("y", 3, &g).await, "m1 m2 m3 (1)");
    assert_eq!(fleet.death("z", 3, &g).await, "m1 (2)");
    fleet.age_suspects().await;
    assert_eq!(w.take(4, 3).await, "m2 (2)");
    assert_eq!(
        fleet.dump().await,
        [
            "claims: {w:0=m 4 RUN 1 3 2 2 2 TIME RUN x,y}",
            "deadlines: {w:0=TIME}",
            "errors: {1=1 at TIME by w try 3: its worker died 3 times: m1}",
            "errors_ids: {last=1}",
            "fence: {cursor=10, epoch=1, last=3, node=g}",
            "left: {1=2}",
            "packs: {1=[m1 m2 m3]}",
            "queue: [1 3 3 3 2 TIME RUN x,y]",
            "stats: {failed=1}",
        ]
    );
    assert_eq!(w.commit(4, 2..=2).await, Commit::Done);
    assert_eq!(w.take(5, 3).await, "m3 (2)");
    assert_eq!(w.commit(5, 3..=3).await, Commit::Done);
    assert_eq!(
        fleet.only("packs left queue stats").await,
        ["stats: {done=2, failed=1}"]
    );
}

#[tokio::test]
async fn a_pack_of_one_poisonous_message_leaves_nothing_behind() {
    let fleet = Fleet::new().await;
    let (g, w) = fleet.with_messages(1).await;
    for name in ["x", "y", "z"] {
        fleet.death(name, 1, &g).await;
    }
    fleet.age_suspects().await;
    assert_eq!(w.claim(4, 1).await, Claim::Empty);
    assert_eq!(
        fleet.dump().await,
        [
            "errors: {1=1 at TIME by w try 3: its worker died 3 times: m1}",
            "errors_ids: {last=1}",
            "fence: {cursor=10, epoch=1, last=1, node=g}",
            "idle: {w@RUN=TIME wants 1}",
            "stats: {failed=1}",
        ]
    );
    assert!(g.census().await.unwrap().balanced());
}

#[tokio::test]
async fn a_message_that_waits_for_its_verdict_is_behind_the_others() {
    let fleet = Fleet::new().await;
    let (g, w) = fleet.with_messages(1).await;
    for name in ["x", "y", "z"] {
        fleet.death(name, 1, &g).await;
    }
    assert_eq!(w.claim(1, 1).await, Claim::Empty);
    assert!(publish(&g, 2, 2).await.is_written());
    assert_eq!(w.take(1, 9).await, "m2 m3");
    assert_eq!(
        fleet.only("queue stats").await,
        ["queue: [1 1 1 1 3 TIME RUN x,y,z]"]
    );
    assert!(g.census().await.unwrap().balanced());
}

#[tokio::test]
async fn a_worker_that_is_back_under_its_name_did_not_die() {
    let fleet = Fleet::new().await;
    let (g, w) = fleet.with_messages(2).await;
    for name in ["x", "y", "z"] {
        fleet.death(name, 1, &g).await;
    }
    fleet.age_suspects().await;
    let _x = fleet.node("x").await;
    assert_eq!(w.take(1, 1).await, "m1 (3)");
    assert_eq!(
        fleet.only("claims queue stats").await,
        [
            "claims: {w:0=m 1 RUN 1 2 1 1 3 TIME RUN y,z}",
            "queue: [1 2 2 2 0]",
        ]
    );
}

#[tokio::test]
async fn a_worker_that_loses_its_claims_and_lives_is_never_blamed() {
    let fleet = Fleet::new().await;
    let (g, w) = fleet.with_messages(2).await;
    for number in 1..=9 {
        let _ = w.take_and_stall(number, 2).await;
        let _ = g.reclaim().await.unwrap();
        fleet.age_suspects().await;
    }
    assert_eq!(w.take(10, 2).await, "m1 m2 (9)");
    assert_eq!(fleet.only("queue stats").await, [""; 0]);
}

#[tokio::test]
async fn a_worker_that_was_back_for_a_moment_did_not_die() {
    let fleet = Fleet::new().await;
    let (g, w) = fleet.with_messages(2).await;
    for name in ["x", "y", "z"] {
        fleet.death(name, 1, &g).await;
    }
    let x = fleet.node("x").await;
    let _ = g.reclaim().await.unwrap();
    drop(x);
    fleet.wait_absent("x").await;
    fleet.age_suspects().await;
    assert_eq!(w.take(1, 1).await, "m1 (3)");
}

#[tokio::test]
async fn a_suspect_of_a_message_behind_many_others_is_cleared_too() {
    let fleet = Fleet::new().await;
    let (g, w) = fleet.with_messages(1).await;
    for name in ["x", "y", "z"] {
        fleet.death(name, 1, &g).await;
    }
    for seq in 2..=40 {
        assert!(publish(&g, seq, 1).await.is_written());
    }
    assert_eq!(w.take(1, 1).await, "m2");
    let _z = fleet.node("z").await;
    let _ = g.reclaim().await.unwrap();
    let last: String = fleet.raw(&["LINDEX", &fleet.keys.queue, "-1"]).await;
    assert!(
        last.starts_with("1 1 1 1 3 ") && last.ends_with(" x,y"),
        "{last}"
    );
}

#[tokio::test]
async fn after_a_restart_of_the_server_the_time_of_a_verdict_begins_anew() {
    let fleet = Fleet::new().await;
    let (_g, w) = fleet.with_messages(1).await;
    let range = "1 1 1 1 3 1 0ddba11 x,y,z";
    fleet.write(&["LSET", &fleet.keys.queue, "0", range]).await;
    assert_eq!(w.claim(1, 1).await, Claim::Empty);
    assert_eq!(
        fleet.only("queue stats").await,
        ["queue: [1 1 1 1 3 TIME RUN x,y,z]"]
    );
    fleet.age_suspects().await;
    assert_eq!(w.claim(1, 1).await, Claim::Empty);
    assert_eq!(fleet.only("queue stats").await, ["stats: {failed=1}"]);
}

#[tokio::test]
async fn a_verdict_does_not_wait_for_a_clock_that_was_ahead() {
    let fleet = Fleet::new().await;
    let (_g, w) = fleet.with_messages(1).await;
    let run = fleet.run_id().await;
    let range = format!("1 1 1 1 3 99999999999999 {run} x,y,z");
    fleet.write(&["LSET", &fleet.keys.queue, "0", &range]).await;
    assert_eq!(w.claim(1, 1).await, Claim::Empty);
    assert_eq!(fleet.only("queue stats").await, ["stats: {failed=1}"]);
}

#[tokio::test]
async fn a_poisonous_message_keeps_its_bytes_whatever_they_are() {
    let fleet = Fleet::new().await;
    let (g, w) = (fleet.generator().await, fleet.lane("w").await);
    let pack = pack_of(&[b"fine".as_slice(), b"\xff\x00\xfe\r\n"]);
    let published = g
        .publish(crate::support::publish_call(1, 2, &pack))
        .await
        .unwrap();
    assert!(published.is_written());
    assert_eq!(w.take(1, 1).await, "fine");
    for name in ["x", "y", "z"] {
        fleet.death(name, 1, &g).await;
    }
    fleet.age_suspects().await;
    assert_eq!(w.sibling(1).claim(1, 1).await, Claim::Empty);
    assert_eq!(
        fleet.only("errors left").await,
        [
            r"errors: {1=2 at TIME by w try 3: its worker died 3 times: \xff\x00\xfe\r\n}",
            "left: {1=1}",
        ]
    );
}

#[tokio::test]
async fn garbage_in_the_queue_goes_to_errors_with_its_bytes_and_later_messages_are_delivered() {
    let fleet = Fleet::new().await;
    let (g, w) = fleet.with_messages(1).await;
    for garbage in ["garbage", "", "1 1 1", "2 1 1 1 0", "-1 1 1 1 0"] {
        fleet.write(&["LPUSH", &fleet.keys.queue, garbage]).await;
    }
    let mut raw = redis::cmd("LPUSH");
    raw.arg(&fleet.keys.queue).arg(b"\xff\x00".as_slice());
    fleet.send(&raw).await;
    assert_eq!(w.take(1, 1).await, "m1");
    assert_eq!(
        fleet.dump().await,
        [
            "claims: {w:0=m 1 RUN 1 1 1 1 0}",
            "deadlines: {w:0=TIME}",
            "errors: {\
             1=0 at TIME by w try 1: not a message of this fleet: \\xff\\x00, \
             2=0 at TIME by w try 1: not a message of this fleet: -1 1 1 1 0, \
             3=0 at TIME by w try 1: not a message of this fleet: 2 1 1 1 0, \
             4=0 at TIME by w try 1: not a message of this fleet: 1 1 1, \
             5=0 at TIME by w try 1: not a message of this fleet: , \
             6=0 at TIME by w try 1: not a message of this fleet: garbage}",
            "errors_ids: {last=6}",
            "fence: {cursor=10, epoch=1, last=1, node=g}",
            "packs: {1=[m1]}",
            "stats: {foreign=6}",
        ]
    );
    let census = g.census().await.unwrap();
    assert!(census.balanced());
    assert_eq!((census.errors, census.foreign), (6, 6));
}

#[tokio::test]
async fn a_flood_of_garbage_is_cleared_in_steps_that_ring() {
    let fleet = Fleet::new().await;
    let _g = fleet.generator_of(1).await;
    let mut w = fleet.listener("w").await;
    let mut flood = redis::cmd("LPUSH");
    flood.arg(&fleet.keys.queue).arg(vec!["garbage"; 150]);
    fleet.send(&flood).await;
    assert_eq!(w.lane.claim(1, 1).await, Claim::Empty);
    assert_eq!(fleet.only("idle stats").await, ["stats: {foreign=100}"]);
    assert_eq!(w.heard(&fleet).await.len(), 1);
    assert_eq!(w.lane.take(1, 1).await, "m1");
    assert_eq!(fleet.only("queue stats").await, ["stats: {foreign=150}"]);
}

#[tokio::test]
async fn a_range_whose_pack_is_missing_goes_to_errors_and_later_messages_are_delivered() {
    let fleet = Fleet::new().await;
    let (g, w) = fleet.with_messages(2).await;
    assert!(publish(&g, 3, 1).await.is_written());
    fleet.write(&["DEL", &fleet.keys.pack_key(1)]).await;
    assert_eq!(w.take(1, 5).await, "m3");
    assert_eq!(
        fleet.dump().await,
        [
            "claims: {w:0=m 1 RUN 3 1 3 3 0}",
            "deadlines: {w:0=TIME}",
            "errors: {1=0 at TIME by w try 1: its text is missing in Redis: 1 2 1 2 0}",
            "errors_ids: {last=1}",
            "fence: {cursor=30, epoch=1, last=3, node=g}",
            "packs: {3=[m3]}",
            "stats: {foreign=1}",
        ]
    );
    assert!(!g.census().await.unwrap().balanced(), "two texts are lost");
}
