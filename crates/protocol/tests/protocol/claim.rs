//! claim: a slot gets messages from the head of the queue, in one step.

use baton_protocol::{Claim, ClaimCall, ClaimedPack, Commit, GiveBack, Store};

use crate::support::{Fleet, LONG, pack_of, publish, publish_call};

#[tokio::test]
async fn a_whole_pack_is_claimed() {
    let fleet = Fleet::new().await;
    let (_g, w) = fleet.with_messages(3).await;
    assert_eq!(w.take(1, 100).await, "m1 m2 m3");
    assert_eq!(
        fleet.dump().await,
        [
            "claims: {w:0=m 1 RUN 1 3 1 3 0}",
            "deadlines: {w:0=TIME}",
            "fence: {cursor=10, epoch=1, last=3, node=g}",
            "packs: {1=[m1 m2 m3]}",
        ]
    );
}

#[tokio::test]
async fn a_large_pack_is_split_and_its_rest_stays_at_the_head() {
    let fleet = Fleet::new().await;
    let (g, w) = fleet.with_messages(5).await;
    assert!(publish(&g, 6, 2).await.is_written());
    let (x, y) = (fleet.lane("x").await, fleet.lane("y").await);
    assert_eq!(w.take(1, 2).await, "m1 m2");
    assert_eq!(
        fleet.only("claims queue stats").await,
        [
            "claims: {w:0=m 1 RUN 1 5 1 2 0}",
            "queue: [1 5 3 5 0, 6 2 6 7 0]",
        ]
    );
    assert_eq!(x.take(1, 1).await, "m3");
    assert_eq!(y.take(1, 9).await, "m4 m5", "never across packs");
    assert_eq!(
        fleet.dump().await,
        [
            "claims: {w:0=m 1 RUN 1 5 1 2 0, x:0=m 1 RUN 1 5 3 3 0, y:0=m 1 RUN 1 5 4 5 0}",
            "deadlines: {w:0=TIME, x:0=TIME, y:0=TIME}",
            "fence: {cursor=60, epoch=1, last=7, node=g}",
            "packs: {1=[m1 m2 m3 m4 m5], 6=[m6 m7]}",
            "queue: [6 2 6 7 0]",
        ]
    );
}

#[tokio::test]
async fn a_repeated_claim_returns_the_same_messages_and_a_new_deadline() {
    let fleet = Fleet::new().await;
    let (_g, w) = fleet.with_messages(5).await;
    let first = w.claim(1, 2).await;
    let before = fleet.dump().await;
    fleet
        .write(&["ZADD", &fleet.keys.deadlines, "1", "w:0"])
        .await;
    assert_eq!(w.claim(1, 2).await, first);
    assert_eq!(w.claim(1, 5).await, first, "whatever it wants now");
    assert_eq!(fleet.dump().await, before);
}

#[tokio::test]
async fn the_deadline_is_the_ttl_from_now() {
    let fleet = Fleet::new().await;
    let (_g, w) = fleet.with_messages(1).await;
    let before = w.store.census().await.unwrap().now_ms;
    let _ = w.claim_for(1, 1, LONG).await;
    let after = w.store.census().await.unwrap().now_ms;
    let deadline: u64 = fleet.raw(&["ZSCORE", &fleet.keys.deadlines, "w:0"]).await;
    let ttl = u64::try_from(LONG.as_millis()).unwrap();
    assert!((before + ttl..=after + ttl).contains(&deadline));
}

#[tokio::test]
async fn a_claim_on_an_empty_queue_is_empty() {
    let fleet = Fleet::new().await;
    let w = fleet.lane("w").await;
    assert_eq!(w.claim(1, 1).await, Claim::Empty);
    assert_eq!(fleet.dump().await, ["idle: {w@RUN=TIME wants 1}"]);
}

#[tokio::test]
async fn a_number_that_was_committed_is_stale() {
    let fleet = Fleet::new().await;
    let (_g, w) = fleet.with_messages(5).await;
    assert_eq!(w.take(2, 2).await, "m1 m2");
    assert_eq!(w.commit(2, 1..=2).await, Commit::Done);
    let before = fleet.dump().await;
    assert_eq!(w.claim(2, 2).await, Claim::Stale);
    assert_eq!(w.claim(1, 2).await, Claim::Stale, "and so is a lower one");
    assert_eq!(fleet.dump().await, before);
    assert_eq!(w.take(3, 2).await, "m3 m4");
}

#[tokio::test]
async fn a_number_that_was_given_back_is_stale() {
    let fleet = Fleet::new().await;
    let (_g, w) = fleet.with_messages(5).await;
    assert_eq!(w.take(1, 2).await, "m1 m2");
    assert_eq!(w.give_back(1).await, GiveBack::Ok);
    let before = fleet.dump().await;
    assert_eq!(w.claim(1, 2).await, Claim::Stale);
    assert_eq!(fleet.dump().await, before);
}

