//! Nodes on a server of their own, as tasks of the test.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use baton::inspect::Snapshot;
use baton::{
    Effects, Event, FleetName, Handler, HandlerError, Inspector, Message, Node, NodeBuilder, Roles,
    Source, Target, Warning,
};
use baton_server::PrivateServer;
use redis::Commands;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// No condition takes longer.
const TIMEOUT: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(2);

/// Keeps the texts of all messages in a list, in the step that commits them.
struct Keep;

impl Handler for Keep {
    async fn handle(
        &self,
        message: Message<'_>,
        effects: &mut Effects,
    ) -> Result<(), HandlerError> {
        effects.rpush("texts", message.text);
        effects.rpush("keys", message.key().to_string());
        Ok(())
    }
}

/// A server, and the settings of all nodes on it.
pub(crate) struct Fleet {
    server: Arc<PrivateServer>,
    target: Target,
    settings: NodeBuilder,
    pub(crate) inspector: Inspector,
}

pub(crate) struct Running {
    pub(crate) name: String,
    events: Arc<Mutex<Vec<Event>>>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Fleet {
    pub(crate) async fn new() -> Self {
        let server = Arc::new(PrivateServer::builder().start().unwrap());
        let target = Target::parse(&server.url()).unwrap();
        let name = FleetName::new("sources").unwrap();
        Self {
            inspector: Inspector::connect(&target, &name).await.unwrap(),
            settings: Node::builder(name).lease_ttl(Duration::from_millis(600)),
            server,
            target,
        }
    }

    /// The same fleet, for nodes with these roles.
    pub(crate) fn with(&self, roles: Roles) -> Self {
        self.set(|settings| settings.roles(roles))
    }

    /// The same fleet, for nodes with other settings.
    pub(crate) fn set(&self, change: impl FnOnce(NodeBuilder) -> NodeBuilder) -> Self {
        Self {
            settings: change(self.settings.clone()),
            inspector: self.inspector.clone(),
            target: self.target.clone(),
            server: Arc::clone(&self.server),
        }
    }

    pub(crate) fn start(&self, source: impl Source) -> Running {
        let events = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&events);
        let settings = self.settings.clone();
        let node = settings
            .on_event(move |event| log.lock().unwrap().push(event.clone()))
            .build(self.target.clone(), source, Keep)
            .unwrap();
        let (stop, stopped) = oneshot::channel();
        Running {
            name: node.name().to_owned(),
            events,
            stop,
            task: tokio::spawn(async move {
                let stopped = async { stopped.await.unwrap_or_default() };
                node.run(stopped).await.unwrap();
            }),
        }
    }

    pub(crate) async fn until(&self, what: &str, fits: impl Fn(&Snapshot) -> bool) -> Snapshot {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let snapshot = self.inspector.snapshot().await.unwrap();
            if fits(&snapshot) {
                return snapshot;
            }
            assert!(Instant::now() < deadline, "in vain: {what}: {snapshot:?}");
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Waits until so many messages are done.
    pub(crate) async fn all_done(&self, messages: u64) {
        self.until("all done", |at| {
            at.done == messages && at.published == messages
        })
        .await;
    }

    pub(crate) fn redis(&self) -> redis::Connection {
        let client = redis::Client::open(self.server.url()).unwrap();
        client.get_connection().unwrap()
    }

    /// The texts that were handled, sorted by their row.
    pub(crate) fn texts(&self) -> Vec<String> {
        let mut texts: Vec<String> = self.redis().lrange("texts", 0, -1).unwrap();
        texts.sort_by_key(|text| (text.len(), text.clone()));
        texts
    }

    pub(crate) fn fence(&self, field: &str) -> String {
        self.redis().hget("baton:{sources:0}:fence", field).unwrap()
    }
}

impl Running {
    pub(crate) fn generates(&self) -> bool {
        let events = self.events.lock().unwrap();
        events
            .iter()
            .any(|event| matches!(event, Event::Generator { .. }))
    }

    /// The pauses that it noticed, and their ends.
    pub(crate) fn pauses(&self) -> Vec<Event> {
        let is_pause =
            |event: &&Event| matches!(event, Event::Paused { .. } | Event::Resumed { .. });
        let events = self.events.lock().unwrap();
        events.iter().filter(is_pause).cloned().collect()
    }

    pub(crate) fn warnings(&self) -> Vec<Warning> {
        let events = self.events.lock().unwrap();
        let warnings = events.iter().filter_map(|event| match event {
            Event::Warning(warning) => Some(warning.clone()),
            _ => None,
        });
        warnings.collect()
    }

    pub(crate) async fn stop(self) {
        let _ = self.stop.send(());
        self.task.await.unwrap();
    }

    /// Others notice only that its connections close.
    pub(crate) async fn kill(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }
}

pub(crate) async fn until(what: &str, fits: impl Fn() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !fits() {
        assert!(Instant::now() < deadline, "in vain: {what}");
        tokio::time::sleep(PAUSE).await;
    }
}
