//! A lone message goes to an idle node in the step that publishes it.

use baton_protocol::{
    Commit, GiveBack, Handed, Part, PublishCall, Range, Ring, Rings, Slot, Store,
};

use crate::partitions::{claim, idle, made, next_ring, publish_some, seal, two};
use crate::support::{Fleet, LONG, commit_call, eventually, pack, publish_call};

/// A generator and an idle worker at partition 0 of two.
struct Pair {
    fleet: Fleet,
    generator: Store,
    worker: Store,
    rings: Rings,
    sleeper: String,
}

async fn pair() -> Pair {
    let fleet = Fleet::new().await;
    let (g, _) = two(&fleet, "g").await;
    let (w, rings) = two(&fleet, "w").await;
    let (generator, worker) = (g.all()[0].clone(), w.all()[0].clone());
    let _ = seal(&generator, 1).await;
    let _ = claim(&worker, None).await;
    let sleeper = format!("w@{}", worker.run_id());
    Pair {
        fleet,
        generator,
        worker,
        rings,
        sleeper,
    }
}

impl Pair {
    async fn queue(&self) -> Vec<String> {
        let key = &self.generator.keys().queue;
        self.fleet.raw(&["LRANGE", key, "0", "-1"]).await
    }

    async fn claims(&self) -> Vec<String> {
        let key = &self.generator.keys().claims;
        self.fleet.raw(&["HGETALL", key]).await
    }

    async fn handed(&mut self) -> Handed {
        let Ring { partition, handed } = next_ring(&mut self.rings).await;
        assert_eq!(partition, 0);
        handed.unwrap()
    }

    /// The next ring says only that messages wait, and no claim was made for the node.
    async fn is_only_rung(&mut self) {
        let waiting = Ring {
            partition: 0,
            handed: None,
        };
        assert_eq!(next_ring(&mut self.rings).await, waiting);
    }
}

#[tokio::test]
async fn a_lone_message_is_claimed_for_an_idle_node_and_committed_once() {
    let mut pair = pair().await;
    let waiting = publish_some(&pair.generator, 1, 1, made(1, 1)).await;
    assert_eq!(waiting, 0, "no range waits");
    let handed = pair.handed().await;
    let Handed {
        number,
        range,
        pack: bytes,
    } = handed;
    assert_eq!(bytes, pack(1, 1));
    assert_eq!(Some(range), Range::parse("1 1 1 1 0"));
    let run_id = pair.worker.run_id();
    let held = format!("m {number} {run_id} 1 1 1 1 0");
    assert_eq!(pair.claims().await, ["w:handed".to_owned(), held]);
    assert_eq!(pair.queue().await, Vec::<String>::new());
    assert_eq!(idle(&pair.fleet, &pair.worker).await, Vec::<String>::new());
    let deadlines = &pair.worker.keys().deadlines;
    let until: u64 = pair.fleet.raw(&["ZSCORE", deadlines, "w:handed"]).await;
    let until_us = u128::from(until) * 1000;
    // The number is the time in µs, and the claim lives as long as the generator says.
    assert_eq!(
        until_us / 1000,
        u128::from(number) / 1000 + LONG.as_millis()
    );

    let slot = Slot::handed("w");
    for expected in [Commit::Done, Commit::Already] {
        let call = commit_call(1..=1, &[]);
        let commit = pair.worker.commit(&slot, number, call).await.unwrap();
        assert_eq!(commit, expected);
    }
    assert_eq!(pair.claims().await, Vec::<String>::new());
    let stats = &pair.worker.keys().stats;
    let done: u64 = pair.fleet.raw(&["HGET", stats, "done"]).await;
    assert_eq!(done, 1);
}

#[tokio::test]
async fn a_message_behind_others_waits_in_the_queue() {
    let mut pair = pair().await;
    publish_some(&pair.generator, 1, 2, made(1, 2)).await;
    pair.is_only_rung().await;
    // The node is idle again although messages wait, as after a claim that another one overtook.
    let idle_key = &pair.worker.keys().idle;
    pair.fleet
        .write(&["ZADD", idle_key, "1", &pair.sleeper])
        .await;
    assert_eq!(publish_some(&pair.generator, 3, 1, made(2, 3)).await, 2);
    pair.is_only_rung().await;
    assert_eq!(pair.queue().await, ["1 2 1 2 0", "3 1 3 3 0"]);
    assert_eq!(pair.claims().await, Vec::<String>::new());
}

