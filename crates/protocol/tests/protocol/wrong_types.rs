//! A key of ours that holds another type stops every script before its first write.

use baton::{Effects, Error, Inspector};
use baton_protocol::{
    ClaimCall, Commit, CommitCall, Delay, Digest, Failure, Part, PublishCall, Settle, Settled,
    Store, Wanted,
};

use crate::support::{
    EXPIRED, Fleet, LONG, Lane, beat, beat_call, commit_call, failed, pack, publish, publish_call,
    settle_all,
};

/// A fleet in which every call would change something.
struct Busy {
    fleet: Fleet,
    g: Store,
    w: Lane,
}

impl Busy {
    async fn new() -> Self {
        let fleet = Fleet::new().await;
        let (g, w) = fleet.with_messages(5).await;
        assert!(publish(&g, 6, 1).await.is_written());
        let _ = beat(&g).await;
        let _ = beat(&w.store).await;
        let _ = w.take(1, 3).await;
        let records = [failed(1, "m1")];
        let commit = w.commit_failed(1, 1..=1, &records);
        assert_eq!(commit.await, Commit::Done);
        fleet.fail(&["record"]).await;
        let _ = w.sibling(1).take_and_stall(1, 1).await;
        let drain = w.sibling(2);
        let _ = drain.drain_for(1, 1, 1, EXPIRED).await;
        fleet.fail(&[failed(1, "m1")]).await;
        Self { fleet, g, w }
    }

    fn key(&self, name: &str) -> &str {
        let end = format!(":{name}");
        let keys = self.fleet.keys.typed();
        let found = keys.iter().position(|(key, _)| key.ends_with(&end));
        keys[found.unwrap()].0
    }
}

/// Makes the call with each of its keys spoilt, one at a time. Blanks separate their names.
async fn refuses(keys: &str, call: impl AsyncFn(&Busy) -> Result<(), Error>) {
    for name in keys.split(' ') {
        let busy = Busy::new().await;
        let key = busy.key(name);
        busy.fleet.write(&["DEL", key]).await;
        busy.fleet.write(&["SET", key, "not ours"]).await;
        let before = busy.fleet.dump().await;
        let answer = call(&busy).await;
        assert_eq!(busy.fleet.dump().await, before, "{name} is spoilt");
        match answer {
            Err(Error::ForeignKey { key: named, .. }) => assert_eq!(named, key),
            // What a script says itself of a value that it cannot work with.
            Err(Error::Refused(why)) => assert!(why.contains(key), "{why}"),
            other => panic!("{name} is spoilt, yet: {other:?}"),
        }
    }
    let busy = Busy::new().await;
    assert!(call(&busy).await.is_ok(), "with sound keys");
}

#[tokio::test]
async fn beat_refuses_a_spoilt_key_and_writes_nothing() {
    let keys = "generator nodes joined seen meta takeovers fence";
    refuses(keys, async |busy| {
        busy.w.store.beat(beat_call(LONG, 0)).await.map(drop)
    })
    .await;
}

#[tokio::test]
async fn the_first_beat_of_a_fleet_refuses_a_spoilt_key_and_writes_nothing() {
    let keys = "generator nodes joined seen meta takeovers fence";
    for name in keys.split(' ') {
        let fleet = Fleet::new().await;
        let a = fleet.node("a").await;
        let key = format!("baton:{{{}:0}}:{name}", fleet.name);
        fleet.write(&["SET", &key, "not ours"]).await;
        let answer = a.beat(beat_call(LONG, 0)).await;
        let untouched = format!("{name}: 'not ours'");
        assert_eq!(fleet.dump().await, [untouched.as_str()], "{answer:?}");
        let why = answer.unwrap_err().to_string();
        assert!(why.contains(&key), "{why}");
    }
}

#[tokio::test]
async fn leave_refuses_a_spoilt_key_and_writes_nothing() {
    let keys = "generator nodes joined seen";
    refuses(keys, async |busy| busy.g.leave().await.map(drop)).await;
}

#[tokio::test]
async fn forget_refuses_a_spoilt_key_and_writes_nothing() {
    let keys = "nodes joined seen";
    refuses(keys, async |busy| busy.g.forget().await.map(drop)).await;
}

