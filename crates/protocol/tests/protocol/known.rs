//! What nodes know of a server that forgot: beat stores the highest number, and seal returns it.

use baton_protocol::{Beat, BeatCall, Seal, Store};

use crate::support::{Fleet, LONG, beat, beat_call, publish};

/// A beat of a node that was told of this number.
async fn beat_knowing(store: &Store, known: u64) -> Beat {
    let call = BeatCall {
        known,
        ..beat_call(LONG, 0)
    };
    store.beat(call).await.unwrap()
}

/// A sealed generator with three messages, and two other nodes.
async fn fleet_of_three() -> (Fleet, Store, Store, Store) {
    let fleet = Fleet::new().await;
    let g = fleet.generator().await;
    let _ = beat(&g).await;
    assert!(publish(&g, 1, 3).await.is_written());
    let (a, b) = (fleet.node("a").await, fleet.node("b").await);
    (fleet, g, a, b)
}

#[tokio::test]
async fn every_beat_is_told_the_last_number() {
    let (_fleet, g, a, _b) = fleet_of_three().await;
    let (holder, standby) = (beat(&g).await, beat(&a).await);
    assert!(
        matches!(holder, Beat::Generator { last: 3, .. }),
        "{holder:?}"
    );
    assert!(
        matches!(standby, Beat::Worker { last: 3, .. }),
        "{standby:?}"
    );
    assert_eq!((holder.last(), standby.last()), (3, 3));
}

#[tokio::test]
async fn a_number_that_the_server_has_is_not_stored() {
    let (fleet, _g, a, _b) = fleet_of_three().await;
    let before = fleet.only("fence").await;
    for known in 0..=3 {
        assert_eq!(beat_knowing(&a, known).await.last(), 3);
    }
    assert_eq!(fleet.only("fence").await, before);
}

#[tokio::test]
async fn the_highest_number_that_a_node_knows_is_stored_and_never_falls() {
    let (fleet, g, a, b) = fleet_of_three().await;
    for (node, known, stored) in [(&a, 5, 5), (&b, 4, 5), (&a, 0, 5), (&g, 7, 7), (&b, 6, 7)] {
        assert_eq!(beat_knowing(node, known).await.last(), 3);
        let line = format!("fence: {{cursor=10, epoch=1, known={stored}, last=3, node=g}}");
        assert_eq!(fleet.only("fence").await, [line.as_str()]);
    }
}

#[tokio::test]
async fn a_seal_is_told_what_the_nodes_know() {
    let (fleet, g, a, b) = fleet_of_three().await;
    let _ = beat_knowing(&a, 5).await;
    let sealed = |last, cursor: &[u8], known| Seal::Sealed {
        last,
        cursor: cursor.to_vec(),
        known,
        made: baton_protocol::Progress::default(),
    };
    assert_eq!(b.seal(2).await.unwrap(), sealed(3, b"10", 5));
    assert_eq!(
        fleet.only("fence").await,
        ["fence: {cursor=10, epoch=2, known=5, last=3, node=b}"]
    );
    assert!(b.void(2, 4, 5, false).await.unwrap().is_written());
    let fenced = Seal::Fenced {
        node: "b".to_owned(),
        epoch: 2,
    };
    assert_eq!(g.seal(1).await.unwrap(), fenced);
    // Nobody needs it any more, and it does not matter.
    assert_eq!(g.seal(3).await.unwrap(), sealed(5, b"10", 5));
}

#[tokio::test]
async fn a_known_number_that_is_none_says_nothing_and_ends_no_generator() {
    let fleet = Fleet::new().await;
    let g = fleet.node("g").await;
    for garbage in ["abc", "-5", "", "1.5", "9007199254740992"] {
        fleet
            .write(&["HSET", &fleet.keys.fence, "known", garbage])
            .await;
        let sealed = Seal::Sealed {
            last: 0,
            cursor: Vec::new(),
            known: 0,
            made: baton_protocol::Progress::default(),
        };
        assert_eq!(g.seal(1).await.unwrap(), sealed, "{garbage}");
    }
    // A node that knows better replaces it.
    assert_eq!(beat_knowing(&g, 3).await.last(), 0);
    let known: u64 = fleet.raw(&["HGET", &fleet.keys.fence, "known"]).await;
    assert_eq!(known, 3);
}

#[tokio::test]
async fn a_server_that_lost_everything_learns_the_highest_number() {
    let fleet = Fleet::new().await;
    let (a, b) = (fleet.node("a").await, fleet.node("b").await);
    assert_eq!(beat_knowing(&a, 8).await.last(), 0);
    assert_eq!(beat_knowing(&b, 9).await.last(), 0);
    assert_eq!(fleet.only("fence").await, ["fence: {known=9}"]);
    let sealed = Seal::Sealed {
        last: 0,
        cursor: Vec::new(),
        known: 9,
        made: baton_protocol::Progress::default(),
    };
    assert_eq!(a.seal(1).await.unwrap(), sealed);
}

#[tokio::test]
async fn a_last_number_that_is_none_stops_no_beat_and_stores_nothing() {
    let (fleet, _g, a, _b) = fleet_of_three().await;
    for bad in ["", "1.5", "many", "9007199254740993"] {
        fleet.write(&["HSET", &fleet.keys.fence, "last", bad]).await;
        let before = fleet.only("fence").await;
        assert_eq!(beat_knowing(&a, 5).await.last(), 5, "{bad:?}");
        assert_eq!(fleet.only("fence").await, before, "{bad:?}");
    }
}
