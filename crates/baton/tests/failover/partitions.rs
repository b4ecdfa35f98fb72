//! A fleet of several partitions: all of them have messages, and the loss of one server stops no other.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use baton::{
    Batch, Effects, Error, Event, Flow, Handler, HandlerError, Inspector, Message, Node, Roles,
    Source, SourceError, Target, interval,
};
use baton_protocol::{
    Keys, Ledger, PackBuilder, Parcel, Park, Partitions, Progress, Seal, audit, new_name,
};
use baton_server::{ClusterGroup, PrivateServer};

use crate::fleet::{PAUSE, Running, TIMEOUT, name, run, until};

/// Longer than a node waits before it beats once more.
const BEATS: Duration = Duration::from_secs(2);

/// Keeps what was handled.
#[derive(Clone, Default)]
pub(crate) struct Handled(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// The numbers of each partition.
    numbers: BTreeMap<u32, BTreeSet<u64>>,
    /// The keys of all messages.
    keys: HashSet<String>,
    texts: BTreeSet<String>,
    generators: Vec<u64>,
    /// How many messages were published.
    published: u64,
    /// The partitions of which a node said that they forgot messages.
    regressed: Vec<u32>,
}

impl Handler for Handled {
    async fn handle(&self, message: Message<'_>, _: &mut Effects) -> Result<(), HandlerError> {
        let mut state = self.0.lock().unwrap();
        let numbers = state.numbers.entry(message.partition).or_default();
        numbers.insert(message.seq);
        state.keys.insert(message.key().to_string());
        let text = String::from_utf8_lossy(message.text).into_owned();
        state.texts.insert(text);
        Ok(())
    }
}

impl Handled {
    fn count(&self) -> usize {
        let state = self.0.lock().unwrap();
        state.numbers.values().map(BTreeSet::len).sum()
    }

    fn published(&self) -> u64 {
        self.0.lock().unwrap().published
    }

    /// The epochs of all generators.
    pub(crate) fn generators(&self) -> Vec<u64> {
        self.0.lock().unwrap().generators.clone()
    }

    /// How many messages of each partition were handled.
    pub(crate) fn counts(&self) -> BTreeMap<u32, usize> {
        let state = self.0.lock().unwrap();
        let counts = state.numbers.iter();
        counts
            .map(|(index, numbers)| (*index, numbers.len()))
            .collect()
    }

    pub(crate) fn partitions(&self) -> usize {
        self.0.lock().unwrap().numbers.len()
    }

    /// Starts a node that makes a message this often.
    pub(crate) fn start(
        &self,
        url: &str,
        partitions: impl Into<Option<u32>>,
        every: Duration,
    ) -> Running {
        let source = interval(every, |seq, text| {
            text.extend_from_slice(format!("{seq:06}").as_bytes());
        });
        self.start_with(url, partitions, source)
    }

    fn start_with(
        &self,
        url: &str,
        partitions: impl Into<Option<u32>>,
        source: impl Source,
    ) -> Running {
        let target = Target::parse(url).unwrap();
        let own = self.clone();
        let mut settings = Node::builder(name()).audit(true);
        if let Some(partitions) = partitions.into() {
            settings = settings.partitions(partitions);
        }
        let settings = settings.on_event(move |event| {
            let mut state = own.0.lock().unwrap();
            if let Event::Published { first, last, .. } = event.inner() {
                state.published += last - first + 1;
            }
            match event {
                Event::Generator { epoch } => state.generators.push(*epoch),
                Event::InPartition { partition, event }
                    if matches!(**event, Event::Regressed { .. }) =>
                {
                    state.regressed.push(*partition);
                }
                _ => {}
            }
        });
        run(settings.build(target, source, self.clone()).unwrap())
    }