#[tokio::test]
async fn roster_refuses_a_spoilt_key() {
    let keys = "generator nodes joined seen";
    refuses(keys, async |busy| busy.g.roster().await.map(drop)).await;
}

#[tokio::test]
async fn seal_refuses_a_spoilt_key_and_writes_nothing() {
    let keys = "fence queue idle";
    refuses(keys, async |busy| busy.w.store.seal(2).await.map(drop)).await;
}

#[tokio::test]
async fn pause_and_resume_refuse_a_spoilt_key_and_write_nothing() {
    let keys = "fence queue idle";
    refuses(keys, async |busy| busy.g.pause(&Part::ALL).await.map(drop)).await;
    refuses(keys, async |busy| busy.g.resume(&Part::ALL).await.map(drop)).await;
}

#[tokio::test]
async fn publish_refuses_a_spoilt_key_and_writes_nothing() {
    let keys = "fence queue stats idle ledger";
    refuses(keys, async |busy| {
        let pack = pack(7, 1);
        let call = PublishCall {
            digest: Some(Digest::default()),
            ..publish_call(7, 1, &pack)
        };
        busy.g.publish(call).await.map(drop)
    })
    .await;
}

#[tokio::test]
async fn publish_refuses_a_spoilt_key_before_it_hands_messages_over() {
    for name in ["idle", "claims", "deadlines", "stats", "ledger"] {
        let fleet = Fleet::new().await;
        let (g, mut w) = (fleet.generator().await, fleet.listener("w").await);
        fleet.make_idle(&["w"]).await;
        let key = format!("baton:{{{}:0}}:{name}", fleet.name);
        fleet.write(&["SET", &key, "not ours"]).await;
        let before = fleet.dump().await;
        let pack = pack(1, 1);
        let call = PublishCall {
            digest: Some(Digest::default()),
            ..publish_call(1, 1, &pack)
        };
        let why = g.publish(call).await.unwrap_err().to_string();
        assert!(why.contains(&key), "{why}");
        assert_eq!(fleet.dump().await, before, "{name} is spoilt");
        assert_eq!(w.heard(&fleet).await, [], "{name} is spoilt");

        fleet.write(&["DEL", &key]).await;
        fleet.make_idle(&["w"]).await;
        assert!(g.publish(call).await.unwrap().is_written());
        assert!(w.heard(&fleet).await[0].handed.is_some());
    }
}

#[tokio::test]
async fn void_refuses_a_spoilt_key_and_writes_nothing() {
    let keys = "fence stats ledger";
    refuses(keys, async |busy| {
        busy.g.void(1, 7, 9, true).await.map(drop)
    })
    .await;
}

#[tokio::test]
async fn claim_refuses_a_spoilt_key_and_writes_nothing() {
    let keys = "queue claims deadlines workers idle fence";
    refuses(keys, async |busy| {
        let lane = busy.w.sibling(7);
        lane.store
            .claim(ClaimCall {
                slot: &lane.slot,
                number: 1,
                want: 1,
                ttl: LONG,
                alone: true,
            })
            .await
            .map(drop)
    })
    .await;
}

#[tokio::test]
async fn claim_that_meets_garbage_refuses_a_spoilt_key_and_writes_nothing() {
    for name in ["errors", "errors_ids", "stats"] {
        let busy = Busy::new().await;
        let queue = &busy.fleet.keys.queue;
        busy.fleet.write(&["LPUSH", queue, "garbage"]).await;
        let key = busy.key(name);
        busy.fleet.write(&["DEL", key]).await;
        busy.fleet.write(&["SET", key, "not ours"]).await;
        let before = busy.fleet.dump().await;
        let lane = busy.w.sibling(7);
        let error = lane
            .store
            .claim(ClaimCall {
                slot: &lane.slot,
                number: 1,
                want: 1,
                ttl: LONG,
                alone: true,
            })
            .await
            .unwrap_err();
        assert_eq!(busy.fleet.dump().await, before, "{name} is spoilt");
        assert!(error.to_string().contains(key), "{error}");
    }
}

