//! A generator that handles messages, too: a fleet of one copy, and what changes with the second.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use baton::inspect::Snapshot;
use baton::{
    Backoff, Effects, Event, FleetName, GeneratorWorks, Handler, HandlerError, Inspector, Message,
    Node, NodeBuilder, Source, Target, Warning, interval,
};
use baton_server::PrivateServer;
use redis::Commands;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// No condition takes longer.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Between two looks at a condition.
const PAUSE: Duration = Duration::from_millis(5);

fn numbers(every: Duration) -> impl Source {
    interval(every, |seq, text| {
        text.extend_from_slice(seq.to_string().as_bytes());
    })
}

/// Handles each message in this time.
#[derive(Clone)]
struct Takes(Duration);

impl Handler for Takes {
    async fn handle(&self, _: Message<'_>, effects: &mut Effects) -> Result<(), HandlerError> {
        tokio::time::sleep(self.0).await;
        effects.incr_by("handled", 1);
        Ok(())
    }
}

const QUICK: Takes = Takes(Duration::ZERO);

struct Fleet {
    server: PrivateServer,
    target: Target,
    settings: NodeBuilder,
    /// The time between two messages.
    every: Duration,
    inspector: Inspector,
}

impl Fleet {
    async fn new(works: GeneratorWorks) -> Self {
        let server = PrivateServer::builder().start().unwrap();
        let target = Target::parse(&server.url()).unwrap();
        let name = FleetName::new("small").unwrap();
        Self {
            inspector: Inspector::connect(&target, &name).await.unwrap(),
            settings: Node::builder(name).generator_works(works),
            every: Duration::from_millis(5),
            server,
            target,
        }
    }

    fn every(mut self, ms: u64) -> Self {
        self.every = Duration::from_millis(ms);
        self
    }

    fn with(mut self, change: impl FnOnce(NodeBuilder) -> NodeBuilder) -> Self {
        self.settings = change(self.settings);
        self
    }

    fn start(&self, handler: impl Handler) -> Copy {
        let events = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&events);
        let settings = self.settings.clone();
        let node = settings
            .on_event(move |event| log.lock().unwrap().push((Instant::now(), event.clone())))
            .build(self.target.clone(), numbers(self.every), handler)
            .unwrap();
        let (stop, stopped) = oneshot::channel();
        Copy {
            events,
            stop,
            task: tokio::spawn(async move {
                let stopped = async { stopped.await.unwrap_or_default() };
                node.run(stopped).await.unwrap();
            }),
        }
    }

    async fn until(&self, what: &str, fits: impl Fn(&Snapshot) -> bool) -> Snapshot {
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

    fn redis(&self) -> redis::Connection {
        let client = redis::Client::open(self.server.url()).unwrap();
        client.get_connection().unwrap()
    }
}

