//! void: numbers whose messages the server forgot count, and no message ever gets them.

use baton_protocol::{Part, Publish, PublishCall};

use crate::support::{Fleet, pack, publish, publish_call};

#[tokio::test]
async fn void_numbers_are_counted_and_all_else_stays() {
    let fleet = Fleet::new().await;
    let g = fleet.generator().await;
    assert!(publish(&g, 1, 3).await.is_written());
    assert!(g.void(1, 4, 6, false).await.unwrap().is_written());
    assert_eq!(
        fleet.dump().await,
        [
            "fence: {cursor=10, epoch=1, last=6, node=g}",
            "packs: {1=[m1 m2 m3]}",
            "queue: [1 3 1 3 0]",
            "stats: {void=3}",
        ]
    );
    assert!(publish(&g, 7, 1).await.is_written(), "the next number");
    assert!(g.void(1, 8, 8, false).await.unwrap().is_written());
    assert_eq!(
        fleet.dump().await,
        [
            "fence: {cursor=70, epoch=1, last=8, node=g}",
            "packs: {1=[m1 m2 m3], 7=[m7]}",
            "queue: [1 3 1 3 0, 7 1 7 7 0]",
            "stats: {void=4}",
        ]
    );
}

#[tokio::test]
async fn a_server_that_lost_everything_gets_its_numbers_back() {
    let fleet = Fleet::new().await;
    let g = fleet.generator().await;
    assert!(g.void(1, 1, 1000, false).await.unwrap().is_written());
    assert_eq!(
        fleet.dump().await,
        ["fence: {epoch=1, last=1000, node=g}", "stats: {void=1000}"]
    );
    let census = g.census().await.unwrap();
    assert!(census.balanced(), "{census:?}");
    assert_eq!((census.published, census.void), (1000, 1000));
}

#[tokio::test]
async fn a_repeated_void_answers_already_and_changes_nothing() {
    let fleet = Fleet::new().await;
    let g = fleet.generator().await;
    assert!(publish(&g, 1, 3).await.is_written());
    assert!(g.void(1, 4, 6, true).await.unwrap().is_written());
    let before = fleet.dump().await;
    let already = Publish::Already { last: 6 };
    assert_eq!(g.void(1, 4, 6, true).await.unwrap(), already);
    assert_eq!(g.void(1, 2, 3, true).await.unwrap(), already, "messages");
    assert_eq!(fleet.dump().await, before);
}

#[tokio::test]
async fn a_first_number_that_is_not_the_next_is_a_gap() {
    let fleet = Fleet::new().await;
    let g = fleet.generator().await;
    let gap = |last| Publish::Gap { last };
    assert_eq!(g.void(1, 2, 3, true).await.unwrap(), gap(0));
    assert!(publish(&g, 1, 3).await.is_written());
    let before = fleet.dump().await;
    assert_eq!(g.void(1, 5, 6, true).await.unwrap(), gap(3));
    let overlap = g.void(1, 3, 5, true).await.unwrap();
    assert_eq!(overlap, gap(3), "numbers that begin before the end");
    assert_eq!(fleet.dump().await, before);
}

#[tokio::test]
async fn node_and_epoch_must_both_be_the_fence_s() {
    let fleet = Fleet::new().await;
    let early = fleet.node("early").await;
    let unsealed = Publish::Fenced {
        node: String::new(),
        epoch: 0,
    };
    assert_eq!(early.void(0, 1, 1, true).await.unwrap(), unsealed);
    assert_eq!(fleet.dump().await, [""; 0]);
    let (g, twin) = (fleet.generator().await, fleet.node("twin").await);
    let before = fleet.dump().await;
    let fenced = Publish::Fenced {
        node: "g".to_owned(),
        epoch: 1,
    };
    let void = async |store: &baton_protocol::Store, epoch| store.void(epoch, 1, 1, true).await;
    assert_eq!(void(&twin, 1).await.unwrap(), fenced, "same epoch");
    assert_eq!(void(&g, 0).await.unwrap(), fenced, "older epoch");
    assert_eq!(void(&g, 2).await.unwrap(), fenced, "not sealed");
    assert_eq!(fleet.dump().await, before);
}

#[tokio::test]
async fn a_paused_generator_declares_nothing_void() {
    let fleet = Fleet::new().await;
    let g = fleet.generator().await;
    assert!(publish(&g, 1, 3).await.is_written());
    let _ = g.pause(&[Part::Generator]).await.unwrap();
    let before = fleet.dump().await;
    assert_eq!(g.void(1, 4, 6, true).await.unwrap(), Publish::Paused);
    assert_eq!(fleet.dump().await, before);
    let _ = g.resume(&[Part::Generator]).await.unwrap();
    assert!(g.void(1, 4, 6, true).await.unwrap().is_written());
}

#[tokio::test]
async fn void_numbers_take_no_room_in_the_queue() {
    let fleet = Fleet::new().await;
    let g = fleet.generator().await;
    assert!(publish(&g, 1, 3).await.is_written());
    assert!(g.void(1, 4, 1000, false).await.unwrap().is_written());
    let narrow = async |first| {
        let pack = pack(first, 1);
        let call = PublishCall {
            max_pending: 4,
            ..publish_call(first, 1, &pack)
        };
        g.publish(call).await.unwrap()
    };
    assert!(narrow(1001).await.is_written());
    assert_eq!(narrow(1002).await, Publish::Full { open: 4 });
}

#[tokio::test]
async fn a_counter_that_would_reach_2_to_the_53_is_named_and_nothing_is_written() {
    let fleet = Fleet::new().await;
    let g = fleet.generator().await;
    let stats = &fleet.keys.stats;
    fleet
        .write(&["HSET", stats, "void", "9007199254740989"])
        .await;
    let before = fleet.dump().await;
    let error = g.void(1, 1, 3, true).await.unwrap_err().to_string();
    assert!(error.contains(&format!("{stats} void")), "{error}");
    assert_eq!(fleet.dump().await, before);
    assert!(g.void(1, 1, 2, true).await.unwrap().is_written());
}
