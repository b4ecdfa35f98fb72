//! Watching a fleet: a snapshot every second, what they tell together, and whether all is well.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::observe::health::{Health, Limits, Signs};
use crate::{Error, FleetName, ServerInfo, Snapshot, Target, Trend};
use baton_protocol::Store;
use baton_protocol::new_name;

/// Shortest time between two readings.
const SHORTEST: Duration = Duration::from_millis(1);
/// How often the server's settings are asked for.
const SERVER_EVERY: Duration = Duration::from_secs(10);
/// Longest wait for an answer before the watch says that there is none.
const PATIENCE: Duration = Duration::from_secs(1);

/// What is known of a fleet at this moment.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Name of the fleet.
    pub fleet: String,
    /// The latest snapshot; none before the first.
    pub snapshot: Option<Arc<Snapshot>>,
    /// When that was read.
    pub at: Option<Instant>,
    /// Why there is no newer one.
    pub trouble: Option<String>,
    /// How the fleet went on.
    pub trend: Arc<Trend>,
    /// Whether all is well.
    pub health: Health,
}

/// Reads a fleet again and again until it is dropped. It survives that Redis goes away, also
/// at its start: the latest snapshot stays, and [`Seen::trouble`] says why it is not newer.
pub struct Watch {
    place: String,
    seen: watch::Receiver<Arc<Seen>>,
    store: Arc<Mutex<Option<Store>>>,
    task: tokio::task::AbortHandle,
}

impl Watch {
    /// Starts to watch. It needs no right in Redis but to read.
    pub fn start(target: Target, fleet: FleetName, every: Duration, limits: Limits) -> Self {
        Self::start_as(target, fleet, every, limits, false)
    }

    /// Starts to watch for a program that also acts through [`Watch::store`]: the store is
    /// present, so that what it claims returns at once when the program dies.
    pub fn start_present(
        target: Target,
        fleet: FleetName,
        every: Duration,
        limits: Limits,
    ) -> Self {
        Self::start_as(target, fleet, every, limits, true)
    }

    fn start_as(
        target: Target,
        fleet: FleetName,
        every: Duration,
        limits: Limits,
        present: bool,
    ) -> Self {
        let every = every.max(SHORTEST);
        let signs = Signs::new(limits, every);
        let (sender, seen) = watch::channel(Arc::new(Seen {
            fleet: fleet.to_string(),
            snapshot: None,
            at: None,
            trouble: None,
            trend: Arc::default(),
            health: signs.health(Instant::now(), None),
        }));
        let store = Arc::default();
        let place = target.to_string();
        let watcher = Watcher {
            target,
            fleet,
            present,
            every,
            store: Arc::clone(&store),
            server: None,
            signs,
            sender,
        };
        Self {
            place,
            seen,
            store,
            task: tokio::spawn(watcher.run()).abort_handle(),
        }
    }

    /// Which Redis it reads, without credentials.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// What is known now.
    pub fn seen(&self) -> Arc<Seen> {
        Arc::clone(&self.seen.borrow())
    }

    /// A receiver that hears of every reading.
    pub fn subscribe(&self) -> watch::Receiver<Arc<Seen>> {
        self.seen.clone()
    }

    /// Its connection; none as long as Redis has never answered.
    pub fn store(&self) -> Option<Store> {
        self.store
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Watcher {
    target: Target,
    fleet: FleetName,
    present: bool,
    every: Duration,
    store: Arc<Mutex<Option<Store>>>,
    server: Option<(Instant, ServerInfo)>,
    signs: Signs,
    sender: watch::Sender<Arc<Seen>>,
}

impl Watcher {
    async fn run(mut self) {
        let mut ticks = tokio::time::interval(self.every);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let read = match tokio::time::timeout(PATIENCE, self.read()).await {
                Ok(read) => read,
                Err(_) => Err(Error::Unavailable("no answer".to_owned())),
            };
            let mut seen = Seen::clone(&self.sender.borrow());
            match read {
                Ok(snapshot) => {
                    let snapshot = Arc::new(snapshot);
                    self.signs.read(&snapshot, Instant::now());
                    Arc::make_mut(&mut seen.trend).add(&snapshot);
                    seen.snapshot = Some(snapshot);
                    seen.at = Some(Instant::now());
                    seen.trouble = None;
                }
                Err(error) => seen.trouble = Some(error.to_string()),
            }
            let trouble = seen.trouble.as_deref();
            seen.health = self.signs.health(Instant::now(), trouble);
            self.sender.send_replace(Arc::new(seen));
        }
    }

    async fn read(&mut self) -> Result<Snapshot, Error> {
        let open = self.lock().clone();
        let store = match open {
            Some(store) => store,
            None => {
                let (target, fleet) = (&self.target, &self.fleet);
                let store = match self.present {
                    true => Store::open(target, fleet, &new_name(), |_| {}).await?,
                    false => Store::view(target, fleet).await?,
                };
                self.lock().insert(store).clone()
            }
        };
        let reading = store.reading().await?;
        let server = match &self.server {
            Some((at, server)) if at.elapsed() < SERVER_EVERY => server.clone(),
            _ => {
                let server = store.server().await?;
                self.server = Some((Instant::now(), server.clone()));
                server
            }
        };
        Ok(Snapshot::of(&self.fleet, reading, server))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Store>> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
