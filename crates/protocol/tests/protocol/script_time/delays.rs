//! Retries: a storm of messages that are delayed, that wake up, and that are given back.

use std::time::Duration;

use baton_protocol::bounds::MAX_PACK_MESSAGES;
use baton_protocol::{Claim, Commit, GiveBack, Key, Note, Outcomes, Reclaimed, Store};

use super::bounded;
use crate::support::{Fleet, pack_of, publish_call, start};

/// Messages that wait for their next attempt.
const STORM: u64 = 100_000;
/// Max delayed messages that one call wakes, as the documents say.
const MAX_DUE: u64 = 500;
/// The text of a message.
const TEXT: [u8; 256] = [b'x'; 256];

/// Puts messages into `delayed`, each in a pack of its own. They are due at this time.
async fn delay(fleet: &Fleet, messages: std::ops::RangeInclusive<u64>, due_ms: u64) {
    let all: Vec<u64> = messages.collect();
    for seqs in all.chunks(5_000) {
        let mut add = redis::cmd("ZADD");
        add.arg(&fleet.keys.delayed);
        for seq in seqs {
            add.arg(due_ms).arg(format!("{seq} 1 {seq} {seq} 1"));
        }
        fleet.send(&add).await;
    }
}

async fn reclaim(fleet: &Fleet, store: &Store) -> Reclaimed {
    bounded(fleet, "reclaim", store.reclaim()).await.unwrap()
}

#[tokio::test]
async fn a_storm_of_retries_wakes_up_in_short_steps_and_the_earliest_first() {
    let server = start();
    let fleet = Fleet::on(&server.url()).await;
    let w = fleet.lane("w").await;
    let hour_ms = 3_600_000;
    let later = w.store.census().await.unwrap().now_ms + hour_ms / 2;
    delay(&fleet, STORM + 1..=2 * STORM, later).await;
    delay(&fleet, 1..=STORM, 1).await;

    let some = reclaim(&fleet, &w.store).await;
    assert_eq!((some.woken, some.next_due), (MAX_DUE, Some(Duration::ZERO)));
    let mut woken = some.woken;
    while woken < STORM {
        woken += reclaim(&fleet, &w.store).await.woken;
    }
    let none = reclaim(&fleet, &w.store).await;
    assert_eq!((woken, none.woken), (STORM, 0));
    let next = none.next_due.unwrap();
    assert!(next > Duration::from_secs(60), "{next:?}");
    let queued: u64 = fleet.raw(&["LLEN", &fleet.keys.queue]).await;
    let delayed: u64 = fleet.raw(&["ZCARD", &fleet.keys.delayed]).await;
    assert_eq!((queued, delayed), (STORM, STORM));
}

/// Claims a full pack of texts of 256 bytes. Lets `add` add outcomes until they are as many as a node
/// commits together. Then commits them.
async fn commit(what: &str, add: impl Fn(&mut Outcomes)) {
    let server = start();
    let fleet = Fleet::on(&server.url()).await;
    let generator = fleet.generator().await;
    let pack = pack_of(&vec![TEXT; MAX_PACK_MESSAGES as usize]);
    let published = generator.publish(publish_call(1, MAX_PACK_MESSAGES, &pack));
    assert!(published.await.unwrap().is_written());
    let w = fleet.lane("w").await;
    let Claim::Claimed { range, .. } = w.claim(1, MAX_PACK_MESSAGES).await else {
        panic!("nothing was claimed");
    };
    let mut outcomes = Outcomes::new("w", &range, 1);
    while !outcomes.is_large() {
        add(&mut outcomes);
    }
    let committed = w.commit_outcomes(1, outcomes.call(MAX_PACK_MESSAGES));
    assert_eq!(bounded(&fleet, what, committed).await, Commit::Done);
    let census = w.store.census().await.unwrap();
    assert!(census.balanced(), "{census:?}");
    let ended = (census.delayed, census.failed, census.claimed);
    let (delays, failed) = (outcomes.delays().len(), outcomes.failed_numbers().len());
    let claimed = MAX_PACK_MESSAGES - outcomes.count();
    assert_eq!(ended, (delays as u64, failed as u64, claimed));
}

fn key() -> Key<'static> {
    Key::numbered("0123456789", 1)
}

#[tokio::test]
async fn a_commit_delays_as_many_messages_as_a_short_step_can() {
    let long = "x".repeat(4096);
    for (what, reason) in [("short reasons", "no answer"), ("long reasons", &long)] {
        let note = Note {
            first_reason: reason.to_owned(),
            last_reason: reason.to_owned(),
        };
        let hour = Duration::from_secs(3600);
        commit(what, |outcomes| outcomes.delayed(key(), &TEXT, hour, &note)).await;
    }
}

#[tokio::test]
async fn a_commit_has_as_many_failed_messages_as_a_short_step_can_keep() {
    let long = "x".repeat(4096);
    commit("failed", |outcomes| {
        outcomes.failed(key(), &TEXT, &long, &long, 1)
    })
    .await;
}

#[tokio::test]
async fn a_long_queue_does_not_slow_down_what_a_worker_gives_back() {
    let server = start();
    let fleet = Fleet::on(&server.url()).await;
    let (_g, w) = fleet.with_messages(MAX_PACK_MESSAGES).await;
    let _ = w.claim(1, MAX_PACK_MESSAGES).await;
    delay(&fleet, 2_000..=STORM, 1).await;
    while w.store.reclaim().await.unwrap().woken > 0 {}
    let keep = w.store.give_back_after(&w.slot, 1, 10);
    let kept = bounded(&fleet, "give back all but ten", keep).await;
    assert_eq!(kept.unwrap(), GiveBack::Ok);
    let rest = bounded(&fleet, "give back the rest", w.give_back(1)).await;
    assert_eq!(rest, GiveBack::Ok);
    let head: Vec<String> = fleet.raw(&["LRANGE", &fleet.keys.queue, "0", "1"]).await;
    assert_eq!(head, ["1 1000 1 10 0", "1 1000 11 1000 0"]);
}
