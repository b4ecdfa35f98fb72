//! Messages that go to an idle node in the step that publishes them.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use baton::inspect::Meter;
use baton::{Effects, Handler, HandlerError, Message, Node, Roles, Target, interval};
use baton_protocol::{PackBuilder, Partitions, Progress, PublishCall, Seal, Slot, Store};
use baton_server::PrivateServer;
use redis::FromRedisValue;
use tokio::sync::Semaphore;

use crate::fleet::{Running, name, run, until};

/// No claim expires during a test.
const CLAIM_TTL: Duration = Duration::from_secs(3000);

/// How long the lane that should wait has time to overtake the other one.
const OVERTAKING: Duration = Duration::from_millis(300);

/// Notes the partitions of its messages, and handles each when the gate lets it.
#[derive(Clone)]
struct Gated {
    begun: Arc<Mutex<Vec<u32>>>,
    gate: Arc<Semaphore>,
}

impl Gated {
    /// As many messages as this pass the gate.
    fn new(passes: usize) -> Self {
        Self {
            begun: Arc::default(),
            gate: Arc::new(Semaphore::new(passes)),
        }
    }

    fn begun(&self) -> Vec<u32> {
        self.begun.lock().unwrap().clone()
    }
}

impl Handler for Gated {
    async fn handle(&self, message: Message<'_>, _: &mut Effects) -> Result<(), HandlerError> {
        self.begun.lock().unwrap().push(message.partition);
        self.gate.acquire().await.unwrap().forget();
        Ok(())
    }
}

/// Notes its messages, and handles the first when the gate opens and the others at once.
#[derive(Clone)]
struct FirstWaits {
    begun: Arc<Mutex<Vec<u64>>>,
    gate: Arc<Semaphore>,
}

impl Handler for FirstWaits {
    async fn handle(&self, message: Message<'_>, _: &mut Effects) -> Result<(), HandlerError> {
        self.begun.lock().unwrap().push(message.seq);
        if message.seq == 1 {
            self.gate.acquire().await.unwrap().forget();
        }
        Ok(())
    }
}

/// A worker of the fleet.
struct Worker {
    name: String,
    meter: Arc<Meter>,
    running: Running,
}

impl Worker {
    async fn stop(self) {
        self.running.stop().await;
    }
}

/// A fleet of two partitions, whose generator is the test.
struct Fleet {
    server: PrivateServer,
    stores: Partitions,
}

impl Fleet {
    async fn start() -> Self {
        let server = PrivateServer::builder().start().unwrap();
        let target = Target::parse(&server.url()).unwrap();
        let opened = Partitions::open(&target, &name(), "g", Some(2), |_| {}).await;
        let (stores, _) = opened.unwrap();
        for store in stores.all() {
            let sealed = store.seal(1).await.unwrap();
            assert!(matches!(sealed, Seal::Sealed { .. }), "{sealed:?}");
        }
        Self { server, stores }
    }

    /// Starts a worker, and waits until it is idle in both partitions.
    async fn worker(&self, handler: &(impl Handler + Clone), lanes: usize) -> Worker {
        let target = Target::parse(&self.server.url()).unwrap();
        let source = interval(Duration::from_secs(1), |_, _| {});
        let node = Node::builder(name())
            .partitions(2)
            .roles(Roles::OnlyWorks)
            .claim_ttl(CLAIM_TTL)
            .concurrency(lanes)
            .build(target, source, handler.clone())
            .unwrap();
        let worker = Worker {
            name: node.name().to_owned(),
            meter: node.meter(),
            running: run(node),
        };
        for store in self.stores.all() {
            self.until_idle(store, &worker.name).await;
        }
        worker
    }

    async fn until_idle(&self, store: &Store, node: &str) {
        until("the worker is idle", || {
            let idle: Vec<String> = self.raw(&["ZRANGE", &store.keys().idle, "0", "-1"]);
            idle.iter().any(|name| name.split('@').next() == Some(node))
        })
        .await;
    }

    fn raw<T: FromRedisValue>(&self, words: &[&str]) -> T {
        let client = redis::Client::open(self.server.url()).unwrap();
        let mut connection = client.get_connection().unwrap();
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        command.query(&mut connection).unwrap()
    }

    async fn publish(&self, partition: usize, first: u64) {
        let pack = lone_pack(first);
        let call = PublishCall {
            epoch: 1,
            first,
            count: 1,
            cursor: b"",
            made: Some(Progress {
                packs: first,
                messages: first,
            }),
            max_pending: 100,
            digest: None,
            pack: &pack,
            stage: 1,
            is_staged: false,
            claim_ttl: CLAIM_TTL,
        };
        let published = self.stores.all()[partition].publish(call).await.unwrap();
        assert!(published.is_written(), "{published:?}");
    }

    fn done(&self) -> u64 {
        let done =
            |store: &Store| -> Option<u64> { self.raw(&["HGET", &store.keys().stats, "done"]) };
        self.stores.all().iter().filter_map(done).sum()
    }

