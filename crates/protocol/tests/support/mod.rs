//! A real server, a fleet for each test, its nodes and lanes, and the fleet's whole state as text.

mod dump;
mod lane;
mod listener;

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use baton::{Error, FleetName, Target};
use baton_protocol::{
    Beat, BeatCall, Failure, Keys, PackBuilder, Partitions, Publish, PublishCall, Ring, Rings,
    Seal, Settle, Settled, Store,
};
use baton_server::PrivateServer;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, FromRedisValue};
use tokio::sync::mpsc::{self, UnboundedReceiver};

pub(crate) use dump::Dump;
pub(crate) use lane::{Lane, NO_EFFECTS, commit_call, failed, text_of};
pub(crate) use listener::Listener;

/// A time to live that is longer than any test.
pub(crate) const LONG: Duration = Duration::from_secs(600);
/// A time to live that expires at once.
pub(crate) const EXPIRED: Duration = Duration::ZERO;
/// Timeout of an answer, and of a condition.
const TIMEOUT: Duration = Duration::from_secs(10);

/// One server for all tests that do not change its settings. Each test has its own fleet.
static SERVER: LazyLock<PrivateServer> = LazyLock::new(start);

/// A server for a test that changes its settings, restarts it, or reads every key.
pub(crate) fn start() -> PrivateServer {
    PrivateServer::builder().unix_socket().start().unwrap()
}

/// A fleet that no other test uses.
pub(crate) struct Fleet {
    pub(crate) name: FleetName,
    pub(crate) keys: Keys,
    url: String,
    raw: MultiplexedConnection,
}

impl Fleet {
    /// A fleet on the server that all tests share.
    pub(crate) async fn new() -> Self {
        Self::on(&SERVER.url()).await
    }

    /// A fleet on another server.
    pub(crate) async fn on(url: &str) -> Self {
        static FLEETS: AtomicU64 = AtomicU64::new(1);
        let number = FLEETS.fetch_add(1, Ordering::Relaxed);
        let name = FleetName::new(&format!("fleet-{number}")).unwrap();
        Self {
            keys: Keys::new(&name),
            name,
            url: url.to_owned(),
            raw: connect(url).await,
        }
    }

    /// A new raw connection, after a restart of the server.
    pub(crate) async fn reconnect(&mut self) {
        self.raw = connect(&self.url).await;
    }

    /// A node of the fleet.
    pub(crate) async fn node(&self, name: &str) -> Store {
        self.open(&self.url, name).await.unwrap()
    }

    /// A node that logs in as a user with the password `secret`.
    pub(crate) async fn node_as(&self, user: &str, name: &str) -> Result<Store, Error> {
        let url = format!("{}?user={user}&pass=secret", self.url);
        self.open(&url, name).await
    }

    /// A client that only reads, logged in as a user with the password `secret`.
    pub(crate) async fn view_as(&self, user: &str) -> Result<Store, Error> {
        let url = format!("{}?user={user}&pass=secret", self.url);
        Store::view(&Target::parse(&url)?, &self.name).await
    }

    async fn open(&self, url: &str, name: &str) -> Result<Store, Error> {
        let target = Target::parse(url)?;
        Store::open(&target, &self.name, name, |_| {}).await
    }

    /// A node and its only lane.
    pub(crate) async fn lane(&self, name: &str) -> Lane {
        Lane::new(self.node(name).await)
    }

    /// A node of a fleet that has this many partitions, and what servers say to it.
    pub(crate) async fn partitions(
        &self,
        node: &str,
        count: Option<u32>,
    ) -> Result<(Partitions, UnboundedReceiver<Ring>), Error> {
        let target = Target::parse(&self.url)?;
        let opened = Partitions::open(&target, &self.name, node, count, |_| {}).await;
        opened.map(|(partitions, rings)| (partitions, heard(rings)))
    }

    /// A node of a fleet of one partition. It hears what the server says to it.
    pub(crate) async fn listener(&self, name: &str) -> Listener {
        let (partitions, rings) = self.partitions(name, Some(1)).await.unwrap();
        Listener::new(Lane::new(partitions.control().clone()), rings)
    }

    /// A client that watches all channels of the fleet, as a monitor does.
    pub(crate) async fn watch_channels(&self) -> redis::aio::PubSub {
        let client = redis::Client::open(self.url.as_str()).unwrap();
        let mut watcher = client.get_async_pubsub().await.unwrap();
        watcher
            .psubscribe(format!("{}*", self.keys.presence))
            .await
            .unwrap();
        watcher
    }

