//! A source that relays the rows of an outbox table in Postgres.
//!
//! A program inserts a row into the table in the transaction that changes its data. This source makes a
//! message of each committed row, and deletes or marks the row when Redis has it.
//!
//! Ids are given at the insert, not at the commit: a source that continues behind the highest id loses the
//! rows of transactions that commit late. So each row also has the id of its transaction. This source reads
//! rows in the order of `(xid, id)`, and only those of transactions below the snapshot's `xmin`, all of which
//! have ended. No row can appear before its cursor any more.

mod row_cursor;
mod session;
mod sql;
#[cfg(test)]
mod tests;
mod tls;

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use rustls::RootCertStore;
use tokio_postgres::Config;

use self::row_cursor::RowCursor;
use self::session::Session;
use self::sql::Table;
use super::{Batch, Flow, Position, Source, SourceError};

/// Max bytes of a message.
const MAX_MESSAGE_BYTES: i64 = 1 << 20;
/// The first pause after a read that found nothing.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const POLL_EVERY: Duration = Duration::from_secs(1);

/// What is wrong with the settings of an [`Outbox`], in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxError(String);

impl fmt::Display for OutboxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OutboxError {}

/// A source with one message for each committed row of a table in Postgres, from version 13 on.
///
/// Its cursor is the transaction and the id of the last row, so a successor goes on behind it. Rows are
/// deleted after Redis has them; what a crash leaves behind, the next generator deletes and does not relay
/// again. Messages come in the order of their transactions' ids, then of their own.
///
/// A transaction that writes and stays open delays the rows of all transactions that began to write after
/// it, in any database of that server. A table belongs to one fleet.
///
/// ```
/// # fn main() -> Result<(), baton::OutboxError> {
/// let source = baton::Outbox::new("postgres://app:secret@localhost/shop")?
///     .table("order_events")
///     .mark("relayed_at");
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Outbox {
    config: Config,
    /// Those of this system unless set.
    roots: Option<RootCertStore>,
    table: Table,
    poll_every: Duration,
    kind: String,
    session: Option<Session>,
    /// The last row that was read.
    read: RowCursor,
    /// The last row that was deleted or marked, with all before it.
    forgotten: RowCursor,
    /// Rows that were read and are in no batch.
    in_hand: VecDeque<Row>,
    /// Why rows could not be deleted.
    trouble: Option<SourceError>,
}

/// A row, as it was read.
#[derive(Debug)]
struct Row {
    cursor: RowCursor,
    /// None if the row has no text, or too long a one.
    text: Option<Vec<u8>>,
    bytes: i64,
    key: Option<String>,
}

impl Outbox {
    /// The table `outbox` of a database, such as `postgres://user:password@host:5432/database` or
    /// `host=/run/postgresql dbname=shop user=app`. With `sslmode=require` in it the connection is encrypted, and
    /// the server's certificate must be for its host and of an authority that this system trusts. With any
    /// other mode the connection is plain.
    ///
    /// # Errors
    ///
    /// If this is no such address.
    pub fn new(database: &str) -> Result<Self, OutboxError> {
        let config: Config = database
            .parse()
            .map_err(|error| OutboxError(session::words(&error)))?;
        Ok(Self {
            config,
            roots: None,
            table: Table::default(),
            poll_every: POLL_EVERY,
            kind: String::new(),
            session: None,
            read: RowCursor::default(),
            forgotten: RowCursor::default(),
            in_hand: VecDeque::new(),
            trouble: None,
        }
        .named())
    }

    /// Trusts the authorities in this PEM file instead of the system's.
    ///
    /// # Errors
    ///
    /// If it has no certificates, or malformed ones.
    pub fn ca_pem(mut self, pem: &[u8]) -> Result<Self, OutboxError> {
        let roots = tls::roots_of_pem(pem);
        let bad = |problem| OutboxError(format!("no CA certificates: {problem}"));
        self.roots = Some(roots.map_err(bad)?);
        Ok(self)
    }

    /// The schema of the table. Without one, Postgres searches its `search_path`.
    pub fn schema(mut self, name: impl Into<String>) -> Self {
        self.table.schema = Some(name.into());
        self.named()
    }

    /// The table, `outbox` unless set.
    pub fn table(mut self, name: impl Into<String>) -> Self {
        self.table.name = name.into();
        self.named()
    }

    /// The column with a number that no other row has, `id` unless set.
    pub fn id_column(mut self, name: impl Into<String>) -> Self {
        self.table.id = name.into();
        self
    }

