//! Turns at the errors store.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::http::Refusal;

/// How long a request waits for its turn.
const TURN_TIMEOUT: Duration = Duration::from_secs(10);
/// At most this many requests wait for a turn; the server refuses more at once.
const MAX_WAITING: usize = 16;

/// Lets one request work at a time and few wait, so that clients can neither pile up work in Redis
/// nor occupy all connections.
#[derive(Clone)]
pub(crate) struct Turns {
    turn: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
}

impl Default for Turns {
    fn default() -> Self {
        Self {
            turn: Arc::new(Semaphore::new(1)),
            waiting: Arc::new(Semaphore::new(MAX_WAITING)),
        }
    }
}

impl Turns {
    /// Waits for a turn, which lasts until the permit is dropped.
    pub(crate) async fn take(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        let refusal = || {
            let why = "others are reading the errors store: try again";
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why)
        };
        let _waiting = self.waiting.try_acquire().map_err(|_| refusal())?;
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
    async fn a_request_waits_for_its_turn_but_not_for_ever() {
        let turns = Turns::default();
        let first = turns.take().await.unwrap();
        let refusal = turns.take().await.unwrap_err();
        assert_eq!(refusal.0, StatusCode::SERVICE_UNAVAILABLE);
        drop(first);
        assert!(turns.take().await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn few_requests_wait_for_a_turn() {
        let turns = Turns::default();
        let _first = turns.take().await.unwrap();
        let mut waiting: Vec<_> = (0..MAX_WAITING).map(|_| Box::pin(turns.take())).collect();
        for request in &mut waiting {
            assert!(request.now_or_never().is_none());
        }
        assert!(
            turns
                .take()
                .now_or_never()
                .is_some_and(|turn| turn.is_err())
        );
    }
}
