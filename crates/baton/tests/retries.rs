//! What becomes of a message whose handler fails, hangs, takes long or cannot work.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use baton::inspect::{Meter, Snapshot};
use baton::{
    Backoff, Effects, Event, FailedMessage, FleetName, Handler, HandlerError, Inspector, Message,
    Node, NodeBuilder, Source, Target, Warning, interval,
};
use baton_protocol::record;
use baton_server::PrivateServer;
use redis::Commands;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

/// No condition takes longer.
const TIMEOUT: Duration = Duration::from_secs(30);
/// A backoff that a test can wait for.
const SHORT: Duration = Duration::from_millis(20);
/// A backoff that ends after every test.
const LONG: Duration = Duration::from_secs(600);

fn numbers() -> impl Source {
    interval(Duration::ZERO, |seq, text| {
        text.extend_from_slice(format!("message {seq}").as_bytes());
    })
}

/// A handler that is a function of the message.
struct Doing<F>(F);

impl<F, R> Handler for Doing<F>
where
    F: Fn(u64, u64, String) -> R + Send + Sync + 'static,
    R: Future<Output = Result<(), HandlerError>> + Send,
{
    async fn handle(
        &self,
        message: Message<'_>,
        effects: &mut Effects,
    ) -> Result<(), HandlerError> {
        effects.incr_by("counted", 1);
        (self.0)(message.seq, message.attempt, message.key().to_string()).await
    }
}

/// A fleet of one generator, which has published all messages, and of workers that come later.
struct Fleet {
    server: PrivateServer,
    target: Target,
    settings: NodeBuilder,
    inspector: Inspector,
    events: Arc<Mutex<Vec<Event>>>,
    generator: Option<Running>,
}

struct Running {
    meter: Arc<Meter>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Running {
    async fn stop(self) {
        self.stop.send(()).unwrap();
        self.task.await.unwrap();
    }
}

impl Fleet {
    async fn new(messages: u64, change: impl FnOnce(NodeBuilder) -> NodeBuilder) -> Self {
        let server = PrivateServer::builder().start().unwrap();
        let target = Target::parse(&server.url()).unwrap();
        let name = FleetName::new("retries").unwrap();
        let events = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&events);
        let settings = Node::builder(name.clone())
            .messages(messages)
            .backoff(Backoff::new(SHORT, SHORT))
            .on_event(move |event| seen.lock().unwrap().push(event.clone()));
        let settings = change(settings);
        let inspector = Inspector::connect(&target, &name).await.unwrap();
        let idle = Doing(|_, _, _| async { Ok(()) });
        let generator = start(&settings, &target, idle);
        let fleet = Self {
            server,
            target,
            settings,
            inspector,
            events,
            generator: Some(generator),
        };
        fleet
            .until("all are published", |now| now.published == messages)
            .await;
        fleet
    }

    fn work(&self, handler: impl Handler) -> Running {
        start(&self.settings, &self.target, handler)
    }

