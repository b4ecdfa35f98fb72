//! A lane with a quick handler has its next messages on the way while it handles: it works with two
//! slots, or with more where a commit waits for replicas.

#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use baton::{
    Durability, Effects, FleetName, Handler, HandlerError, Inspector, Message, Node, NodeBuilder,
    Source, Target, interval,
};
use baton_server::PrivateServer;
use redis::Commands;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

/// No condition takes longer.
const TIMEOUT: Duration = Duration::from_secs(30);
const FLEET: &str = "ahead";

fn numbers() -> impl Source {
    interval(Duration::ZERO, |seq, text| {
        text.extend_from_slice(seq.to_string().as_bytes());
    })
}

fn key(name: &str) -> String {
    format!("baton:{{{FLEET}:0}}:{name}")
}

fn connect(server: &PrivateServer) -> redis::Connection {
    let client = redis::Client::open(server.url()).unwrap();
    client.get_connection().unwrap()
}

struct Running {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Running {
    async fn stop(self) {
        self.stop.send(()).unwrap();
        self.task.await.unwrap();
    }
}

/// A fleet whose generator has published all messages before its one worker starts.
struct Fleet {
    server: PrivateServer,
    target: Target,
    settings: NodeBuilder,
    inspector: Inspector,
    messages: u64,
    generator: Running,
}

impl Fleet {
    async fn with_messages(messages: u64) -> Self {
        let server = PrivateServer::builder().start().unwrap();
        Self::on(server, messages, Durability::None).await
    }

    async fn on(server: PrivateServer, messages: u64, durability: Durability) -> Self {
        let target = Target::parse(&server.url()).unwrap();
        let name = FleetName::new(FLEET).unwrap();
        let settings = Node::builder(name.clone())
            .messages(messages)
            .max_pending(messages)
            .durability(durability);
        let inspector = Inspector::connect(&target, &name).await.unwrap();
        let idle = |_: &Message<'_>| async {};
        let generator = start(&settings, &target, Doing(idle));
        let fleet = Self {
            server,
            target,
            settings,
            inspector,
            messages,
            generator,
        };
        let (inspector, all) = (&fleet.inspector, messages);
        wait(async || inspector.snapshot().await.unwrap().published == all).await;
        fleet
    }

    /// Starts the worker.
    fn work(&self, handler: impl Handler) -> Running {
        start(&self.settings, &self.target, handler)
    }

    /// Waits until all messages have ended well.
    async fn wait_done(&self) {
        wait(async || self.inspector.snapshot().await.unwrap().done == self.messages).await;
    }

    async fn stop(self, worker: Running) {
        worker.stop().await;
        self.generator.stop().await;
    }

