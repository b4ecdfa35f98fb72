//! What travels on which connection, and what becomes of a pair of which one breaks.

use std::sync::{Arc, Mutex};

use baton::protocol::{Claim, Commit, ErrorsClaim, Publish, Store};
use baton::{LinkState, Snapshot, Target};
use baton_server::PrivateServer;

use crate::support::{
    Fleet, LONG, Lane, NO_EFFECTS, beat, call, eventually, failed, pack_of, start,
};

type Heard = Arc<Mutex<Vec<LinkState>>>;

/// A node, and what its connections go through.
async fn node(server: &PrivateServer, fleet: &Fleet, name: &str) -> (Store, Heard) {
    let heard = Heard::default();
    let tell = Arc::clone(&heard);
    let target = Target::parse(&server.url()).unwrap();
    let observe = move |state| tell.lock().unwrap().push(state);
    let store = Store::open(&target, &fleet.name, name, observe).await;
    (store.unwrap(), heard)
}

/// How many subscribers the presence channel of a node has.
async fn present(fleet: &Fleet, node: &str) -> u64 {
    let channel = format!("{}{node}", fleet.keys.presence);
    let (_, count): (String, u64) = fleet.raw(&["PUBSUB", "NUMSUB", &channel]).await;
    count
}

#[tokio::test]
async fn answers_beyond_what_a_subscriber_may_be_sent_arrive() {
    let server = PrivateServer::builder()
        .unix_socket()
        .config("client-output-buffer-limit", "pubsub 64kb 64kb 1")
        .start()
        .unwrap();
    let fleet = Fleet::on(&server.url()).await;
    let (store, heard) = node(&server, &fleet, "w").await;
    let g = fleet.generator().await;
    let text = vec![b'x'; 8 << 20];
    let pack = pack_of(&[&text]);
    assert_eq!(g.publish(call(1, 1, &pack)).await.unwrap(), Publish::Ok);

    let w = Lane::new(store);
    let Claim::Claimed { pack: sent, .. } = w.claim(1, 1).await else {
        panic!("nothing was claimed");
    };
    assert!(sent.unwrap() == pack);
    let records = [failed(1, &text)];
    let ended = w.commit_with(1, 1..=1, &records, &NO_EFFECTS);
    assert_eq!(ended.await, Commit::Done);
    let looked = w.store.errors_look(0, 1).await.unwrap();
    assert!(looked == records);
    assert_eq!(Snapshot::read(&w.store).await.unwrap().errors, 1);
    let drained = w.store.errors_claim(&w.slot, 2, 1, u64::MAX >> 11, LONG);
    assert!(drained.await.unwrap() == ErrorsClaim::Claimed(records.to_vec()));

    // The beat goes its own way, and nothing was cut.
    let _ = beat(&w.store).await;
    assert_eq!(*heard.lock().unwrap(), []);
}

#[tokio::test]
async fn a_node_that_loses_either_connection_gets_both_anew_and_is_present_again() {
    let server = start();
    let fleet = Fleet::on(&server.url()).await;
    let (store, heard) = node(&server, &fleet, "n").await;
    for (round, kind) in ["pubsub", "normal"].iter().enumerate() {
        let _: i64 = fleet
            .raw(&["CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes"])
            .await;
        eventually("both connections are back", async || {
            heard.lock().unwrap().len() == 2 * (round + 1)
        })
        .await;
        let last = heard.lock().unwrap().last().cloned();
        assert_eq!(last, Some(LinkState::Regained), "{kind}");
        assert_eq!(present(&fleet, "n").await, 1, "{kind}");
        assert!(store.census().await.is_ok(), "{kind}");
        let _ = beat(&store).await;
    }
    // The raw connection of this test, and the pair.
    eventually("no connection is left over", async || {
        let list: String = fleet.raw(&["CLIENT", "LIST"]).await;
        list.lines().count() == 3
    })
    .await;
}
