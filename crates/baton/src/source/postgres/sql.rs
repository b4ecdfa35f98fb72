//! The SQL of an outbox, with the names of its table and columns.

use std::fmt::Write as _;

use baton_protocol::Key;

use super::{MAX_MESSAGE_BYTES, Row};
use crate::source::SourceError;

/// Bytes of the messages that one read takes; the last message may go beyond.
const READ_BYTES: i64 = 256 << 10;
/// Max rows that one statement deletes or marks.
pub(super) const FORGET_ROWS: u64 = 1000;

/// The names of a table and of its columns.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) schema: Option<String>,
    pub(super) name: String,
    pub(super) id: String,
    pub(super) xid: String,
    pub(super) payload: String,
    /// Without one, a row's id makes its key.
    pub(super) key: Option<String>,
    /// Set instead of deleting a row.
    pub(super) mark: Option<String>,
}

impl Default for Table {
    fn default() -> Self {
        Self {
            schema: None,
            name: "outbox".to_owned(),
            id: "id".to_owned(),
            xid: "xid".to_owned(),
            payload: "payload".to_owned(),
            key: None,
            mark: None,
        }
    }
}

impl Table {
    /// The source's word for its kind, without spaces.
    pub(super) fn kind(&self) -> String {
        let mut kind = "outbox:".to_owned();
        for byte in self.plain().bytes() {
            match byte {
                b'!'..=b'~' if byte != b'%' => kind.push(char::from(byte)),
                _ => {
                    let _ = write!(kind, "%{byte:02X}");
                }
            }
        }
        kind
    }

    /// The name of the table for people.
    pub(super) fn plain(&self) -> String {
        match &self.schema {
            Some(schema) => format!("{schema}.{}", self.name),
            None => self.name.clone(),
        }
    }

    fn quoted(&self) -> String {
        self.beside(&self.name)
    }

    /// A quoted name in the schema of the table.
    fn beside(&self, name: &str) -> String {
        match &self.schema {
            Some(schema) => format!("{}.{}", quote(schema), quote(name)),
            None => quote(name),
        }
    }

    /// Selects the message column of no row, to learn its type.
    pub(super) fn probe(&self) -> String {
        format!(
            "SELECT {} FROM {} LIMIT 0",
            quote(&self.payload),
            self.quoted()
        )
    }

    /// Selects the first rows behind `($1, $2)`, at most `$3`, of transactions that have all ended.
    ///
    /// One statement has one snapshot: all transactions below its `xmin` have ended, and the statement sees
    /// what they committed. A text over the limit stays in Postgres. A fleet without a cursor leaves out what
    /// is marked; behind a cursor marks do not count, because Redis may have lost those messages.
    pub(super) fn read(&self, is_binary: bool, has_cursor: bool) -> String {
        let (table, xid, id) = (self.quoted(), quote(&self.xid), quote(&self.id));
        let payload = quote(&self.payload);
        let text = match is_binary {
            true => payload,
            false => format!("convert_to({payload}::text, 'UTF8')"),
        };
        let and_open = match &self.mark {
            Some(mark) if !has_cursor => format!(" AND {} IS NULL", quote(mark)),
            _ => String::new(),
        };
        let bytes = format!("coalesce(octet_length({text}), 0)");
        let key = match &self.key {
            Some(key) => format!("{}::text", quote(key)),
            None => format!("{} || {id}::text", literal(&format!("{}:", self.kind()))),
        };
        format!(
            "SELECT row_xid::text::bigint, row_id::bigint, row_bytes::bigint, \
             CASE WHEN row_bytes <= {MAX_MESSAGE_BYTES} THEN row_text END, row_key \
             FROM (SELECT {xid} AS row_xid, {id} AS row_id, {text} AS row_text, {key} AS row_key, \
             {bytes} AS row_bytes, \
             sum({bytes}) OVER (ORDER BY {xid}, {id} ROWS UNBOUNDED PRECEDING) AS row_total \
             FROM {table} WHERE ({xid}, {id}) > ($1::text::xid8, $2::bigint) \
             AND {xid} < pg_snapshot_xmin(pg_current_snapshot()){and_open} \
             ORDER BY {xid}, {id} LIMIT $3::bigint) AS head \
             WHERE row_total - row_bytes < {READ_BYTES} ORDER BY head.row_xid, head.row_id"
        )
    }

