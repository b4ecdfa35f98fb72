//! After a restart of the server every node is absent for a moment, which proves nothing.

use baton_protocol::{Beat, Commit, Reclaimed, Seal, Store};
use baton_server::{Fsync, PrivateServer};

use crate::support::{Fleet, beat, eventually};

fn start_durable() -> PrivateServer {
    let builder = PrivateServer::builder().unix_socket();
    builder.appendonly(Fsync::Always).start().unwrap()
}

/// Restarts the server and waits until this node is back.
async fn restart(server: &mut PrivateServer, fleet: &mut Fleet, node: &Store) {
    server.restart().unwrap();
    fleet.reconnect().await;
    eventually("the node is back", async || node.census().await.is_ok()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_from_before_a_restart_stay_until_their_deadline() {
    let mut server = start_durable();
    let mut fleet = Fleet::on(&server.url()).await;
    let (g, w) = fleet.with_messages(2).await;
    assert_eq!(w.take(1, 1).await, "m1");
    drop(w);
    restart(&mut server, &mut fleet, &g).await;

    let before = fleet.dump().await;
    assert_eq!(g.reclaim().await.unwrap(), Reclaimed::default());
    assert_eq!(fleet.dump().await, before);
    let deadlines = &fleet.keys.deadlines;
    fleet.write(&["ZADD", deadlines, "1", "w:0"]).await;
    assert_eq!(g.reclaim().await.unwrap().messages, 1);
    assert_eq!(
        fleet.dump().await,
        [
            "fence: {cursor=10, epoch=1, last=2, node=g}",
            "packs: {1=[m1 m2]}",
            "queue: [1 2 1 1 1 TIME RUN w, 1 2 2 2 0]",
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn reclaim_absent_returns_claims_from_before_a_restart_at_once() {
    let mut server = start_durable();
    let mut fleet = Fleet::on(&server.url()).await;
    let (g, w) = fleet.with_messages(2).await;
    let x = fleet.lane("x").await;
    assert_eq!(w.take(1, 1).await, "m1");
    assert_eq!(x.take(1, 1).await, "m2");
    drop(w);
    restart(&mut server, &mut fleet, &g).await;
    eventually("x is back", async || x.store.census().await.is_ok()).await;
    let reclaimed = Reclaimed {
        messages: 1,
        records: 0,
        nodes: vec!["w".to_owned()],
        ..Reclaimed::default()
    };
    assert_eq!(g.reclaim_absent().await.unwrap(), reclaimed);
    assert_eq!(x.commit(1, 2..=2).await, Commit::Done, "x lives");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_from_before_a_restart_stays_with_its_holder() {
    let mut server = start_durable();
    let mut fleet = Fleet::on(&server.url()).await;
    let (a, b) = (fleet.node("a").await, fleet.node("b").await);
    assert!(matches!(beat(&a).await, Beat::Generator { epoch: 1, .. }));
    assert!(matches!(a.seal(1).await.unwrap(), Seal::Sealed { .. }));
    drop(a);
    restart(&mut server, &mut fleet, &b).await;
    let answer = beat(&b).await;
    assert!(
        matches!(&answer, Beat::Worker { generator, epoch: 1, .. } if generator == "a"),
        "{answer:?}"
    );
    let a = fleet.node("a").await;
    assert!(matches!(beat(&a).await, Beat::Generator { epoch: 1, .. }));
    // Now the lease has this run id, and absence counts again.
    drop(a);
    fleet.wait_absent("a").await;
    assert!(matches!(beat(&b).await, Beat::Generator { epoch: 2, .. }));
}
