//! One running copy: beats, generates or works, and stops in good order.

pub(crate) mod backoff;
mod batch_size;
pub(crate) mod builder;
mod claim_keeper;
pub(crate) mod clock;
pub(crate) mod config;
mod context;
mod election;
pub(crate) mod event;
mod generator;
pub(crate) mod handler;
pub(crate) mod handler_error;
mod janitor;
pub(crate) mod meter;
mod no_worker;
mod outbox;
mod pack_cache;
mod partition;
mod pause_notes;
pub(crate) mod rate;
mod rung;
mod source_task;
pub(crate) mod warning;
mod witness;
mod worker;

use std::future::Future;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use baton_protocol::{
    Backoff, Census, LinkState, LoggedReasons, Partitions, Ring, Rings, crash, scripts,
};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::node::builder::NodeBuilder;
use crate::node::clock::Clock;
use crate::node::config::{Config, Roles};
use crate::node::context::{Context, Role};
use crate::node::meter::Meter;
use crate::node::partition::Partition;
use crate::node::pause_notes::PauseNotes;
use crate::node::rung::RungPartitions;
use crate::node::warning::Warning;
use crate::node::worker::refused_messages::RefusedMessages;
use crate::node::worker::{Lane, STOP_GRACE};
use crate::{Error, Event, FleetName, Handler, Source, Target};

/// Pauses between attempts to reach a Redis that was never there: the first, and the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// How often a node reports its rates and the fleet's backlog.
const REPORT_EVERY: Duration = Duration::from_secs(10);
/// How often an idle node looks at a partition that did not ring.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How long writes may lack durability before the node warns: after a failover, replicas come back one by
/// one.
const DURABILITY_TIMEOUT: Duration = Duration::from_secs(1);
/// Timeout of the last calls of a stopping node about messages that it never had.
const GIVE_BACK_TIMEOUT: Duration = Duration::from_millis(500);
/// Timeout of the last call of a stopping node.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(2);

type Observe = Arc<dyn Fn(&Event) + Send + Sync>;

/// One copy of the program in a fleet.
pub struct Node<S, H> {
    target: Target,
    config: Config,
    source: S,
    handler: H,
    name: String,
    meter: Arc<Meter>,
    observe: Observe,
}

impl Node<(), ()> {
    /// Settings for a node of this fleet, all at their defaults.
    pub fn builder(fleet: FleetName) -> NodeBuilder {
        NodeBuilder::new(fleet)
    }

