//! Waiting without polling: an idle lane sleeps until the bell rings.
//!
//! The bell is a list with at most one token. Publish puts a token in; one blocked lane of
//! the whole fleet gets it, and its claim rings again if it leaves work behind. The lane
//! sends its claim right behind the blocking call, so that the server runs it the moment the
//! token comes: no round trip lies between a publish and the worker's hands.
//!
//! A token can get lost with a node that dies in the wrong moment, so nothing depends on it:
//! whoever reclaims rings again, and every idle node looks by itself now and then.

use redis::aio::MultiplexedConnection;
use tokio::sync::Mutex;

use crate::Error;
use crate::node::context::{Context, Role};
use baton_protocol::{BELL_WAIT, Claim, ClaimCall};

/// The node's side of the bell: the connection on which one of its lanes sleeps at a time.
#[derive(Default)]
pub(crate) struct Bell {
    line: Mutex<Option<MultiplexedConnection>>,
}

impl Bell {
    /// Sleeps until there may be work, and claims. A wait that is given up closes its
    /// connection; what its claim may still take is found by asking under the same number.
    pub(crate) async fn wait(&self, ctx: &Context, call: ClaimCall<'_>) -> Result<Claim, Error> {
        let mut line = self.line.lock().await;
        if *ctx.role.borrow() != Role::Worker {
            return Ok(Claim::Empty);
        }
        let mut connection = match line.take() {
            Some(connection) => connection,
            None => ctx.store.link().blocking(BELL_WAIT).await?,
        };
        let claim = ctx.store.claim_when_rung(&mut connection, call).await?;
        *line = Some(connection);
        Ok(claim)
    }
}
