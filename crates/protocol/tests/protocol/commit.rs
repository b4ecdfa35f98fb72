//! commit: each message ends once, by the slot that has claimed exactly it.

use baton::Effects;
use baton_protocol::{Commit, CommitCall};

use crate::support::{Fleet, commit_call, failed, publish};

#[tokio::test]
async fn a_commit_ends_the_claim_and_leaves_nothing_of_the_pack() {
    let fleet = Fleet::new().await;
    let (_g, w) = fleet.with_messages(3).await;
    assert_eq!(w.take(1, 3).await, "m1 m2 m3");
    assert_eq!(w.commit(1, 1..=3).await, Commit::Done);
    assert_eq!(
        fleet.dump().await,
        [
            "fence: {cursor=10, epoch=1, last=3, node=g}",
            "stats: {done=3}",
            "workers: {w:0=1 1 3 TIME}",
        ]
    );
}

#[tokio::test]
async fn a_repeated_commit_answers_already_and_changes_nothing() {
    let fleet = Fleet::new().await;
    let (_g, w) = fleet.with_messages(3).await;
    assert_eq!(w.take(1, 3).await, "m1 m2 m3");
    let records = [failed(2, "m2")];
    assert_eq!(w.commit_failed(1, 1..=3, &records).await, Commit::Done);
    let before = fleet.dump().await;
    assert_eq!(w.commit_failed(1, 1..=3, &records).await, Commit::Already);
    let other = w.commit_failed(2, 1..=3, &records).await;
    assert_eq!(other, Commit::Lost, "another number is another call");
    assert_eq!(fleet.dump().await, before);
}

#[tokio::test]
async fn a_claim_that_was_reclaimed_cannot_be_committed() {
    let fleet = Fleet::new().await;
    let (_g, w) = fleet.with_messages(2).await;
    assert_eq!(w.take_and_stall(1, 2).await, "m1 m2");
    let _ = w.store.reclaim().await.unwrap();
    let before = fleet.dump().await;
    assert_eq!(w.commit(1, 1..=2).await, Commit::Lost);
    assert_eq!(fleet.dump().await, before);

    let x = fleet.lane("x").await;
    assert_eq!(x.take(1, 1).await, "m1 (1)");
    let before = fleet.dump().await;
    assert_eq!(w.commit(1, 1..=2).await, Commit::Lost, "while x holds one");
    assert_eq!(fleet.dump().await, before);
}

#[tokio::test]
async fn only_the_exact_range_of_a_claim_can_be_committed() {
    let fleet = Fleet::new().await;
    let (g, w) = fleet.with_messages(4).await;
    assert!(publish(&g, 5, 2).await.is_written());
    assert_eq!(w.take(2, 3).await, "m1 m2 m3");
    let before = fleet.dump().await;
    for (number, ended) in [
        (1, 1..=3),
        (3, 1..=3),
        (2, 2..=3),
        (2, 1..=4),
        (2, 0..=3),
        (2, 5..=6),
        #[allow(clippy::reversed_empty_ranges, reason = "the nonsense is the point")]
        (2, 1..=0),
    ] {
        let named = format!("{number}: {ended:?}");
        assert_eq!(w.commit(number, ended).await, Commit::Lost, "{named}");
    }
    assert_eq!(
        w.sibling(1).commit(2, 1..=3).await,
        Commit::Lost,
        "another slot"
    );
    assert_eq!(fleet.dump().await, before);
}

#[tokio::test]
async fn a_late_duplicate_claim_does_not_let_an_old_commit_end_other_messages() {
    let fleet = Fleet::new().await;
    let (g, w) = fleet.with_messages(2).await;
    assert!(publish(&g, 3, 2).await.is_written());
    assert_eq!(w.take_and_stall(1, 2).await, "m1 m2");
    let _ = w.store.reclaim().await.unwrap();
    let x = fleet.lane("x").await;
    for (number, seq) in [(1, 1), (2, 2)] {
        assert_eq!(x.take(number, 1).await, format!("m{seq} (1)"));
        assert_eq!(x.commit(number, seq..=seq).await, Commit::Done);
    }
    assert_eq!(w.take(1, 2).await, "m3 m4", "the network repeats the claim");
    let before = fleet.dump().await;
    assert_eq!(w.commit(1, 1..=2).await, Commit::Lost);
    assert_eq!(fleet.dump().await, before);
}

#[tokio::test]
async fn a_prefix_can_be_committed_and_then_the_rest() {
    let fleet = Fleet::new().await;
    let (_g, w) = fleet.with_messages(5).await;
    assert_eq!(w.take(1, 5).await, "m1 m2 m3 m4 m5");
    assert_eq!(w.commit(1, 1..=2).await, Commit::Done);
    assert_eq!(
        fleet.dump().await,
        [
            "claims: {w:0=m 1 RUN 1 5 3 5 0}",
            "deadlines: {w:0=TIME}",
            "fence: {cursor=10, epoch=1, last=5, node=g}",
            "left: {1=3}",
            "packs: {1=[m1 m2 m3 m4 m5]}",
            "stats: {done=2}",
            "workers: {w:0=1 1 2 TIME}",
        ]
    );
    assert_eq!(w.commit(1, 1..=2).await, Commit::Already);
    assert_eq!(w.commit(1, 1..=5).await, Commit::Lost, "two have ended");
    assert_eq!(w.commit(1, 3..=5).await, Commit::Done);
    assert_eq!(
        fleet.dump().await,
        [
            "fence: {cursor=10, epoch=1, last=5, node=g}",
            "stats: {done=5}",
            "workers: {w:0=1 3 5 TIME}",
        ]
    );
    assert_eq!(w.commit(1, 3..=5).await, Commit::Already);
}

