//! Waiting without polling: an idle lane blocks until its node's bell rings.
//!
//! The bell is a list with at most one token. A claim that finds no message puts the node into
//! `idle`, in the same step. A message that comes later takes the node that is idle longest from
//! `idle` and puts a token into its bell. The lane sends its claim right behind the blocking call,
//! so that the server runs the claim the moment the token comes: no round trip lies between a
//! publish and the claim. A claim that leaves messages behind rings for the next node.
//!
//! A token gets lost with a node that dies at the wrong moment, so nothing depends on it: every
//! reclaim rings again, and every blocked lane claims anyway after [`MAX_WAIT`].
//!
//! This module owns the connection that blocks. A node has one, and its lanes take turns on it. Its
//! bell rings for the lane whose turn it is. So before a lane blocks, it makes sure that its node is
//! in `idle`: the token of an earlier lane may have taken the node out.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use redis::Value;
use tokio::sync::{Mutex, MutexGuard};

use super::answer::unexpected;
use super::{Claim, ClaimCall, Store, decode, is_missing_script};
use crate::error::classify;
use crate::link::{Backoff, BlockingConnection};
use crate::{Error, scripts};

/// How long a lane blocks before it claims although the bell did not ring.
const MAX_WAIT: Duration = Duration::from_secs(5);
/// Pauses between attempts to open the blocking connection: the first, and the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// A node's bell, at which one lane waits at a time.
#[derive(Default)]
pub(super) struct Bell {
    line: Mutex<Line>,
    /// Lanes that wait for their turn.
    in_line: AtomicUsize,
    /// How often the node has lost its place in `idle`, or may have.
    losses: AtomicU64,
    /// The losses before the last claim that put the node into `idle`, plus one. 0 before the first.
    idle: AtomicU64,
}

#[derive(Default)]
struct Line {
    /// None before the first wait, and after a wait that failed or was cancelled.
    connection: Option<BlockingConnection>,
    /// Set while connections cannot be had.
    backoff: Option<Backoff>,
}

impl Bell {
    /// How often the node has lost its place in `idle`, or may have.
    pub(super) fn losses(&self) -> u64 {
        self.losses.load(Ordering::Relaxed)
    }

    fn lose(&self) {
        self.losses.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes the answer to a claim that was sent after so many losses: an empty one has put the node
    /// into `idle`, unless its lane holds another claim.
    pub(super) fn claimed(&self, call: ClaimCall<'_>, claim: &Claim, losses: u64) {
        if call.alone && claim.is_nothing() {
            self.fall_asleep(losses);
        }
    }

    fn fall_asleep(&self, losses: u64) {
        self.idle.fetch_max(losses + 1, Ordering::Relaxed);
    }

    /// Whether the node is in `idle`, or its bell has a token that no lane has taken yet.
    fn is_idle(&self) -> bool {
        self.idle.load(Ordering::Relaxed) == self.losses() + 1
    }

    /// Notes the answers to a blocking call and to the claim behind it.
    fn woken(&self, has_token: bool, claim: &Claim, sleepers: usize) {
        if has_token {
            self.lose();
        }
        match claim {
            Claim::Empty | Claim::Paused => self.fall_asleep(self.losses()),
            Claim::Claimed { .. } if sleepers > 0 => self.fall_asleep(self.losses()),
            Claim::Claimed { .. } => self.lose(),
            Claim::Stale | Claim::Held { .. } => {}
        }
    }
}

/// Counts a lane while it waits for its turn.
struct InLine<'a>(&'a AtomicUsize);

impl<'a> InLine<'a> {
    fn count(lanes: &'a AtomicUsize) -> Self {
        lanes.fetch_add(1, Ordering::Relaxed);
        Self(lanes)
    }
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A lane's turn at the bell.
pub struct BellTurn<'a> {
    store: &'a Store,
    line: MutexGuard<'a, Line>,
}

impl Store {
    /// Waits until no other lane of this node blocks on the bell.
    pub async fn bell_turn(&self) -> BellTurn<'_> {
        let _in_line = InLine::count(&self.bell.in_line);
        BellTurn {
            store: self,
            line: self.bell.line.lock().await,
        }
    }

    /// Tries the one command that no script sends.
    pub(super) async fn check_bell(&self) -> Result<(), Error> {
        let mut command = redis::cmd("BLPOP");
        // Not one millisecond: Redis 6.2 rounds that down to zero, and zero blocks for ever.
        command.arg(&self.keys.preflight).arg(0.002);
        self.link.call(&command).await.map(drop)
    }

    /// Blocks on the bell, then claims. The server gets both calls at once.
    async fn claim_when_rung(
        &self,
        connection: &mut BlockingConnection,
        call: ClaimCall<'_>,
    ) -> Result<Claim, Error> {
        // These lanes stay in line until it is their turn, or until the node stops.
        let sleepers = self.bell.in_line.load(Ordering::Relaxed);
        let (keys, args) = self.claim_words(call, Some(sleepers));
        let args: Vec<&[u8]> = args.iter().map(String::as_bytes).collect();
        let mut block = redis::cmd("BLPOP");
        block
            .arg(self.keys.bell_key(&self.node))
            .arg(MAX_WAIT.as_secs());
        let mut pipeline = redis::pipe();
        pipeline.add_command(block);
        pipeline.add_command(super::command("EVALSHA", &scripts::CLAIM.sha, &keys, &args));
        let answers = connection.send(&pipeline).await?;
        let mut answers = answers
            .into_iter()
            .map(|answer| answer.extract_error().map_err(classify));
        let (Some(rung), Some(claim)) = (answers.next(), answers.next()) else {
            return Err(unexpected(scripts::CLAIM.name, &Value::Nil));
        };
        let has_token = self.name_wrong_type(rung).await? != Value::Nil;
        let claim = match claim {
            // The token is spent: claim again, with the whole script.
            claim if is_missing_script(&claim) => self.claim_awake(call, sleepers).await?,
            claim => decode::claim(&self.name_wrong_type(claim).await?)?,
        };
        self.bell.woken(has_token, &claim, sleepers);
        Ok(claim)
    }
}

impl BellTurn<'_> {
    /// Blocks until the bell rings or `MAX_WAIT` is over, then claims. A wait that is cancelled
    /// closes its connection; a claim that it left behind in the server is found by claiming again
    /// under the same number.
    pub async fn wait_and_claim(mut self, call: ClaimCall<'_>) -> Result<Claim, Error> {
        let mut connection = match self.line.connection.take() {
            Some(connection) => connection,
            None => {
                // The last wait may have taken a token with it.
                self.store.bell.lose();
                self.connect().await?
            }
        };
        if !self.store.bell.is_idle() {
            let claim = self.store.claim(call).await;
            if !claim.as_ref().is_ok_and(Claim::is_nothing) {
                self.line.connection = Some(connection);
                return claim;
            }
        }
        let claim = self.store.claim_when_rung(&mut connection, call).await?;
        self.line.connection = Some(connection);
        Ok(claim)
    }

    /// Opens the blocking connection. Attempts are spaced out while they fail.
    async fn connect(&mut self) -> Result<BlockingConnection, Error> {
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
