//! A fleet on a cluster: it lives where its slot is, and follows it.

mod servers;

use std::time::{Duration, Instant};

use baton::inspect::FailedCursor;
use baton::{Effects, Error, Handler, HandlerError, Inspector, Message, Node, Target, interval};

use crate::fleet::{Numbers, PAUSE, TIMEOUT, inspect, name, run, start};
use servers::Cluster;

const FENCE: &str = "baton:{moving:0}:fence";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_follows_its_slot_from_server_to_server_and_loses_nothing() {
    let cluster = Cluster::start(3, false);
    let (url, numbers) = (cluster.url(), Numbers::default());
    let nodes: Vec<_> = (0..3).map(|_| start(&url, &numbers)).collect();
    numbers.until_above("messages", 20).await;
    let (first, slot) = cluster.first_owner(FENCE);
    for round in 0..3 {
        let (from, to) = ((first + round) % 3, (first + round + 1) % 3);
        tokio::task::block_in_place(|| cluster.move_slot(slot, from, to));
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
async fn a_fleet_goes_on_with_the_replica_of_the_server_that_died() {
    let mut cluster = Cluster::start(3, true);
    let (url, numbers) = (cluster.url(), Numbers::default());
    let nodes: Vec<_> = (0..3).map(|_| start(&url, &numbers)).collect();
    numbers.until_above("messages", 20).await;
    let (owner, _) = cluster.first_owner(FENCE);
    cluster.masters[owner].kill9();
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_does_not_cover_the_slot_is_named() {
    let cluster = Cluster::start(1, false);
    let (_, slot) = cluster.first_owner(FENCE);
    let () = servers::ask(&cluster.masters[0], &format!("CLUSTER DELSLOTS {slot}")).unwrap();
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
        effects.incr_by("counted:{moving:0}", 1);
        if message.seq.is_multiple_of(2) {
            effects.incr_by("elsewhere", 1);
        }
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_effect_in_another_slot_is_refused_and_nothing_of_its_message_is_written() {
    let cluster = Cluster::start(3, false);
    let target = Target::parse(&cluster.url()).unwrap();
    let mut nodes = Vec::new();
    for _ in 0..2 {
        let source = interval(Duration::ZERO, |_, text| text.push(b'x'));
        let settings = Node::builder(name()).messages(20);
        let node = settings.build(target.clone(), source, Count).unwrap();
        nodes.push(run(node));
    }
    let inspector = Inspector::connect(&target, &name()).await.unwrap();
    let deadline = Instant::now() + TIMEOUT;
    while inspector.snapshot().await.unwrap().done < 10
        || inspector.failed_count().await.unwrap() < 10
    {
        assert!(Instant::now() < deadline, "in vain: all ended");
        tokio::time::sleep(PAUSE).await;
    }
    let page = inspector
        .failed_messages(FailedCursor::OLDEST, 1)
        .await
        .unwrap();
    let reason = &page.messages[0].message.reason;
    assert_eq!(
        reason,
        "its effects were refused: a key lies in another slot of the cluster; write {moving:0} into its name"
    );
    let (owner, _) = cluster.first_owner(FENCE);
    let counted: u64 = servers::ask(&cluster.masters[owner], "GET counted:{moving:0}").unwrap();
    assert_eq!(counted, 10, "{reason}");
    for node in nodes {
        node.stop().await;
    }
}