    async fn until(&self, what: &str, fits: impl Fn(&Snapshot) -> bool) -> Snapshot {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let snapshot = self.inspector.snapshot().await.unwrap();
            assert!(snapshot.balanced, "{snapshot:?}");
            if fits(&snapshot) {
                return snapshot;
            }
            assert!(Instant::now() < deadline, "in vain: {what}: {snapshot:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn redis(&self) -> redis::Connection {
        let client = redis::Client::open(self.server.url()).unwrap();
        client.get_connection().unwrap()
    }

    fn failed(&self) -> Vec<FailedMessage> {
        let records: BTreeMap<u64, Vec<u8>> =
            self.redis().hgetall("baton:{retries:0}:errors").unwrap();
        let records = records.values();
        records.map(|record| record::decode(record)).collect()
    }

    fn counted(&self) -> u64 {
        let counted: Option<u64> = self.redis().get("counted").unwrap();
        counted.unwrap_or_default()
    }
}

fn start(settings: &NodeBuilder, target: &Target, handler: impl Handler) -> Running {
    let node = settings.clone().build(target.clone(), numbers(), handler);
    let node = node.unwrap();
    let (stop, stopped) = oneshot::channel();
    let stopped = async { stopped.await.unwrap_or_default() };
    Running {
        meter: node.meter(),
        stop,
        task: tokio::spawn(async move { node.run(stopped).await.unwrap() }),
    }
}

#[tokio::test]
async fn a_message_that_fails_is_tried_again_under_its_own_key_until_it_is_done() {
    let fleet = Fleet::new(20, |settings| settings).await;
    let tried: Arc<Mutex<Vec<(u64, u64, String)>>> = Arc::default();
    let seen = Arc::clone(&tried);
    let worker = fleet.work(Doing(move |seq, attempt, key| {
        seen.lock().unwrap().push((seq, attempt, key));
        async move {
            match seq.is_multiple_of(5) && attempt < 3 {
                true => Err(format!("not in attempt {attempt}").into()),
                false => Ok(()),
            }
        }
    }));
    let snapshot = fleet.until("all are done", |now| now.done == 20).await;
    worker.stop().await;
    assert_eq!((snapshot.failed, fleet.counted()), (0, 20));
    let tried = tried.lock().unwrap();
    for seq in 1..=20 {
        let mine: Vec<_> = tried.iter().filter(|(of, ..)| *of == seq).collect();
        let attempts: Vec<u64> = mine.iter().map(|(_, attempt, _)| *attempt).collect();
        let expected: &[u64] = if seq % 5 == 0 { &[1, 2, 3] } else { &[1] };
        assert_eq!(attempts, expected, "#{seq}");
        assert!(mine.iter().all(|(_, _, key)| *key == mine[0].2), "{mine:?}");
        assert!(mine[0].2.ends_with(&format!("-{seq}")), "{mine:?}");
    }
    let events = fleet.events.lock().unwrap();
    let delayed = |event: &&Event| {
        matches!(event, Event::Delayed { attempt, reason, .. }
            if *reason == format!("not in attempt {attempt}"))
    };
    assert_eq!(events.iter().filter(delayed).count(), 8);
}

#[tokio::test]
async fn after_its_last_attempt_a_message_fails_with_the_first_and_the_last_reason() {
    let fleet = Fleet::new(3, |settings| settings.attempts(4)).await;
    let worker = fleet.work(Doing(|seq, attempt, _| async move {
        match seq {
            2 => Err(format!("no in attempt {attempt}").into()),
            _ => Ok(()),
        }
    }));
    let ended = |now: &Snapshot| now.done + now.failed == 3;
    fleet.until("all have ended", ended).await;
    worker.stop().await;
    let failed = fleet.failed();
    assert_eq!(failed.len(), 1);
    let FailedMessage {
        seq,
        attempt,
        reason,
        first_reason,
        text,
        ..
    } = &failed[0];
    assert_eq!((*seq, *attempt, &text[..]), (2, 4, &b"message 2"[..]));
    assert_eq!(
        (reason.as_str(), first_reason.as_str()),
        ("no in attempt 4", "no in attempt 1")
    );
    let notes: u64 = fleet.redis().hlen("baton:{retries:0}:notes").unwrap();
    assert_eq!((notes, fleet.counted()), (0, 2));
}

#[tokio::test]
async fn a_delayed_message_is_counted_and_outlives_all_nodes() {
    let fleet = Fleet::new(2, |settings| {
        settings.backoff(Backoff::new(LONG, LONG)).attempts(2)
    })
    .await;
    let worker = fleet.work(Doing(|seq, _, _| async move {
        match seq {
            1 => Err("later".into()),
            _ => Ok(()),
        }
    }));
    let waits = |now: &Snapshot| (now.delayed, now.done) == (1, 1);
    fleet.until("the first one waits", waits).await;
    let told = |now: &Snapshot| now.nodes.iter().map(|node| node.delayed).sum::<u64>() == 1;
    fleet.until("its worker's beat counts it", told).await;
    worker.stop().await;
    let now = fleet.until("it still waits", waits).await;
    assert_eq!((now.pending, now.claimed, now.failed), (0, 0, 0));
    let _: u64 = fleet
        .redis()
        .zadd("baton:{retries:0}:delayed", "1 2 1 1 1", 1)
        .unwrap();
    let other = fleet.work(Doing(|_, _, _| async { Ok(()) }));
    fleet.until("it is done", |now| now.done == 2).await;
    other.stop().await;
}

#[tokio::test]
async fn a_handler_that_hangs_is_ended_by_its_timeout_and_the_attempt_counts() {
    let fleet = Fleet::new(2, |settings| {
        settings.timeout(Duration::from_millis(60)).attempts(2)
    })
    .await;
    let worker = fleet.work(Doing(|seq, _, _| async move {
        match seq {
            1 => std::future::pending().await,
            _ => Ok(()),
        }
    }));
    let ended = |now: &Snapshot| now.done + now.failed == 2;
    fleet.until("both have ended", ended).await;
    worker.stop().await;
    let failed = fleet.failed();
    assert_eq!((failed[0].seq, failed[0].attempt), (1, 2));
    assert_eq!(failed[0].reason, "it took longer than its timeout of 60ms");
}

#[tokio::test]
async fn a_handler_that_cannot_work_burns_no_message_and_is_unhealthy_until_it_can() {
    let fleet = Fleet::new(5, |settings| settings.attempts(1)).await;
    let works = Arc::new(AtomicBool::new(false));
    let (can, tries) = (Arc::clone(&works), Arc::new(AtomicU64::new(0)));
    let tried = Arc::clone(&tries);
    let worker = fleet.work(Doing(move |_, attempt, _| {
        tried.fetch_add(1, Ordering::Relaxed);
        let can = can.load(Ordering::Relaxed);
        async move {
            match can {
                true if attempt == 1 => Ok(()),
                true => Err("an attempt was counted".into()),
                false => Err(HandlerError::unavailable("no such program")),
            }
        }
    }));
    let trouble = |running: &Running| running.meter.handler_trouble();
    let deadline = Instant::now() + TIMEOUT;
    while tries.load(Ordering::Relaxed) < 3 {
        assert!(Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(trouble(&worker).as_deref(), Some("no such program"));
    let told = |now: &Snapshot| now.handler_troubles.len() == 1;
    fleet.until("its beat says so", told).await;
    works.store(true, Ordering::Relaxed);
    let snapshot = fleet.until("all are done", |now| now.done == 5).await;
    assert_eq!((snapshot.failed, trouble(&worker)), (0, None));
    worker.stop().await;
    let events = fleet.events.lock().unwrap();
    let warned =
        |event: &&Event| matches!(event, Event::Warning(Warning::HandlerUnavailable { .. }));
    assert_eq!(events.iter().filter(warned).count(), 1, "once");
}

#[tokio::test]
async fn a_message_for_which_alone_the_handler_cannot_work_fails_and_holds_up_no_other() {
    let fleet = Fleet::new(20, |settings| settings.attempts(2)).await;
    let worker = fleet.work(Doing(move |seq, _, _| async move {
        match seq {
            7 => Err(HandlerError::unavailable("a mistake in a rare branch")),
            _ => Ok(()),
        }
    }));
    let snapshot = fleet
        .until("all have ended", |now| now.done + now.failed == 20)
        .await;
    assert_eq!((snapshot.done, snapshot.failed), (19, 1));
    worker.stop().await;
    let failed = fleet.failed();
    assert_eq!((failed[0].seq, failed[0].attempt), (7, 2));
    assert_eq!(failed[0].reason, "a mistake in a rare branch");
}

#[tokio::test]
async fn a_handler_that_works_for_one_lane_can_work() {
    let fleet = Fleet::new(5, |settings| settings.concurrency(2)).await;
    let tries = AtomicU64::new(0);
    // The lane that fails pauses; the other one handles all messages meanwhile.
    let worker = fleet.work(Doing(move |_, _, _| {
        let first = tries.fetch_add(1, Ordering::Relaxed) == 0;
        async move {
            match first {
                true => Err(HandlerError::unavailable("no such program")),
                false => Ok(()),
            }
        }
    }));
    fleet.until("all are done", |now| now.done == 5).await;
    assert_eq!(worker.meter.handler_trouble(), None);
    worker.stop().await;
}

#[tokio::test]
async fn a_node_that_works_no_more_forgets_that_its_handler_could_not() {
    let mut fleet = Fleet::new(5, |settings| settings).await;
    let worker = fleet.work(Doing(|_, _, _| async {
        Err(HandlerError::unavailable("no such program"))
    }));
    let broken = |now: &Snapshot| !now.handler_troubles.is_empty();
    fleet.until("the handler cannot work", broken).await;
    fleet.generator.take().unwrap().stop().await;
    let generates = |now: &Snapshot| now.generator.node.is_some() && now.nodes.len() == 1;
    fleet.until("the worker generates", generates).await;
    fleet
        .until("its beat has no trouble", |now| !broken(now))
        .await;
    assert_eq!(worker.meter.handler_trouble(), None);
    worker.stop().await;
}

#[tokio::test]
async fn a_lane_ends_what_is_before_a_slow_message_and_gives_back_what_is_behind() {
    let fleet = Fleet::new(50, |settings| settings).await;
    let go_on = Arc::new(Notify::new());
    let held = Arc::clone(&go_on);
    let slow = fleet.work(Doing(move |seq, _, _| {
        let held = Arc::clone(&held);
        async move {
            if seq == 10 {
                held.notified().await;
            }
            Ok(())
        }
    }));
    let only_one = |now: &Snapshot| (now.done, now.claimed, now.pending) == (9, 1, 40);
    fleet
        .until("one is claimed, the rest waits", only_one)
        .await;
    let other = fleet.work(Doing(|_, attempt, _| async move {
        match attempt {
            1 => Ok(()),
            _ => Err("it counted as an attempt".into()),
        }
    }));
    fleet
        .until("all others are done", |now| now.done == 49)
        .await;
    go_on.notify_one();
    fleet.until("all are done", |now| now.done == 50).await;
    assert_eq!(fleet.counted(), 50);
    slow.stop().await;
    other.stop().await;
}

#[tokio::test]
async fn a_message_whose_handler_panics_is_tried_again() {
    let fleet = Fleet::new(3, |settings| settings.attempts(2)).await;
    let worker = fleet.work(Doing(|seq, attempt, _| async move {
        assert!(seq == 1 || attempt == 2, "not at once");
        assert!(seq != 3, "never");
        Ok(())
    }));
    let ended = |now: &Snapshot| now.done + now.failed == 3;
    fleet.until("all have ended", ended).await;
    worker.stop().await;
    let failed = fleet.failed();
    let words: Vec<_> = failed
        .iter()
        .map(|failed| (failed.seq, failed.attempt, failed.reason.as_str()))
        .collect();
    assert_eq!(words, [(3, 2, "the handler panicked")]);
}

#[tokio::test]
async fn no_commit_delays_more_than_redis_can_do_in_a_short_step() {
    let long = "x".repeat(4000);
    let fleet = Fleet::new(1000, |settings| {
        settings.backoff(Backoff::new(LONG, LONG)).concurrency(1)
    })
    .await;
    let worker = fleet.work(Doing(move |seq, _, _| {
        let reason = if seq <= 600 { "no" } else { &long };
        let error = HandlerError::from(reason);
        async { Err(error) }
    }));
    fleet
        .until("all are delayed", |now| now.delayed == 1000)
        .await;
    worker.stop().await;
    let events = fleet.events.lock().unwrap();
    let commits = events.iter().filter_map(|event| match event {
        Event::Processed { first, delayed, .. } => Some((*first, delayed.len())),
        _ => None,
    });
    let largest = |from: u64, to: u64| {
        let some = commits
            .clone()
            .filter(|(first, _)| (from..to).contains(first));
        some.map(|(_, delayed)| delayed).max().unwrap_or_default()
    };
    // The notes of the others have 8 kB each.
    let (short, long) = (largest(1, 500), largest(601, 1000));
    assert!(short > 1 && short <= 250, "{short}");
    assert!(long > 1 && long <= 33, "{long}");
}

/// Fails its first attempt, then asks for an effect on a key of another type.
struct BadEffectLater;

impl Handler for BadEffectLater {
    async fn handle(
        &self,
        message: Message<'_>,
        effects: &mut Effects,
    ) -> Result<(), HandlerError> {
        effects.incr_by("a list", 1);
        match message.attempt {
            1 => Err("not yet".into()),
            _ => Ok(()),
        }
    }
}

#[tokio::test]
async fn a_message_whose_effects_are_refused_later_keeps_the_reason_of_its_first_attempt() {
    let fleet = Fleet::new(2, |settings| settings).await;
    let _: u64 = fleet.redis().rpush("a list", "x").unwrap();
    let worker = fleet.work(BadEffectLater);
    fleet.until("both failed", |now| now.failed == 2).await;
    worker.stop().await;
    for failed in fleet.failed() {
        assert_eq!(
            (failed.attempt, failed.first_reason.as_str()),
            (2, "not yet")
        );
        assert!(
            failed.reason.contains("its effects were refused"),
            "{failed:?}"
        );
    }
    let notes: u64 = fleet.redis().hlen("baton:{retries:0}:notes").unwrap();
    assert_eq!(notes, 0);
}
