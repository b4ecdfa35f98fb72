//! Copies of a program as tasks of this process, with one server per fleet.

use std::sync::Arc;
use std::time::{Duration, Instant};

use baton::inspect::{Limits, Meter, View, Watch};
use baton::{
    Effects, FleetName, Handler, HandlerError, Message, Node, NodeBuilder, Rejected, Source,
    Target, interval,
};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// No condition takes longer.
const TIMEOUT: Duration = Duration::from_secs(20);
/// How often a watch reads the fleet.
const EVERY: Duration = Duration::from_millis(50);

/// How long a silent generator keeps the lease.
pub(crate) const LEASE_TTL: Duration = Duration::from_secs(1);

/// The settings that all copies of a fleet share.
pub(crate) struct Fleet {
    target: Target,
    name: FleetName,
    claim_ttl: Duration,
    settings: NodeBuilder,
}

impl Fleet {
    /// A fleet that makes a message every 5 ms, with a short lease.
    pub(crate) fn new(url: &str) -> Self {
        let name = FleetName::new("watched").unwrap();
        Self {
            target: Target::parse(url).unwrap(),
            settings: Node::builder(name.clone()).lease_ttl(LEASE_TTL),
            claim_ttl: Duration::from_secs(5),
            name,
        }
    }

    /// Sets the time to live of claims.
    #[allow(dead_code, reason = "not every test uses it")]
    pub(crate) fn claim_ttl(mut self, ttl: Duration) -> Self {
        self.settings = self.settings.claim_ttl(ttl);
        self.claim_ttl = ttl;
        self
    }

    /// Starts to watch the fleet.
    pub(crate) fn watch(&self) -> Watch {
        let limits = Limits::new(LEASE_TTL, self.claim_ttl);
        Watch::start(self.target.clone(), self.name.clone(), EVERY, limits)
    }

    /// Starts a copy.
    pub(crate) fn start(&self, handler: impl Handler) -> Copy {
        let settings = self.settings.clone();
        let node = settings
            .build(self.target.clone(), numbers(), handler)
            .unwrap();
        let (stop, stopped) = oneshot::channel();
        Copy {
            name: node.name().to_owned(),
            meter: node.meter(),
            stop,
            task: tokio::spawn(async move {
                let stopped = async { stopped.await.unwrap_or_default() };
                node.run(stopped).await.unwrap();
            }),
        }
    }
}

/// A running copy.
pub(crate) struct Copy {
    pub(crate) name: String,
    pub(crate) meter: Arc<Meter>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Copy {
    /// Stops it in good order.
    pub(crate) async fn stop(self) {
        self.stop.send(()).unwrap();
        self.task.await.unwrap();
    }

    /// Kills it: all that others notice is that its connections close.
    pub(crate) async fn kill(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }
}

fn numbers() -> impl Source {
    interval(Duration::from_millis(5), |seq, text| {
        text.extend_from_slice(seq.to_string().as_bytes());
    })
}

/// Rejects every tenth message.
pub(crate) struct Usual;

impl Handler for Usual {
    async fn handle(&self, message: Message<'_>, _: &mut Effects) -> Result<(), HandlerError> {
        match message.seq.is_multiple_of(10) {
            true => Err(Rejected::new("a round number").into()),
            false => Ok(()),
        }
    }
}

/// Waits until the latest view fits.
pub(crate) async fn until(watch: &Watch, what: &str, fits: impl Fn(&View) -> bool) -> Arc<View> {
    let deadline = Instant::now() + TIMEOUT;
    let mut views = watch.views();
    loop {
        let view = views.latest();
        if fits(&view) {
            return view;
        }
        let state = (&view.trouble, &view.health, &view.snapshot);
        assert!(Instant::now() < deadline, "in vain: {what}: {state:?}");
        views.next().await.unwrap();
    }
}

/// Waits until the fleet has this many nodes and a generator, and messages have failed.
pub(crate) async fn at_work(watch: &Watch, nodes: usize) -> Arc<View> {
    let fits = |view: &View| {
        view.snapshot.as_ref().is_some_and(|snapshot| {
            snapshot.nodes.len() == nodes
                && snapshot.generator.node.is_some()
                && snapshot.failed > 0
        })
    };
    until(watch, "a fleet at work", fits).await
}
