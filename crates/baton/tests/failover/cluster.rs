//! A fleet of one partition on a cluster: it lives where its slot is, and follows it.

use std::time::{Duration, Instant};

use baton::inspect::FailedCursor;
use baton::{Effects, Error, Handler, HandlerError, Inspector, Message, Node, Target, interval};
use baton_server::{ClusterGroup, PrivateServer};
use redis::FromRedisValue;

use crate::fleet::{Numbers, PAUSE, TIMEOUT, inspect, name, run, start, start_with};

const FENCE: &str = "baton:{moving:0}:fence";

pub(crate) fn cluster(masters: usize, replicas: usize) -> ClusterGroup {
    ClusterGroup::start(&PrivateServer::builder(), masters, replicas).unwrap()
}

/// The server that has this key.
pub(crate) fn owner(cluster: &ClusterGroup, key: &str) -> usize {
    let slot = cluster.slot(key).unwrap();
    cluster.owner(slot).unwrap()
}

pub(crate) fn connect(cluster: &ClusterGroup, server: usize) -> redis::Connection {
    let client = redis::Client::open(cluster.servers[server].url()).unwrap();
    client.get_connection().unwrap()
}

fn fleet_slot(cluster: &ClusterGroup) -> u16 {
    cluster.slot(FENCE).unwrap()
}

