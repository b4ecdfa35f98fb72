//! A server whose memory is full refuses new messages, and executes every call that ends them.

use baton::{Effects, Error, Inspector};
use baton_protocol::{
    Beat, Claim, Commit, ErrorsClaim, ErrorsCommit, Extend, GiveBack, Part, Seal, Settle, Settled,
    Store,
};

use crate::support::{
    Fleet, beat, eventually, failed, pack_of, publish, publish_call, settle_all, start,
};

async fn limit_memory(fleet: &Fleet, bytes: u64) {
    let bytes = bytes.to_string();
    fleet.write(&["CONFIG", "SET", "maxmemory", &bytes]).await;
}

async fn publish_is_refused(fleet: &Fleet, g: &Store, first: u64) {
    let before = fleet.dump().await;
    for bytes in [10, 10_000] {
        let pack = pack_of(&[vec![b'x'; bytes]]);
        let error = g.publish(publish_call(first, 1, &pack)).await.unwrap_err();
        assert!(matches!(error, Error::Unavailable(_)), "{error:?}");
        assert!(error.is_transient() && error.to_string().contains("OOM"));
        assert_eq!(fleet.dump().await, before, "{bytes}");
    }
}

#[tokio::test]
async fn with_full_memory_only_publish_and_void_are_refused() {
    let server = start();
    let fleet = Fleet::on(&server.url()).await;
    let (g, w) = fleet.with_messages(6).await;
    assert!(publish(&g, 7, 1).await.is_written());
    fleet.write(&["LPUSH", &fleet.keys.queue, "garbage"]).await;
    limit_memory(&fleet, 1).await;

    publish_is_refused(&fleet, &g, 8).await;
    let before = fleet.dump().await;
    let error = g.void(1, 8, 9, true).await.unwrap_err();
    assert!(error.is_transient() && error.to_string().contains("OOM"));
    assert_eq!(fleet.dump().await, before);
    let _ = g.pause(&Part::ALL).await.unwrap();
    assert_eq!(w.claim(1, 1).await, Claim::Paused);
    let before = g.resume(&Part::ALL).await.unwrap();
    assert!(before.generator_since_ms.is_some() && before.workers_since_ms.is_some());
    g.preflight(false).await.unwrap();
    let snapshot = Inspector::over(g.clone()).snapshot().await.unwrap();
    assert!(snapshot.balanced && snapshot.counted, "{snapshot:?}");
    assert_eq!((snapshot.published, snapshot.pending), (7, 7));
    assert!(g.pack(1).await.unwrap().is_some());
    assert!(matches!(beat(&g).await, Beat::Generator { epoch: 1, .. }));
    assert!(matches!(beat(&w.store).await, Beat::Worker { .. }));
    assert_eq!(w.take(1, 3).await, "m1 m2 m3", "and garbage is cleared");
    assert_eq!(w.take(1, 3).await, "m1 m2 m3", "and asked for again");
    assert_eq!(w.extend(1).await, Extend::Held);
    let mut effects = Effects::default();
    effects.set(fleet.app("x"), "written");
    let records = [failed(1, "m1")];
    let commit = w.commit_with(1, 1..=2, &records, &effects).await;
    assert_eq!(commit, Commit::Done);
    assert_eq!(w.give_back(1).await, GiveBack::Ok);
    for name in ["x", "y", "z"] {
        assert!(fleet.death(name, 1, &g).await.starts_with("m3"));
    }
    // Reading the state needs memory, too.
    limit_memory(&fleet, 0).await;
    fleet.age_suspects().await;
    limit_memory(&fleet, 1).await;
    assert_eq!(w.take(5, 9).await, "m4 m5 m6", "m3 was poison");
    assert_eq!(w.commit(5, 4..=6).await, Commit::Done);
    assert_eq!(g.reclaim().await.unwrap().messages, 0, "but it rings");
    let claim = w.drain(6, 9, 9999).await;
    assert!(matches!(claim, ErrorsClaim::Claimed(_)));
    let drained = w.store.errors_commit(&w.slot, 6, 1).await.unwrap();
    assert_eq!(drained, ErrorsCommit::Done);
    let left = w.failures().await;
    let settle = async |what, failures| settle_all(&w.store, what, failures).await.unwrap();
    assert_eq!(left[0].record, records[0]);
    assert_eq!(settle(Settle::Retry, &left[..1]).await, [Settled::Retried]);
    assert_eq!(settle(Settle::Drop, &left[1..]).await, [Settled::Dropped]);
    assert!(matches!(
        w.store.seal(2).await.unwrap(),
        Seal::Sealed { last: 7, .. }
    ));
    assert!(g.census().await.unwrap().balanced());
    assert_eq!(g.roster().await.unwrap().nodes.len(), 2);
    assert_eq!(g.forget().await.unwrap(), Vec::<String>::new());
    assert!(g.leave().await.unwrap());
    assert!(matches!(
        beat(&w.store).await,
        Beat::Generator { epoch: 2, .. }
    ));
    assert_eq!(
        fleet.dump().await,
        [
            "app:x: 'written'",
            "errors_ids: {free=4, last=3}",
            "fence: {cursor=70, epoch=2, last=7, node=w}",
            "generator: {epoch=2, node=w, run=RUN, since=TIME, until=TIME}",
            "joined: {w=TIME}",
            "meta: {partitions=1, protocol=1}",
            "nodes: {w=RUN {}}",
            "packs: {1=[m1], 7=[m7]}",
            "queue: [7 1 7 7 0, 1 1 1 1 0]",
            "seen: {w=TIME}",
            "stats: {done=4, dropped=1, failed=2, foreign=1, retried=1}",
            "takeovers: [2 w TIME GAP resigned , 1 g TIME GAP first ]",
            "workers: {w:0=6 0 1 TIME}",
        ]
    );
}

