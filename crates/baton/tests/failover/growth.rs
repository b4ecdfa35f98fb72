//! A cluster that grows under load, and shrinks again.

use std::collections::BTreeMap;
use std::time::Duration;

use baton_protocol::Keys;
use baton_server::ClusterGroup;

use crate::cluster::cluster;
use crate::fleet::{name, until};
use crate::partitions::Handled;

pub(crate) const PARTITIONS: u32 = 6;
/// So many messages of each partition show that it goes on.
pub(crate) const SOME: usize = 5;

/// The slots of all partitions, in order.
pub(crate) fn slots(cluster: &ClusterGroup) -> Vec<u16> {
    let keys = (0..PARTITIONS).map(|index| Keys::of_partition(&name(), index, PARTITIONS));
    keys.map(|keys| cluster.slot(&keys.queue).unwrap())
        .collect()
}

fn count(counts: &BTreeMap<u32, usize>, index: u32) -> usize {
    counts.get(&index).copied().unwrap_or(0)
}

/// Waits until workers have handled further messages of every partition.
pub(crate) async fn until_all_go_on(handled: &Handled) {
    until_go_on(handled, SOME, |_| true).await;
}

/// Waits until workers have handled so many further messages of each of these partitions.
pub(crate) async fn until_go_on(handled: &Handled, more: usize, is_one: impl Fn(u32) -> bool) {
    let before = handled.counts();
    until("messages in the partitions", || {
        let now = handled.counts();
        let mut ones = (0..PARTITIONS).filter(|index| is_one(*index));
        ones.all(|index| count(&now, index) >= count(&before, index) + more)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_follows_its_partitions_from_three_masters_to_six_and_back() {
    let mut cluster = cluster(3, 0);
    let (url, handled) = (cluster.url(), Handled::default());
    let every = Duration::from_millis(2);
    let nodes: Vec<_> = (0..3)
        .map(|_| handled.start(&url, PARTITIONS, every))
        .collect();
    until_all_go_on(&handled).await;
    let slots = slots(&cluster);
    let before = cluster.owners(&slots).unwrap();

    // Every second partition goes to a new master: each of six has one.
    let mut added = Vec::new();
    for slot in slots.iter().step_by(2) {
        let master = tokio::task::block_in_place(|| cluster.add_master()).unwrap();
        tokio::task::block_in_place(|| cluster.move_slot(*slot, master)).unwrap();
        added.push(master);
    }
    let mut owners = cluster.owners(&slots).unwrap();
    owners.sort_unstable();
    owners.dedup();
    assert_eq!(owners.len(), 6, "{owners:?}");
    until_all_go_on(&handled).await;

    for (slot, owner) in slots.iter().zip(&before).step_by(2) {
        tokio::task::block_in_place(|| cluster.move_slot(*slot, *owner)).unwrap();
    }
    for master in added.into_iter().rev() {
        tokio::task::block_in_place(|| cluster.remove_master(master)).unwrap();
    }
    assert_eq!(cluster.owners(&slots).unwrap(), before);
    until_all_go_on(&handled).await;
    for node in nodes {
        node.stop().await;
    }
    handled.check(&url, PARTITIONS).await;
}
