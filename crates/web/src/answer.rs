//! Answers that say no, in words, and taking turns.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// How long a request waits for its turn.
const TURN_TIMEOUT: Duration = Duration::from_secs(10);
/// Requests that wait for the same turn; more are refused at once.
const QUEUE: usize = 16;

/// Why a request is not answered as it wished.
#[derive(Debug)]
pub(crate) struct Refusal(pub(crate) StatusCode, pub(crate) String);

impl Refusal {
    /// A refusal in these words.
    pub(crate) fn new(status: StatusCode, why: &str) -> Self {
        Self(status, why.to_owned())
    }
}

impl From<baton::Error> for Refusal {
    fn from(error: baton::Error) -> Self {
        Self(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.0, Json(json!({ "error": self.1 }))).into_response()
    }
}

/// One at a time, and few who wait for it: clients cannot pile up work, nor take all connections.
#[derive(Clone)]
pub(crate) struct Turns {
    turn: Arc<Semaphore>,
    queue: Arc<Semaphore>,
}

impl Default for Turns {
    fn default() -> Self {
        Self {
            turn: Arc::new(Semaphore::new(1)),
            queue: Arc::new(Semaphore::new(QUEUE)),
        }
    }
}

impl Turns {
    /// Waits for the turn, which lasts until the permit is dropped.
    pub(crate) async fn take(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        let refusal = || {
            let why = "others are reading the errors store: try again";
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why)
        };
        let _queued = self.queue.try_acquire().map_err(|_| refusal())?;
        let turn = Arc::clone(&self.turn).acquire_owned();
        match timeout(TURN_TIMEOUT, turn).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(refusal()),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_turn_is_waited_for_but_not_for_ever() {
        let turns = Turns::default();
        let first = turns.take().await.unwrap();
        let refusal = turns.take().await.unwrap_err();
        assert_eq!(refusal.0, StatusCode::SERVICE_UNAVAILABLE);
        drop(first);
        assert!(turns.take().await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn few_wait_for_a_turn() {
        let turns = Turns::default();
        let _first = turns.take().await.unwrap();
        let mut waiting: Vec<_> = (0..QUEUE).map(|_| Box::pin(turns.take())).collect();
        for one in &mut waiting {
            assert!(one.now_or_never().is_none());
        }
        assert!(turns.take().now_or_never().is_some_and(|one| one.is_err()));
    }
}
