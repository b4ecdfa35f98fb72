//! A fleet for your own tests: real nodes on a real server that belongs to the test alone.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use baton::testing::TestFleet;
//! use baton::{Effects, Json, handler, interval};
//!
//! # async fn test() -> baton::testing::Result<()> {
//! let mut fleet = TestFleet::start(
//!     3,
//!     |settings| settings.messages(1000),
//!     || {
//!         let count = handler(|Json(amount): Json<i64>| async move {
//!             let mut effects = Effects::default();
//!             effects.incr_by("total", amount);
//!             Ok(effects)
//!         });
//!         let ones = interval(Duration::ZERO, |_, text| text.push(b'1'));
//!         (ones, count)
//!     },
//! )?;
//! let generator = fleet.generator().await?;
//! fleet.kill(generator);
//! let snapshot = fleet.all_ended(1000).await?;
//! assert_eq!(snapshot.done, 1000);
//! # Ok(())
//! # }
//! ```
//!
//! The server is the program `valkey-server` or `redis-server` on the `PATH`, or the one that the
//! variable `BATON_SERVER_PROGRAM` names. Nothing is downloaded. The server and the nodes end when
//! the [`TestFleet`] is dropped.

use std::thread::JoinHandle;
use std::time::Duration;

use baton_server::PrivateServer;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::inspect::{FailedCursor, Snapshot};
use crate::{
    Error, FailedMessage, FleetName, Handler, Inspector, Node, NodeBuilder, Source, Target,
};

/// What a test gets if the server cannot be started, a node fails, or a condition does not come true.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// How long a fleet waits for a condition, unless the test sets another time.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The pause between two snapshots.
const SNAPSHOT_PAUSE: Duration = Duration::from_millis(5);
/// Failed messages that one call reads.
const PAGE: u64 = 500;

/// Some nodes of one fleet, each on a thread of its own, and their server. Dropping it ends all of
/// them.
pub struct TestFleet {
    // Dropped in this order: nodes first.
    nodes: Vec<TestNode>,
    start_node: Box<dyn Fn() -> Result<TestNode> + Send + Sync>,
    target: Target,
    name: FleetName,
    timeout: Duration,
    server: PrivateServer,
}

impl TestFleet {
    /// Starts a server and so many nodes. `settings` changes what it likes of the settings that all
    /// nodes share; `parts` makes the source and the handler of one node.
    pub fn start<S: Source, H: Handler>(
        nodes: usize,
        settings: impl FnOnce(NodeBuilder) -> NodeBuilder,
        parts: impl Fn() -> (S, H) + Send + Sync + 'static,
    ) -> Result<Self> {
        let server = PrivateServer::builder().start()?;
        let target = Target::parse(&server.url())?;
        let name = FleetName::new("test")?;
        let settings = settings(Node::builder(name.clone()));
        let server_of_node = target.clone();
        let start_node = move || {
            let (source, handler) = parts();
            let node = settings
                .clone()
                .build(server_of_node.clone(), source, handler)?;
            TestNode::start(node)
        };
        let mut fleet = Self {
            nodes: Vec::new(),
            start_node: Box::new(start_node),
            target,
            name,
            timeout: TIMEOUT,
            server,
        };
        for _ in 0..nodes {
            fleet.start_node()?;
        }
        Ok(fleet)
    }

    /// Waits at most so long for a condition. 30 s unless set.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    /// Starts one more node and returns its index. The first has index 0.
    pub fn start_node(&mut self) -> Result<usize> {
        self.nodes.push((self.start_node)()?);
        Ok(self.nodes.len() - 1)
    }

