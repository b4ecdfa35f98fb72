//! seal: the fence only rises, and of two nodes with one epoch only one can seal.

use baton_protocol::Seal;

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
        cursor: Vec::new(),
        known: 0,
        made: baton_protocol::Progress::default(),
    };
    assert_eq!(a.seal(1).await.unwrap(), sealed);
    assert_eq!(fleet.dump().await, ["fence: {epoch=1, node=a}"]);
}

#[tokio::test]
async fn a_higher_epoch_raises_the_fence_and_gets_the_last_number_and_the_cursor() {
    let fleet = Fleet::new().await;
    let g = fleet.generator().await;
    assert!(publish(&g, 1, 3).await.is_written());
    let b = fleet.node("b").await;
    let sealed = Seal::Sealed {
        last: 3,
        cursor: b"10".to_vec(),
        known: 0,
        made: baton_protocol::Progress::default(),
    };
    assert_eq!(b.seal(9).await.unwrap(), sealed);
    assert_eq!(
        fleet.dump().await,
        [
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
    assert!(publish(&g, 1, 3).await.is_written());
    let before = fleet.dump().await;
    let sealed = Seal::Sealed {
        last: 3,
        cursor: b"10".to_vec(),
        known: 0,
        made: baton_protocol::Progress::default(),
    };
    assert_eq!(g.seal(1).await.unwrap(), sealed);
    assert_eq!(g.seal(1).await.unwrap(), sealed);
    assert_eq!(fleet.dump().await, before);
}

#[tokio::test]
async fn a_value_that_is_no_whole_number_is_named_and_the_fence_stays() {
    let fleet = Fleet::new().await;
    let g = fleet.generator().await;
    assert!(publish(&g, 1, 3).await.is_written());
    let b = fleet.node("b").await;
    for (field, sound) in [("last", "3"), ("epoch", "1")] {
        for value in ["", "1.5", "many", "9007199254740993"] {
            fleet
                .write(&["HSET", &fleet.keys.fence, field, value])
                .await;
            let before = fleet.dump().await;
            let error = b.seal(9).await.unwrap_err().to_string();
            assert!(error.contains(&fleet.keys.fence), "{error}");
            assert!(error.contains(field), "{error}");
            assert_eq!(fleet.dump().await, before);
        }
        fleet
            .write(&["HSET", &fleet.keys.fence, field, sound])
            .await;
    }
}
