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
const TURN_PATIENCE: Duration = Duration::from_secs(10);

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

/// One at a time: clients cannot pile up work.
#[derive(Clone)]
pub(crate) struct Turns(Arc<Semaphore>);

impl Default for Turns {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }
}

impl Turns {
    /// Waits for the turn, which lasts until the permit is dropped.
    pub(crate) async fn take(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        let turn = Arc::clone(&self.0).acquire_owned();
        match timeout(TURN_PATIENCE, turn).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(Refusal::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "others are reading the errors store: try again",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
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
}