#[tokio::test]
async fn the_rest_of_a_prefix_commit_is_lost_with_the_claim() {
    let fleet = Fleet::new().await;
    let (_g, w) = fleet.with_messages(3).await;
    assert_eq!(w.take_and_stall(1, 3).await, "m1 m2 m3");
    assert_eq!(w.commit(1, 1..=1).await, Commit::Done, "late, yet in time");
    assert_eq!(w.store.reclaim().await.unwrap().messages, 2);
    assert_eq!(w.commit(1, 2..=3).await, Commit::Lost);
    assert_eq!(w.commit(1, 1..=1).await, Commit::Already);
    assert_eq!(
        fleet.only("left queue stats").await,
        ["left: {1=2}", "queue: [1 3 2 3 1]", "stats: {done=1}",]
    );
}

#[tokio::test]
async fn a_pack_disappears_with_its_last_message_in_whatever_order_its_parts_end() {
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [0, 2, 1]] {
        let fleet = Fleet::new().await;
        let (_g, w) = fleet.with_messages(5).await;
        let lanes = [w.sibling(1), w.sibling(2), w.sibling(3)];
        let parts = [1..=2, 3..=4, 5..=5];
        for lane in &lanes {
            let _ = lane.take(1, 2).await;
        }
        for part in order {
            let ended = parts[part].clone();
            let size = ended.end() - ended.start() + 1;
            let left: Option<u64> = fleet.raw(&["HGET", &fleet.keys.left, "1"]).await;
            assert_eq!(lanes[part].commit(1, ended).await, Commit::Done);
            let now: Option<u64> = fleet.raw(&["HGET", &fleet.keys.left, "1"]).await;
            let expected = left.unwrap_or(5) - size;
            assert_eq!(now, Some(expected).filter(|left| *left > 0), "{order:?}");
            let packs: u64 = fleet.raw(&["EXISTS", &fleet.keys.pack_key(1)]).await;
            assert_eq!(packs, u64::from(expected > 0), "{order:?}");
        }
        assert_eq!(fleet.only("left packs stats").await, ["stats: {done=5}"]);
    }
}

#[tokio::test]
async fn failed_messages_go_to_errors_in_the_same_step() {
    let fleet = Fleet::new().await;
    let (_g, w) = fleet.with_messages(3).await;
    assert_eq!(w.take(1, 3).await, "m1 m2 m3");
    let records = [failed(1, "m1"), failed(3, "m3")];
    let committed = w.commit_failed(1, 1..=3, &records).await;
    assert_eq!(committed, Commit::Done);
    assert_eq!(
        fleet.dump().await,
        [
            "errors: {1=1 at 5 by w try 1: bad: m1, 2=3 at 5 by w try 1: bad: m3}",
            "errors_ids: {last=2}",
            "fence: {cursor=10, epoch=1, last=3, node=g}",
            "stats: {done=1, failed=2}",
            "workers: {w:0=1 1 3 TIME}",
        ]
    );
}

#[tokio::test]
async fn when_all_messages_fail_none_is_done() {
    let fleet = Fleet::new().await;
    let (_g, w) = fleet.with_messages(1).await;
    assert_eq!(w.take(1, 1).await, "m1");
    let records = [failed(1, "m1")];
    let committed = w.commit_failed(1, 1..=1, &records).await;
    assert_eq!(committed, Commit::Done);
    assert_eq!(fleet.only("stats").await, ["stats: {failed=1}"]);
}

#[tokio::test]
async fn a_full_errors_store_refuses_the_whole_commit() {
    let fleet = Fleet::new().await;
    let (_g, w) = fleet.with_messages(2).await;
    fleet.fail(&vec![failed(9, "old"); 9]).await;
    assert_eq!(w.take(1, 2).await, "m1 m2");
    let before = fleet.dump().await;
    let records = [failed(1, "m1"), failed(2, "m2")];
    let mut effects = Effects::default();
    effects.set(fleet.app("x"), "1");
    let full = w.commit_with(1, 1..=2, &records, &effects).await;
    assert_eq!(full, Commit::Full { records: 9 });
    assert_eq!(fleet.dump().await, before);
    let one = w.commit_with(1, 1..=1, &records[..1], &effects).await;
    assert_eq!(one, Commit::Done, "there is room for one");
    fleet.fail(&[failed(9, "old")]).await;
    let none = w.commit(1, 2..=2).await;
    assert_eq!(none, Commit::Done, "and none is needed for what went well");
}

#[tokio::test]
async fn many_failures_of_one_commit_each_have_a_record_in_order() {
    let fleet = Fleet::new().await;
    let count = 1000;
    let (_g, w) = fleet.with_messages(count).await;
    let _ = w.take(1, count).await;
    let records: Vec<Vec<u8>> = (1..=count)
        .map(|seq| failed(seq, format!("m{seq}")))
        .collect();
    let outcomes = CommitCall {
        max_errors: count,
        ..commit_call(1..=count, &records)
    };
    assert_eq!(w.commit_outcomes(1, outcomes).await, Commit::Done);
    let kept = w.failures().await;
    assert!(kept.iter().map(|failure| failure.id).eq(1..=count));
    let kept = kept.into_iter().map(|failure| failure.record);
    assert!(kept.eq(records));
}