    /// Makes nodes idle, the first one longest. Each wants one message.
    pub(crate) async fn make_idle(&self, nodes: &[impl AsRef<str>]) {
        let run_id = self.run_id().await;
        for (since, node) in (1..).zip(nodes) {
            let sleeper = format!("{}@{run_id}", node.as_ref());
            self.add_idle(&format!("{since}.0009765625"), &sleeper)
                .await;
        }
    }

    /// Writes a member of `idle`, whatever it is.
    pub(crate) async fn add_idle(&self, score: &str, member: &str) {
        self.write(&["ZADD", &self.keys.idle, score, member]).await;
    }

    /// The node `g`, which has sealed with epoch 1.
    pub(crate) async fn generator(&self) -> Store {
        let store = self.node("g").await;
        let sealed = Seal::Sealed {
            last: 0,
            cursor: Vec::new(),
            known: 0,
            made: baton_protocol::Progress::default(),
        };
        assert_eq!(store.seal(1).await.unwrap(), sealed);
        store
    }

    /// Generator and worker, and this many messages waiting in one pack.
    pub(crate) async fn with_messages(&self, count: u64) -> (Store, Lane) {
        let generator = self.generator_of(count).await;
        (generator, self.lane("w").await)
    }

    /// The generator, and this many messages waiting in one pack.
    pub(crate) async fn generator_of(&self, count: u64) -> Store {
        let generator = self.generator().await;
        assert!(publish(&generator, 1, count).await.is_written());
        generator
    }

    /// Sends a raw command, like an operator or a vandal.
    pub(crate) async fn raw<T: FromRedisValue>(&self, words: &[&str]) -> T {
        let mut command = redis::cmd(words[0]);
        words[1..].iter().for_each(|word| {
            command.arg(word);
        });
        command.query_async(&mut self.raw.clone()).await.unwrap()
    }

    /// Sends a raw command whose answer does not matter.
    pub(crate) async fn write(&self, words: &[&str]) {
        let _: redis::Value = self.raw(words).await;
    }

    /// Sends a raw command that has bytes in it.
    pub(crate) async fn send(&self, command: &redis::Cmd) {
        let mut raw = self.raw.clone();
        let _: redis::Value = command.query_async(&mut raw).await.unwrap();
    }

    /// Appends records, like the scripts.
    pub(crate) async fn fail(&self, records: &[impl AsRef<[u8]>]) {
        let last: Option<u64> = self.raw(&["HGET", &self.keys.errors_ids, "last"]).await;
        let last = last.unwrap_or_default();
        let mut append = redis::cmd("HSET");
        append.arg(&self.keys.errors);
        for (id, record) in (last + 1..).zip(records) {
            append.arg(id).arg(record.as_ref());
        }
        self.send(&append).await;
        let last = (last + records.len() as u64).to_string();
        self.write(&["HSET", &self.keys.errors_ids, "last", &last])
            .await;
    }

    /// The server's run id, in the short form that claims carry.
    pub(crate) async fn run_id(&self) -> String {
        let info: String = self.raw(&["INFO", "server"]).await;
        let mut lines = info.lines();
        let run_id = lines.find_map(|line| line.strip_prefix("run_id:"));
        run_id.unwrap()[..8].to_owned()
    }

    /// A key of the application, in the fleet's slot.
    pub(crate) fn app(&self, name: &str) -> String {
        format!("app:{{{}:0}}:{name}", self.name)
    }

    /// The lines of these keys, whose names blanks separate.
    pub(crate) async fn only(&self, keys: &str) -> Dump {
        self.dump().await.only(keys)
    }

    /// The whole state of the fleet: one line per key, times masked.
    pub(crate) async fn dump(&self) -> Dump {
        let pattern = format!("*{{{}[:}}]*", self.name);
        dump::dump(&mut self.raw.clone(), &pattern, &self.name).await
    }

    /// Every key of the server.
    pub(crate) async fn dump_all(&self) -> Dump {
        dump::dump(&mut self.raw.clone(), "*", &self.name).await
    }

    /// A worker of this name claims messages and dies; `survivor` reclaims them. Returns the claimed
    /// messages.
    pub(crate) async fn death(&self, name: &str, want: u64, survivor: &Store) -> String {
        let lane = self.lane(name).await;
        let texts = lane.take(1, want).await;
        drop(lane);
        self.wait_absent(name).await;
        let _ = survivor.reclaim().await.unwrap();
        texts
    }

    /// Makes the suspects of all waiting messages so old that a verdict is due.
    pub(crate) async fn age_suspects(&self) {
        self.rewrite_suspects(|words| match words {
            [_, _, _, _, _, time, run_id, names] => {
                let time: u64 = time.parse().unwrap();
                Some(format!("{} {run_id} {names}", time - 5000))
            }
            _ => None,
        })
        .await;
    }

