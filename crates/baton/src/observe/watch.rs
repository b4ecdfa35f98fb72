//! Watching a fleet: a snapshot again and again, with the trend and the health that follow.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::observe::health::{Health, HealthMonitor, Limits};
use crate::observe::partitions::Messages;
use crate::observe::snapshot::Snapshot;
use crate::observe::trend::Trend;
use crate::{Error, FleetName, Inspector, Target};
use baton_protocol::ServerInfo;

/// The shortest time between two snapshots.
const MIN_INTERVAL: Duration = Duration::from_millis(1);
/// How often the watch reads the server's settings. It reads with each snapshot how replicas follow.
const SERVER_EVERY: Duration = Duration::from_secs(10);
/// How long the watch waits for an answer before it reports a trouble.
const TIMEOUT: Duration = Duration::from_secs(1);

/// What a watch knows of a fleet at this moment.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct View {
    /// Name of the fleet.
    pub fleet: String,
    /// The latest snapshot; none as long as the watch has read none.
    pub snapshot: Option<Arc<Snapshot>>,
    /// When the watch read that snapshot.
    pub at: Option<std::time::Instant>,
    /// Why the latest attempt to read the fleet failed; none if it succeeded.
    pub trouble: Option<String>,
    /// Rates and latencies of the last quarter of an hour.
    pub trend: Arc<Trend>,
    /// Whether the fleet is well.
    pub health: Health,
}

/// Reads a fleet again and again until it is dropped.
///
/// A watch outlives failures of Redis, also one at its start. Meanwhile the latest snapshot stays,
/// and [`View::trouble`] says why there is no newer one.
///
/// ```no_run
/// # use std::time::Duration;
/// # use baton::inspect::{Limits, Watch};
/// # use baton::{FleetName, Target};
/// # async fn watch() -> Result<(), baton::Error> {
/// let target = Target::parse("redis://localhost")?;
/// let fleet = FleetName::new("orders")?;
/// let watch = Watch::start(target, fleet, Duration::from_secs(1), Limits::default());
/// let mut views = watch.views();
/// while let Some(view) = views.next().await {
///     if !view.health.is_well() {
///         println!("{}", view.health.troubles.join("; "));
///     }
/// }
/// # Ok(())
/// # }
/// ```
pub struct Watch {
    place: String,
    views: watch::Receiver<Arc<View>>,
    inspector: Arc<Mutex<Option<Inspector>>>,
    task: tokio::task::AbortHandle,
}

impl Watch {
    /// Starts to watch, with a snapshot every `every`. The watch only needs the right to read.
    pub fn start(target: Target, fleet: FleetName, every: Duration, limits: Limits) -> Self {
        Self::start_as(Access::Read, target, fleet, every, limits)
    }

    /// Starts to watch for a program that also retries, drops, takes or drains failed messages
    /// through [`Watch::inspector`].
    pub fn start_to_act(target: Target, fleet: FleetName, every: Duration, limits: Limits) -> Self {
        Self::start_as(Access::Act, target, fleet, every, limits)
    }

    fn start_as(
        access: Access,
        target: Target,
        fleet: FleetName,
        every: Duration,
        limits: Limits,
    ) -> Self {
        let every = every.max(MIN_INTERVAL);
        let monitor = HealthMonitor::new(limits, every);
        let (sender, views) = watch::channel(Arc::new(View {
            fleet: fleet.to_string(),
            health: monitor.health(Instant::now(), None),
            ..View::default()
        }));
        let inspector = Arc::default();
        let place = target.to_string();
        let watcher = Watcher {
            access,
            target,
            fleet,
            every,
            inspector: Arc::clone(&inspector),
            server: None,
            monitor,
            sender,
        };
        Self {
            place,
            views,
            inspector,
            task: tokio::spawn(watcher.run()).abort_handle(),
        }
    }

    /// The address of its Redis, without credentials.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// The latest view.
    pub fn view(&self) -> Arc<View> {
        Arc::clone(&self.views.borrow())
    }

    /// The views from now on, beginning with the latest one.
    pub fn views(&self) -> Views {
        let mut views = self.views.clone();
        views.mark_changed();
        Views(views)
    }

    /// The watch's client of the fleet; none before Redis has answered for the first time.
    pub fn inspector(&self) -> Option<Inspector> {
        lock(&self.inspector).clone()
    }
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Watch({})", self.place)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The views of a [`Watch`], one after the other. A slow reader misses some, but never the latest.
#[derive(Debug, Clone)]
pub struct Views(watch::Receiver<Arc<View>>);

impl Views {
    /// Waits for a view that this reader has not had; none after the watch was dropped.
    pub async fn next(&mut self) -> Option<Arc<View>> {
        self.0.changed().await.ok()?;
        Some(Arc::clone(&self.0.borrow_and_update()))
    }

    /// The latest view, even if this reader has had it.
    pub fn latest(&self) -> Arc<View> {
        Arc::clone(&self.0.borrow())
    }
}

/// What a watch connects for.
#[derive(Debug, Clone, Copy)]
enum Access {
    Read,
    Act,
}

struct Watcher {
    access: Access,
    target: Target,
    fleet: FleetName,
    every: Duration,
    inspector: Arc<Mutex<Option<Inspector>>>,
    server: Option<(Instant, ServerInfo)>,
    monitor: HealthMonitor,
    sender: watch::Sender<Arc<View>>,
}

impl Watcher {
    async fn run(mut self) {
        let mut ticks = tokio::time::interval(self.every);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let read = match tokio::time::timeout(TIMEOUT, self.read()).await {
                Ok(read) => read,
                Err(_) => Err(Error::Unavailable("no answer".to_owned())),
            };
            let mut view = View::clone(&self.sender.borrow());
            match read {
                Ok(snapshot) => {
                    let snapshot = Arc::new(snapshot);
                    self.monitor.add(&snapshot, Instant::now());
                    Arc::make_mut(&mut view.trend).add(&snapshot);
                    view.snapshot = Some(snapshot);
                    view.at = Some(Instant::now().into_std());
                    view.trouble = None;
                }
                Err(error) => view.trouble = Some(error.to_string()),
            }
            let trouble = view.trouble.as_deref();
            view.health = self.monitor.health(Instant::now(), trouble);
            self.sender.send_replace(Arc::new(view));
        }
    }

    async fn read(&mut self) -> Result<Snapshot, Error> {
        let open = lock(&self.inspector).clone();
        let inspector = match open {
            Some(inspector) => inspector,
            None => {
                let (target, fleet) = (&self.target, &self.fleet);
                let inspector = match self.access {
                    Access::Act => Inspector::connect(target, fleet).await?,
                    Access::Read => Inspector::connect_read_only(target, fleet).await?,
                };
                lock(&self.inspector).insert(inspector).clone()
            }
        };
        let partitions = inspector.partitions();
        let control = partitions.control();
        let (state, messages) = tokio::join!(control.fleet_state(), Messages::read(partitions));
        if let Err(Error::Partitions { .. }) = state {
            // The fleet began, with another number of partitions, after this watch had connected.
            *lock(&self.inspector) = None;
        }
        let state = state?;
        let (_, server) = match &mut self.server {
            Some(read) if read.0.elapsed() < SERVER_EVERY => {
                control.update_replication(&mut read.1).await?;
                read
            }
            server => server.insert((Instant::now(), control.server().await?)),
        };
        Ok(Snapshot::of(&self.fleet, state, messages, server.clone()))
    }
}

fn lock(inspector: &Mutex<Option<Inspector>>) -> MutexGuard<'_, Option<Inspector>> {
    inspector.lock().unwrap_or_else(PoisonError::into_inner)
}
