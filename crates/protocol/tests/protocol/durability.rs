//! An answer counts only when the write is as durable as the node asks.

use std::time::{Duration, Instant};

use baton::Error;
use baton_protocol::{Commit, Durability, Publish, Store};
use baton_server::{Fsync, PrivateServer};

use crate::support::{Fleet, Lane, commit_call, eventually, pack, publish_call};

/// A master with so many replicas, which are in step.
async fn replicated(replicas: usize) -> (PrivateServer, Vec<PrivateServer>, Fleet) {
    let master = PrivateServer::builder().tcp().start().unwrap();
    let fleet = Fleet::on(&master.url()).await;
    let followers: Vec<PrivateServer> = (0..replicas).map(|_| follower(&master)).collect();
    wait_in_step(&fleet, replicas).await;
    (master, followers, fleet)
}

fn follower(master: &PrivateServer) -> PrivateServer {
    let at = format!("127.0.0.1 {}", master.port().unwrap());
    let server = PrivateServer::builder().tcp().config("replicaof", at);
    let at_once = server.config("repl-diskless-sync-delay", "0");
    at_once.start().unwrap()
}

async fn wait_in_step(fleet: &Fleet, replicas: usize) {
    eventually("replicas in step", async || {
        let info: String = fleet.raw(&["INFO", "replication"]).await;
        info.matches("state=online").count() == replicas
    })
    .await;
}

async fn node(fleet: &Fleet, name: &str, level: &str) -> Store {
    let store = fleet.node(name).await;
    store.with_durability(level.parse().unwrap()).await
}

/// Publishes message `seq`, as the generator does: repeats the call until its answer counts. Returns the
/// answer and how many answers were lost before it.
async fn publish(store: &Store, seq: u64) -> (Publish, u64) {
    let pack = pack(seq, 1);
    let mut lost = 0;
    loop {
        match store.publish(publish_call(seq, 1, &pack)).await {
            Err(Error::Unconfirmed(_)) => lost += 1,
            answer => return (answer.unwrap(), lost),
        }
    }
}

fn trouble(store: &Store) -> String {
    let trouble = store.durability_trouble().unwrap();
    let reason = trouble.borrow().clone();
    reason.unwrap_or_default()
}

/// Whether a call is answered before the replicas go on.
async fn is_answered<T>(call: impl Future<Output = T>) -> bool {
    let moment = Duration::from_millis(300);
    tokio::time::timeout(moment, call).await.is_ok()
}

#[tokio::test]
async fn an_answer_counts_when_all_replicas_have_the_write() {
    let (_master, mut replicas, fleet) = replicated(2).await;
    let store = node(&fleet, "g", "replicas:2").await;
    let _ = store.seal(1).await.unwrap();
    assert_eq!(publish(&store, 1).await, (Publish::Ok { waiting: 1 }, 0));
    assert_eq!(trouble(&store), "");

    replicas[1].pause().unwrap();
    let pack = pack(2, 1);
    assert!(!is_answered(store.publish(publish_call(2, 1, &pack))).await);
    // The master has it; the caller has no answer.
    let last: u64 = fleet.raw(&["HGET", &fleet.keys.fence, "last"]).await;
    assert_eq!(last, 2);
    eventually("the trouble", async || {
        trouble(&store) == "1 of 2 replicas have the last writes"
    })
    .await;
    // One of them is enough for a node that asks for one.
    let one = node(&fleet, "g", "replicas:1").await;
    assert!(is_answered(one.publish(publish_call(2, 1, &pack))).await);

    replicas[1].resume().unwrap();
    let (answer, _) = publish(&store, 2).await;
    assert_eq!(answer, Publish::Already { last: 2 });
    assert_eq!(trouble(&store), "");
}

#[tokio::test]
async fn a_commit_counts_when_the_replicas_have_it_alone_and_with_a_claim() {
    let (_master, mut replicas, fleet) = replicated(1).await;
    let (generator, _) = fleet.with_messages(3).await;
    let lane = Lane::new(node(&fleet, "lane", "replicas:1").await);
    let _ = lane.take(1, 1).await;
    replicas[0].pause().unwrap();
    let commit = lane.store.commit(&lane.slot, 1, commit_call(1..=1, &[]));
    assert!(!is_answered(commit).await);
    replicas[0].resume().unwrap();
    let commit = async || {
        let call = commit_call(1..=1, &[]);
        lane.store.commit(&lane.slot, 1, call).await
    };
    eventually("the commit", async || {
        matches!(commit().await, Ok(Commit::Already))
    })
    .await;
    drop(generator);
}

