//! A fleet of several partitions: how many it has, which node a message rings, what nodes tell and park.

use std::time::Duration;

use baton::Error;
use baton_protocol::{
    Claim, ClaimCall, Parcel, Park, Partitions, Progress, Publish, PublishCall, Range, Ring, Seal,
    Slot, Store,
};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::support::{Fleet, LONG, beat, eventually, next_ring, pack, publish_call};

/// A node that takes the fleet to have this many partitions.
async fn open(
    fleet: &Fleet,
    node: &str,
    partitions: Option<u32>,
) -> Result<(Partitions, UnboundedReceiver<Ring>), Error> {
    fleet.partitions(node, partitions).await
}

async fn two(fleet: &Fleet, node: &str) -> (Partitions, UnboundedReceiver<Ring>) {
    open(fleet, node, Some(2)).await.unwrap()
}

async fn seal(store: &Store, epoch: u64) -> Seal {
    store.seal(epoch).await.unwrap()
}

async fn claim(store: &Store, sleepers: Option<usize>) -> Claim {
    let slot = Slot::new(store.node(), 0);
    let call = ClaimCall {
        slot: &slot,
        number: 1,
        want: 2,
        ttl: LONG,
        alone: true,
    };
    let claim = match sleepers {
        Some(sleepers) => store.claim_awake(call, sleepers).await,
        None => store.claim(call).await,
    };
    claim.unwrap()
}

/// What a server says of messages that wait in a partition.
fn waiting_in(partition: usize) -> Ring {
    Ring {
        partition,
        handed: None,
    }
}

/// Publishes a message as the generator of epoch 1.
async fn publish(store: &Store, first: u64, made: Progress) {
    publish_some(store, first, 1, made).await;
}

/// Publishes messages as the generator of epoch 1. Returns how many ranges wait with them.
async fn publish_some(store: &Store, first: u64, count: u64, made: Progress) -> u64 {
    let pack = pack(first, count);
    let call = PublishCall {
        made: Some(made),
        ..publish_call(first, count, &pack)
    };
    match store.publish(call).await.unwrap() {
        Publish::Ok { waiting } => waiting,
        answer => panic!("{answer:?}"),
    }
}

fn made(packs: u64, messages: u64) -> Progress {
    Progress { packs, messages }
}

async fn idle(fleet: &Fleet, store: &Store) -> Vec<String> {
    fleet.raw(&["ZRANGE", &store.keys().idle, "0", "-1"]).await
}

#[tokio::test]
async fn the_first_beat_says_how_many_partitions_a_fleet_has_and_others_are_refused() {
    let fleet = Fleet::new().await;
    let (first, _) = open(&fleet, "a", Some(3)).await.unwrap();
    // No beat yet: this one may still be the first.
    let (late, _) = open(&fleet, "b", Some(5)).await.unwrap();
    let _ = beat(first.control()).await;
    let refused = late
        .control()
        .beat(crate::support::beat_call(LONG, 0))
        .await;
    assert!(
        matches!(
            refused,
            Err(Error::Partitions {
                theirs: 3,
                ours: 5,
                ..
            })
        ),
        "{refused:?}"
    );
    let refused = open(&fleet, "c", Some(1)).await.map(drop);
    assert!(
        matches!(
            refused,
            Err(Error::Partitions {
                theirs: 3,
                ours: 1,
                ..
            })
        ),
        "{refused:?}"
    );
    assert_eq!(open(&fleet, "d", None).await.unwrap().0.all().len(), 3);
    assert_eq!(
        fleet.only("meta").await,
        ["meta: {partitions=3, protocol=1}"]
    );
}

#[tokio::test]
async fn a_number_of_partitions_that_no_fleet_can_have_is_named() {
    let fleet = Fleet::new().await;
    for wrong in [0, 1025] {
        let words = open(&fleet, "a", Some(wrong))
            .await
            .map(drop)
            .unwrap_err()
            .to_string();
        assert_eq!(
            words,
            format!("a fleet has 1 to 1024 partitions, not {wrong}")
        );
    }
    let (beats, _) = open(&fleet, "b", None).await.unwrap();
    let meta = &fleet.keys.meta;
    for wrong in ["many", "0", "-3", "99999"] {
        fleet
            .write(&["HSET", meta, "protocol", "1", "partitions", wrong])
            .await;
        let opened = open(&fleet, "a", None).await.map(drop);
        let call = crate::support::beat_call(LONG, 0);
        let beat = beats.control().beat(call).await.map(drop);
        for refused in [opened, beat] {
            let words = refused.unwrap_err().to_string();
            let expected = format!("BADVALUE {meta} partitions is \"{wrong}\"");
            assert!(words.contains(&expected), "{words}");
        }
    }
}

