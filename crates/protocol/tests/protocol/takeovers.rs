//! takeovers: when, why and from whom a node took the lease.

use baton::Inspector;
use baton::inspect::{Takeover, TakeoverCause};
use baton_protocol::{Seal, Store};

use crate::support::{EXPIRED, Fleet, LONG, beat, beat_call};

/// Longer than any test, in ms.
const SLACK_MS: u64 = 60_000;

async fn takeovers(store: &Store) -> Vec<Takeover> {
    Inspector::over(store.clone())
        .snapshot()
        .await
        .unwrap()
        .takeovers
}

/// The newest takeover without its times: `2 b gone from a`.
async fn newest(store: &Store) -> (String, u64) {
    let newest = takeovers(store).await.remove(0);
    let how = format!("{:?}", newest.how).to_lowercase();
    let from = newest.from.map(|from| format!(" from {from}"));
    let words = format!("{} {} {how}", newest.epoch, newest.node);
    (words + &from.unwrap_or_default(), newest.gap_ms)
}

/// Moves the last beat of a node into the past.
async fn silent_for(fleet: &Fleet, node: &str, ms: u64) {
    let (s, us): (u64, u64) = fleet.raw(&["TIME"]).await;
    let at = (s * 1000 + us / 1000 - ms).to_string();
    fleet.write(&["ZADD", &fleet.keys.seen, &at, node]).await;
}

fn about(ms: u64) -> std::ops::Range<u64> {
    ms..ms + SLACK_MS
}

#[tokio::test]
async fn the_first_generator_of_a_fleet_had_no_gap_before_it() {
    let fleet = Fleet::new().await;
    let a = fleet.node("a").await;
    assert_eq!(takeovers(&a).await, []);
    let _ = beat(&a).await;
    let at_ms = a.roster().await.unwrap().lease.since_ms;
    let first = {
        let mut made = Takeover::default();
        made.epoch = 1;
        made.node = "a".to_owned();
        made.at_ms = at_ms;
        made.gap_ms = 0;
        made.how = TakeoverCause::First;
        made.from = None;
        made
    };
    assert_eq!(takeovers(&a).await, std::slice::from_ref(&first));
    let _ = beat(&a).await;
    assert_eq!(takeovers(&a).await, [first], "a renewal is none");
}

#[tokio::test]
async fn after_a_resignation_the_gap_counts_from_the_resignation() {
    let fleet = Fleet::new().await;
    let (a, b) = (fleet.node("a").await, fleet.node("b").await);
    let _ = beat(&a).await;
    let _ = beat(&b).await;
    assert!(a.leave().await.unwrap());
    let keys = &fleet.keys;
    let since: String = fleet.raw(&["HGET", &keys.generator, "since"]).await;
    let before = (since.parse::<u64>().unwrap() - 200_000).to_string();
    fleet
        .write(&["HSET", &keys.generator, "since", &before])
        .await;
    let _ = beat(&b).await;
    let (words, gap) = newest(&b).await;
    assert_eq!(words, "2 b resigned from a");
    assert!(about(200_000).contains(&gap), "{gap}");
}

#[tokio::test]
async fn after_a_death_the_gap_counts_from_the_last_beat_of_any_node() {
    let fleet = Fleet::new().await;
    let (a, b) = (fleet.node("a").await, fleet.node("b").await);
    let _ = beat(&a).await;
    let _ = beat(&b).await;
    drop(a);
    fleet.wait_absent("a").await;
    silent_for(&fleet, "a", 400_000).await;
    silent_for(&fleet, "b", 200_000).await;
    let _ = beat(&b).await;
    let (words, gap) = newest(&b).await;
    assert_eq!(words, "2 b gone from a");
    assert!(about(200_000).contains(&gap), "{gap}");
}

#[tokio::test]
async fn after_a_silence_the_gap_counts_from_the_holder_s_last_beat() {
    let fleet = Fleet::new().await;
    let (a, b) = (fleet.node("a").await, fleet.node("b").await);
    let _ = a.beat(beat_call(EXPIRED, 0)).await.unwrap();
    silent_for(&fleet, "a", 400_000).await;
    silent_for(&fleet, "b", 200_000).await;
    let _ = beat(&b).await;
    let (words, gap) = newest(&b).await;
    assert_eq!(words, "2 b expired from a");
    assert!(about(400_000).contains(&gap), "{gap}");
}

#[tokio::test]
async fn a_holder_that_needs_a_higher_epoch_takes_over_from_itself() {
    let fleet = Fleet::new().await;
    let a = fleet.node("a").await;
    assert!(matches!(a.seal(7).await.unwrap(), Seal::Sealed { .. }));
    let _ = beat(&a).await;
    let _ = a.beat(beat_call(LONG, 7)).await.unwrap();
    assert_eq!(newest(&a).await, ("8 a raised from a".to_owned(), 0));
    assert_eq!(takeovers(&a).await.len(), 2);
}

#[tokio::test]
async fn a_clock_that_was_set_back_makes_no_negative_gap() {
    let fleet = Fleet::new().await;
    let (a, b) = (fleet.node("a").await, fleet.node("b").await);
    let _ = a.beat(beat_call(EXPIRED, 0)).await.unwrap();
    fleet
        .write(&["ZADD", &fleet.keys.seen, "9999999999999", "a"])
        .await;
    let _ = beat(&b).await;
    assert_eq!(newest(&b).await, ("2 b expired from a".to_owned(), 0));
}

#[tokio::test]
async fn only_the_newest_hundred_takeovers_are_kept() {
    let fleet = Fleet::new().await;
    let nodes = [fleet.node("a").await, fleet.node("b").await];
    for epoch in 0..103 {
        let _ = nodes[epoch % 2].beat(beat_call(EXPIRED, 0)).await.unwrap();
    }
    let kept = takeovers(&nodes[0]).await;
    let epochs: Vec<u64> = kept.iter().map(|takeover| takeover.epoch).collect();
    assert_eq!(epochs, (4..=103).rev().collect::<Vec<u64>>());
}