    async fn until_done(&self, messages: u64) {
        until("the messages are done", || self.done() == messages).await;
    }
}

fn lone_pack(first: u64) -> Vec<u8> {
    let mut pack = PackBuilder::default();
    pack.push(b"text");
    pack.finish(1, "origin", first)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_handed_to_a_busy_node_goes_to_another() {
    let fleet = Fleet::start().await;
    let (busy, free) = (Gated::new(0), Gated::new(10));
    let first = fleet.worker(&busy, 1).await;
    fleet.publish(0, 1).await;
    until("its lane is busy", || busy.begun() == [0]).await;
    let second = fleet.worker(&free, 1).await;
    // The first worker is idle longer in partition 1, and its only lane is busy.
    fleet.publish(1, 1).await;
    until("the other one handles it", || free.begun() == [1]).await;
    busy.gate.add_permits(10);
    fleet.until_done(2).await;
    assert_eq!((busy.begun(), free.begun()), (vec![0], vec![1]));
    first.stop().await;
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_is_idle_again_while_one_of_its_lanes_handles_a_handed_message() {
    let fleet = Fleet::start().await;
    let handler = Gated::new(0);
    let worker = fleet.worker(&handler, 2).await;
    let store = &fleet.stores.all()[0];
    fleet.publish(0, 1).await;
    until("one lane is busy", || handler.begun() == [0]).await;
    fleet.until_idle(store, &worker.name).await;
    fleet.publish(0, 2).await;
    until("the other one, too", || handler.begun() == [0, 0]).await;
    handler.gate.add_permits(10);
    fleet.until_done(2).await;
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_whose_ring_was_lost_comes_back_with_new_connections() {
    let fleet = Fleet::start().await;
    let handler = Gated::new(10);
    let worker = fleet.worker(&handler, 1).await;
    // What a publish leaves if the connection breaks before the worker reads its message.
    let store = &fleet.stores.all()[1];
    let keys = store.keys();
    let client = redis::Client::open(fleet.server.url()).unwrap();
    let mut connection = client.get_connection().unwrap();
    let (held, slot) = (
        format!("m 7 {} 1 1 1 1 0", store.run_id()),
        Slot::handed(&worker.name),
    );
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let until_ms = (now + CLAIM_TTL).as_millis();
    redis::pipe()
        .atomic()
        .cmd("SET")
        .arg(keys.pack_key(1))
        .arg(lone_pack(1))
        .cmd("HSET")
        .arg(&[&keys.fence, "last", "1"])
        .cmd("HSET")
        .arg(&[&keys.claims, slot.name(), &held])
        .cmd("ZADD")
        .arg(&[&keys.deadlines, &until_ms.to_string(), slot.name()])
        .exec(&mut connection)
        .unwrap();
    let _: u64 = fleet.raw(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    fleet.until_done(1).await;
    assert_eq!(handler.begun(), [1]);
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_hears_that_handed_messages_have_ended_before_it_ends_the_next_ones() {
    let fleet = Fleet::start().await;
    let handler = FirstWaits {
        begun: Arc::default(),
        gate: Arc::new(Semaphore::new(0)),
    };
    let worker = fleet.worker(&handler, 2).await;
    let store = &fleet.stores.all()[0];
    let (keys, slot) = (store.keys(), Slot::handed(&worker.name));
    fleet.publish(0, 1).await;
    let begun = || handler.begun.lock().unwrap().clone();
    until("a lane handles the first", || begun() == [1]).await;
    fleet.until_idle(store, &worker.name).await;
    // What a commit of message 1 leaves. The worker has not heard the answer yet.
    let claim: String = fleet.raw(&["HGET", &keys.claims, slot.name()]);
    let number = claim.split(' ').nth(1).unwrap();
    // The number is the time in µs.
    let ended = format!("{number} 1 1 {}", &number[..number.len() - 6]);
    let _: u64 = fleet.raw(&["HDEL", &keys.claims, slot.name()]);
    let _: u64 = fleet.raw(&["HSET", &keys.workers, slot.name(), &ended]);
    let _: u64 = fleet.raw(&["HINCRBY", &keys.stats, "done", "1"]);
    fleet.publish(0, 2).await;
    let claim: String = fleet.raw(&["HGET", &keys.claims, slot.name()]);
    assert!(claim.ends_with(" 2 1 2 2 0"), "{claim}");
    let overtaken = tokio::time::timeout(OVERTAKING, fleet.until_done(2)).await;
    assert!(overtaken.is_err(), "the second one ended first");
    handler.gate.add_permits(1);
    fleet.until_done(2).await;
    until("the answers", || {
        worker.meter.processed() + worker.meter.lost() == 2
    })
    .await;
    assert_eq!(
        (begun(), worker.meter.lost()),
        (vec![1, 2], 0),
        "the answer to the first"
    );
    worker.stop().await;
}
