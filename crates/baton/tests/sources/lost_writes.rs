//! A server that lost its last writes: a source that replays makes them again under their numbers. With any
//! other source the lost numbers stay void.
//!
//! The loss is certain: the server dies, and comes back with an append-only file of an earlier moment. That
//! is what a machine leaves behind that loses power with `appendfsync everysec`.

use std::time::Duration;

use baton::Roles;

use crate::fleet::{Fleet, until};
use crate::rows::{Asked, Trouble, rows};

/// The texts of so many rows do not fit into what a generator keeps of the packs that Redis confirmed.
const LONG_TEXT: usize = 60 << 10;
const LONG_ROWS: u64 = 240;

fn open(next_seq: u64, row: u64) -> Asked {
    Asked::Open {
        next_seq,
        cursor: (row > 0).then(|| row.to_string()),
    }
}

fn opened(asked: Vec<Asked>) -> Vec<Asked> {
    let asked = asked.into_iter();
    asked.filter(|a| matches!(a, Asked::Open { .. })).collect()
}

/// Everything was published once and ended once, each number with one text, and row n is number n.
async fn assert_exact(fleet: &Fleet, count: u64) {
    let audit = fleet.inspector.audit().await.unwrap();
    assert_eq!(audit.findings, []);
    assert_eq!((audit.published, audit.done), (count, count));
    let texts = fleet.texts();
    let row = |text: &String| text.trim_end_matches('.').to_owned();
    let expected: Vec<String> = (1..=count).map(|row| format!("row {row}")).collect();
    assert!(texts.iter().map(row).eq(expected));
    assert_eq!(fleet.fence("cursor"), format!("source {count}"));
}

#[tokio::test]
async fn what_the_generator_still_has_is_published_again_and_the_source_does_not_notice() {
    const ROWS: u64 = 60;
    let fleet = Fleet::durable().await;
    let source = rows(ROWS).until_told(6).paused(Duration::from_millis(5));
    let generator = fleet.with(Roles::OnlyGenerates).start(source.clone());
    fleet.until("six rows", |at| at.published == 6).await;
    let earlier = fleet.copy_data();
    source.go_on();
    fleet.until("more rows", |at| at.published >= 12).await;
    fleet.lose_writes_since(&earlier);
    let worker = fleet.with(Roles::OnlyWorks).start(rows(0));
    fleet.all_done(ROWS).await;
    assert_exact(&fleet, ROWS).await;
    assert_eq!(opened(source.asked()), [open(1, 0)]);
    let regressed = generator.regressed();
    assert!(
        matches!(regressed[..], [(7, last)] if last >= 12),
        "{regressed:?}"
    );
    assert_eq!(generator.void(), []);
    worker.stop().await;
    generator.stop().await;
}

#[tokio::test]
async fn what_is_lost_for_good_the_source_makes_again_under_its_numbers_and_a_higher_epoch() {
    let fleet = Fleet::durable().await;
    let source = rows(LONG_ROWS).with_text(LONG_TEXT).until_told(6);
    let generator = fleet.with(Roles::OnlyGenerates).start(source.clone());
    fleet.until("six rows", |at| at.published == 6).await;
    let earlier = fleet.copy_data();
    // It waits in front of its last rows, so that it publishes after the loss, too.
    source.wait_at(LONG_ROWS - 3);
    fleet
        .until("most rows", |at| at.published == LONG_ROWS - 3)
        .await;
    fleet.lose_writes_since(&earlier);
    source.go_on();
    let worker = fleet.with(Roles::OnlyWorks).start(rows(0));
    fleet.all_done(LONG_ROWS).await;
    assert_exact(&fleet, LONG_ROWS).await;
    assert_eq!(opened(source.asked()), [open(1, 0), open(7, 6)]);
    assert_eq!(generator.regressed(), [(7, LONG_ROWS - 3)]);
    assert_eq!(generator.void(), []);
    // A publish of the first opening that arrives late meets another epoch.
    assert_eq!(fleet.fence("epoch"), "2");
    worker.stop().await;
    generator.stop().await;
}

