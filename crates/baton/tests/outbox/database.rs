//! A private Postgres, and the tables of a test in it.

use std::io::Write as _;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use baton::Outbox;
use baton_server::PrivatePostgres;
use tokio_postgres::{Client, NoTls};

/// No condition takes longer.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A Postgres for one test alone. None if this machine has none.
pub(crate) fn start() -> Option<PrivatePostgres> {
    if PrivatePostgres::find_programs().is_some() {
        return Some(PrivatePostgres::start().unwrap());
    }
    let required = std::env::var_os("BATON_REQUIRE_TOOLS").is_some_and(|value| value == "1");
    assert!(
        !required,
        "there is no Postgres, and BATON_REQUIRE_TOOLS is 1"
    );
    // Directly to stderr: the test runner would capture `eprintln!`.
    let _ = writeln!(
        std::io::stderr(),
        "SKIPPED: no Postgres, so no test of an outbox"
    );
    None
}

/// A client of the Postgres that all tests share that leave it alone.
pub(crate) async fn shared() -> Option<Database> {
    static SHARED: OnceLock<Option<PrivatePostgres>> = OnceLock::new();
    let postgres = tokio::task::spawn_blocking(|| SHARED.get_or_init(start));
    let postgres = postgres.await.unwrap().as_ref()?;
    Some(Database::connect(&postgres.address()).await)
}

pub(crate) struct Database {
    pub(crate) address: String,
    pub(crate) client: Client,
}

impl Database {
    pub(crate) async fn connect(address: &str) -> Self {
        let (client, connection) = tokio_postgres::connect(address, NoTls).await.unwrap();
        tokio::spawn(connection);
        Self {
            address: address.to_owned(),
            client,
        }
    }

    /// The socket of the server.
    pub(crate) fn socket(&self) -> String {
        let folder = self.address.split([' ', '=']).nth(1).unwrap();
        format!("{folder}/.s.PGSQL.5432")
    }

    /// An outbox in a table of this name, which is there.
    pub(crate) async fn outbox(&self, table: &str) -> Outbox {
        let outbox = self.absent(table);
        self.run(&outbox.setup_sql()).await;
        outbox
    }

    /// An outbox in a table that is not there.
    pub(crate) fn absent(&self, table: &str) -> Outbox {
        Outbox::new(&self.address).unwrap().table(table)
    }

    /// Runs statements.
    pub(crate) async fn run(&self, sql: &str) {
        self.client.batch_execute(sql).await.unwrap();
    }

    /// Inserts the rows `row FIRST` to `row LAST`.
    pub(crate) async fn insert(&self, table: &str, first: u64, last: u64) {
        self.run(&format!(
            "INSERT INTO {table} (payload) \
             SELECT convert_to('row ' || n, 'UTF8') FROM generate_series({first}, {last}) AS n"
        ))
        .await;
    }

    pub(crate) async fn number(&self, query: &str) -> i64 {
        self.client.query_one(query, &[]).await.unwrap().get(0)
    }

    pub(crate) async fn rows(&self, table: &str) -> i64 {
        self.number(&format!("SELECT count(*) FROM {table}")).await
    }

    /// Waits until a query returns this number.
    pub(crate) async fn until(&self, number: i64, query: &str) {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let found = self.number(query).await;
            if found == number {
                return;
            }
            assert!(Instant::now() < deadline, "{query}: {found}, not {number}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Waits until all rows of the table are deleted.
    pub(crate) async fn until_empty(&self, table: &str) {
        self.until(0, &format!("SELECT count(*) FROM {table}"))
            .await;
    }

    /// Waits until a source has looked at this table after now, and has its answer.
    pub(crate) async fn until_read(&self, table: &str) {
        self.until_idle(table, Duration::ZERO).await;
    }

    /// Waits until a source has looked at this table after now, and has waited this long since.
    pub(crate) async fn until_idle(&self, table: &str, idle: Duration) {
        let now = self.client.query_one("SELECT clock_timestamp()::text", &[]);
        let now: String = now.await.unwrap().get(0);
        self.until(
            1,
            &format!(
                "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle' AND query LIKE 'SELECT%' \
                 AND query LIKE '%FROM \"{table}\"%' AND query_start > '{now}' \
                 AND clock_timestamp() - query_start > '{} ms'",
                idle.as_millis()
            ),
        )
        .await;
    }
}