    /// Kills a node as `kill -9` would: it commits nothing, gives nothing back and does not leave.
    /// Does nothing if it has ended, or if there is no such node.
    pub fn kill(&mut self, node: usize) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.end(Order::Kill);
        }
    }

    /// Stops a node in good order: it finishes its messages or gives them back, and leaves.
    pub fn stop(&mut self, node: usize) -> Result<()> {
        match self.nodes.get_mut(node) {
            Some(node) => Ok(node.end(Order::Stop).unwrap_or(Ok(()))?),
            None => Err(format!("there is no node {node}").into()),
        }
    }

    /// Waits for a generator and returns its index.
    pub async fn generator(&mut self) -> Result<usize> {
        let names: Vec<String> = self.nodes.iter().map(|node| node.name.clone()).collect();
        let of = move |snapshot: &Snapshot| {
            let generator = snapshot.generator.node.as_ref()?;
            names.iter().position(|name| name == generator)
        };
        let found = of.clone();
        let snapshot = self
            .wait_for("a generator", |at| found(at).is_some())
            .await?;
        of(&snapshot).ok_or_else(|| "no generator".into())
    }

    /// Waits until so many messages are published and each of them has ended, done or failed. Returns
    /// the snapshot of that moment.
    pub async fn all_ended(&mut self, messages: u64) -> Result<Snapshot> {
        let what = format!("the end of {messages} messages");
        let ended = |at: &Snapshot| {
            at.published >= messages && at.done + at.failed == at.published + at.retried
        };
        self.wait_for(&what, ended).await
    }

    /// Waits until a snapshot fits, and returns it. `what` is for the error if none does in time.
    pub async fn wait_for(
        &mut self,
        what: &str,
        fits: impl Fn(&Snapshot) -> bool,
    ) -> Result<Snapshot> {
        let deadline = Instant::now() + self.timeout;
        let inspector = self.inspector().await?;
        loop {
            for node in &mut self.nodes {
                node.check()?;
            }
            let snapshot = inspector.snapshot().await?;
            if fits(&snapshot) {
                return Ok(snapshot);
            }
            if Instant::now() > deadline {
                let timeout = self.timeout;
                return Err(format!("{timeout:?} without {what}: {snapshot:?}").into());
            }
            tokio::time::sleep(SNAPSHOT_PAUSE).await;
        }
    }

    /// All failed messages, in the order in which they failed. They stay in the errors store.
    pub async fn errors(&self) -> Result<Vec<FailedMessage>> {
        let inspector = self.inspector().await?;
        let (mut errors, mut cursor) = (Vec::new(), FailedCursor::OLDEST);
        loop {
            let page = inspector.failed_messages(cursor, PAGE).await?;
            errors.extend(page.messages.into_iter().map(|failed| failed.message));
            match page.next {
                Some(next) => cursor = next,
                None => return Ok(errors),
            }
        }
    }

    /// A client of the fleet.
    pub async fn inspector(&self) -> Result<Inspector> {
        Ok(Inspector::connect(&self.target, &self.name).await?)
    }

    /// The URL of the server, for a look at what handlers wrote.
    pub fn url(&self) -> String {
        self.server.url()
    }
}

impl std::fmt::Debug for TestFleet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TestFleet")
            .field("target", &self.target)
            .field("nodes", &self.nodes.len())
            .finish_non_exhaustive()
    }
}

/// How a node is to end.
enum Order {
    Stop,
    Kill,
}

/// A node on a thread of its own. Its runtime ends with it, and so do all of its connections.
struct TestNode {
    name: String,
    order: Option<oneshot::Sender<Order>>,
    thread: Option<JoinHandle<std::result::Result<(), Error>>>,
}

impl TestNode {
    fn start<S: Source, H: Handler>(node: Node<S, H>) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let name = node.name().to_owned();
        let (order, ordered) = oneshot::channel();
        let run = move || {
            let ended = runtime.block_on(run_until_ordered(node, ordered));
            // A handler that blocks its thread is left to itself.
            runtime.shutdown_background();
            ended
        };
        let thread = std::thread::Builder::new().name(name.clone()).spawn(run)?;
        Ok(Self {
            name,
            order: Some(order),
            thread: Some(thread),
        })
    }

    /// Ends the node and waits for its thread. None if it had ended before.
    fn end(&mut self, order: Order) -> Option<std::result::Result<(), Error>> {
        // The node has ended by itself if it does not take the order.
        let _ = self.order.take()?.send(order);
        self.joined()
    }

    /// Says why the node ended, if it ended by itself.
    fn check(&mut self) -> Result<()> {
        match &self.thread {
            Some(thread) if thread.is_finished() && self.order.is_some() => {
                self.order = None;
                Ok(self.joined().unwrap_or(Ok(()))?)
            }
            _ => Ok(()),
        }
    }

    fn joined(&mut self) -> Option<std::result::Result<(), Error>> {
        match self.thread.take()?.join() {
            Ok(ended) => Some(ended),
            Err(panic) if std::thread::panicking() => {
                drop(panic);
                None
            }
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

impl Drop for TestNode {
    fn drop(&mut self) {
        self.end(Order::Kill);
    }
}

/// Runs a node until it is ordered to end.
async fn run_until_ordered<S: Source, H: Handler>(
    node: Node<S, H>,
    ordered: oneshot::Receiver<Order>,
) -> std::result::Result<(), Error> {
    let (stop, stopped) = oneshot::channel::<()>();
    let mut running = std::pin::pin!(node.run(async { stopped.await.unwrap_or_default() }));
    tokio::select! {
        ended = &mut running => return ended,
        order = ordered => match order {
            Ok(Order::Stop) => drop(stop),
            Ok(Order::Kill) | Err(_) => return Ok(()),
        },
    }
    running.await
}