    /// Connects, however long it takes, and makes sure that a fleet can live here.
    async fn join(&self) -> Result<(Partitions, Rings), Error> {
        scripts::prepare();
        let mut backoff = Backoff::new(BACKOFF.0, BACKOFF.1);
        let mut logged = LoggedReasons::default();
        loop {
            self.meter.turns_again_after(BACKOFF.1);
            let (observe, meter) = (Arc::clone(&self.observe), Arc::clone(&self.meter));
            let observe = move |state| report_link(&observe, &meter, state);
            let joined = async {
                let Config {
                    fleet, partitions, ..
                } = &self.config;
                let opened =
                    Partitions::open(&self.target, fleet, &self.name, *partitions, observe);
                let (partitions, rings) = opened.await?;
                partitions.preflight(self.config.allow_eviction).await?;
                if !partitions.decide().await? {
                    return Ok(None);
                }
                let partitions = partitions.with_durability(self.config.durability).await;
                Ok::<_, Error>(Some((partitions, rings)))
            };
            match joined.await {
                Ok(Some(joined)) => {
                    if !logged.is_empty() {
                        report_link(&self.observe, &self.meter, LinkState::Regained);
                    }
                    return Ok(joined);
                }
                Ok(None) => {}
                // A replica may be promoted.
                Err(error) if error.is_transient() || matches!(error, Error::ReadOnlyReplica) => {
                    let reason = format!("{}: {error}", self.target);
                    if logged.is_new(&reason) {
                        report_link(&self.observe, &self.meter, LinkState::Lost(reason));
                    }
                    tokio::time::sleep(backoff.pause()).await;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl<S, H> std::fmt::Debug for Node<S, H> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node")
            .field("name", &self.name)
            .field("target", &self.target)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl<S: Source, H: Handler> Node<S, H> {
    /// Its name: unique among all nodes of all times.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it counts about itself; goes on counting while the node runs.
    pub fn meter(&self) -> Arc<Meter> {
        Arc::clone(&self.meter)
    }

    /// Runs until `stop` resolves. Then the node resigns, gives the handlers that run five seconds to
    /// end, gives back the other messages, and leaves. While Redis is away it waits. Returns early
    /// only with an error that does not pass by itself.
    pub async fn run(self, stop: impl Future<Output = ()> + Send) -> Result<(), Error> {
        let mut stop = std::pin::pin!(stop);
        let (source, handler) = (self.source, self.handler);
        // Only tasks share the handler between threads, and none the source.
        let node = Node {
            source: (),
            handler: (),
            target: self.target,
            config: self.config,
            name: self.name,
            meter: self.meter,
            observe: self.observe,
        };
        let (stores, rings) = tokio::select! {
            joined = node.join() => joined?,
            () = &mut stop => {
                (node.observe)(&Event::Stopped);
                return Ok(());
            }
        };
        let ctx = Arc::new(Context {
            control: stores.control().clone(),
            config: node.config,
            clock: Arc::new(Clock::new()),
            role: watch::Sender::new(Role::Unknown),
            stop: watch::Sender::new(None),
            beat_now: Notify::new(),
            above: AtomicU64::new(0),
            source_trouble: OnceLock::new(),
            source_failure: Mutex::default(),
            durability_trouble: Mutex::default(),
            meter: node.meter,
            rung: Arc::new(RungPartitions::new(stores.all().len())),
            refused: RefusedMessages::default(),
            pauses: PauseNotes::default(),
            handling: Arc::default(),
            observe: node.observe,
        });

        let Parts {
            partitions,
            mut lanes,
            mut duties,
            mut services,
        } = spawn_parts(&ctx, &stores, rings, source, handler);
        let ended = tokio::select! {
            () = stop => Ok(()),
            ended = first_error(&mut lanes), if !lanes.is_empty() => ended,
            ended = first_error(&mut duties) => ended,
            ended = first_error(&mut services) => ended,
        };
        ctx.stop.send_replace(Some(Instant::now()));
        let resigned = first_error(&mut duties).await;
        // The fleet has its next generator while handlers of this one still run.
        let generates = ctx.generates();
        if generates {
            leave(&ctx).await;
        }
        let finished = resigned.and(first_error(&mut lanes).await);
        give_back_unheard(&partitions).await;
        services.shutdown().await;
        if !generates {
            leave(&ctx).await;
        }
        ctx.emit(Event::Stopped);
        ended.and(finished)
    }
}

/// Gives back what servers handed over and no lane took. Else other nodes would take this one for dead.
async fn give_back_unheard(partitions: &[Arc<Partition>]) {
    let given_back = partitions.iter().map(|one| one.give_back_unheard());
    let given_back = futures_util::future::join_all(given_back);
    // What is left is free again when the node is gone.
    let _ = tokio::time::timeout(GIVE_BACK_TIMEOUT, given_back).await;
}

/// Leaves the fleet; resigns if this node holds the lease.
async fn leave(ctx: &Context) {
    crash::point("before-leave");
    // Other nodes notice the absence of a node that could not leave.
    let _ = tokio::time::timeout(LEAVE_TIMEOUT, ctx.control.leave()).await;
}

/// The tasks of a running node.
struct Parts {
    partitions: Arc<[Arc<Partition>]>,
    /// They end in good order when the node stops: the messages in hand are committed or given back.
    lanes: JoinSet<Result<(), Error>>,
    /// Election and generator. They end at once when the node stops.
    duties: JoinSet<Result<(), Error>>,
    /// They serve the others until those have ended.
    services: JoinSet<Result<(), Error>>,
}

fn spawn_parts<S: Source, H: Handler>(
    ctx: &Arc<Context>,
    stores: &Partitions,
    rings: Rings,
    source: S,
    handler: H,
) -> Parts {
    let (mut lanes, mut duties, mut services) = (JoinSet::new(), JoinSet::new(), JoinSet::new());
    let partitions = stores.all().iter();
    let partitions = partitions.map(|store| Arc::new(Partition::new(ctx, store.clone())));
    let partitions: Arc<[_]> = partitions.collect();
    // Before the lanes claim: a claim that finds no messages puts the node into `idle`.
    let unheard = hear_rings(&ctx.rung, rings);
    let handler = Arc::new(handler);
    let works = ctx.config.roles != Roles::OnlyGenerates;
    for lane in 0..if works { ctx.config.concurrency } else { 0 } {
        lanes.spawn(Lane::new(ctx, &partitions, Arc::clone(&handler), lane).run());
    }
    let (own, all) = (Arc::clone(ctx), Arc::clone(&partitions));
    duties.spawn(async move { generator::run(&own, &all, source).await });
    let (own, all) = (Arc::clone(ctx), Arc::clone(&partitions));
    duties.spawn(async move { election::run(&own, &all).await });
    for partition in partitions.iter() {
        if let Some(keep) = ctx.config.keep_errors {
            let own = Arc::clone(partition);
            duties.spawn(async move { janitor::run(&own, keep).await });
        }
        let own = Arc::clone(partition);
        services.spawn(async move { claim_keeper::run(&own).await });
        let own = Arc::clone(partition);
        services.spawn(async move {
            own.stopped_for(STOP_GRACE).await;
            own.store.give_up_confirming();
            Ok(())
        });
        let own = Arc::clone(partition);
        services.spawn(async move { partition::listen(&own).await });
        if stores.are_several() {
            let own = Arc::clone(partition);
            services.spawn(async move { partition::tell(&own).await });
        }
    }
    for spare in stores.spares() {
        let (ctx, spare) = (Arc::clone(ctx), spare.clone());
        services.spawn(async move { partition::keep_spare(&ctx, &spare).await });
    }
    let all = Arc::clone(&partitions);
    services.spawn(async move { pass_rings_on(&all, unheard).await });
    let all = Arc::clone(&partitions);
    services.spawn(async move { report_rates(&all).await });
    let all = Arc::clone(&partitions);
    services.spawn(async move { watch_durability(&all).await });
    Parts {
        partitions,
        lanes,
        duties,
        services,
    }
}

/// Wakes a lane whenever a partition rings. Returns the rings for which none sleeps.
fn hear_rings(rung: &Arc<RungPartitions>, rings: Rings) -> UnboundedReceiver<Ring> {
    let (send, unheard) = mpsc::unbounded_channel();
    // No partition is in here: it has the connection that has this listener.
    let rung = Arc::clone(rung);
    rings.listen(move |ring| {
        let (partition, is_handed) = (ring.partition, ring.handed.is_some());
        match rung.ring(ring) {
            // A node that has ended passes nothing on.
            Some(ring) => drop(send.send(ring)),
            // No claim has put the node back into `idle`: a lane that still sleeps sends one.
            None if is_handed && rung.sleepers() > 0 => rung.set_loud(partition),
            None => {}
        }
    });
    unheard
}

/// Passes on what no lane of this node hears. Now and then an idle lane looks although no partition rang.
async fn pass_rings_on(
    partitions: &[Arc<Partition>],
    mut unheard: UnboundedReceiver<Ring>,
) -> Result<(), Error> {
    let mut passed_on = FuturesUnordered::new();
    let mut looks = tokio::time::interval(LOOK_EVERY);
    loop {
        tokio::select! {
            _ = looks.tick() => {
                if let Some(first) = partitions.first() {
                    first.rung.look_anyway();
                }
            }
            Some(ring) = unheard.recv() => {
                passed_on.push(partitions[ring.partition].pass_on(ring.handed));
            }
            Some(()) = passed_on.next() => {}
        }
    }
}

/// Logs what happened to the connections, and keeps the reason for the node's health.
fn report_link(observe: &Observe, meter: &Meter, state: LinkState) {
    meter.set_redis_trouble(match &state {
        LinkState::Lost(reason) => Some(reason.clone()),
        LinkState::Regained => None,
    });
    observe(&redis_event(state));
}

fn redis_event(state: LinkState) -> Event {
    match state {
        LinkState::Lost(reason) => Event::Redis {
            up: false,
            reason: Some(reason),
        },
        LinkState::Regained => Event::Redis {
            up: true,
            reason: None,
        },
    }
}

/// Waits for all tasks, or for the first that fails.
async fn first_error(tasks: &mut JoinSet<Result<(), Error>>) -> Result<(), Error> {
    while let Some(ended) = tasks.join_next().await {
        match ended {
            Ok(result) => result?,
            Err(error) => match error.try_into_panic() {
                // A panic of this library or of the source; a lane catches the handler's.
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_cancelled) => {}
            },
        }
    }
    Ok(())
}

/// Reports this node's rates and the fleet's backlog, every ten seconds.
async fn report_rates(partitions: &[Arc<Partition>]) -> Result<(), Error> {
    let Some(ctx) = partitions.first().map(|partition| &partition.ctx) else {
        return Ok(());
    };
    let mut before = (Instant::now(), 0, 0);
    loop {
        tokio::time::sleep(REPORT_EVERY).await;
        if partitions.len() > 1 && !ctx.generates() {
            // Each node of many would count each partition of many.
            before = (Instant::now(), ctx.meter.published(), ctx.meter.processed());
            continue;
        }
        let censuses = partitions
            .iter()
            .map(|partition| partition.store.quick_census());
        let census = match futures_util::future::try_join_all(censuses).await {
            Ok(censuses) => censuses,
            Err(error) if error.is_transient() => continue,
            Err(error) => return Err(error),
        };
        let sum = |count: fn(&Census) -> u64| census.iter().map(count).sum();
        let (at, published, processed) = before;
        before = (Instant::now(), ctx.meter.published(), ctx.meter.processed());
        let seconds = (before.0 - at).as_secs_f64();
        ctx.emit(Event::Snapshot {
            generator: ctx.generates(),
            published_per_s: (before.1 - published) as f64 / seconds,
            processed_per_s: (before.2 - processed) as f64 / seconds,
            pending: sum(|census| census.pending),
            claimed: sum(|census| census.claimed),
            delayed: sum(|census| census.delayed),
            errors: sum(|census| census.errors),
        });
    }
}

/// Warns of writes that are not as durable as the settings ask, once until they are again, and says when
/// they are.
async fn watch_durability(partitions: &[Arc<Partition>]) -> Result<(), Error> {
    let troubles = partitions.iter().map(|p| p.store.durability_trouble());
    let Some(mut troubles) = troubles.collect::<Option<Vec<_>>>() else {
        return Ok(());
    };
    let Some(ctx) = partitions.first().map(|partition| &partition.ctx) else {
        return Ok(());
    };
    loop {
        let is_lasting = async {
            first_trouble(&mut troubles).await;
            let passes = no_trouble(&mut troubles);
            tokio::time::timeout(DURABILITY_TIMEOUT, passes)
                .await
                .is_err()
        };
        if !is_lasting.await {
            continue;
        }
        let reason = current_trouble(&mut troubles).unwrap_or_default();
        ctx.set_durability_trouble(Some(reason.clone()));
        ctx.warn(Warning::NotDurable {
            asked: ctx.config.durability,
            reason,
        });
        // The reason may change meanwhile.
        loop {
            any_changed(&mut troubles).await;
            let reason = current_trouble(&mut troubles);
            let is_over = reason.is_none();
            ctx.set_durability_trouble(reason);
            if is_over {
                ctx.emit(Event::Confirmed);
                break;
            }
        }
    }
}

/// Why nothing is confirmed in a partition; none while it is. One per partition.
type Troubles = [watch::Receiver<Option<String>>];

/// The trouble of the first partition that has one.
fn current_trouble(troubles: &mut Troubles) -> Option<String> {
    let mut current = troubles.iter_mut().map(|t| t.borrow_and_update().clone());
    current.find_map(|trouble| trouble)
}

async fn any_changed(troubles: &mut Troubles) {
    let changed = troubles
        .iter_mut()
        .map(|trouble| Box::pin(trouble.changed()));
    // The senders live as long as the stores.
    let _ = futures_util::future::select_all(changed).await;
}

async fn first_trouble(troubles: &mut Troubles) {
    while current_trouble(troubles).is_none() {
        any_changed(troubles).await;
    }
}

async fn no_trouble(troubles: &mut Troubles) {
    while current_trouble(troubles).is_some() {
        any_changed(troubles).await;
    }
}

/// The name of this machine, for people; empty if the system has none.
pub(crate) fn host_name() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}
