//! publish: writes only for the generator of the fence, the next number, and a queue that has room.

use baton_protocol::{Publish, PublishCall};

use crate::support::{Fleet, pack, publish, publish_call};

#[tokio::test]
async fn a_pack_is_written_with_its_numbers_and_the_cursor() {
    let fleet = Fleet::new().await;
    let g = fleet.generator().await;
    assert!(publish(&g, 1, 3).await.is_written());
    assert_eq!(
        fleet.dump().await,
        [
            "fence: {cursor=10, epoch=1, last=3, node=g}",
            "packs: {1=[m1 m2 m3]}",
            "queue: [1 3 1 3 0]",
        ]
    );
}

#[tokio::test]
async fn numbers_go_on_without_a_gap() {
    let fleet = Fleet::new().await;
    let g = fleet.generator().await;
    for (waiting, (first, count)) in [(1, (1, 3)), (2, (4, 1)), (3, (5, 2))] {
        // The answer says how far the generator is ahead of the workers.
        assert_eq!(publish(&g, first, count).await, Publish::Ok { waiting });
    }
    assert_eq!(
        fleet.dump().await,
        [
            "fence: {cursor=50, epoch=1, last=6, node=g}",
            "packs: {1=[m1 m2 m3], 4=[m4], 5=[m5 m6]}",
            "queue: [1 3 1 3 0, 4 1 4 4 0, 5 2 5 6 0]",
        ]
    );
}

#[tokio::test]
async fn a_repeated_publish_answers_already_and_changes_nothing() {
    let fleet = Fleet::new().await;
    let g = fleet.generator().await;
    assert!(publish(&g, 1, 3).await.is_written());
    assert!(publish(&g, 4, 2).await.is_written());
    let before = fleet.dump().await;
    assert_eq!(publish(&g, 4, 2).await, Publish::Already { last: 5 });
    assert_eq!(publish(&g, 1, 3).await, Publish::Already { last: 5 });
    assert_eq!(fleet.dump().await, before);
}

#[tokio::test]
async fn a_number_that_is_not_the_next_is_a_gap() {
    let fleet = Fleet::new().await;
    let g = fleet.generator().await;
    assert_eq!(publish(&g, 2, 1).await, Publish::Gap { last: 0 });
    assert!(publish(&g, 1, 3).await.is_written());
    let before = fleet.dump().await;
    assert_eq!(publish(&g, 5, 1).await, Publish::Gap { last: 3 });
    assert_eq!(
        publish(&g, 3, 2).await,
        Publish::Gap { last: 3 },
        "a pack that begins before the end"
    );
    assert_eq!(fleet.dump().await, before);
}

#[tokio::test]
async fn node_and_epoch_must_both_be_the_fence_s() {
    let fleet = Fleet::new().await;
    let (g, twin) = (fleet.generator().await, fleet.node("twin").await);
    let before = fleet.dump().await;
    let fenced = Publish::Fenced {
        node: "g".to_owned(),
        epoch: 1,
    };
    let pack = pack(1, 1);
    let at = |epoch| PublishCall {
        epoch,
        ..publish_call(1, 1, &pack)
    };
    assert_eq!(twin.publish(at(1)).await.unwrap(), fenced, "same epoch");
    assert_eq!(g.publish(at(0)).await.unwrap(), fenced, "older epoch");
    assert_eq!(g.publish(at(2)).await.unwrap(), fenced, "not sealed");
    assert_eq!(fleet.dump().await, before);
}

#[tokio::test]
async fn before_any_seal_no_node_can_publish() {
    let fleet = Fleet::new().await;
    let g = fleet.node("g").await;
    let fenced = Publish::Fenced {
        node: String::new(),
        epoch: 0,
    };
    assert_eq!(publish(&g, 1, 1).await, fenced);
    assert_eq!(fleet.dump().await, [""; 0]);
}

#[tokio::test]
async fn a_replaced_generator_is_fenced_even_when_it_only_repeats() {
    let fleet = Fleet::new().await;
    let (g, b) = (fleet.generator().await, fleet.node("b").await);
    assert!(publish(&g, 1, 1).await.is_written());
    let _ = b.seal(2).await.unwrap();
    let before = fleet.dump().await;
    let fenced = Publish::Fenced {
        node: "b".to_owned(),
        epoch: 2,
    };
    assert_eq!(publish(&g, 1, 1).await, fenced);
    assert_eq!(publish(&g, 2, 1).await, fenced);
    assert_eq!(fleet.dump().await, before);
}

