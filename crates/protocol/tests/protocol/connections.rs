//! What each connection carries, and what happens when one of the pair breaks.

use std::sync::{Arc, Mutex};

use baton::{Inspector, Target};
use baton_protocol::{Claim, Commit, ErrorsClaim, LinkState, Store};
use baton_server::PrivateServer;

use crate::support::{
    Fleet, LONG, Lane, beat, beat_call, eventually, failed, pack_of, publish_call, start,
};

type Heard = Arc<Mutex<Vec<LinkState>>>;

/// A node, and the reports about its connections.
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
async fn answers_larger_than_a_subscriber_s_output_buffer_arrive() {
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
    assert!(
        g.publish(publish_call(1, 1, &pack))
            .await
            .unwrap()
            .is_written()
    );

    let w = Lane::new(store);
    let Claim::Claimed { range, pack: sent } = w.claim(1, 1).await else {
        panic!("nothing was claimed");
    };
    assert!(w.pack_of(&range, &sent).await == pack);
    let records = [failed(1, &text)];
    let ended = w.commit_failed(1, 1..=1, &records);
    assert_eq!(ended.await, Commit::Done);
    let failure = w.failures().await.remove(0);
    assert!(failure.record == records[0]);
    assert_eq!(
        Inspector::over(w.store.clone())
            .snapshot()
            .await
            .unwrap()
            .errors,
        1
    );
    let drained = w.drain(2, 1, u64::from(u32::MAX)).await;
    assert_eq!(drained, ErrorsClaim::Claimed(vec![1]));

    // The beat has its own connection, and the server has closed none.
    let _ = beat(&w.store).await;
    assert_eq!(*heard.lock().unwrap(), []);
}

/// Closes the connections of one kind, but not the raw one of the test.
async fn cut(fleet: &Fleet, kind: &str) {
    let words = ["CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes"];
    fleet.write(&words).await;
}

/// The raw connection of the test, and the pair of the node.
async fn assert_three_connections(fleet: &Fleet) {
    eventually("three connections", async || {
        let list: String = fleet.raw(&["CLIENT", "LIST"]).await;
        list.lines().count() == 3
    })
    .await;
}

#[tokio::test]
async fn a_node_that_loses_its_presence_connection_replaces_both() {
    let server = start();
    let fleet = Fleet::on(&server.url()).await;
    let (store, heard) = node(&server, &fleet, "n").await;
    cut(&fleet, "pubsub").await;
    let lost = LinkState::Lost("the connection was closed".to_owned());
    eventually("a pair that has proven itself", async || {
        let beaten = store.beat(beat_call(LONG, 0)).await;
        beaten.is_ok() && *heard.lock().unwrap() == [lost.clone(), LinkState::Regained]
    })
    .await;
    assert_eq!(present(&fleet, "n").await, 1);
    assert!(store.census().await.is_ok());
    assert_three_connections(&fleet).await;
}

#[tokio::test]
async fn a_data_connection_that_is_closed_while_idle_is_renewed_without_a_report() {
    let server = start();
    let fleet = Fleet::on(&server.url()).await;
    let (store, heard) = node(&server, &fleet, "n").await;
    let subscriber = async || -> String {
        let list: String = fleet.raw(&["CLIENT", "LIST", "TYPE", "pubsub"]).await;
        list.split(' ').next().unwrap().to_owned()
    };
    let before = subscriber().await;
    let born = std::time::Instant::now();
    // A connection that is closed soon after it was made does not count as idle.
    eventually("the connection is old", async || {
        born.elapsed() > std::time::Duration::from_millis(1100)
    })
    .await;
    cut(&fleet, "normal").await;
    // No call may wait for an answer: its loss would be reported.
    assert_three_connections(&fleet).await;
    eventually("the link is up", async || store.census().await.is_ok()).await;
    assert_eq!(subscriber().await, before);
    assert_eq!(*heard.lock().unwrap(), []);
}
