//! Waiting without polling: idle lanes sleep until the bell rings.
//!
//! The bell is a list with at most one token. Publish puts a token in; one blocked node of
//! the whole fleet gets it and wakes one lane, whose claim rings again if it leaves work
//! behind. A token can get lost with a node that dies in the wrong moment, so nothing
//! depends on it: whoever reclaims rings again, and every node looks by itself now and then.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use redis::Value;
use redis::aio::MultiplexedConnection;
use tokio::sync::Notify;

use crate::Error;
use crate::context::{Context, Role};

/// How long a node blocks before it looks by itself.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Pause after a failed attempt to block.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// The node's side of the bell.
#[derive(Default)]
pub(crate) struct Bell {
    idle: AtomicUsize,
    /// A lane went to sleep.
    slept: Notify,
    /// A lane may wake up.
    rung: Notify,
}

impl Bell {
    /// Sleeps until there may be work.
    pub(crate) async fn wait(&self) {
        self.idle.fetch_add(1, Ordering::Relaxed);
        let _count = Idle(&self.idle);
        self.slept.notify_one();
        self.rung.notified().await;
    }

    /// Blocks on the bell whenever a lane of this worker sleeps; until the node stops.
    pub(crate) async fn listen(&self, ctx: &Context) -> Result<(), Error> {
        let mut connection = None;
        loop {
            if *ctx.role.borrow() != Role::Worker {
                // A generator lets the connection go, and with it its place in the line.
                connection = None;
                ctx.role_is(|role| role == Role::Worker).await;
                // What was published meanwhile rang for others.
                self.rung.notify_waiters();
            }
            tokio::select! {
                () = ctx.role_is(|role| role != Role::Worker) => {}
                heard = self.hear(ctx, &mut connection) => {
                    if heard.is_err() {
                        connection = None;
                        tokio::time::sleep(RETRY_PAUSE).await;
                    }
                    // A token, or time to look.
                    self.rung.notify_one();
                }
            }
        }
    }

    /// As soon as a lane sleeps, blocks until the bell rings or it is time to look.
    async fn hear(
        &self,
        ctx: &Context,
        connection: &mut Option<MultiplexedConnection>,
    ) -> Result<(), Error> {
        while self.idle.load(Ordering::Relaxed) == 0 {
            self.slept.notified().await;
        }
        let open = match connection {
            Some(open) => open,
            None => connection.insert(ctx.store.link().blocking(LOOK_EVERY).await?),
        };
        let mut command = redis::cmd("BLPOP");
        command
            .arg(&ctx.store.keys().bell)
            .arg(LOOK_EVERY.as_secs());
        let heard = open.send_packed_command(&command).await;
        heard.and_then(Value::extract_error).map_err(crate::error::classify)?;
        Ok(())
    }
}

/// Counts a lane as idle for as long as it waits, also when the wait is given up.
struct Idle<'a>(&'a AtomicUsize);

impl Drop for Idle<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
