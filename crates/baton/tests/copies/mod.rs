//! Copies of a program that run in this process, on a server of their own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use baton::{
    Config, Effects, FleetName, Handler, Limits, Message, Meter, Node, Rejected, Seen, Source,
    Target, Watch,
};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often a fleet is read.
const EVERY: Duration = Duration::from_millis(50);

/// What is the same for all copies of a fleet.
pub(crate) struct Fleet {
    target: Target,
    pub(crate) config: Config,
}

impl Fleet {
    /// A fleet that makes a message every 5 ms, with a short lease.
    pub(crate) fn new(url: &str) -> Self {
        let mut config = Config::new(FleetName::new("watched").unwrap());
        config.interval = Duration::from_millis(5);
        config.lease_ttl = Duration::from_secs(1);
        Self {
            target: Target::parse(url).unwrap(),
            config,
        }
    }

    /// Watches it.
    pub(crate) fn watch(&self) -> Watch {
        let fleet = self.config.fleet.clone();
        let limits = Limits::from(&self.config);
        Watch::start(self.target.clone(), fleet, EVERY, limits)
    }

    /// Starts a copy.
    pub(crate) fn start(&self, handler: impl Handler) -> Copy {
        let config = self.config.clone();
        let node = Node::new(self.target.clone(), config, Numbers, handler, |_| {}).unwrap();
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

/// One copy that runs.
pub(crate) struct Copy {
    pub(crate) name: String,
    pub(crate) meter: Arc<Meter>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Copy {
    /// Lets it stop in good order.
    pub(crate) async fn stop(self) {
        self.stop.send(()).unwrap();
        self.task.await.unwrap();
    }

    /// Ends it without a word: its connections close, and that is all that others notice.
    pub(crate) async fn kill(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }
}

struct Numbers;

impl Source for Numbers {
    async fn generate(&mut self, seq: u64, text: &mut Vec<u8>) {
        text.extend_from_slice(seq.to_string().as_bytes());
    }
}

/// Rejects every tenth message.
pub(crate) struct Usual;

impl Handler for Usual {
    async fn handle(&self, message: Message<'_>, _: &mut Effects) -> Result<(), Rejected> {
        match message.seq.is_multiple_of(10) {
            true => Err("a round number".into()),
            false => Ok(()),
        }
    }
}

/// Waits until what is known of a fleet fits.
pub(crate) async fn until(watch: &Watch, what: &str, fits: impl Fn(&Seen) -> bool) -> Arc<Seen> {
    let deadline = Instant::now() + PATIENCE;
    let mut readings = watch.subscribe();
    loop {
        let seen = Arc::clone(&readings.borrow_and_update());
        if fits(&seen) {
            return seen;
        }
        let told = (&seen.trouble, &seen.health, &seen.snapshot);
        assert!(Instant::now() < deadline, "in vain: {what}: {told:?}");
        readings.changed().await.unwrap();
    }
}

/// Waits until this many nodes are there, one generates, and messages have ended, some as failed.
pub(crate) async fn at_work(watch: &Watch, nodes: usize) -> Arc<Seen> {
    let fits = |seen: &Seen| {
        seen.snapshot.as_ref().is_some_and(|snapshot| {
            snapshot.nodes.len() == nodes
                && snapshot.generator.node.is_some()
                && snapshot.failed > 0
        })
    };
    until(watch, "a fleet at work", fits).await
}