#[tokio::test]
async fn a_slot_that_has_a_claim_gets_no_other() {
    let fleet = Fleet::new().await;
    let (_g, w) = fleet.with_messages(5).await;
    assert_eq!(w.take(4, 2).await, "m1 m2");
    let before = fleet.dump().await;
    assert_eq!(w.claim(5, 2).await, Claim::Held { number: 4 });
    assert_eq!(w.claim(3, 2).await, Claim::Held { number: 4 });
    assert_eq!(fleet.dump().await, before);
    assert_eq!(w.sibling(1).take(1, 2).await, "m3 m4", "another lane does");
}

#[tokio::test]
async fn a_claim_of_zero_messages_loses_none() {
    let fleet = Fleet::new().await;
    let (_g, w) = fleet.with_messages(2).await;
    let _ = w
        .store
        .claim(ClaimCall {
            slot: &w.slot,
            number: 1,
            want: 0,
            ttl: crate::support::EXPIRED,
            alone: true,
        })
        .await;
    let _ = w.store.reclaim().await.unwrap();
    let mut ended = 0;
    for number in 2..10 {
        if let Claim::Claimed { range, .. } = w.claim(number, 5).await {
            assert_eq!(
                w.commit(number, range.first..=range.last).await,
                Commit::Done
            );
            ended += range.size();
        }
    }
    let census = w.store.census().await.unwrap();
    assert_eq!((ended, census.done, census.foreign), (2, 2, 0));
}

/// A pack whose texts are long.
async fn large_pack(fleet: &Fleet) -> (Store, Vec<u8>) {
    let g = fleet.generator().await;
    let pack = pack_of(&[[b'x'; 600], [b'y'; 600]]);
    assert!(
        g.publish(publish_call(1, 2, &pack))
            .await
            .unwrap()
            .is_written()
    );
    (g, pack)
}

#[tokio::test]
async fn a_claim_brings_no_large_pack_and_tells_whether_it_takes_all_of_it() {
    let fleet = Fleet::new().await;
    let (g, pack) = large_pack(&fleet).await;
    let w = fleet.lane("w").await;
    for _ in 0..2 {
        let Claim::Claimed { range, pack: kept } = w.claim(1, 1).await else {
            panic!("nothing was claimed");
        };
        assert!(matches!(kept, ClaimedPack::Part { born } if !born.is_empty()));
        assert_eq!((range.first, range.last), (1, 1));
        assert_eq!(g.pack(1).await.unwrap(), Some(pack.clone()));
        assert_eq!(g.pack(2).await.unwrap(), None);
    }
    assert_eq!(w.give_back(1).await, GiveBack::Ok);
    fleet.write(&["LPOP", &fleet.keys.queue]).await;
    let range = "1 2 1 2 0";
    fleet.write(&["LSET", &fleet.keys.queue, "0", range]).await;
    let Claim::Claimed { pack: sent, .. } = w.claim(2, 2).await else {
        panic!("nothing was claimed");
    };
    assert_eq!(sent, ClaimedPack::Whole);
}

#[tokio::test]
async fn data_that_begins_anew_has_another_name() {
    let fleet = Fleet::new().await;
    let mut names = Vec::new();
    for _ in 0..2 {
        let (_g, _) = large_pack(&fleet).await;
        let Claim::Claimed { pack, .. } = fleet.lane("w").await.claim(1, 1).await else {
            panic!("nothing was claimed");
        };
        names.push(pack);
        let pattern = format!("*{{{}:0}}*", fleet.name);
        let keys: Vec<String> = fleet.raw(&["KEYS", &pattern]).await;
        let mut delete = redis::cmd("DEL");
        delete.arg(keys);
        fleet.send(&delete).await;
    }
    assert_ne!(names[0], names[1]);
}

#[tokio::test]
async fn a_new_generator_leaves_the_name_of_the_data_as_it_is() {
    let fleet = Fleet::new().await;
    let g = fleet.generator().await;
    let born = ["HGET", &fleet.keys.fence, "born"];
    let before: String = fleet.raw(&born).await;
    let _ = g.seal(2).await.unwrap();
    assert_eq!(fleet.raw::<String>(&born).await, before);
}

#[tokio::test]
async fn a_range_of_more_messages_than_a_pack_can_have_is_foreign() {
    let fleet = Fleet::new().await;
    let (g, w) = fleet.with_messages(2).await;
    let forged = "1 1000000000000 1 1000000000000 0";
    fleet.write(&["LPUSH", &fleet.keys.queue, forged]).await;
    assert_eq!(w.take(1, 9).await, "m1 m2");
    let census = g.census().await.unwrap();
    assert_eq!((census.foreign, census.balanced()), (1, true));
}

#[tokio::test]
async fn a_claim_with_a_number_beyond_2_to_the_53_is_none_of_ours() {
    let fleet = Fleet::new().await;
    let (_g, w) = fleet.with_messages(2).await;
    let forged = "m 99999999999999999999 abc 1 2 1 2 0";
    fleet
        .write(&["HSET", &fleet.keys.claims, w.slot.name(), forged])
        .await;
    assert_eq!(w.claim(1, 1).await, Claim::Held { number: 0 });
    assert_eq!(w.give_back(0).await, GiveBack::Lost);
}