    /// Replaces the suspects of all waiting ranges: their time, run id and names. `rewrite` gets the
    /// words of a range.
    pub(crate) async fn rewrite_suspects(&self, rewrite: impl Fn(&[&str]) -> Option<String>) {
        let queue = &self.keys.queue;
        let ranges: Vec<String> = self.raw(&["LRANGE", queue, "0", "-1"]).await;
        for (at, range) in ranges.iter().enumerate() {
            let words: Vec<&str> = range.split(' ').collect();
            if let Some(suspects) = rewrite(&words) {
                let range = format!("{} {suspects}", words[..5].join(" "));
                self.write(&["LSET", queue, &at.to_string(), &range]).await;
            }
        }
    }

    /// Waits until the server has noticed the end of a node's connection.
    pub(crate) async fn wait_absent(&self, node: &str) {
        let channel = format!("{}{node}", self.keys.presence);
        eventually("the node is absent", async || {
            let (_, subscribers): (String, u64) = self.raw(&["PUBSUB", "NUMSUB", &channel]).await;
            subscribers == 0
        })
        .await;
    }
}

async fn connect(url: &str) -> MultiplexedConnection {
    let client = redis::Client::open(url).unwrap();
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(TIMEOUT));
    let connection = client.get_multiplexed_async_connection_with_config(&config);
    connection.await.unwrap()
}

/// Sends a raw command to any server.
pub(crate) async fn raw_on<T: FromRedisValue>(url: &str, words: &[&str]) -> T {
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    command.query_async(&mut connect(url).await).await.unwrap()
}

/// Waits for a condition, with a deadline.
pub(crate) async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !condition().await {
        assert!(Instant::now() < deadline, "timeout: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// What servers say from now on.
fn heard(rings: Rings) -> UnboundedReceiver<Ring> {
    let (send, heard) = mpsc::unbounded_channel();
    rings.listen(move |ring| drop(send.send(ring)));
    heard
}

/// What a server says next.
pub(crate) async fn next_ring(rings: &mut UnboundedReceiver<Ring>) -> Ring {
    let ring = tokio::time::timeout(TIMEOUT, rings.recv()).await;
    ring.unwrap().unwrap()
}

/// A pack of the messages `m1`, `m2`, … from `first` on, made at time 1.
pub(crate) fn pack(first: u64, count: u64) -> Vec<u8> {
    let texts: Vec<String> = (first..first + count)
        .map(|seq| format!("m{seq}"))
        .collect();
    pack_of(&texts)
}

/// A pack of any texts, made at time 1.
pub(crate) fn pack_of(texts: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let mut builder = PackBuilder::default();
    texts.iter().for_each(|text| builder.push(text.as_ref()));
    builder.finish(1, "0123456789", 1)
}

/// The publish of a generator with epoch 1 and room in the queue.
pub(crate) fn publish_call(first: u64, count: u64, pack: &[u8]) -> PublishCall<'_> {
    PublishCall {
        stage: 1,
        is_staged: false,
        claim_ttl: LONG,
        epoch: 1,
        first,
        count,
        // A test makes few of them.
        cursor: (first * 10).to_string().leak().as_bytes(),
        made: None,
        max_pending: 1_000_000,
        digest: None,
        pack,
    }
}

/// Publishes `count` messages from `first` on, as epoch 1.
pub(crate) async fn publish(generator: &Store, first: u64, count: u64) -> Publish {
    let pack = pack(first, count);
    generator
        .publish(publish_call(first, count, &pack))
        .await
        .unwrap()
}

/// A beat with a lease that is longer than any test.
pub(crate) async fn beat(store: &Store) -> Beat {
    store.beat(beat_call(LONG, 0)).await.unwrap()
}

/// Drops or retries all these records, call by call.
pub(crate) async fn settle_all(
    store: &Store,
    settle: Settle,
    failures: &[Failure],
) -> Result<Vec<Settled>, Error> {
    let mut settled = Vec::with_capacity(failures.len());
    while settled.len() < failures.len() {
        let rest = &failures[settled.len()..];
        settled.extend(store.errors_settle_some(settle, rest).await?);
    }
    Ok(settled)
}

/// The beat of a node that may generate.
pub(crate) fn beat_call(lease_ttl: Duration, above: u64) -> BeatCall<'static> {
    BeatCall {
        lease_ttl,
        about: "{}",
        above,
        is_candidate: true,
        known: 0,
    }
}
