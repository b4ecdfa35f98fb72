//! One connection to Postgres, with its statements and its notifications.

use std::error::Error as StdError;
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use rustls::RootCertStore;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_postgres::config::SslMode;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Config, Connection, NoTls, Socket, Statement};

use super::Row;
use super::row_cursor::RowCursor;
use super::sql::{FORGET_ROWS, Table};
use super::tls::Tls;
use crate::source::SourceError;

/// How long Postgres may take to answer. It gives up on a statement a little earlier by itself, so a
/// statement that waits for a lock does not outlive its session.
const TIMEOUT: Duration = Duration::from_secs(30);
const STATEMENT_TIMEOUT: &str = "SET statement_timeout = '25s'";

/// An open outbox.
pub(super) struct Session {
    client: Client,
    read: Statement,
    forget: Statement,
    table: String,
    is_notified: Arc<Notify>,
    connection: JoinHandle<()>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl Session {
    /// Connects, and learns whether the table is as it must be.
    pub(super) async fn open(
        config: &Config,
        roots: Option<RootCertStore>,
        table: &Table,
        has_cursor: bool,
    ) -> Result<Self, SourceError> {
        let doing = "cannot connect to Postgres";
        let is_notified = Arc::new(Notify::new());
        let notify = Arc::clone(&is_notified);
        let (client, connection) = if config.get_ssl_mode() == SslMode::Require {
            let tls = Tls::new(roots).await.map_err(SourceError::Retry)?;
            let (client, connection) = within(doing, config.connect(tls)).await?;
            (client, tokio::spawn(run(connection, notify)))
        } else {
            let (client, connection) = within(doing, config.connect(NoTls)).await?;
            (client, tokio::spawn(run(connection, notify)))
        };
        let doing = &format!("cannot use the table {}", table.plain());
        let prepare = async |sql: String| within(doing, client.prepare(&sql)).await;
        let start = format!("{STATEMENT_TIMEOUT}; {}", table.listen());
        within(doing, client.batch_execute(&start)).await?;
        let probe = prepare(table.probe()).await?;
        let is_binary = probe.columns().iter().all(|it| *it.type_() == Type::BYTEA);
        Ok(Self {
            read: prepare(table.read(is_binary, has_cursor)).await?,
            forget: prepare(table.forget()).await?,
            table: table.plain(),
            client,
            is_notified,
            connection,
        })
    }

    /// Whether this can be the server that the cursor is from. On one that gives lower transaction ids, new
    /// rows would lie before the cursor.
    pub(super) async fn check(&self, cursor: RowCursor) -> Result<(), SourceError> {
        let next = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint";
        let asked = self.client.query_one(next, &[]);
        let next: i64 = within(&self.doing("read"), asked).await?.get(0);
        if cursor.xid < next {
            return Ok(());
        }
        Err(SourceError::Fatal(format!(
            "the table {} was read up to transaction {}, and the next one of this Postgres is {next}: it was \
             restored, or it is another one. docs/sources.md says what to do",
            self.table, cursor.xid
        )))
    }

    /// Reads rows behind this one.
    pub(super) async fn read(
        &self,
        behind: RowCursor,
        at_most: u64,
    ) -> Result<Vec<Row>, SourceError> {
        let (xid, at_most) = (behind.xid.to_string(), at_most.cast_signed());
        let asked = async {
            let rows = self
                .client
                .query(&self.read, &[&xid, &behind.id, &at_most])
                .await?;
            rows.iter().map(row).collect()
        };
        within(&self.doing("read"), asked).await
    }

    /// Deletes or marks the rows behind the one and up to the other.
    pub(super) async fn forget(
        &self,
        behind: RowCursor,
        until: RowCursor,
    ) -> Result<(), SourceError> {
        let (first, last) = (behind.xid.to_string(), until.xid.to_string());
        let bounds: [&(dyn ToSql + Sync); 4] = [&first, &behind.id, &last, &until.id];
        loop {
            let asked = self.client.execute(&self.forget, &bounds);
            if within(&self.doing("delete or mark rows of"), asked).await? < FORGET_ROWS {
                return Ok(());
            }
        }
    }

    /// Waits for a notification, or until the pause is over. Whether there was one.
    pub(super) async fn wait(&self, pause: Duration) -> bool {
        let notified = self.is_notified.notified();
        tokio::time::timeout(pause, notified).await.is_ok()
    }

    fn doing(&self, what: &str) -> String {
        format!("cannot {what} the table {}", self.table)
    }
}

fn row(row: &tokio_postgres::Row) -> Result<Row, tokio_postgres::Error> {
    Ok(Row {
        cursor: RowCursor {
            xid: row.try_get(0)?,
            id: row.try_get(1)?,
        },
        bytes: row.try_get(2)?,
        text: row.try_get(3)?,
        key: row.try_get(4)?,
    })
}

/// Moves the connection's bytes until it ends, and passes on that there was a notification.
async fn run<S: AsyncRead + AsyncWrite + Unpin>(
    mut connection: Connection<Socket, S>,
    is_notified: Arc<Notify>,
) {
    while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
        if let AsyncMessage::Notification(_) = message {
            is_notified.notify_one();
        }
    }
    // The next statement finds out why.
    is_notified.notify_one();
}

/// Waits for Postgres's answer. The table or a right may come back, and so may Postgres: no failure is for
/// good.
async fn within<T>(
    doing: &str,
    asked: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, SourceError> {
    match tokio::time::timeout(TIMEOUT, asked).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(SourceError::Retry(format!("{doing}: {}", words(&error)))),
        Err(_) => Err(SourceError::Retry(format!(
            "{doing}: no answer within {} s",
            TIMEOUT.as_secs()
        ))),
    }
}

/// The innermost reason, which is the one in plain words.
pub(super) fn words(error: &tokio_postgres::Error) -> String {
    if let Some(error) = error.as_db_error() {
        return error.message().to_owned();
    }
    let mut reason: &dyn StdError = error;
    while let Some(source) = reason.source() {
        reason = source;
    }
    reason.to_string()
}