    /// Compares what was handled with what the partitions say, after all nodes have stopped.
    pub(crate) async fn check(&self, url: &str, partitions: u32) {
        let target = Target::parse(url).unwrap();
        let opened = Partitions::open(&target, &name(), &new_name(), None, |_| {}).await;
        let (all, _) = opened.unwrap();
        assert_eq!(all.all().len(), partitions as usize);
        let (mut published, mut done) = (0, 0);
        for store in all.all() {
            let ledger = Ledger::read(store).await.unwrap();
            let audit = audit::audit(store, &ledger).await.unwrap();
            let open = audit.published - audit.done;
            assert_eq!((audit.lost, audit.duplicated), (open, 0), "{audit:?}");
            assert!(store.census().await.unwrap().balanced());
            published += audit.published;
            done += audit.done;
        }
        let state = self.0.lock().unwrap();
        assert!(
            state.keys.len() as u64 >= done,
            "each message has a key of its own"
        );
        assert_eq!(
            state.keys.len(),
            state.texts.len(),
            "each text was made once"
        );
        let last: u64 = state.texts.last().unwrap().parse().unwrap();
        assert!(
            last <= published,
            "the source has no gap: {last} of {published}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_on_one_server_spreads_its_messages_over_all_its_partitions() {
    let server = PrivateServer::builder().start().unwrap();
    let (url, handled) = (server.url(), Handled::default());
    let every = Duration::from_millis(2);
    let mut nodes: Vec<_> = (0..3).map(|_| handled.start(&url, 5, every)).collect();
    until("messages in all partitions", || handled.partitions() == 5).await;
    until("messages", || handled.count() > 100).await;
    // Whichever generates, the fleet goes on where it was.
    for _ in 0..3 {
        nodes.push(handled.start(&url, 5, every));
        nodes.remove(0).stop().await;
        let before = handled.count();
        until("messages after a stop", || handled.count() > before + 100).await;
    }
    for node in nodes {
        node.stop().await;
    }
    handled.check(&url, 5).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_loss_of_each_partition_is_said_again_though_no_connection_breaks() {
    let server = PrivateServer::builder().start().unwrap();
    let (url, handled) = (server.url(), Handled::default());
    let every = Duration::from_millis(2);
    let _nodes = [0, 1].map(|_| handled.start(&url, 2, every));
    let said = || {
        let state = handled.0.lock().unwrap();
        let times = |partition| {
            state
                .regressed
                .iter()
                .filter(|of| **of == partition)
                .count()
        };
        [0, 1].map(times)
    };
    for _ in 0..3 {
        let before = handled.count();
        until("messages", || handled.count() > before + 50).await;
        // The numbers of the last loss are there again, or void, and the nodes have heard it.
        tokio::time::sleep(BEATS).await;
        let before = said();
        let client = redis::Client::open(url.as_str()).unwrap();
        let mut redis = client.get_connection().unwrap();
        redis::cmd("FLUSHALL").exec(&mut redis).unwrap();
        until("each partition to be said to have forgotten", || {
            std::iter::zip(said(), before).all(|(now, before)| now > before)
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_asks_for_another_number_of_partitions_is_refused() {
    let server = PrivateServer::builder().start().unwrap();
    let (url, handled) = (server.url(), Handled::default());
    let every = Duration::from_millis(2);
    let nodes = [0, 1].map(|_| handled.start(&url, 3, every));
    until("messages", || handled.count() > 3).await;
    let source = interval(every, |_, _| {});
    let settings = Node::builder(name()).partitions(4);
    let target = Target::parse(&url).unwrap();
    let node = settings.build(target, source, handled.clone()).unwrap();
    let refused = node.run(std::future::pending()).await.unwrap_err();
    let words = refused.to_string();
    assert!(
        matches!(
            refused,
            Error::Partitions {
                theirs: 3,
                ours: 4,
                ..
            }
        ),
        "{words}"
    );
    assert!(
        words.contains("has 3 partitions, and this node asks for 4"),
        "{words}"
    );
    for node in nodes {
        node.stop().await;
    }
}

/// Makes a message every other millisecond, and has no cursor.
struct Endless;

impl Source for Endless {
    async fn next(&mut self, batch: &mut Batch) -> Result<Flow, SourceError> {
        tokio::time::sleep(Duration::from_millis(2)).await;
        batch.push(format!("{:06}", batch.next_seq()).as_bytes());
        Ok(Flow::More)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_that_hangs_takes_neither_the_lease_nor_the_turn() {
    let mut cluster = ClusterGroup::start(&PrivateServer::builder(), 3, 0).unwrap();
    let (url, handled) = (cluster.url(), Handled::default());
    let nodes: Vec<_> = (0..3)
        .map(|_| handled.start_with(&url, 16, Endless))
        .collect();
    until("messages in all partitions", || handled.partitions() == 16).await;
    let of_lease = cluster.slot(&Keys::new(&name()).generator).unwrap();
    let of_lease = cluster.owner(of_lease).unwrap();
    let other = &mut cluster.servers[(of_lease + 1) % 3];
    other.pause().unwrap();
    // Longer than the lease lives, and shorter than a call waits for its answer.
    tokio::time::sleep(BEATS).await;
    let published = || handled.0.lock().unwrap().published;
    let before = published();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let more = published() - before;
    assert!(more > 20, "{more} packs to the other shards");
    other.resume().unwrap();
    assert_eq!(handled.0.lock().unwrap().generators, [1]);
    for node in nodes {
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_that_dies_stops_no_other_and_its_messages_come_with_its_replica() {
    let mut cluster = ClusterGroup::start(&PrivateServer::builder(), 3, 1).unwrap();
    let (url, handled) = (cluster.url(), Handled::default());
    let every = Duration::from_millis(2);
    let nodes: Vec<_> = (0..3).map(|_| handled.start(&url, 16, every)).collect();
    until("messages in all partitions", || handled.partitions() == 16).await;
    cluster.servers[0].kill9();
    let before = handled.count();
    until("messages of the other shards", || {
        handled.count() > before + 50
    })
    .await;
    let seen = handled.0.lock().unwrap().numbers.clone();
    until("messages in all partitions again", || {
        let state = handled.0.lock().unwrap();
        let has_more = |(partition, numbers): (&u32, &BTreeSet<u64>)| {
            state.numbers[partition].len() > numbers.len()
        };
        seen.iter().all(has_more)
    })
    .await;
    for node in nodes {
        node.stop().await;
    }
    handled.check(&url, 16).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_that_hangs_stops_no_other() {
    let mut cluster = ClusterGroup::start(&PrivateServer::builder(), 3, 1).unwrap();
    let (url, handled) = (cluster.url(), Handled::default());
    let every = Duration::from_millis(2);
    let nodes: Vec<_> = (0..4).map(|_| handled.start(&url, 16, every)).collect();
    until("messages in all partitions", || handled.partitions() == 16).await;
    let control = cluster.slot("baton:{moving:0}:meta").unwrap();
    let control = cluster.owner(control).unwrap();
    let hangs = (0..3).find(|server| *server != control).unwrap();
    cluster.servers[hangs].pause().unwrap();
    let (before, paused) = (handled.published(), Instant::now());
    // The cluster replaces it after a second.
    until("messages of the other shards", || {
        handled.published() > before + 50
    })
    .await;
    assert!(
        paused.elapsed() < Duration::from_millis(800),
        "{:?}",
        paused.elapsed()
    );
    cluster.servers[hangs].resume().unwrap();
    let before = handled.published();
    until("messages afterwards", || handled.published() > before + 200).await;
    for node in nodes {
        node.stop().await;
    }
    handled.check(&url, 16).await;
}

/// A generator that parked a pack, and died before the pack's own partition had it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_generator_publishes_what_the_one_before_parked_and_makes_it_no_second_time() {
    let server = PrivateServer::builder().start().unwrap();
    let (url, handled) = (server.url(), Handled::default());
    let target = Target::parse(&url).unwrap();
    let opened = Partitions::open(&target, &name(), "dead", Some(2), |_| {}).await;
    let (fleet, _) = opened.unwrap();
    for store in fleet.all() {
        assert!(matches!(store.seal(1).await.unwrap(), Seal::Sealed { .. }));
    }
    let parcel = |partition, first, made, text: &str| {
        let mut pack = PackBuilder::default();
        pack.push(text.as_bytes());
        Parcel {
            partition,
            first,
            count: 1,
            made: Progress {
                packs: made,
                messages: made,
            },
            digest: Some(baton_protocol::Digest::of(0, text.as_bytes())),
            is_scheduled: false,
            cursor: b"lines 2".to_vec(),
            pack: pack.finish(1, &format!("origin.{partition}"), first),
        }
    };
    let [one, two] = fleet.all() else {
        panic!("two partitions")
    };
    let parcels = [parcel(1, 1, 1, "000001"), parcel(1, 2, 2, "000002")];
    assert_eq!(one.park(1, &parcels).await.unwrap(), Park::Ok);
    let fenced = two.park(2, &parcels).await.unwrap();
    assert!(
        matches!(fenced, Park::Fenced { epoch: 1, .. }),
        "{fenced:?}"
    );

    let every = Duration::from_millis(2);
    let nodes = [0, 1].map(|_| handled.start(&url, 2, every));
    until("messages", || handled.count() > 20).await;
    let stores = fleet.all().to_vec();
    for store in &stores {
        while !store.parked().await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    for node in nodes {
        node.stop().await;
    }
    let state = handled.0.lock().unwrap();
    let keys = &state.keys;
    assert!(
        keys.contains("origin.1-1") && keys.contains("origin.1-2"),
        "{keys:?} {:?}",
        state.numbers
    );
    assert_eq!(
        state.keys.len(),
        state.texts.len(),
        "no text was made twice"
    );
    assert!(
        state.texts.contains("000003"),
        "the source went on behind them"
    );
}

/// Counts each message in its own partition.
struct Count;

impl Handler for Count {
    async fn handle(&self, _: Message<'_>, effects: &mut Effects) -> Result<(), HandlerError> {
        effects.incr_by(Effects::local("counted"), 1);
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn effects_on_a_local_key_count_each_message_once_over_all_partitions() {
    let cluster = ClusterGroup::start(&PrivateServer::builder(), 3, 0).unwrap();
    let target = Target::parse(&cluster.url()).unwrap();
    // In a cluster a new fleet has 16 partitions.
    let nodes = [0, 1, 2].map(|_| {
        let source = interval(Duration::ZERO, |_, text| text.push(b'x'));
        let settings = Node::builder(name()).messages(20_000);
        run(settings.build(target.clone(), source, Count).unwrap())
    });
    let inspector = Inspector::connect(&target, &name()).await.unwrap();
    let deadline = Instant::now() + TIMEOUT;
    while inspector.snapshot().await.unwrap().done < 20_000 {
        assert!(Instant::now() < deadline, "in vain: all done");
        tokio::time::sleep(PAUSE).await;
    }
    let keys = inspector.local_keys(&Effects::local("counted"));
    assert_eq!(keys.len(), 16);
    let mut counted = 0;
    for key in &keys {
        let owner = cluster.owner(cluster.slot(key).unwrap()).unwrap();
        let client = redis::Client::open(cluster.servers[owner].url()).unwrap();
        let get: Option<u64> = redis::cmd("GET")
            .arg(key)
            .query(&mut client.get_connection().unwrap())
            .unwrap();
        counted += get.unwrap_or_default();
    }
    assert_eq!(counted, 20_000);
    for node in nodes {
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_generator_publishes_nothing_before_it_has_sealed_all_partitions() {
    let mut cluster = ClusterGroup::start(&PrivateServer::builder(), 3, 0).unwrap();
    let (url, handled) = (cluster.url(), Handled::default());
    let every = Duration::from_millis(2);
    let mut nodes = vec![handled.start(&url, 3, every)];
    until("a generator", || !handled.generators().is_empty()).await;
    nodes.push(handled.start(&url, 3, every));
    nodes.push(handled.start(&url, 3, every));
    until("messages in all partitions", || handled.partitions() == 3).await;
    let target = Target::parse(&url).unwrap();
    let opened = Partitions::open(&target, &name(), &new_name(), None, |_| {}).await;
    let (fleet, _) = opened.unwrap();
    // The partition that does not share the server of the lease.
    let owner = |key: &str| cluster.owner(cluster.slot(key).unwrap()).unwrap();
    let control = owner(&fleet.control().keys().meta);
    let away = |store: &&baton_protocol::Store| owner(&store.keys().fence) != control;
    let hung = fleet.all().iter().find(away).unwrap();
    let there = fleet.all().iter().find(|store| !away(store)).unwrap();
    let server = owner(&hung.keys().fence);
    let before = there.fence().await.unwrap();
    cluster.servers[server].pause().unwrap();
    nodes.remove(0).stop().await;
    // The next one seals what it can reach, and beats on.
    let sealed = loop {
        let fence = there.fence().await.unwrap();
        if fence.epoch > before.epoch {
            break fence;
        }
        tokio::time::sleep(PAUSE).await;
    };
    // For longer than a call waits for its answer.
    let mut beats = HashSet::new();
    while beats.len() < 9 {
        let state = fleet.control().roster().await.unwrap();
        beats.insert(state.lease.until_ms);
        tokio::time::sleep(PAUSE).await;
    }
    let fence = there.fence().await.unwrap();
    assert_eq!(fence.last, sealed.last, "published before the second seal");
    assert_eq!(
        handled.generators().len(),
        1,
        "it does not call itself the generator"
    );
    cluster.servers[server].resume().unwrap();
    until("the next generator", || handled.generators().len() > 1).await;
    let count = handled.count();
    until("messages", || handled.count() > count + 50).await;
    for node in nodes {
        node.stop().await;
    }
    handled.check(&url, 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_and_a_client_that_start_while_a_shard_is_away_use_the_others() {
    let mut cluster = ClusterGroup::start(&PrivateServer::builder(), 3, 0).unwrap();
    let (url, handled) = (cluster.url(), Handled::default());
    let every = Duration::from_millis(2);
    let mut nodes: Vec<_> = (0..2).map(|_| handled.start(&url, 3, every)).collect();
    until("messages in all partitions", || handled.partitions() == 3).await;
    let control = cluster.owner(cluster.slot("baton:{moving:0}:meta").unwrap());
    let away = (0..3).find(|server| Some(*server) != control.as_ref().ok().copied());
    cluster.servers[away.unwrap()].kill9();
    nodes.push(handled.start(&url, 3, every));
    let target = Target::parse(&url).unwrap();
    let deadline = Instant::now() + TIMEOUT;
    loop {
        assert!(Instant::now() < deadline, "in vain: the third node");
        let inspector = Inspector::connect(&target, &name()).await.unwrap();
        let snapshot = inspector.snapshot().await.unwrap();
        if snapshot.nodes.len() == 3
            && snapshot
                .nodes
                .iter()
                .all(|node| node.processed > 0 || node.published > 0)
        {
            assert_eq!(snapshot.partitions.len(), 3);
            let troubles = snapshot.partition_troubles().len();
            assert_eq!(troubles, 1);
            break;
        }
        tokio::time::sleep(PAUSE).await;
    }
    cluster.servers[away.unwrap()].restart().unwrap();
    let seen = handled.count();
    until("messages in the shard that is back", || {
        handled.count() > seen + 300
    })
    .await;
    for node in nodes {
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_partition_stops_no_other() {
    let server = PrivateServer::builder().start().unwrap();
    let (url, handled) = (server.url(), Handled::default());
    let target = Target::parse(&url).unwrap();
    let source = interval(Duration::ZERO, |_, text| text.push(b'x'));
    let settings = Node::builder(name())
        .partitions(4)
        .max_pending(400)
        .roles(Roles::OnlyGenerates);
    let node = run(settings.build(target.clone(), source, handled).unwrap());
    let opened = Partitions::open(&target, &name(), &new_name(), Some(4), |_| {}).await;
    let (fleet, _) = opened.unwrap();
    let deadline = Instant::now() + TIMEOUT;
    for store in fleet.all() {
        while store.quick_census().await.unwrap().pending < 100 {
            assert!(Instant::now() < deadline, "in vain: a full partition");
            tokio::time::sleep(PAUSE).await;
        }
    }
    node.stop().await;
}
