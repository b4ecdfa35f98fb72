//! Waiting without polling: an idle lane blocks until the bell rings.
//!
//! The bell is a list with at most one token. A publish puts the token in. One blocked lane of the
//! whole fleet gets it, and its claim rings again if it leaves messages behind. The lane sends its
//! claim right behind the blocking call, so that the server runs the claim the moment the token
//! comes: no round trip lies between a publish and the claim.
//!
//! A token gets lost with a node that dies at the wrong moment, so nothing depends on it: every
//! reclaim rings again, and every blocked lane claims anyway after [`MAX_WAIT`].
//!
//! This module owns the connection that blocks. A node has one, and its lanes take turns on it.

use std::time::Duration;

use redis::Value;
use redis::aio::MultiplexedConnection;
use tokio::sync::{Mutex, MutexGuard};

use super::answer::unexpected;
use super::{Claim, ClaimCall, Store, decode, is_missing_script};
use crate::error::classify;
use crate::link::Backoff;
use crate::{Error, scripts};

/// How long a lane blocks before it claims although the bell did not ring.
const MAX_WAIT: Duration = Duration::from_secs(5);
/// Pauses between attempts to open the blocking connection: the first, and the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// A node's blocking connection, which one lane uses at a time.
#[derive(Default)]
pub(super) struct Bell(Mutex<Line>);

#[derive(Default)]
struct Line {
    /// None before the first wait, and after a wait that failed or was cancelled.
    connection: Option<MultiplexedConnection>,
    /// Set while connections cannot be had.
    backoff: Option<Backoff>,
}

/// A lane's turn at the bell.
pub struct BellTurn<'a> {
    store: &'a Store,
    line: MutexGuard<'a, Line>,
}

impl Store {
    /// Waits until no other lane of this node blocks on the bell.
    pub async fn bell_turn(&self) -> BellTurn<'_> {
        BellTurn {
            store: self,
            line: self.bell.0.lock().await,
        }
    }

    /// Tries the one command that no script sends.
    pub(super) async fn check_bell(&self) -> Result<(), Error> {
        let mut command = redis::cmd("BLPOP");
        // Not one millisecond: Redis 6.2 rounds that down to zero, and zero blocks for ever.
        command.arg(&self.keys.preflight[1]).arg(0.002);
        self.link.call(&command).await.map(drop)
    }

    /// Blocks on the bell, then claims. The server gets both calls at once.
    async fn claim_when_rung(
        &self,
        connection: &mut MultiplexedConnection,
        call: ClaimCall<'_>,
    ) -> Result<Claim, Error> {
        let (keys, args) = self.claim_words(call);
        let args: Vec<&[u8]> = args.iter().map(String::as_bytes).collect();
        let mut block = redis::cmd("BLPOP");
        block.arg(&self.keys.bell).arg(MAX_WAIT.as_secs());
        let mut pipeline = redis::pipe();
        pipeline.add_command(block);
        pipeline.add_command(super::command("EVALSHA", &scripts::CLAIM.sha, &keys, &args));
        let answers = connection.send_packed_commands(&pipeline, 0, 2).await;
        let mut answers = answers
            .map_err(classify)?
            .into_iter()
            .map(|answer| answer.extract_error().map_err(classify));
        let (Some(rung), Some(claim)) = (answers.next(), answers.next()) else {
            return Err(unexpected(scripts::CLAIM.name, &Value::Nil));
        };
        rung?;
        match claim {
            // The token is spent: claim again, with the whole script.
            claim if is_missing_script(&claim) => self.claim(call).await,
            claim => decode::claim(&claim?),
        }
    }
}

impl BellTurn<'_> {
    /// Blocks until the bell rings or `MAX_WAIT` is over, then claims. A wait that is cancelled
    /// closes its connection; a claim that it left behind in the server is found by claiming again
    /// under the same number.
    pub async fn wait_and_claim(mut self, call: ClaimCall<'_>) -> Result<Claim, Error> {
        let mut connection = match self.line.connection.take() {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        let claim = self.store.claim_when_rung(&mut connection, call).await?;
        self.line.connection = Some(connection);
        Ok(claim)
    }

    /// Opens the blocking connection. Attempts are spaced out while they fail.
    async fn connect(&mut self) -> Result<MultiplexedConnection, Error> {
        if let Some(backoff) = &mut self.line.backoff {
            tokio::time::sleep(backoff.pause()).await;
        }
        match self.store.link.open_blocking(MAX_WAIT).await {
            Ok(connection) => {
                self.line.backoff = None;
                Ok(connection)
            }
            Err(error) => {
                let new = || Backoff::new(BACKOFF.0, BACKOFF.1);
                self.line.backoff.get_or_insert_with(new);
                Err(match error {
                    // The link is up with the same credentials: the refusal is transient.
                    Error::Refused(why) => Error::Unavailable(why),
                    error => error,
                })
            }
        }
    }
}
