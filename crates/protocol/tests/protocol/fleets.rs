//! Two fleets on one server never touch each other.

use baton::{Effects, FleetName, Target};
use baton_protocol::{Commit, Store};

use crate::support::{Dump, Fleet, Lane, beat, failed, publish, start};

/// Makes every call of a fleet.
async fn live(fleet: &Fleet) -> (Store, Lane) {
    let (g, w) = fleet.with_messages(5).await;
    let _ = beat(&g).await;
    let _ = beat(&w.store).await;
    let _ = w.take(1, 3).await;
    let mut effects = Effects::default();
    effects.incr_by(fleet.app("count"), 1);
    let records = [failed(1, "m1")];
    let commit = w.commit_with(1, 1..=2, &records, &effects).await;
    assert_eq!(commit, Commit::Done);
    (g, w)
}

/// Makes every call that ends, returns or forgets something.
async fn end(g: &Store, w: &Lane) {
    let _ = w.give_back(1).await;
    let _ = w.take_and_stall(2, 1).await;
    let _ = g.reclaim().await.unwrap();
    let _ = g.reclaim_absent().await.unwrap();
    let _ = g.forget().await.unwrap();
    let _ = w.drain(3, 9, 9999).await;
    let _ = w.store.errors_commit(&w.slot, 3, 9).await.unwrap();
    let _ = g.seal(2).await.unwrap();
    let _ = g.leave().await.unwrap();
}

#[tokio::test]
async fn no_call_of_one_fleet_changes_a_key_of_another() {
    let server = start();
    let one = Fleet::on(&server.url()).await;
    let (g, w) = live(&one).await;
    let before = one.dump().await;
    let other = Fleet::on(&server.url()).await;
    let (other_g, other_w) = live(&other).await;
    end(&other_g, &other_w).await;
    assert_eq!(one.dump().await, before);

    let before = other.dump().await;
    end(&g, &w).await;
    assert_eq!(other.dump().await, before);

    // Neither writes any other key: each key belongs to one of the two.
    let count = |dump: Dump| format!("{dump:?}").lines().count() - 1;
    let all = count(one.dump_all().await);
    assert_eq!(all, count(one.dump().await) + count(other.dump().await));
}

#[tokio::test]
async fn fleets_whose_names_share_a_prefix_are_two_fleets() {
    let server = start();
    let target = Target::parse(&server.url()).unwrap();
    let open = async |fleet: &str| {
        let name = FleetName::new(fleet).unwrap();
        Store::open(&target, &name, "g", |_| {}).await.unwrap()
    };
    let (short, long) = (open("a").await, open("a.0").await);
    for store in [&short, &long] {
        let _ = store.seal(1).await.unwrap();
        assert!(publish(store, 1, 1).await.is_written());
    }
    let w = Lane::new(open("a").await);
    assert_eq!(w.take(1, 1).await, "m1");
    assert_eq!(w.commit(1, 1..=1).await, Commit::Done);
    assert_eq!(short.census().await.unwrap().done, 1);
    assert_eq!(long.census().await.unwrap().pending, 1);
}
