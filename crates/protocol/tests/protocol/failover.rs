//! Two servers that change roles: A is the master, then B, then A again. Their processes go on, but a
//! server that is promoted again has another name: nothing of its earlier time counts.

use baton_protocol::{Beat, Reclaimed};
use baton_server::PrivateServer;

use crate::support::{Fleet, beat, eventually, raw_on};

/// Two servers; the second follows the first.
async fn pair() -> [PrivateServer; 2] {
    let start = || {
        let builder = PrivateServer::builder().tcp();
        let server = builder.config("repl-diskless-sync-delay", "0").start();
        server.unwrap()
    };
    let pair = [start(), start()];
    follow(&pair[1], &pair[0]).await;
    pair
}

/// Makes a server a replica, and waits until it has all data of the master.
async fn follow(replica: &PrivateServer, master: &PrivateServer) {
    let port = master.port().unwrap().to_string();
    let _: () = raw_on(&replica.url(), &["REPLICAOF", "127.0.0.1", &port]).await;
    eventually("the replica follows", async || {
        let of_master: u64 = info(master, "master_repl_offset").await.parse().unwrap();
        let is_up = info(replica, "master_link_status").await == "up";
        let offset = info(replica, "slave_repl_offset").await;
        is_up && offset.parse() == Ok(of_master)
    })
    .await;
}

/// The replica becomes the master, and the master its replica.
async fn promote(replica: &PrivateServer, master: &PrivateServer) {
    let _: () = raw_on(&replica.url(), &["REPLICAOF", "NO", "ONE"]).await;
    follow(master, replica).await;
}

/// A field of a server's INFO.
async fn info(server: &PrivateServer, field: &str) -> String {
    let info: String = raw_on(&server.url(), &["INFO", "everything"]).await;
    let value = |line: &str| Some(line.strip_prefix(field)?.strip_prefix(':')?.to_owned());
    info.lines().find_map(value).unwrap_or_default()
}

/// The name of a server, as nodes see it.
async fn name_of(server: &PrivateServer) -> String {
    let fleet = Fleet::on(&server.url()).await;
    let node = fleet.node("reader").await;
    node.server().await.unwrap().run_id
}

#[tokio::test]
async fn a_server_that_is_promoted_again_has_another_name() {
    let [a, b] = pair().await;
    let process = info(&a, "run_id").await;
    let first = name_of(&a).await;
    assert_eq!(first, process[..8], "a server that was never a replica");
    promote(&b, &a).await;
    let second = name_of(&b).await;
    promote(&a, &b).await;
    let third = name_of(&a).await;
    promote(&b, &a).await;
    promote(&a, &b).await;
    let fifth = name_of(&a).await;
    assert_eq!(info(&a, "run_id").await, process, "it is one process");
    let mut names = vec![first, second, third, fifth];
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 4, "{names:?}");
    assert!(names.iter().all(|name| name.len() == 8), "{names:?}");
}

#[tokio::test]
async fn absence_from_the_earlier_time_of_a_server_proves_nothing() {
    let [a, b] = pair().await;
    let mut fleet = Fleet::on(&a.url()).await;
    let (g, w) = fleet.with_messages(2).await;
    assert!(matches!(beat(&g).await, Beat::Generator { epoch: 1, .. }));
    assert_eq!(w.take(1, 1).await, "m1");
    // Both are connected to no server while A is a replica.
    drop((g, w));
    fleet.wait_absent("w").await;
    follow(&b, &a).await;
    promote(&b, &a).await;
    promote(&a, &b).await;
    fleet.reconnect().await;
    let x = fleet.node("x").await;
    assert_eq!(x.reclaim().await.unwrap(), Reclaimed::default());
    let answer = beat(&x).await;
    assert!(
        matches!(&answer, Beat::Worker { generator, epoch: 1, .. } if generator == "g"),
        "{answer:?}"
    );
    // A claim that was made at this time of the server counts.
    let y = fleet.lane("y").await;
    assert_eq!(y.take(1, 1).await, "m2");
    drop(y);
    fleet.wait_absent("y").await;
    assert_eq!(x.reclaim().await.unwrap().messages, 1);
}
