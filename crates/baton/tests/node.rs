//! Nodes as a library user runs them, with a source and a handler of their own and staged effects.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use baton::inspect::Snapshot;
use baton::{
    Effects, Event, FailedMessage, FleetName, Handler, HandlerError, Inspector, Message, Node,
    NodeBuilder, Rejected, Source, Target, interval,
};
use baton_protocol::record;
use baton_server::PrivateServer;
use redis::Commands;
use tokio::sync::Notify;

/// No condition takes longer.
const TIMEOUT: Duration = Duration::from_secs(30);

fn numbers() -> impl Source {
    interval(Duration::ZERO, |seq, text| {
        text.extend_from_slice(format!("message {seq}").as_bytes());
    })
}

/// Runs two nodes with this handler until so many messages have ended; returns the snapshot then.
async fn run_fleet<H: Handler + Clone>(
    server: &PrivateServer,
    messages: u64,
    handler: H,
) -> Snapshot {
    run_fleet_with(server, messages, handler, |settings| settings).await
}

/// The same with other settings.
async fn run_fleet_with<H: Handler + Clone>(
    server: &PrivateServer,
    messages: u64,
    handler: H,
    change: impl FnOnce(NodeBuilder) -> NodeBuilder,
) -> Snapshot {
    let target = Target::parse(&server.url()).unwrap();
    let fleet = FleetName::new("library").unwrap();
    let settings = Node::builder(fleet.clone()).messages(messages);
    let settings = change(settings);
    let stop = Arc::new(Notify::new());
    let reported = Arc::new(AtomicU64::new(0));
    let nodes: Vec<_> = (0..2)
        .map(|_| {
            let (stop, reported) = (Arc::clone(&stop), Arc::clone(&reported));
            let settings = settings.clone().on_event(move |event| {
                if let Event::Processed { first, last, .. } = event {
                    reported.fetch_add(last - first + 1, Ordering::Relaxed);
                }
            });
            let node = settings.build(target.clone(), numbers(), handler.clone());
            let node = node.unwrap();
            tokio::spawn(node.run(async move { stop.notified().await }))
        })
        .collect();
    let inspector = Inspector::connect(&target, &fleet).await.unwrap();
    let deadline = Instant::now() + TIMEOUT;
    let snapshot = loop {
        let snapshot = inspector.snapshot().await;
        match snapshot {
            Ok(snapshot) if snapshot.done + snapshot.failed == messages => break snapshot,
            // A test may cut this connection, too.
            snapshot => assert!(Instant::now() < deadline, "{snapshot:?}"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    for node in nodes {
        stop.notify_one();
        stop.notify_one();
        node.await.unwrap().unwrap();
    }
    assert!(snapshot.balanced, "{snapshot:?}");
    // No node was killed, so each end was reported by the node that committed it.
    assert_eq!(reported.load(Ordering::Relaxed), messages);
    snapshot
}

fn records(server: &PrivateServer) -> Vec<FailedMessage> {
    let mut redis = redis::Client::open(server.url())
        .unwrap()
        .get_connection()
        .unwrap();
    let records: BTreeMap<u64, Vec<u8>> = redis.hgetall("baton:{library:0}:errors").unwrap();
    records
        .values()
        .map(|record| record::decode(record))
        .collect()
}

#[derive(Clone)]
struct Counting;

impl Handler for Counting {
    async fn handle(
        &self,
        message: Message<'_>,
        effects: &mut Effects,
    ) -> Result<(), HandlerError> {
        effects.incr_by("counted", 1);
        effects.sadd("numbers", message.seq.to_string());
        if message.seq.is_multiple_of(10) {
            return Err(Rejected::new("a round number").into());
        }
        Ok(())
    }
}

#[tokio::test]
async fn effects_of_done_messages_are_written_once_and_those_of_failed_ones_never() {
    let server = PrivateServer::builder().start().unwrap();
    let snapshot = run_fleet(&server, 5000, Counting).await;
    assert_eq!((snapshot.done, snapshot.failed), (4500, 500));
    let mut redis = redis::Client::open(server.url())
        .unwrap()
        .get_connection()
        .unwrap();
    assert_eq!(redis.get::<_, u64>("counted").unwrap(), 4500);
    assert_eq!(redis.scard::<_, u64>("numbers").unwrap(), 4500);
    assert!(!redis.sismember::<_, _, bool>("numbers", "10").unwrap());
}

#[derive(Clone)]
struct Panicking;

impl Handler for Panicking {
    async fn handle(&self, message: Message<'_>, _: &mut Effects) -> Result<(), HandlerError> {
        assert!(message.seq != 7, "seven");
        Ok(())
    }
}

#[tokio::test]
async fn a_panic_of_the_handler_fails_that_message_alone() {
    let server = PrivateServer::builder().start().unwrap();
    let once = |settings: NodeBuilder| settings.attempts(1);
    let snapshot = run_fleet_with(&server, 100, Panicking, once).await;
    assert_eq!((snapshot.done, snapshot.failed), (99, 1));
    let failed = records(&server);
    assert_eq!(
        (failed[0].seq, failed[0].reason.as_str()),
        (7, "the handler panicked")
    );
    assert_eq!(failed[0].text, b"message 7");
}

#[derive(Clone)]
struct BadEffect;

impl Handler for BadEffect {
    async fn handle(
        &self,
        message: Message<'_>,
        effects: &mut Effects,
    ) -> Result<(), HandlerError> {
        match message.seq {
            42 => effects.incr_by("a list", 1),
            _ => effects.incr_by("counted", 1),
        }
        Ok(())
    }
}

#[tokio::test]
async fn an_effect_that_cannot_work_fails_its_message_and_not_its_neighbours() {
    let server = PrivateServer::builder().start().unwrap();
    let mut redis = redis::Client::open(server.url())
        .unwrap()
        .get_connection()
        .unwrap();
    let _: () = redis.rpush("a list", "x").unwrap();
    let snapshot = run_fleet(&server, 1000, BadEffect).await;
    assert_eq!((snapshot.done, snapshot.failed), (999, 1));
    assert_eq!(redis.get::<_, u64>("counted").unwrap(), 999);
    let failed = records(&server);
    assert_eq!(
        (failed[0].seq, failed[0].text.as_slice()),
        (42, &b"message 42"[..])
    );
    assert!(
        failed[0].reason.contains("holds a list"),
        "{}",
        failed[0].reason
    );
}

#[derive(Clone)]
struct Fine;

impl Handler for Fine {
    async fn handle(&self, _: Message<'_>, _: &mut Effects) -> Result<(), HandlerError> {
        Ok(())
    }
}

/// A new server does not know the commit script, so the first commit fails and its node sends it
/// again with the script. The claim in the same pipeline then reaches the server first. The node
/// repeats that claim at once and gives nothing back.
#[tokio::test]
async fn a_claim_that_overtakes_the_first_commit_is_asked_for_again_at_once() {
    let server = PrivateServer::builder().start().unwrap();
    let port = server.port().unwrap();
    let mut monitor = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    std::io::Write::write_all(&mut monitor, b"MONITOR\r\n").unwrap();
    let heard = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // This ends when the server does.
        let _ = std::io::Read::read_to_end(&mut monitor, &mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    });
    run_fleet(&server, 5000, Fine).await;
    drop(server);
    let heard = heard.join().unwrap();
    let key = |name: &str| format!("\"baton:{{library:0}}:{name}\"");
    let commit = [key("claims"), key("deadlines"), key("pack:")].join(" ");
    let last_commit = heard.rfind(&commit).unwrap();
    // Nodes give messages back when they stop, and not before.
    let first_return = heard.find("-- give_back: ").unwrap_or(heard.len());
    assert!(last_commit < first_return);
}

/// Rejects a text that belongs to another message.
#[derive(Clone)]
struct Matching;

impl Handler for Matching {
    async fn handle(&self, message: Message<'_>, _: &mut Effects) -> Result<(), HandlerError> {
        match message.text == format!("message {}", message.seq).as_bytes() {
            true => Ok(()),
            false => Err(Rejected::new("a text of another message").into()),
        }
    }
}

/// Every cut loses answers, also those of calls that have taken effect.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_lose_answers_publish_nothing_twice_and_report_each_end_once() {
    let server = PrivateServer::builder().start().unwrap();
    let url = server.url();
    let (over, mut ended) = tokio::sync::watch::channel(false);
    let cutting = tokio::task::spawn_blocking(move || {
        let mut redis = redis::Client::open(url).unwrap().get_connection().unwrap();
        let (mut cuts, mut next) = (0, 1);
        while !*ended.borrow_and_update() {
            let published: Option<u64> = redis.hget("baton:{library:0}:fence", "last").unwrap();
            // Nodes publish and commit on connections that are not subscribed. Each cut waits for
            // progress: the backoff of a node that makes none grows.
            if published.is_some_and(|last| last >= next) {
                next = published.unwrap_or_default() + 3000;
                let mut kill = redis::cmd("CLIENT");
                kill.arg("KILL").arg("TYPE").arg("normal");
                cuts += kill.query::<u64>(&mut redis).unwrap();
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        cuts
    });
    let snapshot = run_fleet(&server, 300_000, Matching).await;
    over.send_replace(true);
    let cuts = cutting.await.unwrap();
    assert!(cuts > 10, "only {cuts} connections were cut");
    assert_eq!((snapshot.done, snapshot.failed), (300_000, 0));
}

/// With a full queue the generator leaves its packs staged, and sends only their names again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn staged_packs_that_expire_are_sent_again_with_their_own_texts() {
    let server = PrivateServer::builder().start().unwrap();
    let url = server.url();
    let (over, mut ended) = tokio::sync::watch::channel(false);
    let expiring = tokio::task::spawn_blocking(move || {
        let mut redis = redis::Client::open(url).unwrap().get_connection().unwrap();
        let (mut seen, mut expired) = (0, 0);
        while !*ended.borrow_and_update() {
            let staged: Vec<String> = redis.keys("baton:{library:0}:staged:*").unwrap();
            seen += staged.len();
            // Every second one, so that some packs are sent again by name.
            for key in staged.iter().step_by(2) {
                expired += redis.del::<_, u64>(key).unwrap();
            }
        }
        (seen, expired)
    });
    let full = |settings: NodeBuilder| settings.max_pending(2000);
    let snapshot = run_fleet_with(&server, 300_000, Matching, full).await;
    over.send_replace(true);
    let (seen, expired) = expiring.await.unwrap();
    assert!(expired > 10 && seen > 2 * 10, "{expired} of {seen} expired");
    assert_eq!((snapshot.done, snapshot.failed), (300_000, 0));
    let mut redis = redis::Client::open(server.url())
        .unwrap()
        .get_connection()
        .unwrap();
    let packs: Vec<String> = redis.keys("baton:{library:0}:pack:*").unwrap();
    assert_eq!(packs, [""; 0]);
}

/// With packs as large as the queue, the workers would wait for each of them.
#[tokio::test]
async fn a_small_queue_has_room_for_several_packs() {
    let server = PrivateServer::builder().start().unwrap();
    let small = |settings: NodeBuilder| settings.max_pending(8).audit(true);
    let _ = run_fleet_with(&server, 400, Matching, small).await;
    let mut redis = redis::Client::open(server.url())
        .unwrap()
        .get_connection()
        .unwrap();
    let ledger: Vec<String> = redis.lrange("baton:{library:0}:ledger", 0, -1).unwrap();
    let packs = ledger.iter().filter_map(|entry| {
        let mut words = entry.strip_prefix("p ")?.split(' ').skip(1);
        let mut number = || words.next()?.parse::<u64>().ok();
        let (first, last) = (number()?, number()?);
        Some(last - first + 1)
    });
    assert_eq!(packs.max(), Some(2), "a quarter of the queue");
}
