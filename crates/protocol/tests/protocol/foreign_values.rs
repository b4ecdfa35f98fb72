//! Values that no script of ours wrote: a script names the key and writes nothing.

use baton::Error;
use baton_protocol::Commit;

use crate::support::{Fleet, Lane, beat_call, commit_call, failed, publish};

/// A fleet with a lease, a claim, and a waiting message whose pack has lost another one.
struct Spoilt {
    fleet: Fleet,
    g: baton_protocol::Store,
    w: Lane,
}

impl Spoilt {
    async fn new() -> Self {
        let fleet = Fleet::new().await;
        let (g, w) = fleet.with_messages(4).await;
        let _ = crate::support::beat(&g).await;
        assert_eq!(w.take(1, 1).await, "m1");
        assert_eq!(w.commit(1, 1..=1).await, Commit::Done);
        assert_eq!(w.take(2, 2).await, "m2 m3");
        Self { fleet, g, w }
    }

    async fn set(&self, key: &str, field: &str, value: &str) {
        let _: () = self.fleet.raw(&["HSET", key, field, value]).await;
    }
}

const BAD: [&str; 8] = [
    "1.5",
    "garbage",
    "",
    "-1",
    "007",
    "1e3",
    "9007199254740992",
    "99999999999999999999",
];

/// Spoils a field in every way. The call must name key and field, and write nothing.
async fn refuses<T: std::fmt::Debug>(
    key: impl Fn(&Fleet) -> &str,
    field: &str,
    call: impl AsyncFn(&Spoilt) -> Result<T, Error>,
) {
    for bad in BAD {
        let spoilt = Spoilt::new().await;
        let key = key(&spoilt.fleet);
        spoilt.set(key, field, bad).await;
        let before = spoilt.fleet.dump().await;
        let error = call(&spoilt).await.unwrap_err();
        assert!(matches!(error, Error::Refused(_)), "{error:?}");
        let named = format!("BADVALUE {key} {field} holds \"{bad}\"");
        assert!(error.to_string().starts_with(&named), "{error}");
        assert!(!error.to_string().contains("script"), "{error}");
        assert_eq!(spoilt.fleet.dump().await, before, "{field} = {bad:?}");
    }
}

async fn commit(spoilt: &Spoilt, failures: u64) -> Result<Commit, Error> {
    let records: Vec<Vec<u8>> = (2..2 + failures).map(|seq| failed(seq, "m")).collect();
    let outcomes = commit_call(2..=3, &records);
    spoilt.w.store.commit(&spoilt.w.slot, 2, outcomes).await
}

#[tokio::test]
async fn a_commit_checks_the_counters_before_it_deletes_a_claim() {
    refuses(
        |fleet| &fleet.keys.stats,
        "failed",
        async |spoilt| commit(spoilt, 1).await,
    )
    .await;
    refuses(
        |fleet| &fleet.keys.stats,
        "done",
        async |spoilt| commit(spoilt, 1).await,
    )
    .await;
    refuses(
        |fleet| &fleet.keys.left,
        "1",
        async |spoilt| commit(spoilt, 0).await,
    )
    .await;
}

#[tokio::test]
async fn a_commit_checks_the_ids_of_failed_messages_too() {
    refuses(
        |fleet| &fleet.keys.errors_ids,
        "last",
        async |spoilt| commit(spoilt, 1).await,
    )
    .await;
}

#[tokio::test]
async fn a_commit_that_would_count_beyond_2_to_the_53_is_refused() {
    let spoilt = Spoilt::new().await;
    let (stats, end) = (&spoilt.fleet.keys.stats, "9007199254740991");
    spoilt.set(stats, "done", end).await;
    let before = spoilt.fleet.dump().await;
    let error = commit(&spoilt, 0).await.unwrap_err().to_string();
    assert!(error.contains(stats.as_str()), "{error}");
    assert_eq!(spoilt.fleet.dump().await, before);
}

#[tokio::test]
async fn a_publish_names_the_number_that_it_cannot_count_with() {
    let call = async |spoilt: &Spoilt| {
        let pack = crate::support::pack(5, 1);
        let call = crate::support::publish_call(5, 1, &pack);
        spoilt.g.publish(call).await
    };
    refuses(|fleet| &fleet.keys.fence, "last", call).await;
    for field in ["done", "failed", "retried", "void"] {
        refuses(|fleet| &fleet.keys.stats, field, call).await;
    }
}

