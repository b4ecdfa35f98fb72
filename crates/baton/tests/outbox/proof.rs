//! Eight writers commit out of order while nodes and Postgres are killed with -9. Then each committed row
//! was relayed once. `BATON_OUTBOX_TRANSACTIONS` makes it longer.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::time::{Duration, Instant};

use baton::{FleetName, Inspector, Outbox, Target};
use baton_server::{PrivatePostgres, PrivateServer};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use redis::Commands;

use super::database::{Database, start};
use super::node_process::{FLEET, NodeProcess, Relay};
use super::workload;

const SEED: u64 = 15;
const NODES: usize = 4;
/// Transactions of each writer.
const TRANSACTIONS: u64 = 100;
/// Rows that are inserted between two kills.
const ROWS_PER_KILL: i64 = 150;
/// No wait takes longer.
const TIMEOUT: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_row_is_relayed_once_though_nodes_and_postgres_are_killed() {
    let Some(mut arena) = Arena::new(Relay::Outbox).await else {
        return;
    };
    arena.write_and_kill().await;
    let written = arena.written().await;
    arena.until_done(written.len() as u64).await;
    let database = Database::connect(&arena.postgres.address()).await;
    database.until_empty("outbox").await;
    assert_eq!(arena.relayed(), written);
    assert!(written.values().all(|times| *times == 1));
    assert!(arena.kills > 3, "{}", arena.kills);
    say(&format!(
        "{} kills, {} rows, each relayed once",
        arena.kills,
        written.len()
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_that_continues_behind_the_highest_id_loses_rows() {
    let Some(mut arena) = Arena::new(Relay::Naive).await else {
        return;
    };
    arena.write_and_kill().await;
    let database = Database::connect(&arena.postgres.address()).await;
    let last = database.number("SELECT max(id) FROM outbox").await;
    let stored = format!("naive {last}");
    let key = format!("baton:{{{FLEET}:0}}:fence");
    let at_end = || arena.redis().hget::<_, _, String>(&key, "cursor").unwrap() == stored;
    super::until("the last row", at_end).await;
    let published = arena.inspector.snapshot().await.unwrap().published;
    arena.until_done(published).await;
    let (written, relayed) = (arena.written().await, arena.relayed());
    let lost = written.keys().filter(|text| !relayed.contains_key(*text));
    let lost = lost.count();
    assert!(lost > 0, "all of {}", written.len());
    assert!(relayed.values().all(|times| *times == 1));
    say(&format!(
        "naive: {} kills, {} rows, {lost} of them lost",
        arena.kills,
        written.len()
    ));
}

/// Past the test runner, which keeps what a test prints: the figures are the point.
fn say(what: &str) {
    let _ = writeln!(std::io::stderr(), "{what}");
}

/// A fleet of processes, its Redis and its Postgres.
struct Arena {
    // The order matters: nodes end before their servers.
    nodes: Vec<NodeProcess>,
    relay: Relay,
    kills: u64,
    inspector: Inspector,
    redis: PrivateServer,
    postgres: PrivatePostgres,
}

impl Arena {
    async fn new(relay: Relay) -> Option<Self> {
        let postgres = start()?;
        let database = Database::connect(&postgres.address()).await;
        let outbox = Outbox::new(&postgres.address()).unwrap();
        database.run(&outbox.setup_sql()).await;
        database.run(workload::WRITTEN).await;
        let redis = PrivateServer::builder().start().unwrap();
        let target = Target::parse(&redis.url()).unwrap();
        let name = FleetName::new(FLEET).unwrap();
        let mut arena = Self {
            nodes: Vec::new(),
            relay,
            kills: 0,
            inspector: Inspector::connect(&target, &name).await.unwrap(),
            redis,
            postgres,
        };
        arena.add_nodes();
        Some(arena)
    }

    fn add_nodes(&mut self) {
        while self.nodes.len() < NODES {
            let (redis, postgres) = (self.redis.url(), self.postgres.address());
            let node = NodeProcess::start(&redis, &postgres, self.relay);
            self.nodes.push(node);
        }
    }

    /// Lets all writers write, and kills a node or Postgres whenever they have written some rows.
    async fn write_and_kill(&mut self) {
        let transactions = std::env::var("BATON_OUTBOX_TRANSACTIONS")
            .map_or(TRANSACTIONS, |number| number.parse().unwrap());
        let mut rng = StdRng::seed_from_u64(SEED);
        let mut writers = workload::start(&self.postgres.address(), transactions, SEED);
        let mut written = 0;
        while !writers.is_empty() {
            tokio::select! {
                ended = writers.join_next() => ended.unwrap().unwrap(),
                () = self.until_written(written + ROWS_PER_KILL) => {
                    written += ROWS_PER_KILL;
                    self.kill(&mut rng).await;
                }
            }
        }
    }

    /// Waits until the identity of the rows has come this far.
    async fn until_written(&self, rows: i64) {
        let database = Database::connect(&self.postgres.address()).await;
        let last = "SELECT last_value FROM outbox_id_seq";
        while database.number(last).await < rows {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn kill(&mut self, rng: &mut StdRng) {
        self.kills += 1;
        match self.kills % 3 {
            0 => tokio::task::block_in_place(|| {
                self.postgres.kill9();
                self.postgres.restart().unwrap();
            }),
            1 => self.kill_generator().await,
            _ => drop(self.nodes.remove(rng.random_range(0..NODES))),
        }
        tokio::task::block_in_place(|| self.add_nodes());
    }

    async fn kill_generator(&mut self) {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let generator = self.inspector.snapshot().await.unwrap().generator.node;
            let at = generator.and_then(|it| self.nodes.iter().position(|node| node.name == it));
            if let Some(at) = at {
                return drop(self.nodes.remove(at));
            }
            assert!(Instant::now() < deadline, "no generator");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    async fn until_done(&self, messages: u64) {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let at = self.inspector.snapshot().await.unwrap();
            if at.done == messages && at.published == messages {
                return;
            }
            let so_far = format!("{} of {messages} published, {} done", at.published, at.done);
            assert!(Instant::now() < deadline, "{so_far}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// The committed texts, and how often each is there.
    async fn written(&self) -> BTreeMap<String, u64> {
        let database = Database::connect(&self.postgres.address()).await;
        let rows = database.client.query("SELECT text FROM written", &[]).await;
        count(rows.unwrap().iter().map(|row| row.get(0)))
    }

    /// The texts that were handled, and how often each.
    fn relayed(&self) -> BTreeMap<String, u64> {
        let texts: Vec<String> = self.redis().lrange("texts", 0, -1).unwrap();
        count(texts.into_iter())
    }

    fn redis(&self) -> redis::Connection {
        let client = redis::Client::open(self.redis.url()).unwrap();
        client.get_connection().unwrap()
    }
}

fn count(texts: impl Iterator<Item = String>) -> BTreeMap<String, u64> {
    let mut times = BTreeMap::new();
    for text in texts {
        *times.entry(text).or_default() += 1;
    }
    times
}
