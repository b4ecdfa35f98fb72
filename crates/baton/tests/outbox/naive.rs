//! What many relays do, and what loses rows: it continues behind the highest id that it has seen.

use std::time::Duration;

use baton::{Batch, Flow, Position, Source, SourceError};
use tokio_postgres::{Client, NoTls};

pub(crate) struct Naive {
    address: String,
    client: Option<Client>,
    last: i64,
}

impl Naive {
    pub(crate) fn new(address: &str) -> Self {
        Self {
            address: address.to_owned(),
            client: None,
            last: 0,
        }
    }
}

impl Source for Naive {
    async fn open(&mut self, from: Position<'_>) -> Result<(), SourceError> {
        let (client, connection) = tokio_postgres::connect(&self.address, NoTls).await?;
        tokio::spawn(connection);
        self.client = Some(client);
        self.last = match from.cursor {
            Some(cursor) => String::from_utf8_lossy(cursor).parse()?,
            None => 0,
        };
        Ok(())
    }

    async fn next(&mut self, batch: &mut Batch) -> Result<Flow, SourceError> {
        let newer = "SELECT id, payload FROM outbox WHERE id > $1 ORDER BY id LIMIT 100";
        let Some(client) = &self.client else {
            return Err(SourceError::retry("not open"));
        };
        let rows = client.query(newer, &[&self.last]).await?;
        for row in &rows {
            self.last = row.get(0);
            batch.push(row.get(1));
        }
        match rows.is_empty() {
            true => tokio::time::sleep(Duration::from_millis(5)).await,
            false => batch.set_cursor(self.last.to_string()),
        }
        Ok(Flow::More)
    }

    fn kind(&self) -> &str {
        "naive"
    }
}