#[tokio::test]
async fn draining_frees_memory_until_publish_works_again() {
    const PACKS: u64 = 8;
    let server = start();
    let fleet = Fleet::on(&server.url()).await;
    let (g, w) = (fleet.generator().await, fleet.lane("w").await);
    let big = pack_of(&[vec![b'x'; 1 << 20]]);
    for seq in 1..=PACKS {
        let published = g.publish(publish_call(seq, 1, &big)).await.unwrap();
        assert!(published.is_written());
    }
    let info: String = fleet.raw(&["INFO", "memory"]).await;
    let used = info
        .lines()
        .find_map(|line| line.strip_prefix("used_memory:"))
        .unwrap();
    limit_memory(&fleet, used.parse::<u64>().unwrap() - (1 << 20)).await;
    publish_is_refused(&fleet, &g, PACKS + 1).await;
    for seq in 1..=PACKS {
        assert!(matches!(w.claim(seq, 1).await, Claim::Claimed { .. }));
        assert_eq!(w.commit(seq, seq..=seq).await, Commit::Done);
    }
    // The server frees the buffers of its clients slowly.
    eventually("there is memory again", async || {
        g.publish(publish_call(PACKS + 1, 1, &big)).await.is_ok()
    })
    .await;
    let census = g.census().await.unwrap();
    assert!(census.balanced());
    assert_eq!((census.done, census.pending), (PACKS, 1));
}

#[tokio::test]
async fn with_full_memory_nodes_fall_asleep_and_are_woken() {
    let server = start();
    let fleet = Fleet::on(&server.url()).await;
    let (g, w) = fleet.with_messages(1).await;
    let mut x = fleet.listener("x").await;
    assert_eq!(w.take(1, 1).await, "m1");
    limit_memory(&fleet, 1).await;
    assert_eq!(x.lane.claim(1, 1).await, Claim::Empty);
    assert_eq!(fleet.only("idle").await, ["idle: {x@RUN=TIME wants 1}"]);
    publish_is_refused(&fleet, &g, 2).await;
    assert_eq!(x.heard(&fleet).await, [], "nothing was handed over");
    assert_eq!(w.give_back(1).await, GiveBack::Ok);
    assert_eq!(fleet.only("idle").await, [""; 0]);
    assert_eq!(x.heard(&fleet).await.len(), 1);
}
