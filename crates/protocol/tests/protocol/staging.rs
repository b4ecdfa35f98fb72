//! Large packs: the generator stages them with a plain command, and a publish takes them over.

use std::time::Duration;

use baton_protocol::bounds::WAKING_PACK_BYTES;
use baton_protocol::{Claim, ClaimCall, ClaimedPack, GiveBack, Publish, PublishCall, Store};

use crate::support::{Fleet, pack_of, publish, publish_call};

/// A pack of two texts that is too large to pass through a script.
fn large_pack(letter: u8) -> Vec<u8> {
    pack_of(&vec![vec![letter; 600]; 2])
}

/// The publish of a large pack of two messages.
fn call(first: u64, stage: u64, pack: &[u8]) -> PublishCall<'_> {
    PublishCall {
        stage,
        ..publish_call(first, 2, pack)
    }
}

/// The same call, which sends only the name of the staged pack.
fn again<'a>(call: PublishCall<'a>) -> PublishCall<'a> {
    PublishCall {
        is_staged: true,
        ..call
    }
}

async fn ttl(fleet: &Fleet, key: &str) -> i64 {
    fleet.raw(&["TTL", key]).await
}

fn staged_key(fleet: &Fleet, generator: &Store, stage: u64) -> String {
    format!("{}{}:{stage}", fleet.keys.staged, generator.node())
}

#[tokio::test]
async fn a_published_pack_is_stored_once_and_does_not_expire() {
    let fleet = Fleet::new().await;
    let g = fleet.generator().await;
    let pack = large_pack(b'x');
    assert!(g.publish(call(1, 7, &pack)).await.unwrap().is_written());
    assert_eq!(
        fleet.only("packs staged queue").await,
        ["packs: {1=[<600 bytes> <600 bytes>]}", "queue: [1 2 1 2 0]"]
    );
    assert_eq!(ttl(&fleet, &fleet.keys.pack_key(1)).await, -1);
    assert_eq!(g.pack(1).await.unwrap(), Some(pack));
}

#[tokio::test]
async fn a_refused_pack_stays_staged_for_a_minute_and_its_name_is_enough_to_publish_it() {
    let fleet = Fleet::new().await;
    let g = fleet.generator().await;
    let (first, second) = (large_pack(b'x'), large_pack(b'y'));
    let full = PublishCall {
        max_pending: 1,
        ..call(1, 1, &first)
    };
    assert_eq!(g.publish(full).await.unwrap(), Publish::Full { open: 0 });
    let gap = g.publish(call(3, 2, &second)).await.unwrap();
    assert_eq!(gap, Publish::Gap { last: 0 });
    for stage in [1, 2] {
        let left = ttl(&fleet, &staged_key(&fleet, &g, stage)).await;
        assert!((1..=60).contains(&left), "{left}");
    }
    // The bytes of these calls do not travel.
    for (number, stage, pack) in [(1, 1, &first), (3, 2, &second)] {
        let sent = PublishCall {
            pack: &vec![0; pack.len()],
            ..again(call(number, stage, pack))
        };
        assert!(g.publish(sent).await.unwrap().is_written());
        assert_eq!(g.pack(number).await.unwrap().as_ref(), Some(pack));
    }
    assert_eq!(fleet.only("staged").await, [""; 0]);
}

#[tokio::test]
async fn a_staged_pack_that_is_gone_is_missing_and_nothing_is_written() {
    let fleet = Fleet::new().await;
    let g = fleet.generator().await;
    let pack = large_pack(b'x');
    assert_eq!(
        g.publish(call(3, 1, &pack)).await.unwrap(),
        Publish::Gap { last: 0 }
    );
    fleet.write(&["DEL", &staged_key(&fleet, &g, 1)]).await;
    let before = fleet.dump().await;
    let named = again(call(1, 1, &pack));
    assert_eq!(g.publish(named).await.unwrap(), Publish::Missing);
    assert_eq!(fleet.dump().await, before);
    // A key of another type is no pack either; staging replaces it.
    fleet
        .write(&["LPUSH", &staged_key(&fleet, &g, 1), "foreign"])
        .await;
    assert_eq!(g.publish(named).await.unwrap(), Publish::Missing);
    assert!(g.publish(call(1, 1, &pack)).await.unwrap().is_written());
    assert_eq!(g.pack(1).await.unwrap(), Some(pack));
}

#[tokio::test]
async fn a_number_of_messages_does_not_find_the_bytes_that_had_it_before() {
    let fleet = Fleet::new().await;
    let g = fleet.generator().await;
    let (old, new) = (large_pack(b'x'), large_pack(b'y'));
    let full = PublishCall {
        max_pending: 1,
        ..call(1, g.new_stage(), &old)
    };
    assert_eq!(g.publish(full).await.unwrap(), Publish::Full { open: 0 });
    let named = again(call(1, g.new_stage(), &new));
    assert_eq!(g.publish(named).await.unwrap(), Publish::Missing);
}

