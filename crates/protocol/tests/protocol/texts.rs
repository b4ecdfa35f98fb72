//! Texts of any size and any bytes arrive unchanged.

use baton_protocol::{Claim, Commit, ErrorsClaim, Pack, record};

use crate::support::{Fleet, failed, pack_of, publish_call, text_of};

/// Publishes texts, claims them, and ends them all as failed. The worker and the errors store must
/// get the same bytes.
async fn travels(texts: &[&[u8]]) {
    let fleet = Fleet::new().await;
    let (g, w) = (fleet.generator().await, fleet.lane("w").await);
    let count = texts.len() as u64;
    let bytes = pack_of(texts);
    let published = g.publish(publish_call(1, count, &bytes)).await.unwrap();
    assert!(published.is_written());
    let Claim::Claimed { range, pack } = w.claim(1, count).await else {
        panic!("nothing was claimed");
    };
    let pack = w.pack_of(&range, &pack).await;
    assert!(pack == bytes, "the pack changed");
    let pack = Pack::parse(&pack).unwrap();
    let mut records = Vec::new();
    for (seq, sent) in (1..).zip(texts) {
        let text = text_of(&range, &pack, seq);
        assert!(text == *sent, "message {seq} changed");
        records.push(failed(seq, text));
    }
    let commit = w.commit_failed(1, 1..=count, &records);
    assert_eq!(commit.await, Commit::Done);
    let most_bytes = 1 << 30;
    let ErrorsClaim::Claimed(ids) = w.drain(2, count, most_bytes).await else {
        panic!("no records");
    };
    let mut kept = Vec::new();
    while kept.len() < ids.len() {
        let (failures, _) = w.store.errors_read(&ids[kept.len()..]).await.unwrap();
        let texts = failures.iter();
        kept.extend(texts.map(|failure| record::decode(&failure.record).text));
    }
    assert!(kept == texts, "a record changed");
}

#[tokio::test]
async fn a_text_of_one_mebibyte_arrives_whole() {
    let long: Vec<u8> = (0..1 << 20).map(|i: u32| (i % 251) as u8).collect();
    travels(&[b"before", &long, b"after"]).await;
}

#[tokio::test]
async fn texts_of_any_bytes_arrive_whole() {
    let every_byte: Vec<u8> = (0..=255).collect();
    travels(&[b"", b"\xff\xfe\x00", b"\r\n$-1\r\n", &every_byte]).await;
}

#[tokio::test]
async fn a_pack_of_many_messages_arrives_whole() {
    let texts: Vec<String> = (0..1000).map(|i| format!("text {i}")).collect();
    let texts: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
    let fleet = Fleet::new().await;
    let (g, w) = (fleet.generator().await, fleet.lane("w").await);
    let bytes = pack_of(&texts);
    let published = g.publish(publish_call(1, 1000, &bytes)).await.unwrap();
    assert!(published.is_written());
    assert_eq!(w.take(1, 1000).await.split(' ').count(), 2 * 1000);
    assert_eq!(w.commit(1, 1..=1000).await, Commit::Done);
    let more = g
        .publish(publish_call(1001, 1001, &bytes))
        .await
        .unwrap_err();
    assert!(more.to_string().contains("1000 messages"), "{more}");
}
