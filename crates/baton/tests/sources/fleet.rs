//! Nodes on a server of their own, as tasks of the test.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use baton::inspect::Snapshot;
use baton::{
    Effects, Event, FleetName, Handler, HandlerError, Inspector, Message, Node, NodeBuilder, Roles,
    Source, Target, Warning,
};
use baton_server::{Fsync, PrivateServer, PrivateServerBuilder};
use redis::Commands;
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// No condition takes longer.
const TIMEOUT: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(2);
pub(crate) const LEASE_TTL: Duration = Duration::from_millis(600);

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
    server: Arc<Mutex<PrivateServer>>,
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
        Self::on(PrivateServer::builder()).await
    }

    /// A fleet with an audit, on a server whose append-only file has all that it has confirmed.
    pub(crate) async fn durable() -> Self {
        let fleet = Self::on(PrivateServer::builder().appendonly(Fsync::Always)).await;
        // Redis writes to the disk before each answer: on a busy machine a beat takes long.
        let settings = fleet.settings.clone().lease_ttl(Duration::from_secs(3));
        Self {
            settings: settings.audit(true),
            ..fleet
        }
    }

    async fn on(server: PrivateServerBuilder) -> Self {
        let server = server.start().unwrap();
        let target = Target::parse(&server.url()).unwrap();
        let name = FleetName::new("sources").unwrap();
        Self {
            inspector: Inspector::connect(&target, &name).await.unwrap(),
            settings: Node::builder(name).lease_ttl(LEASE_TTL),
            server: Arc::new(Mutex::new(server)),
            target,
        }
    }

    /// A copy of the server's files.
    pub(crate) fn copy_data(&self) -> TempDir {
        let mut server = self.server.lock().unwrap();
        let copy = tempfile::tempdir().unwrap();
        // No file changes meanwhile.
        server.pause().unwrap();
        copy_files(server.folder(), copy.path());
        server.resume().unwrap();
        copy
    }

    pub(crate) fn pause_server(&self) {
        self.server.lock().unwrap().pause().unwrap();
    }

    pub(crate) fn resume_server(&self) {
        self.server.lock().unwrap().resume().unwrap();
    }

    /// Kills the server, and starts it again with an earlier copy of its files.
    pub(crate) fn lose_writes_since(&self, earlier: &TempDir) {
        let mut server = self.server.lock().unwrap();
        server.kill9();
        copy_files(earlier.path(), server.folder());
        server.restart().unwrap();
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
            // A server that was killed does not answer for a moment.
            let snapshot = self.inspector.snapshot().await;
            match snapshot {
                Ok(snapshot) if fits(&snapshot) => return snapshot,
                _ => assert!(Instant::now() < deadline, "in vain: {what}: {snapshot:?}"),
            }
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
        let client = redis::Client::open(self.server.lock().unwrap().url()).unwrap();
        client.get_connection().unwrap()
    }

    /// The texts that were handled, sorted by their row: the shorter ones first, without dots at their ends.
    pub(crate) fn texts(&self) -> Vec<String> {
        let mut texts: Vec<String> = self.redis().lrange("texts", 0, -1).unwrap();
        texts.sort_by_key(|text| {
            let row = text.trim_end_matches('.');
            (row.len(), row.to_owned())
        });
        texts
    }

    pub(crate) fn fence(&self, field: &str) -> String {
        self.redis().hget("baton:{sources:0}:fence", field).unwrap()
    }
}

/// Copies the append-only files of a server: a file, or a folder of files.
fn copy_files(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (name, kind) = (entry.file_name(), entry.file_type().unwrap());
        let is_data = name.to_string_lossy().starts_with("appendonly");
        if kind.is_dir() && is_data {
            let folder = to.join(&name);
            let _ = std::fs::remove_dir_all(&folder);
            std::fs::create_dir(&folder).unwrap();
            copy_files(&entry.path(), &folder);
        } else if kind.is_file() && is_data {
            std::fs::copy(entry.path(), to.join(&name)).unwrap();
        }
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

    /// What it said that Redis forgot, first and last number.
    pub(crate) fn regressed(&self) -> Vec<(u64, u64)> {
        let events = self.events.lock().unwrap();
        let regressed = events.iter().filter_map(|event| match event {
            Event::Regressed { first, last } => Some((*first, *last)),
            _ => None,
        });
        regressed.collect()
    }

    /// What it said that is void, first and last number.
    pub(crate) fn void(&self) -> Vec<(u64, u64)> {
        let events = self.events.lock().unwrap();
        let void = events.iter().filter_map(|event| match event {
            Event::Void { first, last } => Some((*first, *last)),
            _ => None,
        });
        void.collect()
    }

    /// The last number that it handled.
    pub(crate) fn processed(&self) -> u64 {
        let events = self.events.lock().unwrap();
        let processed = events.iter().filter_map(|event| match event {
            Event::Processed { last, .. } => Some(*last),
            _ => None,
        });
        processed.max().unwrap_or_default()
    }

    /// The last number that it published.
    pub(crate) fn published(&self) -> u64 {
        let events = self.events.lock().unwrap();
        let published = events.iter().filter_map(|event| match event {
            Event::Published { last, .. } => Some(*last),
            _ => None,
        });
        published.max().unwrap_or_default()
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
