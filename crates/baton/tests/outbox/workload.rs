//! Programs that write to an outbox, and commit in another order than they insert.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::task::JoinSet;
use tokio_postgres::{Client, NoTls};

pub(crate) const WRITERS: u64 = 8;
/// Max time between a row's insert and its commit.
const MAX_OPEN_MS: u64 = 30;
/// One transaction in this many is rolled back.
const UNDONE: u64 = 10;

/// Each text goes to both tables in one transaction: `written` knows which ones are committed, even those
/// whose writer never heard so because Postgres was killed.
pub(crate) const WRITTEN: &str = "CREATE TABLE written (text text PRIMARY KEY)";

/// Starts all writers. Each tries this many transactions, whatever becomes of Postgres.
pub(crate) fn start(address: &str, transactions: u64, seed: u64) -> JoinSet<()> {
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let address = address.to_owned();
        let rng = StdRng::seed_from_u64(seed * WRITERS + writer);
        writers.spawn(write(address, writer, transactions, rng));
    }
    writers
}

async fn write(address: String, writer: u64, transactions: u64, mut rng: StdRng) {
    let mut client = None;
    for transaction in 0..transactions {
        let open = Duration::from_millis(rng.random_range(0..MAX_OPEN_MS));
        let end = match rng.random_range(0..UNDONE) {
            0 => "ROLLBACK",
            _ => "COMMIT",
        };
        let texts: Vec<String> = (0..rng.random_range(1..4))
            .map(|row| format!("{writer}-{transaction}-{row}"))
            .collect();
        let connected = match client.take() {
            Some(client) => client,
            None => connect(&address).await,
        };
        // After an error nobody knows whether the transaction is committed, except Postgres.
        if transact(&connected, &texts, open, end).await.is_ok() {
            client = Some(connected);
        }
    }
}

async fn transact(
    client: &Client,
    texts: &[String],
    open: Duration,
    end: &str,
) -> Result<(), tokio_postgres::Error> {
    client.batch_execute("BEGIN").await?;
    for text in texts {
        let both = format!(
            "INSERT INTO outbox (payload) VALUES ('{text}'); INSERT INTO written VALUES ('{text}')"
        );
        client.batch_execute(&both).await?;
        tokio::time::sleep(open / texts.len() as u32).await;
    }
    client.batch_execute(end).await
}

/// Connects, however long Postgres is away.
async fn connect(address: &str) -> Client {
    loop {
        if let Ok((client, connection)) = tokio_postgres::connect(address, NoTls).await {
            tokio::spawn(connection);
            return client;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