#[tokio::test]
async fn extend_refuses_a_spoilt_key_and_writes_nothing() {
    refuses("claims deadlines", async |busy| {
        let claims = [(busy.w.slot.clone(), 1)];
        busy.w.store.extend(&claims, LONG).await.map(drop)
    })
    .await;
}

#[tokio::test]
async fn commit_refuses_a_spoilt_key_and_writes_nothing() {
    let keys = "claims deadlines left workers stats errors errors_ids ledger delayed notes";
    refuses(keys, async |busy| {
        let mut effects = Effects::default();
        effects.set(busy.fleet.app("x"), "1");
        let records = [failed(2, "m2")];
        let delayed = [Delay {
            seq: 3,
            delay: LONG,
            note: Vec::new(),
            pack: pack(3, 1),
        }];
        let outcomes = CommitCall {
            effects: &effects,
            delayed: &delayed,
            digest: Some(Digest::default()),
            ..commit_call(2..=3, &records)
        };
        let w = &busy.w;
        w.store.commit(&w.slot, 1, outcomes).await.map(drop)
    })
    .await;
}

const RETURN_KEYS: &str = "queue claims deadlines workers idle errors_held errors_ids";

#[tokio::test]
async fn give_back_refuses_a_spoilt_key_and_writes_nothing() {
    refuses(RETURN_KEYS, async |busy| {
        busy.w.store.give_back(&busy.w.slot, 1).await.map(drop)
    })
    .await;
}

#[tokio::test]
async fn reclaim_refuses_a_spoilt_key_and_writes_nothing() {
    let keys = format!("{RETURN_KEYS} delayed");
    refuses(&keys, async |busy| busy.g.reclaim().await.map(drop)).await;
}

const DRAIN_KEYS: &str = "errors claims deadlines workers errors_held errors_ids";

#[tokio::test]
async fn errors_claim_refuses_a_spoilt_key_and_writes_nothing() {
    refuses(DRAIN_KEYS, async |busy| {
        let lane = busy.w.sibling(7);
        let wanted = Wanted::Oldest {
            max: 9,
            bytes: 9999,
            last: 9,
        };
        let claim = lane.store.errors_claim(&lane.slot, 1, wanted, LONG);
        claim.await.map(drop)
    })
    .await;
}

#[tokio::test]
async fn errors_commit_refuses_a_spoilt_key_and_writes_nothing() {
    refuses(DRAIN_KEYS, async |busy| {
        let drain = busy.w.sibling(2);
        let commit = drain.store.errors_commit(&drain.slot, 1, 0);
        commit.await.map(drop)
    })
    .await;
}

#[tokio::test]
async fn census_refuses_a_spoilt_key() {
    let keys = "fence queue claims stats delayed errors";
    refuses(keys, async |busy| busy.g.census().await.map(drop)).await;
}

#[tokio::test]
async fn a_snapshot_refuses_a_spoilt_key() {
    let keys = "meta generator takeovers queue errors errors_held errors_ids";
    refuses(keys, async |busy| {
        Inspector::over(busy.g.clone()).snapshot().await.map(drop)
    })
    .await;
}

#[tokio::test]
async fn errors_settle_refuses_a_spoilt_key_and_writes_nothing() {
    let keys = "errors errors_held queue left stats fence idle ledger";
    for (settle, settled) in [
        (Settle::Drop, Settled::Dropped),
        (Settle::Retry, Settled::Retried),
    ] {
        refuses(keys, async |busy| {
            let record = failed(1, "m1");
            let seen = [Failure::short(3, record)];
            let answer = settle_all(&busy.g, settle, &seen).await?;
            assert_eq!(answer, [settled]);
            Ok(())
        })
        .await;
    }
}

#[tokio::test]
async fn preflight_names_a_spoilt_key_before_a_node_joins() {
    let keys: Vec<String> = {
        let busy = Busy::new().await;
        let names = busy.fleet.keys.typed().map(|(key, _)| key.to_owned());
        names
            .iter()
            .filter_map(|key| key.rsplit(':').next().map(str::to_owned))
            .collect()
    };
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    refuses(&keys.join(" "), async |busy| busy.g.preflight(false).await).await;
}