#[tokio::test]
async fn several_messages_and_a_large_one_wait_in_the_queue() {
    let mut pair = pair().await;
    publish_some(&pair.generator, 1, 2, made(1, 2)).await;
    pair.is_only_rung().await;
    let Pair {
        generator, worker, ..
    } = &pair;
    let _ = claim(worker, Some(0)).await;
    let mut large = baton_protocol::PackBuilder::default();
    large.push(&[b'x'; 5000]);
    let large = large.finish(1, "o", 3);
    let idle_key = &worker.keys().idle;
    pair.fleet.write(&["DEL", &worker.keys().queue]).await;
    pair.fleet
        .write(&["ZADD", idle_key, "1", &pair.sleeper])
        .await;
    let call = PublishCall {
        made: Some(made(2, 3)),
        ..publish_call(3, 1, &large)
    };
    assert!(generator.publish(call).await.unwrap().is_written());
    pair.is_only_rung().await;
    assert_eq!(pair.queue().await, ["3 1 3 3 0"]);
}

#[tokio::test]
async fn no_message_is_handed_over_while_the_workers_are_paused() {
    let mut pair = pair().await;
    let paused = pair.generator.pause(&[Part::Workers]).await;
    let _ = paused.unwrap();
    publish_some(&pair.generator, 1, 1, made(1, 1)).await;
    pair.is_only_rung().await;
    assert_eq!(pair.queue().await, ["1 1 1 1 0"]);
    assert_eq!(pair.claims().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_node_that_has_a_handed_message_gets_no_second_one() {
    let mut pair = pair().await;
    publish_some(&pair.generator, 1, 1, made(1, 1)).await;
    let first = pair.handed().await;
    let _ = claim(&pair.worker, None).await;
    publish_some(&pair.generator, 2, 1, made(2, 2)).await;
    pair.is_only_rung().await;
    assert_eq!(pair.queue().await, ["2 1 2 2 0"]);
    assert_eq!(
        pair.worker.handed_number().await.unwrap(),
        Some(first.number)
    );
}

#[tokio::test]
async fn a_message_for_an_absent_node_waits_for_the_next() {
    let mut pair = pair().await;
    let dead = format!("dead@{}", pair.worker.run_id());
    let idle_key = pair.worker.keys().idle.clone();
    pair.fleet.write(&["ZADD", &idle_key, "1", &dead]).await;
    publish_some(&pair.generator, 1, 1, made(1, 1)).await;
    pair.is_only_rung().await;
    assert_eq!(pair.queue().await, ["1 1 1 1 0"]);
    assert_eq!(pair.claims().await, Vec::<String>::new());
    assert_eq!(idle(&pair.fleet, &pair.worker).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_handed_message_goes_back_without_blame_and_with_it_if_its_node_died() {
    let mut pair = pair().await;
    assert_eq!(pair.worker.handed_number().await.unwrap(), None);
    publish_some(&pair.generator, 1, 1, made(1, 1)).await;
    let Handed { number, .. } = pair.handed().await;
    let slot = Slot::handed("w");
    let (worker, held) = (&pair.worker, pair.worker.handed_number().await.unwrap());
    assert_eq!(held, Some(number));
    assert_eq!(worker.give_back(&slot, number).await.unwrap(), GiveBack::Ok);
    assert_eq!(pair.queue().await, ["1 1 1 1 0"]);
    assert_eq!(pair.claims().await, Vec::<String>::new());

    pair.fleet.write(&["DEL", &pair.worker.keys().queue]).await;
    let _ = claim(&pair.worker, None).await;
    publish_some(&pair.generator, 2, 1, made(2, 2)).await;
    let _ = pair.handed().await;
    let Pair {
        fleet,
        generator,
        worker,
        rings,
        ..
    } = pair;
    let queue = generator.keys().queue.clone();
    drop((worker, rings));
    eventually("the message of the dead comes back", async || {
        let _ = generator.reclaim().await.unwrap();
        let queue: Vec<String> = fleet.raw(&["LRANGE", &queue, "0", "-1"]).await;
        queue
            .first()
            .is_some_and(|range| range.starts_with("2 1 2 2 1 "))
    })
    .await;
}