#[tokio::test]
async fn a_generator_whose_lease_is_lost_too_leaves_the_lost_rows_to_its_next_reign() {
    const ROWS: u64 = 60;
    let fleet = Fleet::durable().await;
    let generators = fleet.with(Roles::OnlyGenerates);
    let first = generators.start(rows(ROWS).with(6, Trouble::Hang));
    until("a generator", || first.generates()).await;
    let source = rows(ROWS).paused(Duration::from_millis(20));
    let second = generators.start(source.clone());
    fleet.until("six rows", |at| at.published == 6).await;
    let earlier = fleet.copy_data();
    first.kill().await;
    fleet.until("more rows", |at| at.published >= 12).await;
    fleet.lose_writes_since(&earlier);
    let worker = fleet.with(Roles::OnlyWorks).start(rows(0));
    fleet.all_done(ROWS).await;
    assert_exact(&fleet, ROWS).await;
    assert_eq!(opened(source.asked()), [open(7, 6), open(7, 6)]);
    worker.stop().await;
    second.stop().await;
}

/// Each row was handled once, the numbers from `first_void` to `last_void` are void, and the books balance.
async fn assert_void(fleet: &Fleet, rows: u64, first_void: u64, last_void: u64) {
    let void = last_void - first_void + 1;
    let balanced = fleet
        .until("all rows", |at| {
            at.done == rows && at.pending + at.claimed == 0
        })
        .await;
    assert!(balanced.balanced, "{balanced:?}");
    let audit = fleet.inspector.audit().await.unwrap();
    assert_eq!(audit.findings, []);
    assert_eq!(
        (audit.published, audit.done, audit.void),
        (rows + void, rows, void)
    );
    let texts = fleet.texts();
    let row = |text: &String| text.trim_end_matches('.').to_owned();
    let expected: Vec<String> = (1..=rows).map(|row| format!("row {row}")).collect();
    assert!(texts.iter().map(row).eq(expected));
}

#[tokio::test]
async fn numbers_that_a_source_cannot_fill_with_the_same_texts_stay_void() {
    let fleet = Fleet::durable().await;
    let source = rows(LONG_ROWS).with_text(LONG_TEXT).without_replay();
    let source = source.until_told(6);
    let generator = fleet.with(Roles::OnlyGenerates).start(source.clone());
    fleet.until("six rows", |at| at.published == 6).await;
    let earlier = fleet.copy_data();
    // It waits in front of its last rows, so that it publishes after the loss, too.
    let told = LONG_ROWS - 3;
    source.wait_at(told);
    fleet.until("most rows", |at| at.published == told).await;
    fleet.lose_writes_since(&earlier);
    source.go_on();
    let worker = fleet.with(Roles::OnlyWorks).start(rows(0));
    assert_void(&fleet, LONG_ROWS, 7, told).await;
    // The rows come again, with other numbers.
    assert_eq!(opened(source.asked()), [open(1, 0), open(told + 1, 6)]);
    assert_eq!(generator.regressed(), [(7, told)]);
    assert_eq!(generator.void(), [(7, told)]);
    worker.stop().await;
    generator.stop().await;
}

#[tokio::test]
async fn a_successor_voids_the_numbers_of_a_generator_that_died_with_the_server() {
    const ROWS: u64 = 60;
    let fleet = Fleet::durable().await;
    let generators = fleet.with(Roles::OnlyGenerates);
    let source = rows(ROWS).without_replay().until_told(6);
    let first = generators.start(source.clone());
    until("a generator", || first.generates()).await;
    let worker = fleet.with(Roles::OnlyWorks).start(rows(0));
    let second = generators.start(rows(ROWS).without_replay());
    fleet.until("six rows", |at| at.done == 6).await;
    let earlier = fleet.copy_data();
    source.wait_at(12);
    // The worker alone knows what the generator published.
    fleet.until("twelve rows", |at| at.done == 12).await;
    until("the worker's log", || worker.processed() == 12).await;
    first.kill().await;
    fleet.lose_writes_since(&earlier);
    assert_void(&fleet, ROWS, 7, 12).await;
    assert_eq!(worker.regressed(), [(7, 12)]);
    assert_eq!(second.void(), [(7, 12)]);
    assert_eq!(second.published(), ROWS + 6);
    worker.stop().await;
    second.stop().await;
}
