//! seal: the fence only rises, and two nodes of one epoch never both pass.

use baton::protocol::{Publish, Seal};

use crate::support::{Fleet, publish};

fn fenced(node: &str, epoch: u64) -> Seal {
    Seal::Fenced {
        node: node.to_owned(),
        epoch,
    }
}

#[tokio::test]
async fn the_first_seal_of_a_fleet_starts_at_zero() {
    let fleet = Fleet::new().await;
    let a = fleet.node("a").await;
    let sealed = Seal::Sealed {
        last: 0,
        cursor_ms: 0,
    };
    assert_eq!(a.seal(1).await.unwrap(), sealed);
    assert_eq!(fleet.dump().await, ["fence: {epoch=1, node=a}"]);
}

#[tokio::test]
async fn a_higher_epoch_raises_the_fence_and_learns_where_to_go_on() {
    let fleet = Fleet::new().await;
    let g = fleet.generator().await;
    assert_eq!(publish(&g, 1, 3).await, Publish::Ok);
    let b = fleet.node("b").await;
    let sealed = Seal::Sealed {
        last: 3,
        cursor_ms: 10,
    };
    assert_eq!(b.seal(9).await.unwrap(), sealed);
    assert_eq!(
        fleet.dump().await,
        [
            "bell: [1]",
            "fence: {cursor=10, epoch=9, last=3, node=b}",
            "packs: {1=[m1 m2 m3]}",
            "queue: [1 3 1 3 0]",
        ]
    );
}

#[tokio::test]
async fn an_older_epoch_is_fenced() {
    let fleet = Fleet::new().await;
    let (a, b) = (fleet.node("a").await, fleet.node("b").await);
    assert!(matches!(a.seal(2).await.unwrap(), Seal::Sealed { .. }));
    let before = fleet.dump().await;
    assert_eq!(b.seal(1).await.unwrap(), fenced("a", 2));
    assert_eq!(a.seal(1).await.unwrap(), fenced("a", 2));
    assert_eq!(fleet.dump().await, before);
}

#[tokio::test]
async fn epochs_are_compared_as_numbers() {
    let fleet = Fleet::new().await;
    let (a, b) = (fleet.node("a").await, fleet.node("b").await);
    assert!(matches!(a.seal(9).await.unwrap(), Seal::Sealed { .. }));
    assert!(matches!(b.seal(10).await.unwrap(), Seal::Sealed { .. }));
    assert_eq!(a.seal(9).await.unwrap(), fenced("b", 10));
}

#[tokio::test]
async fn of_two_nodes_with_one_epoch_only_the_first_passes() {
    let fleet = Fleet::new().await;
    let (a, b) = (fleet.node("a").await, fleet.node("b").await);
    assert!(matches!(a.seal(5).await.unwrap(), Seal::Sealed { .. }));
    let before = fleet.dump().await;
    assert_eq!(b.seal(5).await.unwrap(), fenced("a", 5));
    assert_eq!(fleet.dump().await, before);
}

#[tokio::test]
async fn sealing_again_answers_the_same_and_changes_nothing() {
    let fleet = Fleet::new().await;
    let g = fleet.generator().await;
    assert_eq!(publish(&g, 1, 3).await, Publish::Ok);
    let before = fleet.dump().await;
    let sealed = Seal::Sealed {
        last: 3,
        cursor_ms: 10,
    };
    assert_eq!(g.seal(1).await.unwrap(), sealed);
    assert_eq!(g.seal(1).await.unwrap(), sealed);
    assert_eq!(fleet.dump().await, before);
}

#[tokio::test]
async fn a_seal_rings_the_bell_if_something_waits() {
    let fleet = Fleet::new().await;
    let g = fleet.generator().await;
    assert_eq!(
        fleet.dump().await.only(&["bell"]),
        [""; 0],
        "nothing waits yet"
    );
    assert_eq!(publish(&g, 1, 1).await, Publish::Ok);
    let _: () = fleet.raw(&["DEL", &fleet.keys.bell]).await;
    for _ in 0..2 {
        assert!(matches!(g.seal(1).await.unwrap(), Seal::Sealed { .. }));
        assert_eq!(fleet.dump().await.only(&["bell"]), ["bell: [1]"]);
    }
}
