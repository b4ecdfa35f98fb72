//! Spare keys: a fleet knows how many partitions it has although its control keys are lost.

use std::time::Duration;

use baton::{Error, Node, Target, interval};
use baton_protocol::{Keys, Partitions};
use baton_server::ClusterGroup;

use crate::cluster::{self, cluster, owner};
use crate::fleet::{TIMEOUT, name, until};
use crate::growth::{PARTITIONS, until_all_go_on};
use crate::partitions::Handled;

const EVERY: Duration = Duration::from_millis(2);

fn connect(cluster: &ClusterGroup, key: &str) -> redis::Connection {
    cluster::connect(cluster, owner(cluster, key))
}

/// The number of partitions in this key.
fn stored(cluster: &ClusterGroup, meta: &str) -> Option<u32> {
    let mut command = redis::cmd("HGET");
    let command = command.arg(meta).arg("partitions");
    command.query(&mut connect(cluster, meta)).unwrap()
}

/// A fleet that has run, whose nodes have stopped, and whose control keys are lost.
async fn lose_control_keys(cluster: &ClusterGroup, handled: &Handled) {
    let url = cluster.url();
    let nodes = [0, 1].map(|_| handled.start(&url, PARTITIONS, EVERY));
    until_all_go_on(handled).await;
    until("both spare keys", || {
        Keys::spares(&name()).all(|keys| stored(cluster, &keys.meta) == Some(PARTITIONS))
    })
    .await;
    for node in nodes {
        node.stop().await;
    }
    let control = Keys::new(&name());
    let mut lose = redis::cmd("DEL");
    for (key, _) in control.typed() {
        lose.arg(key);
    }
    lose.exec(&mut connect(cluster, &control.meta)).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_that_lost_its_control_keys_goes_on_with_its_partitions() {
    let (cluster, handled) = (cluster(3, 0), Handled::default());
    lose_control_keys(&cluster, &handled).await;
    let url = cluster.url();

    let target = Target::parse(&url).unwrap();
    let other = Node::builder(name()).partitions(PARTITIONS + 1);
    let source = interval(EVERY, |_, _| {});
    let other = other.build(target, source, handled.clone()).unwrap();
    let refused = tokio::time::timeout(TIMEOUT, other.run(std::future::pending())).await;
    let refused = refused.expect("it is not refused").unwrap_err();
    assert!(
        matches!(refused, Error::Partitions { theirs, .. } if theirs == PARTITIONS),
        "{refused}"
    );

    // They name no number.
    let nodes = [0, 1].map(|_| handled.start(&url, None, EVERY));
    until_all_go_on(&handled).await;
    for node in nodes {
        node.stop().await;
    }
    handled.check(&url, PARTITIONS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_is_not_taken_for_new_while_a_shard_that_may_know_it_is_away() {
    let (mut cluster, fleet) = (cluster(3, 0), name());
    let target = Target::parse(&cluster.url()).unwrap();
    let spare = Keys::spare(&fleet, 1);
    let away = owner(&cluster, &spare.meta);
    assert_ne!(away, owner(&cluster, &Keys::new(&fleet).meta));
    cluster.servers[away].kill9();

    // A node that names a number may be wrong.
    for wanted in [None, Some(PARTITIONS)] {
        let opened = Partitions::open(&target, &fleet, "n", wanted, |_| {}).await;
        let refused = opened.err().unwrap();
        assert!(matches!(refused, Error::Unavailable(_)), "{refused}");
        let words = refused.to_string();
        assert!(
            words.contains("the shard that may know it is away"),
            "{words}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spare_keys_that_disagree_are_named_and_one_that_is_lost_is_written_again() {
    let (cluster, handled) = (cluster(3, 0), Handled::default());
    let node = handled.start(&cluster.url(), PARTITIONS, EVERY);
    let [one, two] = [0, 1].map(|nth| Keys::spare(&name(), nth).meta);
    let are_written = || {
        let stored = [&one, &two].map(|key| stored(&cluster, key));
        stored == [Some(PARTITIONS); 2]
    };
    until("both spare keys", are_written).await;
    // No connection breaks.
    for key in [&one, &two] {
        let mut lose = redis::cmd("DEL");
        lose.arg(key).exec(&mut connect(&cluster, key)).unwrap();
    }
    until("both spare keys again", are_written).await;
    node.stop().await;

    let control = Keys::new(&name()).meta;
    let mut lose = redis::cmd("DEL");
    lose.arg(&control)
        .exec(&mut connect(&cluster, &control))
        .unwrap();
    let mut forge = redis::cmd("HSET");
    forge.arg(&two).arg("partitions").arg(PARTITIONS + 1);
    forge.exec(&mut connect(&cluster, &two)).unwrap();
    let target = Target::parse(&cluster.url()).unwrap();
    let words = Partitions::view(&target, &name()).await.unwrap_err();
    let words = words.to_string();
    assert!(words.contains(&one) && words.contains(&two), "{words}");
}