struct Copy {
    events: Arc<Mutex<Vec<(Instant, Event)>>>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Copy {
    fn count(&self, fits: impl Fn(&Event) -> bool) -> usize {
        let events = self.events.lock().unwrap();
        events.iter().filter(|(_, event)| fits(event)).count()
    }

    /// The longest time from a publish of this copy to the message's end, of those that it ended.
    fn max_latency(&self) -> Duration {
        let events = self.events.lock().unwrap();
        let when = |fits: &dyn Fn(&Event) -> bool| {
            let mut found = events.iter().filter(|(_, event)| fits(event));
            found.next().map(|(at, _)| *at)
        };
        let latency = |(at, event): &(Instant, Event)| match *event {
            Event::Processed { first: seq, .. } => {
                let is_its_publish = |event: &Event| {
                    matches!(event, Event::Published { first, last, .. }
                        if (*first..=*last).contains(&seq))
                };
                when(&is_its_publish).map(|published| *at - published)
            }
            _ => None,
        };
        events.iter().filter_map(latency).max().unwrap()
    }

    fn handled(&self) -> usize {
        self.count(|event| matches!(event, Event::Processed { .. }))
    }

    fn warned(&self) -> usize {
        self.count(|event| matches!(event, Event::Warning(Warning::NoWorker)))
    }

    fn generates(&self) -> bool {
        self.count(|event| matches!(event, Event::Generator { .. })) > 0
    }

    async fn stop(self) {
        self.stop.send(()).unwrap();
        self.task.await.unwrap();
    }

    async fn kill(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }
}

async fn until(what: &str, fits: impl Fn() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !fits() {
        assert!(Instant::now() < deadline, "in vain: {what}");
        tokio::time::sleep(PAUSE).await;
    }
}

#[tokio::test]
async fn a_lone_generator_handles_all_its_messages() {
    let fleet = Fleet::new(GeneratorWorks::Alone).await;
    let fleet = fleet.with(|settings| settings.messages(200).concurrency(4));
    let copy = fleet.start(QUICK);
    let snapshot = fleet.until("all ended", |at| at.done == 200).await;
    assert!(snapshot.balanced, "{snapshot:?}");
    assert_eq!(fleet.redis().get::<_, u64>("handled").unwrap(), 200);
    assert_eq!(copy.warned(), 0);
    copy.stop().await;
}

#[tokio::test]
async fn a_message_is_handled_when_it_is_published_and_not_with_the_next_beat() {
    let fleet = Fleet::new(GeneratorWorks::Alone).await;
    // A lone generator beats once per second at least, and with this lease no more often.
    let fleet = fleet.with(|settings| {
        let settings = settings.lease_ttl(Duration::from_secs(60));
        settings.messages(6)
    });
    let fleet = fleet.every(700);
    let copy = fleet.start(QUICK);
    let snapshot = fleet.until("all ended", |at| at.done == 6).await;
    let latency = copy.max_latency();
    assert!(latency < Duration::from_millis(250), "{latency:?}");
    assert!(snapshot.balanced);
    copy.stop().await;
}

#[tokio::test]
async fn a_lone_generator_stops_working_when_a_worker_comes_and_works_again_when_it_dies() {
    let fleet = Fleet::new(GeneratorWorks::Alone).await;
    // The worker is too slow for these messages: a generator that worked on would get some.
    let fleet = fleet.every(20);
    let first = fleet.start(QUICK);
    fleet.until("work alone", |at| at.done > 20).await;
    let second = fleet.start(Takes(Duration::from_millis(50)));
    until("the worker works", || second.handled() > 5).await;
    // The worker's first beat called the generator, whose lane has ended what it had.
    let (before, others) = (first.handled(), second.handled());
    until("the worker goes on", || second.handled() > others + 20).await;
    assert_eq!(first.handled(), before, "the generator works no more");
    second.kill().await;
    until("the generator works again", || {
        first.handled() > before + 20
    })
    .await;
    let snapshot = fleet
        .until("nothing waits", |at| at.pending + at.claimed == 0)
        .await;
    assert!(snapshot.balanced, "{snapshot:?}");
    assert_eq!(first.warned(), 0);
    first.stop().await;
}

#[tokio::test]
async fn the_lanes_of_an_idle_worker_that_becomes_a_lone_generator_wake_up_at_once() {
    let fleet = Fleet::new(GeneratorWorks::Alone).await;
    // The new generator beats once per second: long enough to tell a beat from a publish.
    let fleet = fleet.with(|settings| settings.lease_ttl(Duration::from_secs(60)).concurrency(3));
    let fleet = fleet.every(50);
    let first = fleet.start(QUICK);
    until("the first generates", || first.generates()).await;
    let second = fleet.start(QUICK);
    until("the second works", || second.handled() > 5).await;
    first.kill().await;
    until("the second generates", || second.generates()).await;
    let before = second.handled();
    until("it works alone", || second.handled() > before + 10).await;
    let latency = second.max_latency();
    assert!(latency < Duration::from_millis(250), "{latency:?}");
    second.stop().await;
}

#[tokio::test]
async fn a_generator_that_always_works_does_so_beside_workers() {
    let fleet = Fleet::new(GeneratorWorks::Always).await;
    let fleet = fleet.every(2);
    let copies = [fleet.start(QUICK), fleet.start(QUICK)];
    let work = || copies.iter().all(|copy| copy.handled() > 50);
    until("both work", work).await;
    assert_eq!(copies.iter().filter(|copy| copy.generates()).count(), 1);
    for copy in copies {
        copy.stop().await;
    }
    let snapshot = fleet.inspector.snapshot().await.unwrap();
    assert!(snapshot.balanced && snapshot.claimed == 0, "{snapshot:?}");
}

#[tokio::test]
async fn a_fleet_of_one_takes_back_what_its_previous_life_held() {
    let fleet = Fleet::new(GeneratorWorks::Alone).await;
    let fleet = fleet.with(|settings| settings.messages(50).concurrency(4));
    let first = fleet.start(Takes(Duration::from_secs(3600)));
    fleet.until("claimed", |at| at.claimed >= 4).await;
    first.kill().await;
    let second = fleet.start(QUICK);
    let snapshot = fleet.until("all ended", |at| at.done == 50).await;
    assert!(snapshot.balanced, "{snapshot:?}");
    assert_eq!(fleet.redis().get::<_, u64>("handled").unwrap(), 50);
    second.stop().await;
}

#[tokio::test]
async fn a_slow_handler_delays_neither_the_beat_nor_the_publishing() {
    let fleet = Fleet::new(GeneratorWorks::Alone).await;
    // A beat that comes late loses this lease.
    let fleet = fleet.with(|settings| settings.lease_ttl(Duration::from_secs(1)));
    let copy = fleet.start(Takes(Duration::from_secs(3600)));
    fleet.until("a handler runs", |at| at.claimed > 0).await;
    let began = Instant::now();
    let before = fleet.inspector.snapshot().await.unwrap().published;
    // 5 ms between two messages.
    let fits = |at: &Snapshot| at.published >= before + 400;
    let snapshot = fleet.until("400 more messages", fits).await;
    assert!(
        began.elapsed() < Duration::from_secs(4),
        "{:?}",
        began.elapsed()
    );
    assert_eq!((snapshot.generator.epoch, snapshot.done), (1, 0));
    copy.kill().await;
}

/// Blocks its thread for a millisecond, and notes how many packs its node has published by then.
struct Busy {
    published: Arc<AtomicU64>,
    seen: Arc<Mutex<BTreeMap<u64, u64>>>,
}

impl Handler for Busy {
    async fn handle(&self, message: Message<'_>, _: &mut Effects) -> Result<(), HandlerError> {
        std::thread::sleep(Duration::from_millis(1));
        let published = self.published.load(Ordering::Relaxed);
        self.seen.lock().unwrap().insert(message.seq, published);
        Ok(())
    }
}

#[tokio::test]
async fn a_generator_publishes_in_the_middle_of_a_batch_whose_handler_never_waits() {
    let fleet = Fleet::new(GeneratorWorks::Alone).await;
    let published = Arc::new(AtomicU64::new(0));
    let batches = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::new(Mutex::new(BTreeMap::new()));
    let (packs, ended) = (Arc::clone(&published), Arc::clone(&batches));
    let settings = fleet.settings.clone();
    let settings = settings.max_pending(100_000);
    let node = settings
        .on_event(move |event| match *event {
            Event::Published { .. } => drop(packs.fetch_add(1, Ordering::Relaxed)),
            Event::Processed { first, last, .. } => ended.lock().unwrap().push(first..=last),
            _ => {}
        })
        .build(
            fleet.target.clone(),
            numbers(Duration::ZERO),
            Busy {
                published,
                seen: Arc::clone(&seen),
            },
        )
        .unwrap();
    let stop = async { drop(fleet.until("300 are done", |at| at.done >= 300).await) };
    node.run(stop).await.unwrap();
    let seen = seen.lock().unwrap();
    let batches = batches.lock().unwrap();
    // A node has one thread here, so a batch without a break sees one number from end to end.
    let has_break = |batch: &RangeInclusive<u64>| seen[batch.end()] > seen[batch.start()];
    assert!(batches.iter().any(has_break), "{batches:?} {seen:?}");
}

#[tokio::test]
async fn a_working_generator_that_stops_resigns_before_its_handler_has_ended() {
    let fleet = Fleet::new(GeneratorWorks::Always).await;
    let fleet = fleet.with(|settings| settings.lease_ttl(Duration::from_secs(60)));
    let fleet = fleet.every(20);
    let first = fleet.start(Takes(Duration::from_secs(3600)));
    fleet.until("a handler runs", |at| at.claimed > 0).await;
    let second = fleet.start(QUICK);
    fleet.until("a second node", |at| at.nodes.len() == 2).await;
    let began = Instant::now();
    let stopping = tokio::spawn(first.stop());
    until("the second generates", || second.generates()).await;
    // A handler that runs has five seconds to end, and the lease would live for a minute.
    assert!(
        began.elapsed() < Duration::from_secs(3),
        "{:?}",
        began.elapsed()
    );
    assert!(!stopping.is_finished(), "its handler still runs");
    stopping.await.unwrap();
    let fits = |at: &Snapshot| at.done > 50 && at.pending + at.claimed == 0;
    let snapshot = fleet.until("the second did it all", fits).await;
    assert!(snapshot.balanced, "{snapshot:?}");
    second.stop().await;
}

#[tokio::test]
async fn a_generator_without_a_worker_says_so_once_and_again_after_one_was_there() {
    let fleet = Fleet::new(GeneratorWorks::Never).await;
    let first = fleet.start(QUICK);
    let began = Instant::now();
    until("a first warning", || first.warned() == 1).await;
    assert!(began.elapsed() >= Duration::from_secs(5));
    let second = fleet.start(QUICK);
    fleet.until("the worker works", |at| at.done > 0).await;
    assert_eq!(first.warned(), 1);
    second.stop().await;
    until("a second warning", || first.warned() == 2).await;
    assert_eq!(first.handled(), 0, "it never works");
    first.stop().await;
}

/// Fails the first attempt of each message, and notes how long the second one took to come.
#[derive(Clone, Default)]
struct FailsOnce {
    failed: Arc<Mutex<BTreeMap<u64, Instant>>>,
    waits: Arc<Mutex<Vec<Duration>>>,
}

impl Handler for FailsOnce {
    async fn handle(&self, message: Message<'_>, _: &mut Effects) -> Result<(), HandlerError> {
        let mut failed = self.failed.lock().unwrap();
        match failed.remove(&message.seq) {
            Some(at) => self.waits.lock().unwrap().push(at.elapsed()),
            None => {
                failed.insert(message.seq, Instant::now());
                return Err("not yet".into());
            }
        }
        Ok(())
    }
}

#[tokio::test]
async fn a_lone_generator_tries_a_message_again_when_it_is_due_and_not_with_the_next_beat() {
    const WAIT: Duration = Duration::from_millis(100);
    let fleet = Fleet::new(GeneratorWorks::Alone).await;
    // It beats once per second.
    let fleet = fleet.with(|settings| {
        let settings = settings.lease_ttl(Duration::from_secs(60));
        let settings = settings.backoff(Backoff::new(WAIT, WAIT));
        settings.messages(15)
    });
    let fleet = fleet.every(70);
    let handler = FailsOnce::default();
    let copy = fleet.start(handler.clone());
    let snapshot = fleet.until("all ended", |at| at.done == 15).await;
    assert!(snapshot.balanced, "{snapshot:?}");
    let waits = handler.waits.lock().unwrap().clone();
    let on_time = |wait: &Duration| (WAIT..5 * WAIT).contains(wait);
    assert!(waits.len() == 15 && waits.iter().all(on_time), "{waits:?}");
    copy.stop().await;
}
