//! A fleet on a master with replicas: it follows the Sentinels to another master.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use baton::{
    Effects, FleetName, Handler, HandlerError, Inspector, Message, Node, Target, interval,
};
use baton_server::{PrivateServer, SentinelGroup};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// No condition takes longer.
const TIMEOUT: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(5);

/// Keeps the numbers that were handled.
#[derive(Clone, Default)]
struct Numbers(Arc<Mutex<BTreeSet<u64>>>);

impl Handler for Numbers {
    async fn handle(&self, message: Message<'_>, _: &mut Effects) -> Result<(), HandlerError> {
        self.0.lock().unwrap().insert(message.seq);
        Ok(())
    }
}

impl Numbers {
    fn last(&self) -> u64 {
        self.0.lock().unwrap().last().copied().unwrap_or_default()
    }

    async fn until_above(&self, what: &str, number: u64) {
        let deadline = Instant::now() + TIMEOUT;
        while self.last() <= number {
            assert!(Instant::now() < deadline, "in vain: {what}");
            tokio::time::sleep(PAUSE).await;
        }
    }
}

fn start(url: &str, numbers: &Numbers) -> (oneshot::Sender<()>, JoinHandle<()>) {
    let target = Target::parse(url).unwrap();
    let source = interval(Duration::from_millis(2), |seq, text| {
        text.extend_from_slice(format!("message {seq}").as_bytes());
    });
    let settings = Node::builder(FleetName::new("failover").unwrap());
    let node = settings.build(target, source, numbers.clone()).unwrap();
    let (stop, stopped) = oneshot::channel();
    let stopped = async { stopped.await.unwrap_or_default() };
    let task = tokio::spawn(async move { node.run(stopped).await.unwrap() });
    (stop, task)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_follows_its_master_though_servers_die_and_hang() {
    let mut group = SentinelGroup::start(&PrivateServer::builder(), 2).unwrap();
    let (url, numbers) = (group.url(), Numbers::default());
    let nodes: Vec<_> = (0..3).map(|_| start(&url, &numbers)).collect();
    numbers.until_above("messages", 20).await;
    // A master that dies, and one that hangs: its connections stay open.
    for hangs in [false, true] {
        let old = group.master().unwrap();
        match hangs {
            false => group.servers[old].kill9(),
            true => group.servers[old].pause().unwrap(),
        }
        let deadline = Instant::now() + TIMEOUT;
        while group.master().is_none_or(|master| master == old) {
            assert!(Instant::now() < deadline, "in vain: another master");
            tokio::time::sleep(PAUSE).await;
        }
        let before = numbers.last();
        numbers
            .until_above("messages on the new master", before + 50)
            .await;
        match hangs {
            false => group.servers[old].restart().unwrap(),
            true => group.servers[old].resume().unwrap(),
        }
    }
    let target = Target::parse(&url).unwrap();
    let fleet = FleetName::new("failover").unwrap();
    let inspector = Inspector::connect(&target, &fleet).await.unwrap();
    let snapshot = inspector.snapshot().await.unwrap();
    assert!(snapshot.balanced, "{snapshot:?}");
    for (stop, task) in nodes {
        stop.send(()).unwrap();
        task.await.unwrap();
    }
}
