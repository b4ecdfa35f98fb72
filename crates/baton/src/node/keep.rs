//! Keeping claims: while a handler runs, its claim does not run out.

use tokio::time::Instant;

use crate::Error;
use crate::node::context::Context;
use baton_protocol::Slot;
use baton_protocol::crash;

/// Most claims that one call extends: the server does nothing else meanwhile.
const BATCH: usize = 500;

/// Extends claims whose handlers are slow, until the node stops.
pub(crate) async fn run(ctx: &Context) -> Result<(), Error> {
    let ttl = ctx.config.claim_ttl;
    loop {
        tokio::time::sleep(ttl / 6).await;
        ctx.packs.drop_unused();
        let now = Instant::now();
        let due: Vec<(Slot, u64)> = ctx
            .in_hand()
            .values()
            .filter(|(_, _, since)| now - *since >= ttl / 3)
            .map(|(slot, number, _)| (slot.clone(), *number))
            .collect();
        for batch in due.chunks(BATCH) {
            crash::point("before-extend");
            // A lane learns from its commit that its claim is lost.
            match ctx.store.extend(batch, ttl).await {
                Ok(_) => crash::point("after-extend"),
                Err(error) if error.is_transient() => ctx.pause_after(&error).await,
                Err(error) => return Err(error),
            }
        }
    }
}
