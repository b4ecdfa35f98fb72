//! Makes the messages of a fleet of several partitions by hand, without a node.

use std::time::Duration;

use baton::{Effects, FleetName};
use baton_protocol::{
    Beat, BeatCall, Claim, ClaimCall, Commit, CommitCall, Digest, PackBuilder, Partitions,
    PublishCall, Seal, Slot, Store, record,
};

/// Longer than any test.
const TTL: Duration = Duration::from_secs(600);

pub(crate) fn name() -> FleetName {
    FleetName::new("parts").unwrap()
}

/// A fleet of so many partitions whose generator is the seeder. `url` is that of its server.
pub(crate) async fn begin(url: &str, partitions: u32) -> Partitions {
    let target = url.parse().unwrap();
    let opened = Partitions::open(&target, &name(), "seeder", Some(partitions), |_| {}).await;
    let (partitions, _) = opened.unwrap();
    let beat = partitions.control().beat(BeatCall {
        lease_ttl: TTL,
        about: "{}",
        above: 0,
        is_candidate: true,
        known: 0,
    });
    let Beat::Generator { epoch: 1, .. } = beat.await.unwrap() else {
        panic!("the seeder is alone, and does not generate");
    };
    for store in partitions.all() {
        let sealed = store.seal(1).await.unwrap();
        assert!(matches!(sealed, Seal::Sealed { last: 0, .. }), "{sealed:?}");
    }
    partitions
}

/// Publishes the messages `m1` to `m{count}` in a partition that has none.
pub(crate) async fn publish(store: &Store, count: u64) {
    let mut builder = PackBuilder::default();
    (1..=count).for_each(|seq| builder.push(text(seq).as_bytes()));
    let pack = builder.finish(1, "0123456789", 1);
    let published = store.publish(PublishCall {
        stage: 1,
        is_staged: false,
        claim_ttl: Duration::from_secs(5),
        epoch: 1,
        first: 1,
        count,
        cursor: b"",
        made: None,
        max_pending: 1000,
        digest: Some(digest(1, count)),
        pack: &pack,
    });
    assert!(published.await.unwrap().is_written());
}

/// Claims the oldest waiting messages, as this claim of the seeder.
pub(crate) async fn claim(store: &Store, number: u64, want: u64) -> (u64, u64) {
    let slot = Slot::new(store.node(), 0);
    let claim = store.claim(ClaimCall {
        slot: &slot,
        number,
        want,
        ttl: TTL,
        alone: true,
    });
    match claim.await.unwrap() {
        Claim::Claimed { range, .. } => (range.first, range.last),
        other => panic!("nothing to claim: {other:?}"),
    }
}

/// Commits a claim; the first so many of its messages have failed.
pub(crate) async fn commit(store: &Store, number: u64, (first, last): (u64, u64), failed: u64) {
    let at_ms = store.now_ms().await.unwrap();
    let record = |seq| {
        let failed = record::failed_once(seq, at_ms, "seeder", "no such customer", text(seq));
        record::encode(&failed)
    };
    let failed: Vec<Vec<u8>> = (first..first + failed).map(record).collect();
    let effects = Effects::default();
    let outcomes = CommitCall {
        first,
        last,
        failed: &failed,
        delayed: &[],
        effects: &effects,
        max_errors: 1000,
        digest: Some(digest(first, last)),
    };
    let slot = Slot::new(store.node(), 0);
    let committed = store.commit(&slot, number, outcomes).await.unwrap();
    assert_eq!(committed, Commit::Done);
}

/// Publishes so many messages in a partition, and ends all of them; the first `failed` have failed.
pub(crate) async fn end_all(store: &Store, count: u64, failed: u64) {
    publish(store, count).await;
    let claimed = claim(store, 1, count).await;
    commit(store, 1, claimed, failed).await;
}

fn text(seq: u64) -> String {
    format!("m{seq}")
}

fn digest(first: u64, last: u64) -> Digest {
    let mut digest = Digest::default();
    (first..=last).for_each(|seq| digest.add(seq - 1, text(seq).as_bytes()));
    digest
}
