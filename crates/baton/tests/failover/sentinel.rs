//! A fleet on a master with replicas follows the Sentinels to another master.

use std::time::Duration;

use baton_server::{PrivateServer, SentinelGroup};

use crate::fleet::{Numbers, inspect, start, until, until_within};

/// No Sentinel takes longer to make a stale master a replica.
const DEMOTION: Duration = Duration::from_secs(90);

/// Whether a server says that it is a replica. A Sentinel that makes it one closes its connections.
fn is_replica(server: &PrivateServer) -> bool {
    let ask = || -> redis::RedisResult<String> {
        let mut connection = redis::Client::open(server.url())?.get_connection()?;
        redis::cmd("INFO").arg("replication").query(&mut connection)
    };
    ask().is_ok_and(|info| info.contains("role:slave"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_follows_its_master_though_servers_die_hang_and_come_back() {
    let mut group = SentinelGroup::start(&PrivateServer::builder(), 2).unwrap();
    let (url, numbers) = (group.url(), Numbers::default());
    let mut nodes: Vec<_> = (0..3).map(|_| start(&url, &numbers)).collect();
    numbers.until_above("messages", 20).await;
    // A master that dies, and one that hangs: its connections stay open.
    for hangs in [false, true] {
        let old = group.agreed_master().unwrap();
        match hangs {
            false => group.servers[old].kill9(),
            true => group.servers[old].pause().unwrap(),
        }
        until("another master", || {
            group.master().is_some_and(|master| master != old)
        })
        .await;
        let before = numbers.last();
        numbers
            .until_above("messages on the new master", before + 50)
            .await;
        match hangs {
            false => group.servers[old].restart().unwrap(),
            true => group.servers[old].resume().unwrap(),
        }
        // The old one takes itself for the master until a Sentinel tells it otherwise. A node that
        // starts now finds the new one.
        nodes.push(start(&url, &numbers));
        let inspector = inspect(&url).await;
        while inspector.snapshot().await.unwrap().nodes.len() < nodes.len() {
            numbers
                .until_above("messages beside the old master", numbers.last())
                .await;
        }
        // A Sentinel watches a stale master for eight seconds before it makes it a replica, and begins anew
        // after each silence of it. Or the new master was silent, and the old one has its place again.
        until_within(DEMOTION, "the old master to be a replica", || {
            is_replica(&group.servers[old]) || group.master() == Some(old)
        })
        .await;
        let before = numbers.last();
        numbers
            .until_above("messages beside a new replica", before + 50)
            .await;
    }
    let snapshot = inspect(&url).await.snapshot().await.unwrap();
    assert!(snapshot.balanced, "{snapshot:?}");
    for node in nodes {
        node.stop().await;
    }
}