#[tokio::test]
async fn a_void_names_the_number_that_it_cannot_count_with() {
    let void = async |spoilt: &Spoilt| spoilt.g.void(1, 5, 6, true).await;
    refuses(|fleet| &fleet.keys.fence, "last", void).await;
    refuses(|fleet| &fleet.keys.stats, "void", void).await;
}

#[tokio::test]
async fn a_seal_names_the_number_that_it_cannot_count_with() {
    for field in ["epoch", "last"] {
        let seal = async |spoilt: &Spoilt| spoilt.g.seal(2).await;
        refuses(|fleet| &fleet.keys.fence, field, seal).await;
    }
}

#[tokio::test]
async fn a_beat_names_the_number_that_it_cannot_count_with() {
    for field in ["epoch", "until", "since"] {
        let beat = async |spoilt: &Spoilt| spoilt.g.beat(beat_call(crate::support::LONG, 0)).await;
        refuses(|fleet| &fleet.keys.generator, field, beat).await;
    }
}

#[tokio::test]
async fn an_epoch_of_2_to_the_53_is_named_and_never_exceeded() {
    let spoilt = Spoilt::new().await;
    let key = &spoilt.fleet.keys.generator;
    spoilt.set(key, "epoch", "9007199254740991").await;
    let before = spoilt.fleet.dump().await;
    let beat = spoilt.g.beat(beat_call(crate::support::LONG, 0)).await;
    let error = beat.unwrap_err().to_string();
    assert!(error.contains(&format!("{key} epoch")), "{error}");
    assert_eq!(spoilt.fleet.dump().await, before);
}

#[tokio::test]
async fn a_claim_that_meets_garbage_checks_the_counter_first() {
    let call = async |spoilt: &Spoilt| {
        let queue = &spoilt.fleet.keys.queue;
        let queued: Vec<String> = spoilt.fleet.raw(&["LRANGE", queue, "0", "0"]).await;
        if queued != ["garbage"] {
            let _: () = spoilt.fleet.raw(&["LPUSH", queue, "garbage"]).await;
        }
        let lane = spoilt.w.sibling(7);
        let claim = baton_protocol::ClaimCall {
            slot: &lane.slot,
            number: 1,
            want: 1,
            ttl: crate::support::LONG,
            alone: true,
        };
        let claimed = lane.store.claim(claim).await;
        let _: () = spoilt.fleet.raw(&["LPOP", queue]).await;
        claimed
    };
    refuses(|fleet| &fleet.keys.stats, "foreign", call).await;
}

#[tokio::test]
async fn a_drop_names_the_number_that_it_cannot_count_with() {
    let call = async |spoilt: &Spoilt| {
        let failure = baton_protocol::Failure::short(1, b"a record".to_vec());
        let settle = baton_protocol::Settle::Drop;
        crate::support::settle_all(&spoilt.w.store, settle, &[failure]).await
    };
    refuses(|fleet| &fleet.keys.stats, "dropped", call).await;
}

#[tokio::test]
async fn a_claim_without_a_deadline_comes_back() {
    let fleet = Fleet::new().await;
    let (g, w) = fleet.with_messages(2).await;
    assert_eq!(w.take(1, 2).await, "m1 m2");
    fleet.write(&["DEL", &fleet.keys.deadlines]).await;
    assert_eq!(g.reclaim().await.unwrap().messages, 0);
    assert_eq!(g.reclaim().await.unwrap().messages, 2);
    assert!(g.census().await.unwrap().balanced());
}

#[tokio::test]
async fn a_fleet_goes_on_after_a_person_mended_the_wrong_value() {
    let spoilt = Spoilt::new().await;
    spoilt.set(&spoilt.fleet.keys.stats, "failed", "1.5").await;
    let _ = commit(&spoilt, 1).await.unwrap_err();
    spoilt.set(&spoilt.fleet.keys.stats, "failed", "0").await;
    assert_eq!(commit(&spoilt, 1).await.unwrap(), Commit::Done);
    assert!(spoilt.g.census().await.unwrap().balanced());
    let _ = publish(&spoilt.g, 5, 1).await;
}
