//! Idle connections that wait for their next request.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::connection::Connection;

/// How long a connection waits. Many servers hang up after 5 s, and a request that crosses this has
/// an unknown outcome.
const MAX_IDLE: Duration = Duration::from_secs(4);

/// Idle connections, the latest used last. A lane has one request under way at a time, so there are
/// never more connections than lanes.
#[derive(Default)]
pub(crate) struct Pool(Mutex<Vec<(Connection, Instant)>>);

impl Pool {
    /// The connection that was used last, if one is fresh enough.
    pub(crate) fn take(&self) -> Option<Connection> {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (connection, since) = idle.pop()?;
        if since.elapsed() > MAX_IDLE {
            // All others wait for longer.
            idle.clear();
            return None;
        }
        Some(connection)
    }

    /// Keeps a connection whose response was read to its end.
    pub(crate) fn put(&self, connection: Connection) {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push((connection, Instant::now()));
    }
}