#[tokio::test]
async fn a_replaced_generator_changes_no_pack() {
    let fleet = Fleet::new().await;
    let (g, b) = (fleet.generator().await, fleet.node("b").await);
    let _ = b.seal(2).await.unwrap();
    let (late, accepted) = (large_pack(b'x'), large_pack(b'y'));
    let fenced = Publish::Fenced {
        node: "b".to_owned(),
        epoch: 2,
    };
    assert_eq!(g.publish(call(1, 1, &late)).await.unwrap(), fenced);
    let by_b = PublishCall {
        epoch: 2,
        ..call(1, 1, &accepted)
    };
    assert!(b.publish(by_b).await.unwrap().is_written());
    assert_eq!(g.publish(call(1, 1, &late)).await.unwrap(), fenced);
    assert_eq!(g.pack(1).await.unwrap(), Some(accepted));
    assert!(ttl(&fleet, &staged_key(&fleet, &g, 1)).await > 0);
}

#[tokio::test]
async fn a_pack_that_another_program_replaced_goes_to_errors_and_the_next_one_is_claimed() {
    let fleet = Fleet::new().await;
    let (g, w) = fleet.with_messages(2).await;
    assert!(publish(&g, 3, 1).await.is_written());
    let key = fleet.keys.pack_key(1);
    fleet.write(&["DEL", &key]).await;
    fleet.write(&["LPUSH", &key, "foreign"]).await;
    assert_eq!(g.pack(1).await.unwrap(), None);
    assert_eq!(w.take(1, 5).await, "m3");
    assert_eq!(
        fleet.only("errors stats").await,
        [
            "errors: {1=0 at TIME by w try 1: its text is missing in Redis: 1 2 1 2 0}",
            "stats: {foreign=1}"
        ]
    );
}

#[tokio::test]
async fn a_pack_whose_claim_ran_out_before_it_was_read_is_gone_once_it_has_ended() {
    let fleet = Fleet::new().await;
    let g = fleet.generator().await;
    let pack = large_pack(b'x');
    assert!(g.publish(call(1, 1, &pack)).await.unwrap().is_written());
    let (slow, quick) = (fleet.lane("slow").await, fleet.lane("quick").await);
    let Claim::Claimed { range, pack: whole } = slow.claim(1, 2).await else {
        panic!("nothing was claimed");
    };
    assert_eq!(whole, ClaimedPack::Whole);
    let _ = slow.give_back(1).await;
    assert!(matches!(quick.claim(1, 2).await, Claim::Claimed { .. }));
    assert!(slow.store.pack(range.pack).await.unwrap().is_some());
    let _ = quick.commit(1, 1..=2).await;
    assert_eq!(slow.store.pack(range.pack).await.unwrap(), None);
}

/// How the pack of two messages that waits comes to a lane which slept, and which claims so many.
async fn pack_for_sleeper(fleet: &Fleet, want: u64) -> ClaimedPack {
    let lane = fleet.lane("w").await;
    let call = ClaimCall {
        slot: &lane.slot,
        number: 1,
        want,
        ttl: Duration::from_secs(5),
        alone: true,
    };
    match lane.store.claim_awake(call, 0).await.unwrap() {
        Claim::Claimed { pack, .. } => pack,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_lane_that_slept_gets_a_pack_along_that_is_not_too_large_if_it_takes_all_of_it() {
    for (bytes, want, comes_along) in [
        (600, 2, true),
        (WAKING_PACK_BYTES / 2 - 50, 2, true),
        (WAKING_PACK_BYTES / 2, 2, false),
        // Other lanes need the pack, too.
        (600, 1, false),
    ] {
        let fleet = Fleet::new().await;
        let g = fleet.generator().await;
        let pack = pack_of(&vec![vec![b'x'; bytes]; 2]);
        assert!(g.publish(call(1, 1, &pack)).await.unwrap().is_written());
        let claimed = pack_for_sleeper(&fleet, want).await;
        let expected = ClaimedPack::Sent(pack);
        assert_eq!(claimed == expected, comes_along, "{bytes} bytes, {want}");
        // A lane that did not sleep reads it.
        let awake = fleet.lane("v").await;
        let w = fleet.lane("w").await;
        assert_eq!(w.give_back(1).await, GiveBack::Ok);
        let claim = awake.claim(1, 2).await;
        assert!(matches!(
            claim,
            Claim::Claimed {
                pack: ClaimedPack::Whole | ClaimedPack::Part { .. },
                ..
            }
        ));
    }
}