    /// Deletes or marks rows behind `($1, $2)` and up to `($3, $4)`, the first ones first.
    ///
    /// The lower bound spares the search all that was deleted before and is not vacuumed yet. The upper bound
    /// stands outside: within a large transaction, an index scan does not end at it before Postgres 18.
    pub(super) fn forget(&self) -> String {
        let (table, xid, id) = (self.quoted(), quote(&self.xid), quote(&self.id));
        let (change, and_open) = match &self.mark {
            None => (format!("DELETE FROM {table}"), String::new()),
            Some(mark) => {
                let mark = quote(mark);
                let change = format!("UPDATE {table} SET {mark} = now()");
                (change, format!(" AND {mark} IS NULL"))
            }
        };
        format!(
            "{change} WHERE {id} IN (SELECT {id} FROM (SELECT {xid}, {id} FROM {table} \
             WHERE ({xid}, {id}) > ($1::text::xid8, $2::bigint){and_open} \
             ORDER BY {xid}, {id} LIMIT {FORGET_ROWS}) AS head \
             WHERE ({xid}, {id}) <= ($3::text::xid8, $4::bigint))"
        )
    }

    /// Asks to be told of new rows.
    pub(super) fn listen(&self) -> String {
        format!("LISTEN {}", self.channel())
    }

    /// The trigger's notifications go here.
    fn channel(&self) -> String {
        quote(&self.plain())
    }

    pub(super) fn setup(&self) -> String {
        let (table, xid, id) = (self.quoted(), quote(&self.xid), quote(&self.id));
        let (payload, channel) = (quote(&self.payload), self.channel());
        let notify = format!("{}_notify", self.name);
        let (function, trigger) = (self.beside(&notify), quote(&notify));
        let index = quote(&format!("{}_order", self.name));
        let key = match &self.key {
            Some(key) => format!("\n    {} text NOT NULL,", quote(key)),
            None => String::new(),
        };
        let (mark, open_rows) = match &self.mark {
            None => (String::new(), String::new()),
            Some(mark) => {
                let mark = quote(mark);
                let open = quote(&format!("{}_open", self.name));
                (
                    format!(",\n    {mark} timestamptz"),
                    format!(
                        "CREATE INDEX IF NOT EXISTS {open} ON {table} ({xid}, {id}) \
                         WHERE {mark} IS NULL;\n"
                    ),
                )
            }
        };
        format!(
            "\
CREATE TABLE IF NOT EXISTS {table} (
    {id} bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    {payload} bytea NOT NULL,{key}
    {xid} xid8 NOT NULL DEFAULT pg_current_xact_id(){mark}
);
CREATE INDEX IF NOT EXISTS {index} ON {table} ({xid}, {id});
{open_rows}\
CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN NOTIFY {notified}; RETURN NULL; END';
DROP TRIGGER IF EXISTS {trigger} ON {table};
CREATE TRIGGER {trigger} AFTER INSERT ON {table}
    FOR EACH STATEMENT EXECUTE FUNCTION {function}();
",
            // It stands within quotes.
            notified = channel.replace('\'', "''"),
        )
    }

    /// What a row says, if it can be a message: its key and its text.
    pub(super) fn message<'a>(&self, row: &'a Row) -> Result<(&'a str, &'a [u8]), SourceError> {
        match (&row.key, &row.text) {
            (Some(key), Some(text)) => match Key::check(key) {
                Ok(()) => Ok((key, text)),
                Err(wrong) => Err(self.refuse(row, &format!("its key is wrong: {wrong}"))),
            },
            (_, None) if row.bytes > 0 => Err(self.refuse(
                row,
                &format!(
                    "its {} has {} bytes, and a message may have {MAX_MESSAGE_BYTES}",
                    self.payload, row.bytes
                ),
            )),
            (_, None) => Err(self.refuse(row, &format!("its column {} is null", self.payload))),
            (None, _) => Err(self.refuse(row, "its key is null")),
        }
    }

    /// Why a row cannot be a message. It waits where an operator can mend it.
    fn refuse(&self, row: &Row, why: &str) -> SourceError {
        let (table, id) = (self.plain(), row.cursor.id);
        SourceError::Retry(format!(
            "table {table}, row {id}: {why}; mend or delete the row, and those behind it follow"
        ))
    }
}

/// A name as Postgres takes it, whatever characters it has.
fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text as Postgres takes it.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