#[tokio::test]
async fn a_full_queue_refuses_a_publish() {
    let fleet = Fleet::new().await;
    let g = fleet.generator().await;
    let narrow = async |first, count| {
        let pack = pack(first, count);
        let call = PublishCall {
            max_pending: 4,
            ..publish_call(first, count, &pack)
        };
        g.publish(call).await.unwrap()
    };
    assert!(narrow(1, 3).await.is_written());
    let before = fleet.dump().await;
    assert_eq!(narrow(4, 2).await, Publish::Full { open: 3 });
    assert_eq!(fleet.dump().await, before);
    assert!(narrow(4, 1).await.is_written(), "up to the limit");
    assert_eq!(narrow(5, 1).await, Publish::Full { open: 4 });
}

#[tokio::test]
async fn only_messages_that_ended_make_room() {
    let fleet = Fleet::new().await;
    let (g, w) = fleet.with_messages(4).await;
    let narrow = async |first| {
        let pack = pack(first, 1);
        let call = PublishCall {
            max_pending: 4,
            ..publish_call(first, 1, &pack)
        };
        g.publish(call).await.unwrap()
    };
    assert_eq!(narrow(5).await, Publish::Full { open: 4 });
    assert_eq!(w.take(1, 2).await, "m1 m2");
    assert_eq!(narrow(5).await, Publish::Full { open: 4 });
    let _ = w.commit(1, 1..=2).await;
    assert!(narrow(5).await.is_written());
    assert!(narrow(6).await.is_written());
    assert_eq!(narrow(7).await, Publish::Full { open: 4 });
}

#[tokio::test]
async fn already_has_the_last_number_also_if_another_node_published_it() {
    let fleet = Fleet::new().await;
    let g = fleet.generator().await;
    assert!(publish(&g, 1, 3).await.is_written());
    fleet
        .write(&["HSET", &fleet.keys.fence, "last", "1000"])
        .await;
    let before = fleet.dump().await;
    assert_eq!(publish(&g, 4, 2).await, Publish::Already { last: 1000 });
    assert_eq!(fleet.dump().await, before);
    assert!(publish(&g, 1001, 1).await.is_written());
}

#[tokio::test]
async fn a_value_that_is_no_whole_number_is_named_and_nothing_is_written() {
    let fleet = Fleet::new().await;
    let g = fleet.generator().await;
    assert!(publish(&g, 1, 3).await.is_written());
    let (fence, stats) = (&fleet.keys.fence, &fleet.keys.stats);
    for (key, field, sound) in [
        (fence, "last", "3"),
        (stats, "done", "0"),
        (stats, "failed", "0"),
        (stats, "retried", "0"),
    ] {
        for value in ["", "1.5", "-1", "many", "1e3", "9007199254740993"] {
            fleet.write(&["HSET", key, field, value]).await;
            let before = fleet.dump().await;
            let pack = pack(4, 1);
            let error = g
                .publish(publish_call(4, 1, &pack))
                .await
                .unwrap_err()
                .to_string();
            assert!(error.contains(key.as_str()), "{error}");
            assert!(error.contains(field), "{error}");
            assert_eq!(fleet.dump().await, before);
        }
        fleet.write(&["HSET", key, field, sound]).await;
    }
    assert!(publish(&g, 4, 1).await.is_written());
}

#[tokio::test]
async fn a_cursor_alone_is_stored_behind_the_fence_and_only_after_the_last_number() {
    let fleet = Fleet::new().await;
    let g = fleet.generator().await;
    assert!(publish(&g, 1, 3).await.is_written());
    let cursor = |first| PublishCall {
        cursor: b"later",
        ..publish_call(first, 0, b"")
    };
    // The cursor of the three messages is newer than one before them.
    let older = Publish::Already { last: 3 };
    let ahead = Publish::Gap { last: 3 };
    for (first, expected) in [(1, older.clone()), (3, older), (5, ahead)] {
        let before = fleet.dump().await;
        let answer = g.publish(cursor(first)).await.unwrap();
        assert_eq!(answer, expected, "{first}");
        assert_eq!(fleet.dump().await, before);
    }
    // Sent twice, because an answer was lost.
    for _ in 0..2 {
        assert!(g.publish(cursor(4)).await.unwrap().is_written());
    }
    assert_eq!(
        fleet.dump().await,
        [
            "fence: {cursor=later, epoch=1, last=3, node=g}",
            "packs: {1=[m1 m2 m3]}",
            "queue: [1 3 1 3 0]",
        ]
    );
    let b = fleet.node("b").await;
    let _ = b.seal(2).await.unwrap();
    let answer = g.publish(cursor(4)).await.unwrap();
    assert!(matches!(answer, Publish::Fenced { .. }), "{answer:?}");
}