#[tokio::test]
async fn of_nodes_that_join_a_new_fleet_at_once_the_first_decides() {
    let fleet = Fleet::new().await;
    let open = async |node, count| fleet.partitions(node, count).await.unwrap().0;
    let (three, none) = (open("a", Some(3)).await, open("b", None).await);
    assert!(three.decide().await.unwrap());
    assert!(!none.decide().await.unwrap(), "it takes 1 for granted");
    let again = open("b", None).await;
    assert_eq!(again.all().len(), 3);
    assert!(again.decide().await.unwrap());
    let meta = &fleet.keys.meta;
    let decided: Vec<String> = fleet.raw(&["HMGET", meta, "protocol", "partitions"]).await;
    assert_eq!(decided, ["1", "3"]);
}

#[tokio::test]
async fn each_partition_has_idle_nodes_of_its_own_and_names_itself_when_it_rings() {
    let fleet = Fleet::new().await;
    let (g, _) = two(&fleet, "g").await;
    let (w, mut rings) = two(&fleet, "w").await;
    for (own, store) in g.all().iter().zip(w.all()) {
        let _ = seal(own, 1).await;
        assert_eq!(claim(store, None).await, Claim::Empty);
    }
    let sleeper = [format!("w@{}", w.control().run_id())];
    let [one, two] = w.all() else { panic!("two") };
    assert_eq!(idle(&fleet, one).await, sleeper);
    let waiting = publish_some(&g.all()[1], 1, 3, made(1, 3)).await;
    assert_eq!(waiting, 1);
    let Ring { partition, handed } = next_ring(&mut rings).await;
    let range = handed.map(|handed| handed.range);
    assert_eq!((partition, range), (1, Range::parse("1 3 1 2 0")));
    assert!(two.handed_number().await.unwrap().is_some());
    assert_eq!(one.handed_number().await.unwrap(), None);
    assert_eq!(idle(&fleet, two).await, Vec::<String>::new());
    assert_eq!(idle(&fleet, one).await, sleeper, "that one is quiet");
    // Another lane of the node sleeps on: the node stays idle.
    assert!(matches!(claim(two, Some(1)).await, Claim::Claimed { .. }));
    assert_eq!(idle(&fleet, two).await, sleeper);
    publish_some(&g.all()[1], 4, 1, made(2, 4)).await;
    assert_eq!(next_ring(&mut rings).await, waiting_in(1));
}

#[tokio::test]
async fn a_busy_node_rings_on_and_the_absent_are_passed_over() {
    let fleet = Fleet::new().await;
    let (g, _) = two(&fleet, "g").await;
    let (busy, mut busy_rings) = two(&fleet, "busy").await;
    let (free, mut free_rings) = two(&fleet, "free").await;
    let store = &g.all()[0];
    let _ = seal(store, 1).await;
    let run_id = g.control().run_id();
    let dead = format!("dead@{run_id}");
    let key = &store.keys().idle;
    fleet.write(&["ZADD", key, "1", &dead]).await;
    assert_eq!(claim(&busy.all()[0], None).await, Claim::Empty);
    assert_eq!(claim(&free.all()[0], None).await, Claim::Empty);
    let since = ["ZADD", key, "2", &format!("busy@{run_id}")];
    fleet.write(&since).await;
    publish_some(store, 1, 2, made(1, 2)).await;
    assert_eq!(next_ring(&mut busy_rings).await, waiting_in(0));
    busy.all()[0].ring_on().await.unwrap();
    assert_eq!(next_ring(&mut free_rings).await, waiting_in(0));
    assert_eq!(idle(&fleet, store).await, Vec::<String>::new());
    // Nothing waits any more: no node is rung.
    assert!(matches!(
        claim(&free.all()[0], Some(0)).await,
        Claim::Claimed { .. }
    ));
    assert_eq!(claim(&busy.all()[0], None).await, Claim::Empty);
    busy.all()[0].ring_on().await.unwrap();
    assert_eq!(idle(&fleet, store).await, [format!("busy@{run_id}")]);
}

