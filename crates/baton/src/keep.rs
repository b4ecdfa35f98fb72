//! Keeping claims: while a handler runs, its claim does not run out.

use tokio::time::Instant;

use crate::context::Context;
use crate::protocol::Slot;
use crate::{Error, crash};

/// Extends claims whose handlers are slow, until the node stops.
pub(crate) async fn run(ctx: &Context) -> Result<(), Error> {
    let ttl = ctx.config.claim_ttl;
    loop {
        tokio::time::sleep(ttl / 6).await;
        let now = Instant::now();
        let due: Vec<(Slot, u64)> = ctx
            .in_hand()
            .values()
            .filter(|(_, _, since)| now - *since >= ttl / 6)
            .map(|(slot, number, _)| (slot.clone(), *number))
            .collect();
        if due.is_empty() {
            continue;
        }
        crash::point("before-extend");
        // A claim that is lost is told by its commit.
        match ctx.store.extend(&due, ttl).await {
            Ok(_) => crash::point("after-extend"),
            Err(error) if error.is_passing() => ctx.pause_after(&error).await,
            Err(error) => return Err(error),
        }
    }
}
