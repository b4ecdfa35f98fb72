//! What the tests share: a fleet that numbers its messages and keeps the numbers that were handled.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use baton::{
    Effects, FleetName, Handler, HandlerError, Inspector, Message, Node, Target, interval,
};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// No condition takes longer.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);
pub(crate) const PAUSE: Duration = Duration::from_millis(5);

/// Keeps the numbers that were handled.
#[derive(Clone, Default)]
pub(crate) struct Numbers(Arc<Mutex<BTreeSet<u64>>>);

impl Handler for Numbers {
    async fn handle(&self, message: Message<'_>, _: &mut Effects) -> Result<(), HandlerError> {
        self.0.lock().unwrap().insert(message.seq);
        Ok(())
    }
}

impl Numbers {
    pub(crate) fn last(&self) -> u64 {
        self.0.lock().unwrap().last().copied().unwrap_or_default()
    }

    pub(crate) async fn until_above(&self, what: &str, number: u64) {
        until(what, || self.last() > number).await;
    }
}

pub(crate) async fn until(what: &str, is_true: impl Fn() -> bool) {
    until_within(TIMEOUT, what, is_true).await;
}

pub(crate) async fn until_within(timeout: Duration, what: &str, is_true: impl Fn() -> bool) {
    let deadline = Instant::now() + timeout;
    while !is_true() {
        assert!(Instant::now() < deadline, "in vain: {what}");
        tokio::time::sleep(PAUSE).await;
    }
}

pub(crate) fn name() -> FleetName {
    FleetName::new("moving").unwrap()
}

/// A running node.
pub(crate) struct Running {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Running {
    pub(crate) async fn stop(self) {
        self.stop.send(()).unwrap();
        self.task.await.unwrap();
    }
}

/// Starts a node that makes a message every two milliseconds, and keeps a ledger.
pub(crate) fn start(url: &str, numbers: &Numbers) -> Running {
    start_with(url, numbers, Duration::from_millis(2))
}

/// Starts a node that makes a message this often, and keeps a ledger.
pub(crate) fn start_with(url: &str, numbers: &Numbers, every: Duration) -> Running {
    let target = Target::parse(url).unwrap();
    let source = interval(every, |seq, text| {
        text.extend_from_slice(format!("message {seq}").as_bytes());
    });
    let settings = Node::builder(name()).audit(true).partitions(1);
    let node = settings.build(target, source, numbers.clone()).unwrap();
    run(node)
}

pub(crate) fn run<S: baton::Source, H: Handler>(node: Node<S, H>) -> Running {
    let (stop, stopped) = oneshot::channel::<()>();
    let stopped = async { stopped.await.unwrap_or_default() };
    let task = tokio::spawn(async move { node.run(stopped).await.unwrap() });
    Running { stop, task }
}

pub(crate) async fn inspect(url: &str) -> Inspector {
    let target = Target::parse(url).unwrap();
    Inspector::connect(&target, &name()).await.unwrap()
}