#[tokio::test]
async fn a_reclaim_removes_the_dead_of_an_earlier_server_process_from_idle() {
    let fleet = Fleet::new().await;
    let (g, _) = two(&fleet, "g").await;
    let store = &g.all()[0];
    let _ = seal(store, 1).await;
    fleet
        .write(&["ZADD", &store.keys().idle, "1", "g@00000000"])
        .await;
    eventually("the dead are removed", async || {
        let _ = store.reclaim().await.unwrap();
        idle(&fleet, store).await.is_empty()
    })
    .await;
}

#[tokio::test]
async fn each_partition_says_what_was_made_when_it_was_published() {
    let fleet = Fleet::new().await;
    let (g, _) = two(&fleet, "g").await;
    for store in g.all() {
        let _ = seal(store, 1).await;
    }
    let [one, two] = g.all() else { panic!("two") };
    publish(one, 1, made(1, 1)).await;
    publish(two, 1, made(2, 2)).await;
    publish(two, 2, made(3, 3)).await;
    for (store, last, expected) in [(one, 1, made(1, 1)), (two, 2, made(3, 3))] {
        let sealed = seal(store, 2).await;
        assert!(
            matches!(sealed, Seal::Sealed { last: l, made: m, .. } if (l, m) == (last, expected)),
            "{sealed:?}"
        );
    }
    fleet
        .write(&["HSET", &one.keys().fence, "made", "much"])
        .await;
    let words = one.seal(3).await.unwrap_err().to_string();
    let named = format!("BADVALUE {} made holds \"much\"", one.keys().fence);
    assert!(words.contains(&named), "{words}");
}

#[tokio::test]
async fn a_partition_is_told_the_highest_number_that_a_node_knows() {
    let fleet = Fleet::new().await;
    let (g, _) = two(&fleet, "g").await;
    let store = &g.all()[1];
    let _ = seal(store, 1).await;
    publish(store, 1, made(1, 1)).await;
    for (told, known) in [(1, 0), (7, 7), (5, 7)] {
        assert_eq!(store.tell_known(told).await.unwrap(), 1);
        let sealed = seal(store, 1).await;
        assert!(
            matches!(sealed, Seal::Sealed { known: k, .. } if k == known),
            "{sealed:?}"
        );
    }
}

#[tokio::test]
async fn only_the_generator_of_the_fence_parks_and_removes() {
    let fleet = Fleet::new().await;
    let (g, _) = two(&fleet, "g").await;
    let (stale, _) = two(&fleet, "stale").await;
    let place = &g.all()[0];
    let _ = seal(place, 2).await;
    let parcel = |first| Parcel {
        partition: 1,
        first,
        count: 1,
        made: made(first, first),
        digest: None,
        is_scheduled: false,
        cursor: b"c".to_vec(),
        pack: pack(first, 1),
    };
    let fenced = Park::Fenced {
        node: "g".to_owned(),
        epoch: 2,
    };
    for (store, epoch) in [(&stale.all()[0], 2), (place, 1), (&stale.all()[0], 1)] {
        assert_eq!(store.park(epoch, &[parcel(1)]).await.unwrap(), fenced);
    }
    assert_eq!(place.parked().await.unwrap(), []);
    assert_eq!(
        place.park(2, &[parcel(1), parcel(2)]).await.unwrap(),
        Park::Ok
    );
    let field = |first| [Parcel::field(1, first)];
    assert_eq!(stale.all()[0].unpark(2, &field(1)).await.unwrap(), fenced);
    assert_eq!(place.unpark(2, &field(1)).await.unwrap(), Park::Ok);
    // What no generator wrote is passed over.
    fleet
        .write(&["HSET", &place.keys().parked, "x", "garbage"])
        .await;
    assert_eq!(place.parked().await.unwrap(), [parcel(2)]);
}

#[tokio::test]
async fn the_partitions_of_a_process_share_one_pair_of_connections() {
    let server = crate::support::start();
    let fleet = Fleet::on(&server.url()).await;
    let clients = async || -> usize {
        let list: String = fleet.raw(&["CLIENT", "LIST"]).await;
        list.lines().count()
    };
    let before = clients().await;
    let opened = open(&fleet, "a", Some(64)).await.unwrap();
    assert_eq!(clients().await, before + 2);
    drop(opened);
    eventually("the connections are closed", async || {
        clients().await == before
    })
    .await;
    tokio::time::timeout(Duration::from_secs(5), async {
        let _ = open(&fleet, "b", Some(64)).await.unwrap();
    })
    .await
    .unwrap();
}