    /// The parts of the slots that have ended messages.
    fn parts(&self) -> Vec<String> {
        let slots: Vec<String> = connect(&self.server).hkeys(key("workers")).unwrap();
        let part = |slot: &String| slot.split(':').nth(1).unwrap().to_owned();
        let mut parts: Vec<String> = slots.iter().map(part).collect();
        parts.sort();
        parts
    }
}

fn start(settings: &NodeBuilder, target: &Target, handler: impl Handler) -> Running {
    let node = settings.clone().build(target.clone(), numbers(), handler);
    let node = node.unwrap();
    let (stop, stopped) = oneshot::channel();
    let stopped = async { stopped.await.unwrap_or_default() };
    let task = tokio::spawn(async move { node.run(stopped).await.unwrap() });
    Running { stop, task }
}

async fn wait(mut is_true: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !is_true().await {
        assert!(Instant::now() < deadline, "it takes too long");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// A handler that is a function, and rejects nothing.
struct Doing<F>(F);

impl<F, W> Handler for Doing<F>
where
    F: Fn(&Message<'_>) -> W + Send + Sync + 'static,
    W: Future<Output = ()> + Send,
{
    async fn handle(&self, message: Message<'_>, _: &mut Effects) -> Result<(), HandlerError> {
        (self.0)(&message).await;
        Ok(())
    }
}

#[tokio::test]
async fn both_slots_of_a_lane_claim_and_one_message_is_handled_at_a_time() {
    let fleet = Fleet::with_messages(50_000).await;
    let (busy, twice) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicBool::new(false)),
    );
    let seen = Arc::clone(&twice);
    let worker = fleet.work(Doing(move |message: &Message<'_>| {
        let waits = message.seq % 1000 == 500;
        let (busy, seen) = (Arc::clone(&busy), Arc::clone(&seen));
        async move {
            seen.fetch_or(busy.swap(true, Ordering::SeqCst), Ordering::SeqCst);
            if waits {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            busy.store(false, Ordering::SeqCst);
        }
    }));
    fleet.wait_done().await;
    assert!(!twice.load(Ordering::SeqCst), "two messages at a time");
    assert_eq!(fleet.parts(), ["0", "0+1"]);
    fleet.stop(worker).await;
}

#[tokio::test]
async fn more_slots_work_where_a_commit_waits_for_replicas() {
    let server = PrivateServer::builder().start().unwrap();
    let master = format!("127.0.0.1 {}", server.port().unwrap());
    let replica = PrivateServer::builder()
        .config("replicaof", master)
        .config("repl-diskless-sync-delay", "0")
        .start()
        .unwrap();
    let level = "replicas:1".parse().unwrap();
    let fleet = Fleet::on(server, 100_000, level).await;
    let worker = fleet.work(Doing(|_: &Message<'_>| async {}));
    fleet.wait_done().await;
    let ahead: Vec<String> = (1..=7).map(|nth| format!("0+{nth}")).collect();
    let parts = fleet.parts();
    assert!(parts.ends_with(&ahead), "{parts:?}");
    fleet.stop(worker).await;
    drop(replica);
}

#[tokio::test]
async fn a_lane_with_a_slow_handler_never_claims_ahead() {
    let fleet = Fleet::with_messages(300).await;
    let work = || tokio::time::sleep(Duration::from_millis(2));
    let worker = fleet.work(Doing(move |_: &Message<'_>| work()));
    fleet.wait_done().await;
    assert_eq!(fleet.parts(), ["0"]);
    fleet.stop(worker).await;
}

/// The slots that hold messages, and whether a worker may have died with those messages.
fn claims(redis: &mut redis::Connection) -> Vec<(String, bool)> {
    let claims: Vec<(String, String)> = redis.hgetall(key("claims")).unwrap();
    // "m number run_id pack count first last returns", and behind it the suspects.
    let has_suspects = |claim: &str| claim.split(' ').count() > 8;
    claims
        .into_iter()
        .map(|(slot, claim)| (slot, has_suspects(&claim)))
        .collect()
}

/// What the worker held, sample by sample.
#[derive(Debug, Default)]
struct Seen {
    two_claims: u64,
    suspects_alone: u64,
    suspects_together: Vec<Vec<(String, bool)>>,
}

#[tokio::test]
async fn a_lane_that_holds_messages_of_a_dead_worker_holds_no_others() {
    let fleet = Fleet::with_messages(100_000).await;
    let mut redis = connect(&fleet.server);
    let queue: Vec<String> = redis.lrange(key("queue"), 0, -1).unwrap();
    assert!(queue.len() >= 50, "{} ranges", queue.len());
    let run_id: String = redis::cmd("INFO").arg("server").query(&mut redis).unwrap();
    let run_id = run_id.split("run_id:").nth(1).unwrap()[..8].to_owned();
    let (now_s, _): (u64, u64) = redis::cmd("TIME").query(&mut redis).unwrap();
    // It is as if a worker had died with every tenth range.
    for (at, range) in queue.iter().enumerate().skip(9).step_by(10) {
        let fresh = range.strip_suffix(" 0").unwrap();
        let suspected = format!("{fresh} 1 {} {run_id} dead", now_s * 1000);
        let _: () = redis.lset(key("queue"), at as isize, suspected).unwrap();
    }
    let seen = Arc::new(Mutex::new(Seen::default()));
    let (redis, seeing) = (Mutex::new(redis), Arc::clone(&seen));
    let worker = fleet.work(Doing(move |message: &Message<'_>| {
        if message.seq.is_multiple_of(200) {
            let claims = claims(&mut redis.lock().unwrap());
            let suspects = claims.iter().any(|(_, suspects)| *suspects);
            let seen = &mut *seeing.lock().unwrap();
            match (claims.len(), suspects) {
                (1, true) => seen.suspects_alone += 1,
                (2, false) => seen.two_claims += 1,
                (2, true) => seen.suspects_together.push(claims),
                _ => {}
            }
        }
        async {}
    }));
    fleet.wait_done().await;
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    assert_eq!(seen.suspects_together, Vec::<Vec<_>>::new());
    assert!(seen.suspects_alone > 0 && seen.two_claims > 0, "{seen:?}");
    fleet.stop(worker).await;
}

#[tokio::test]
async fn a_lane_whose_handler_hangs_gives_back_what_it_claimed_ahead() {
    const HANGS: u64 = 20_500;
    let fleet = Fleet::with_messages(50_000).await;
    let go_on = Arc::new(Notify::new());
    let hanging = Arc::clone(&go_on);
    let worker = fleet.work(Doing(move |message: &Message<'_>| {
        let hangs = (message.seq == HANGS).then(|| Arc::clone(&hanging));
        async move {
            if let Some(hanging) = hangs {
                hanging.notified().await;
            }
        }
    }));
    let mut redis = connect(&fleet.server);
    let held = |redis: &mut redis::Connection| -> Vec<String> {
        let claims: Vec<String> = redis.hvals(key("claims")).unwrap();
        claims
    };
    // The queue begins with what was claimed ahead, so it has every message behind those of the
    // one claim that is left.
    wait(async || {
        let claims = held(&mut redis);
        let [claim] = claims.as_slice() else {
            return false;
        };
        let words: Vec<u64> = claim
            .split(' ')
            .skip(5)
            .map_while(|n| n.parse().ok())
            .collect();
        (words[0]..=words[1]).contains(&HANGS)
    })
    .await;
    let snapshot = fleet.inspector.snapshot().await.unwrap();
    assert_eq!(snapshot.pending, 50_000 - snapshot.done - snapshot.claimed);
    go_on.notify_one();
    fleet.wait_done().await;
    assert_eq!(fleet.parts(), ["0", "0+1"]);
    fleet.stop(worker).await;
}

#[tokio::test]
async fn messages_that_a_lane_claims_and_gives_back_count_no_attempt() {
    const QUICK: u64 = 5_000;
    let fleet = Fleet::with_messages(QUICK + 20).await;
    let attempts = Arc::new(AtomicU64::new(0));
    let max = Arc::clone(&attempts);
    let worker = fleet.work(Doing(move |message: &Message<'_>| {
        max.fetch_max(message.attempt, Ordering::SeqCst);
        let slow = message.seq > QUICK;
        async move {
            if slow {
                tokio::time::sleep(Duration::from_millis(25)).await;
            }
        }
    }));
    fleet.wait_done().await;
    assert_eq!(attempts.load(Ordering::SeqCst), 1);
    fleet.stop(worker).await;
}