/// Sends a line of words to the master of the fleet's slot.
fn ask<T: FromRedisValue>(cluster: &ClusterGroup, line: &str) -> T {
    let mut words = line.split(' ');
    let mut command = redis::cmd(words.next().unwrap());
    command.arg(words.collect::<Vec<_>>());
    let mut connection = connect(cluster, owner(cluster, FENCE));
    command.query(&mut connection).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_follows_its_slot_from_server_to_server_and_loses_nothing() {
    let cluster = cluster(3, 0);
    let (url, numbers) = (cluster.url(), Numbers::default());
    let nodes: Vec<_> = (0..3).map(|_| start(&url, &numbers)).collect();
    numbers.until_above("messages", 20).await;
    let slot = fleet_slot(&cluster);
    let first = cluster.owner(slot).unwrap();
    for round in 1..=3 {
        let to = (first + round) % 3;
        tokio::task::block_in_place(|| cluster.move_slot(slot, to)).unwrap();
        let before = numbers.last();
        numbers
            .until_above("messages after a move", before + 20)
            .await;
    }
    for node in nodes {
        node.stop().await;
    }
    let inspector = inspect(&url).await;
    let audit = inspector.audit().await.unwrap();
    // The nodes stopped before all that was published had ended.
    let open = audit.published - audit.done;
    assert_eq!((audit.lost, audit.duplicated), (open, 0), "{audit:?}");
    let snapshot = inspector.snapshot().await.unwrap();
    assert!(snapshot.balanced, "{snapshot:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_that_wait_for_messages_follow_their_slot_at_once() {
    let cluster = cluster(2, 0);
    let (url, numbers) = (cluster.url(), Numbers::default());
    // All workers have slept for most of this time when the slot moves.
    let every = Duration::from_millis(400);
    let nodes: Vec<_> = (0..3).map(|_| start_with(&url, &numbers, every)).collect();
    numbers.until_above("messages", 3).await;
    let slot = fleet_slot(&cluster);
    let first = cluster.owner(slot).unwrap();
    for to in [1 - first, first, 1 - first] {
        numbers.until_above("a message", numbers.last()).await;
        tokio::task::block_in_place(|| cluster.move_slot(slot, to)).unwrap();
        let (before, moved) = (numbers.last(), Instant::now());
        numbers
            .until_above("messages after a move", before + 2)
            .await;
        let took = moved.elapsed();
        assert!(took < every * 8, "three messages took {took:?}");
    }
    for node in nodes {
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_goes_on_with_the_replica_of_the_server_that_died() {
    let mut cluster = cluster(3, 1);
    let (url, numbers) = (cluster.url(), Numbers::default());
    let nodes: Vec<_> = (0..3).map(|_| start(&url, &numbers)).collect();
    numbers.until_above("messages", 20).await;
    let owner = cluster.owner(fleet_slot(&cluster)).unwrap();
    cluster.servers[owner].kill9();
    let before = numbers.last();
    numbers
        .until_above("messages on the replica", before + 50)
        .await;
    let inspector = inspect(&url).await;
    let snapshot = inspector.snapshot().await.unwrap();
    assert!(snapshot.balanced, "{snapshot:?}");
    for node in nodes {
        node.stop().await;
    }
}

/// What a failover forgot, nodes tell the new generator if they are back soon after the first of them.
/// No server of a cluster calls them, so each must look often.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_find_the_promoted_server_soon_after_each_other() {
    let mut cluster = cluster(3, 1);
    let (url, numbers) = (cluster.url(), Numbers::default());
    let nodes = [start(&url, &numbers), start(&url, &numbers)];
    numbers.until_above("messages", 20).await;
    let mut inspectors = Vec::new();
    for _ in 0..8 {
        inspectors.push(inspect(&url).await);
    }
    let owner = cluster.owner(fleet_slot(&cluster)).unwrap();
    cluster.servers[owner].kill9();
    let looks = inspectors.into_iter().map(|inspector| {
        tokio::spawn(async move {
            let deadline = Instant::now() + TIMEOUT;
            while inspector.snapshot().await.is_err() {
                assert!(Instant::now() < deadline, "in vain: a snapshot");
                tokio::time::sleep(PAUSE).await;
            }
            Instant::now()
        })
    });
    let mut found = Vec::new();
    for look in looks.collect::<Vec<_>>() {
        found.push(look.await.unwrap());
    }
    found.sort();
    let spread = found[found.len() - 1] - found[0];
    assert!(spread < Duration::from_millis(400), "{spread:?} apart");
    for node in nodes {
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_does_not_cover_the_slot_is_named() {
    let cluster = cluster(1, 0);
    let slot = fleet_slot(&cluster);
    let () = ask(&cluster, &format!("CLUSTER DELSLOTS {slot}"));
    let target = Target::parse(&cluster.url()).unwrap();
    let error = Inspector::connect(&target, &name()).await.unwrap_err();
    let words = format!("no server of the cluster has slot {slot}");
    assert!(
        matches!(&error, Error::Unavailable(why) if why.contains(&words)),
        "{error}"
    );
}

/// Stages an effect in the fleet's slot, and for every second message one elsewhere.
struct Count;

impl Handler for Count {
    async fn handle(
        &self,
        message: Message<'_>,
        effects: &mut Effects,
    ) -> Result<(), HandlerError> {
        effects.incr_by(Effects::local("counted"), 1);
        if message.seq.is_multiple_of(2) {
            effects.incr_by("elsewhere", 1);
        }
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_effect_in_another_slot_is_refused_and_nothing_of_its_message_is_written() {
    let cluster = cluster(3, 0);
    let target = Target::parse(&cluster.url()).unwrap();
    let mut nodes = Vec::new();
    for _ in 0..2 {
        let source = interval(Duration::ZERO, |_, text| text.push(b'x'));
        let settings = Node::builder(name()).messages(20).partitions(1);
        let node = settings.build(target.clone(), source, Count).unwrap();
        nodes.push(run(node));
    }
    let deadline = Instant::now() + TIMEOUT;
    // Before the first node says how many partitions the fleet has, a client expects 16.
    let inspector = loop {
        assert!(Instant::now() < deadline, "in vain: all ended");
        let inspector = Inspector::connect(&target, &name()).await.unwrap();
        if let Ok(snapshot) = inspector.snapshot().await
            && snapshot.done == 10
            && inspector.failed_count().await.unwrap() == 10
        {
            break inspector;
        }
        tokio::time::sleep(PAUSE).await;
    };
    let page = inspector
        .failed_messages(FailedCursor::OLDEST, 1)
        .await
        .unwrap();
    let reason = &page.messages[0].message.reason;
    assert_eq!(
        reason,
        "its effects were refused: a key lies in another slot of the cluster than its message; write {} \
         into its name, which stands for the hash tag of the message's partition"
    );
    let counted: u64 = ask(&cluster, "GET counted:{moving:0}");
    assert_eq!(counted, 10, "{reason}");
    for node in nodes {
        node.stop().await;
    }
}
