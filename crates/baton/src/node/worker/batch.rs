//! Handling a batch: the handler runs over the messages of a claim, one by one.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use baton_protocol::{Digest, Outcomes, Range, crash};
use futures_util::FutureExt;
use tokio::time::Instant;

use super::claim::HeldClaim;
use super::message_span::MessageSpan;
use super::{LaneBatchSize, STOP_GRACE};
use crate::node::context::Context;
use crate::{Effects, Handler, HandlerError, Message};

/// After how many messages a lane with a quick handler checks whether its batch is over.
const CHECK_EVERY: u64 = 16;
/// In how many parts a lane handles a batch while its other slot works. A quick handler never waits,
/// and between two parts the other slot hears which messages it has claimed and asks for their pack.
const PARTS_BESIDE: u64 = 4;

/// Runs a lane's handler.
pub(super) struct BatchHandler<H> {
    pub(super) ctx: Arc<Context>,
    pub(super) handler: Arc<H>,
    pub(super) batch_size: LaneBatchSize,
}

impl<H: Handler> BatchHandler<H> {
    /// Handles the messages of a claim until all are handled or the batch is over. If the lane's
    /// other slot works, too, `beside` lets it go on now and then.
    pub(super) async fn handle(&self, held: &HeldClaim, beside: bool) -> Outcomes {
        let Range {
            first,
            last,
            returns,
            ..
        } = held.range;
        let mut outcomes = Outcomes::new(self.ctx.store.node(), first, returns + 1);
        outcomes.digest = self.ctx.config.audit.then(Digest::default);
        outcomes.published_ms = held.published_ms();
        let Some(published_ms) = outcomes.published_ms else {
            outcomes.fail_unreadable(last, held.pack.bytes(), self.ctx.clock.now_ms());
            return outcomes;
        };
        let began = Instant::now();
        let parts = if beside { PARTS_BESIDE } else { 1 };
        let part = match self.ctx.generates() {
            // Beat and publishing do not wait for a batch.
            true if self.batch_size.get().is_slow() => 1,
            true => CHECK_EVERY,
            false => (last - first + 1).div_ceil(parts),
        };
        self.handle_each(held, published_ms, began, part, &mut outcomes)
            .await;
        let (count, took) = (outcomes.count(), began.elapsed());
        self.batch_size.get().measure(count, took);
        if let Ok(handled @ 1..) = u32::try_from(count) {
            self.ctx.meter.handled(took / handled, count);
        }
        outcomes
    }

    /// Handles message by message. After each `part` of the batch, other tasks of the node go on.
    async fn handle_each(
        &self,
        held: &HeldClaim,
        at_ms: u64,
        began: Instant,
        part: u64,
        outcomes: &mut Outcomes,
    ) {
        let Range {
            pack, first, last, ..
        } = held.range;
        let slow = self.batch_size.get().is_slow();
        let mut waited = true;
        for seq in first..=last {
            let handled = seq - first;
            // Locks and clocks cost more than a quick handler. So the lane checks after every
            // message if the handler waited or is slow, and else now and then.
            let check = waited || slow || handled.is_multiple_of(CHECK_EVERY);
            if check && self.is_batch_over(began.elapsed(), handled, last - seq + 1) {
                break;
            }
            if handled > 0 {
                crash::point("mid-handling");
                if handled.is_multiple_of(part) {
                    tokio::task::yield_now().await;
                }
            }
            let text = held.text(seq);
            let message = Message {
                seq,
                at_ms,
                attempt: outcomes.attempt(),
                text,
                origin: "",
            };
            let mut effects = Effects::default();
            let Some((ended, pending)) = self.handle_one(message, &mut effects).await else {
                break;
            };
            waited = pending;
            match ended {
                Ok(()) => outcomes.done(effects),
                Err(error) => {
                    outcomes.failed(error.reason(), text, self.ctx.clock.now_ms());
                }
            }
            if let Some(digest) = &mut outcomes.digest {
                digest.add(seq - pack, text);
            }
        }
    }

    fn is_batch_over(&self, took: Duration, handled: u64, left: u64) -> bool {
        self.ctx.interrupted() || self.batch_size.get().is_over(took, handled, left)
    }

    /// Runs the handler. Returns how the message ended, and whether the handler had to wait. `None`
    /// if the node stops and the handler does not end in time.
    async fn handle_one(
        &self,
        message: Message<'_>,
        effects: &mut Effects,
    ) -> Option<(Result<(), HandlerError>, bool)> {
        let span = MessageSpan::new(&self.ctx, &message);
        let handling = span.around(self.handler.handle(message, effects));
        let handling = AssertUnwindSafe(handling).catch_unwind();
        let mut handling = std::pin::pin!(handling);
        let first_poll = std::future::poll_fn(|cx| Poll::Ready(handling.as_mut().poll(cx))).await;
        let waited = first_poll.is_pending();
        let ended = match first_poll {
            Poll::Ready(ended) => ended,
            Poll::Pending => tokio::select! {
                ended = handling => ended,
                () = self.ctx.stopped_for(STOP_GRACE) => return None,
            },
        };
        let ended = ended.unwrap_or_else(|_| Err("the handler panicked".into()));
        span.record(&ended);
        Some((ended, waited))
    }
}
