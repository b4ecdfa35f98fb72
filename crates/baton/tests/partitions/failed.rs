//! Failed messages of all partitions: pages, ids, drains and takes.

use std::time::Duration;

use baton::inspect::{ErrorsCommit, Failed, FailedCursor, FailedId, Taken};
use baton::{FailedMessage, Inspector};
use baton_protocol::Partitions;

use crate::{inspect, seeder, server};

const TTL: Duration = Duration::from_secs(30);

/// Partition p has p + 1 failed messages, all messages have ended.
async fn with_failures(url: &str) -> (Partitions, Inspector) {
    let partitions = seeder::begin(url, 3).await;
    for (p, store) in (0..).zip(partitions.all()) {
        seeder::end_all(store, 5, p + 1).await;
    }
    (partitions, inspect(url).await)
}

/// The partition and the sequence number of each message.
fn places<'a>(messages: impl IntoIterator<Item = &'a FailedMessage>) -> Vec<(u32, u64)> {
    let messages = messages.into_iter();
    messages
        .map(|failed| (failed.partition.unwrap(), failed.seq))
        .collect()
}

/// All failed messages, page by page.
async fn walk(inspector: &Inspector, from: FailedCursor, max: u64) -> Vec<Vec<Failed>> {
    let (mut pages, mut next) = (Vec::new(), Some(from));
    while let Some(cursor) = next {
        let page = inspector.failed_messages(cursor, max).await.unwrap();
        pages.push(page.messages);
        assert!(pages.len() < 10, "the walk goes in circles");
        next = page.next;
    }
    pages
}

const OLDEST_FIRST: [(u32, u64); 6] = [(0, 1), (1, 1), (1, 2), (2, 1), (2, 2), (2, 3)];
const NEWEST_FIRST: [(u32, u64); 6] = [(0, 1), (1, 2), (1, 1), (2, 3), (2, 2), (2, 1)];

#[tokio::test]
async fn pages_walk_from_partition_to_partition_whatever_their_size() {
    let server = server();
    let (_partitions, inspector) = with_failures(&server.url()).await;
    for max in 1..=7 {
        for (from, order) in [
            (FailedCursor::OLDEST, OLDEST_FIRST),
            (FailedCursor::NEWEST, NEWEST_FIRST),
        ] {
            let pages = walk(&inspector, from, max).await;
            assert!(pages.iter().all(|page| page.len() as u64 <= max));
            let full = pages.iter().filter(|page| page.len() as u64 == max);
            assert_eq!(full.count() as u64, 6 / max, "{max}");
            let messages = pages.iter().flatten().map(|failed| &failed.message);
            assert_eq!(places(messages), order, "{max}");
        }
    }
    assert_eq!(inspector.failed_count().await.unwrap(), 6);
}

#[tokio::test]
async fn an_id_means_the_message_of_its_partition_alone() {
    let server = server();
    let (partitions, inspector) = with_failures(&server.url()).await;
    let all: Vec<Failed> = walk(&inspector, FailedCursor::OLDEST, 99).await.concat();
    for failed in &all {
        let id: FailedId = failed.id.to_string().parse().unwrap();
        let found = inspector.failed_message(id).await.unwrap();
        assert_eq!(found.as_ref(), Some(failed));
    }
    // Ids of other fleets: of one partition, and of more partitions.
    let text = all[0].id.to_string();
    let (_, plain) = text.split_once('.').unwrap();
    let foreign: Vec<FailedId> = [plain.to_owned(), format!("3.{plain}")]
        .map(|id| id.parse().unwrap())
        .to_vec();
    assert_eq!(inspector.failed_message(foreign[0]).await.unwrap(), None);

    let dropped = [all[2].id, foreign[0], all[0].id, foreign[1]];
    let settlement = inspector.drop(&dropped).await;
    assert!(settlement.error.is_none(), "{settlement:?}");
    assert_eq!((settlement.dropped, settlement.missing), (2, 2));
    let settlement = inspector.retry(&[all[5].id, all[1].id, all[0].id]).await;
    assert_eq!((settlement.retried, settlement.missing), (2, 1));

    let mut states = Vec::new();
    for store in partitions.all() {
        let census = store.census().await.unwrap();
        states.push([
            census.errors,
            census.dropped,
            census.retried,
            census.pending,
        ]);
    }
    assert_eq!(states, [[0, 1, 0, 0], [0, 1, 1, 1], [2, 0, 1, 1]]);
}

#[tokio::test]
async fn a_drain_takes_all_partitions_in_order_and_holds_what_it_has_not_committed() {
    let server = server();
    let (_partitions, inspector) = with_failures(&server.url()).await;
    let mut drain = inspector.drain(TTL).await.unwrap();
    assert_eq!(drain.left(), 6);
    let mut taken = Vec::new();
    loop {
        let batch = drain.next().await.unwrap();
        if batch.is_empty() {
            break;
        }
        assert_eq!(inspector.claimed_count().await.unwrap(), batch.len() as u64);
        assert_eq!(inspector.held_count().await.unwrap(), batch.len() as u64);
        taken.extend(places(&batch));
        let committed = drain.commit(batch.len()).await.unwrap();
        assert_eq!(committed, ErrorsCommit::Done);
    }
    assert_eq!(taken, OLDEST_FIRST);
    assert_eq!(
        (drain.left(), inspector.failed_count().await.unwrap()),
        (0, 0)
    );
    assert_eq!(drain.next().await.unwrap(), []);
}

#[tokio::test]
async fn a_take_has_messages_of_several_partitions_and_gives_back_or_removes_them() {
    let server = server();
    let (_partitions, inspector) = with_failures(&server.url()).await;
    let all: Vec<Failed> = walk(&inspector, FailedCursor::OLDEST, 99).await.concat();
    let ids = [all[4].id, all[0].id, all[3].id];
    let take = inspector.take(&ids, TTL).await.unwrap();
    assert_eq!(
        (take.count(), inspector.failed_count().await.unwrap()),
        (3, 3)
    );
    let (mut read, mut from) = (Vec::new(), Some(0));
    while let Some(at) = from {
        let (batch, next) = take.read(at).await.unwrap();
        read.extend(places(batch.iter().map(|failed| &failed.message)));
        from = next;
    }
    assert_eq!(read, [(0, 1), (2, 2), (2, 1)]);
    assert_eq!(take.extend().await.unwrap(), baton::inspect::Extend::Held);
    let given_back = take.give_back().await.unwrap();
    assert_eq!((given_back.put_back, given_back.lost), (3, 0));
    assert_eq!(inspector.failed_count().await.unwrap(), 6);

    let take = inspector.take(&ids, TTL).await.unwrap();
    let Taken { removed, lost, .. } = take.remove().await.unwrap();
    assert_eq!((removed, lost), (3, 0));
    let left: Vec<Failed> = walk(&inspector, FailedCursor::OLDEST, 99).await.concat();
    let left = places(left.iter().map(|failed| &failed.message));
    assert_eq!(left, [(1, 1), (1, 2), (2, 3)]);
}