#[tokio::test]
async fn a_server_that_was_a_replica_in_between_confirms_nothing_of_before() {
    let (_master, mut replicas, fleet) = replicated(1).await;
    let store = node(&fleet, "g", "replicas:1").await;
    let _ = store.seal(1).await.unwrap();
    replicas[0].pause().unwrap();
    let pack = pack(1, 1);
    let answer = async { store.publish(publish_call(1, 1, &pack)).await };
    let promoted_again = async {
        eventually("the write", async || {
            let last: Option<u64> = fleet.raw(&["HGET", &fleet.keys.fence, "last"]).await;
            last == Some(1)
        })
        .await;
        // The same process, under another replication id: it may have lost writes meanwhile.
        fleet.write(&["REPLICAOF", "127.0.0.1", "1"]).await;
        fleet.write(&["REPLICAOF", "NO", "ONE"]).await;
        replicas[0].resume().unwrap();
    };
    let (answer, ()) = tokio::join!(answer, promoted_again);
    assert!(matches!(answer, Err(Error::Unconfirmed(_))), "{answer:?}");
    wait_in_step(&fleet, 1).await;
    // The caller asks again: the write is still there.
    let (answer, _) = publish(&store, 1).await;
    assert_eq!(answer, Publish::Already { last: 1 });
}

#[tokio::test]
async fn more_replicas_than_there_are_confirm_nothing_and_the_reason_says_so() {
    let (_master, _replicas, fleet) = replicated(1).await;
    let store = node(&fleet, "g", "replicas:2").await;
    let _ = store.seal(1).await.unwrap();
    let (pack, begun) = (pack(1, 1), Instant::now());
    let answer = store.publish(publish_call(1, 1, &pack)).await;
    let error = answer.unwrap_err();
    assert!(matches!(error, Error::Unconfirmed(_)), "{error:?}");
    assert!(
        error
            .to_string()
            .contains("1 of 2 replicas have the last writes"),
        "{error}"
    );
    // A caller that stops is not kept for long.
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn an_idle_node_notices_that_a_trouble_is_over() {
    let (mut master, _, fleet) = replicated(0).await;
    let store = node(&fleet, "w", "replicas:1").await;
    let error = store.confirm_all().await.unwrap_err();
    assert!(error.to_string().contains("no replica has"), "{error}");
    // It asks for nothing more.
    let _replica = follower(&master);
    eventually("the end of the trouble", async || {
        trouble(&store).is_empty()
    })
    .await;

    master.kill9();
    assert!(store.confirm_all().await.is_err());
    master.restart().unwrap();
    eventually("the end of the trouble", async || {
        trouble(&store).is_empty()
    })
    .await;
}

#[tokio::test]
async fn a_full_server_confirms_as_ever() {
    let (_master, _replicas, fleet) = replicated(1).await;
    let store = node(&fleet, "g", "replicas:1").await;
    let _ = store.seal(1).await.unwrap();
    assert_eq!(publish(&store, 1).await, (Publish::Ok { waiting: 1 }, 0));
    fleet.write(&["CONFIG", "SET", "maxmemory", "1"]).await;
    // What the server has is confirmed although it takes nothing new.
    let (answer, _) = publish(&store, 1).await;
    assert_eq!(answer, Publish::Already { last: 1 });
}

#[tokio::test]
async fn fsync_counts_only_while_the_server_syncs_before_it_answers() {
    let server = PrivateServer::builder().unix_socket();
    let server = server.appendonly(Fsync::Always).start().unwrap();
    let fleet = Fleet::on(&server.url()).await;
    let store = node(&fleet, "g", "fsync").await;
    let _ = store.seal(1).await.unwrap();
    assert_eq!(publish(&store, 1).await, (Publish::Ok { waiting: 1 }, 0));

    let set = async |name: &str, value: &str| fleet.write(&["CONFIG", "SET", name, value]).await;
    set("appendfsync", "everysec").await;
    eventually("the trouble", async || {
        let _ = is_answered(publish(&store, 1)).await;
        trouble(&store) == "appendfsync is everysec at the server, not always"
    })
    .await;
    set("appendfsync", "always").await;
    let (answer, _) = publish(&store, 1).await;
    assert_eq!(answer, Publish::Already { last: 1 });

    set("appendonly", "no").await;
    eventually("the trouble", async || {
        let _ = is_answered(publish(&store, 1)).await;
        trouble(&store) == "appendonly is off at the server"
    })
    .await;
}

#[tokio::test]
async fn no_level_asks_for_nothing() {
    let fleet = Fleet::new().await;
    let store = fleet.node("g").await;
    let store = store.with_durability(Durability::None).await;
    assert!(store.durability_trouble().is_none());
    store.confirm_all().await.unwrap();
}

#[tokio::test]
async fn what_a_client_did_is_confirmed_in_the_end_or_not() {
    let (_master, mut replicas, fleet) = replicated(1).await;
    let store = node(&fleet, "client", "replicas:1").await;
    store.confirm_all().await.unwrap();
    replicas[0].pause().unwrap();
    let error = store.confirm_all().await.unwrap_err();
    assert!(error.to_string().contains("no replica has"), "{error}");
    replicas[0].resume().unwrap();
    eventually("the confirmation", async || {
        store.confirm_all().await.is_ok()
    })
    .await;
}
