//! A slot that no server of the cluster has: by an operator's mistake, or while a tool repairs a cluster.

use std::collections::BTreeSet;
use std::time::Duration;

use baton_protocol::Keys;
use baton_server::ClusterGroup;

use crate::cluster::{cluster, connect, owner};
use crate::fleet::name;
use crate::growth::{PARTITIONS, SOME, slots, until_all_go_on, until_go_on};
use crate::partitions::Handled;

fn send(cluster: &ClusterGroup, server: usize, verb: &str, slot: u16) {
    let mut command = redis::cmd("CLUSTER");
    command.arg(verb).arg(slot);
    command.exec(&mut connect(cluster, server)).unwrap();
}

/// The presence connections of all nodes at a server.
fn present(cluster: &ClusterGroup, server: usize) -> BTreeSet<String> {
    let mut command = redis::cmd("CLIENT");
    command.arg(&["LIST", "TYPE", "pubsub"]);
    let clients: String = command.query(&mut connect(cluster, server)).unwrap();
    let ids = clients.lines().filter_map(|line| line.split(' ').next());
    ids.map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_no_server_has_stops_its_partition_and_no_other() {
    let cluster = cluster(3, 0);
    let (url, handled) = (cluster.url(), Handled::default());
    let every = Duration::from_millis(2);
    let nodes: Vec<_> = (0..3)
        .map(|_| handled.start(&url, PARTITIONS, every))
        .collect();
    until_all_go_on(&handled).await;
    let slots = slots(&cluster);
    let owners = cluster.owners(&slots).unwrap();
    // A partition beside the lease: its server has others, too.
    let control = owner(&cluster, &Keys::new(&name()).generator);
    let missing = owners.iter().position(|owner| *owner == control).unwrap();
    let (reigns, connections) = (handled.generators(), present(&cluster, control));
    assert_eq!(connections.len(), nodes.len());

    for server in 0..cluster.servers.len() {
        send(&cluster, server, "DELSLOTS", slots[missing]);
    }
    // Several times what is on its way, so that no other partition waits.
    until_go_on(&handled, 20 * SOME, |index| index as usize != missing).await;
    assert_eq!(present(&cluster, control), connections);
    assert_eq!(handled.generators(), reigns);

    send(&cluster, control, "ADDSLOTS", slots[missing]);
    until_all_go_on(&handled).await;
    for node in nodes {
        node.stop().await;
    }
    handled.check(&url, PARTITIONS).await;
}