    /// The column with the id of the row's transaction, `xid` unless set. Its type is `xid8`, its default
    /// `pg_current_xact_id()`.
    pub fn xid_column(mut self, name: impl Into<String>) -> Self {
        self.table.xid = name.into();
        self
    }

    /// The column with the message, `payload` unless set. A `bytea` is taken as it is, any other type as
    /// text.
    pub fn payload_column(mut self, name: impl Into<String>) -> Self {
        self.table.payload = name.into();
        self
    }

    /// The column with the message's idempotency key, up to 256 bytes as text. Without one the key is
    /// `outbox:TABLE:ID`: the same if a row is relayed again because Redis lost its message.
    pub fn key_column(mut self, name: impl Into<String>) -> Self {
        self.table.key = Some(name.into());
        self
    }

    /// Keeps the rows: sets this column, a `timestamptz`, instead of deleting them. A fleet that begins with
    /// this table relays the rows that are not marked.
    pub fn mark(mut self, column: impl Into<String>) -> Self {
        self.table.mark = Some(column.into());
        self
    }

    /// How often the source looks for rows of which no notification told it. 1 s unless set.
    pub fn poll_every(mut self, every: Duration) -> Self {
        self.poll_every = every;
        self
    }

    /// SQL that makes the table, its index and the trigger that wakes this source up. Run it as often as
    /// you like.
    pub fn setup_sql(&self) -> String {
        self.table.setup()
    }

    /// A cursor counts for one table: another table is another kind of source.
    fn named(mut self) -> Self {
        self.kind = self.table.kind();
        self
    }

    /// Deletes or marks the rows up to this one.
    async fn forget(&mut self, until: RowCursor) -> Result<(), SourceError> {
        if let Some(session) = &self.session {
            session.forget(self.forgotten, until).await?;
            self.forgotten = until;
        }
        Ok(())
    }

    /// Reads rows behind those that were read before. Whether there are any.
    async fn read(&mut self, at_most: u64) -> Result<bool, SourceError> {
        let Some(session) = &self.session else {
            return Err(SourceError::retry("the outbox is not open"));
        };
        let rows = session.read(self.read, at_most).await?;
        if let Some(last) = rows.last() {
            self.read = last.cursor;
        }
        self.in_hand = rows.into();
        Ok(!self.in_hand.is_empty())
    }

    /// Puts rows into the batch. Fails at a row that cannot be a message, once it is the first.
    fn hand_over(&mut self, batch: &mut Batch) -> Result<(), SourceError> {
        while batch.has_room() {
            let Some(row) = self.in_hand.front() else {
                break;
            };
            match self.table.message(row) {
                Ok((key, text)) => batch.push_keyed(key, text),
                Err(_) if batch.count() > 0 => break,
                Err(error) => return Err(error),
            }
            batch.set_cursor(row.cursor.to_string());
            self.in_hand.pop_front();
        }
        Ok(())
    }
}

impl Source for Outbox {
    async fn open(&mut self, from: Position<'_>) -> Result<(), SourceError> {
        self.close().await;
        let accepted = from.cursor.map(RowCursor::parse).transpose()?;
        let roots = self.roots.clone();
        let session = Session::open(&self.config, roots, &self.table, accepted.is_some()).await?;
        session.check(accepted.unwrap_or_default()).await?;
        self.session = Some(session);
        self.read = accepted.unwrap_or_default();
        self.forgotten = RowCursor::default();
        // A predecessor may have died before it did. Without a cursor it shows that rows may be deleted.
        self.forget(self.read).await
    }

    async fn next(&mut self, batch: &mut Batch) -> Result<Flow, SourceError> {
        let mut pause = FIRST_PAUSE;
        loop {
            if let Some(trouble) = self.trouble.take() {
                return Err(trouble);
            }
            self.hand_over(batch)?;
            if batch.count() > 0 {
                return Ok(Flow::More);
            }
            if self.read(batch.room()).await? {
                continue;
            }
            // Rows wait for transactions that are older than theirs. Those may end without a notification.
            let is_notified = match &self.session {
                Some(session) => session.wait(pause).await,
                None => false,
            };
            pause = match is_notified {
                true => FIRST_PAUSE,
                false => (2 * pause).min(self.poll_every),
            };
        }
    }

    async fn accepted(&mut self, cursor: &[u8]) {
        let forgotten = match RowCursor::parse(cursor) {
            Ok(until) => self.forget(until).await,
            Err(error) => Err(error),
        };
        // `next` says so. Then `open` tries it again.
        self.trouble = forgotten.err();
    }

    async fn close(&mut self) {
        self.session = None;
        self.in_hand.clear();
        self.trouble = None;
    }

    fn kind(&self) -> &str {
        &self.kind
    }
}
