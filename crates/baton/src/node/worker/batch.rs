//! Handling a batch: the handler runs over the messages of a claim, one by one.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::time::Duration;

use baton_protocol::{Digest, Note, Outcomes, OwnedPack, Range, crash};
use futures_util::FutureExt;
use tokio::time::Instant;

use super::claim::HeldClaim;
use super::message_span::MessageSpan;
use super::{LaneBatchSize, LaneSlot, STOP_GRACE};
use crate::node::batch_size::MOMENT;
use crate::node::context::Context;
use crate::node::handler_error::Remedy;
use crate::node::partition::Partition;
use crate::node::warning::Warning;
use crate::{Effects, Error, Handler, HandlerError, Message};

/// After how many messages a lane with a quick handler checks whether its batch is over.
const CHECK_EVERY: u64 = 16;
/// In how many parts a lane handles a batch while its other slots work. A quick handler never waits,
/// and between two parts another slot hears which messages it has claimed and asks for their pack.
const PARTS_BESIDE: u64 = 4;
/// Pauses of a lane whose handler cannot work: the first, and the longest.
const UNAVAILABLE_PAUSE: (Duration, Duration) =
    (Duration::from_millis(100), Duration::from_secs(5));
/// Max bytes of a reason that Redis keeps.
const MAX_REASON_BYTES: usize = 4096;

/// Runs a lane's handler.
pub(super) struct BatchHandler<H> {
    ctx: Arc<Context>,
    handler: Arc<H>,
    pub(super) batch_size: LaneBatchSize,
    /// How often in a row the handler could not work.
    unavailable: AtomicU32,
}

/// What a lane has handled of a claim.
pub(super) struct Handled {
    /// How the messages ended.
    pub(super) outcomes: Outcomes,
    /// Whether the handler cannot go on.
    pub(super) unavailable: bool,
}

/// How the handling of a message ended: as the handler says, or with a panic.
type Ended = std::thread::Result<Result<(), HandlerError>>;

impl<H: Handler> BatchHandler<H> {
    pub(super) fn new(ctx: Arc<Context>, handler: Arc<H>, batch_size: LaneBatchSize) -> Self {
        Self {
            ctx,
            handler,
            batch_size,
            unavailable: AtomicU32::new(0),
        }
    }

    /// Pauses because the handler cannot work, longer each time.
    pub(super) async fn pause(&self) {
        let times = self.unavailable.fetch_add(1, Ordering::Relaxed);
        let (shortest, longest) = UNAVAILABLE_PAUSE;
        let pause = shortest.saturating_mul(1 << times.min(10)).min(longest);
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = self.ctx.stopped() => {}
        }
    }

    /// The handler cannot work. This is known before the messages go back: the handler may work for
    /// the lane that claims them next.
    fn set_trouble(&self, reason: String) {
        if self.ctx.meter.set_handler_trouble(Some(reason.clone())) {
            self.ctx.warn(Warning::HandlerUnavailable { reason });
        }
    }

    /// Whether the message goes back and no attempt counts: the handler cannot work, and not just for this
    /// message.
    fn gives_back(&self, error: &HandlerError, message: &Message<'_>) -> bool {
        match error.remedy {
            Remedy::GiveBack { may_blame: true } => {
                let (key, handled) = (message.key().to_string(), self.ctx.meter.processed());
                !self.ctx.refused.is_to_blame(key, handled)
            }
            Remedy::GiveBack { may_blame: false } => true,
            Remedy::Retry { .. } | Remedy::Reject => false,
        }
    }

    /// The handler has worked for some lane of the node, or this lane works no more.
    pub(super) fn clear_trouble(&self) {
        self.ctx.meter.set_handler_trouble(None);
    }

    /// Handles the messages of a claim until all are handled or the batch is over. If one of them
    /// takes long, `slot` ends the messages before it and gives back those behind it. If the lane's
    /// other slots work, too, `beside` lets them go on now and then.
    pub(super) async fn handle(
        &self,
        slot: &LaneSlot,
        held: &mut HeldClaim,
        beside: bool,
    ) -> Result<Handled, Error> {
        let Range { first, last, .. } = held.range;
        let mut handled = Handled {
            outcomes: self.no_outcomes(held, first),
            unavailable: false,
        };
        if handled.outcomes.published_ms.is_none() {
            let (bytes, now_ms) = (held.pack.bytes(), self.ctx.clock.now_ms());
            handled.outcomes.fail_unreadable(last, bytes, now_ms);
            return Ok(handled);
        }
        let began = Instant::now();
        let parts = if beside { PARTS_BESIDE } else { 1 };
        let part = match self.ctx.generates() {
            // Beat and publishing do not wait for a batch.
            true if self.batch_size.get().is_slow() => 1,
            true => CHECK_EVERY,
            false => (last - first + 1).div_ceil(parts),
        };
        let count = self
            .handle_each(slot, held, began, part, &mut handled)
            .await?;
        if count > 0 {
            self.unavailable.store(0, Ordering::Relaxed);
        }
        if count > 0 && !handled.unavailable {
            self.clear_trouble();
        }
        let took = began.elapsed();
        self.batch_size.get().measure(count, took);
        if let Ok(some @ 1..) = u32::try_from(count) {
            self.ctx.meter.handled(took / some, count);
        }
        Ok(handled)
    }

    /// No outcome yet, of messages of a claim from `first` on.
    fn no_outcomes(&self, held: &HeldClaim, first: u64) -> Outcomes {
        let mut outcomes = Outcomes::new(self.ctx.control.node(), &held.range, first);
        outcomes.digest = self.ctx.config.audit.then(Digest::default);
        outcomes.published_ms = held.published_ms();
        outcomes
    }

    /// Handles message by message; returns how many. After each `part` of the batch, other tasks of
    /// the node go on.
    async fn handle_each(
        &self,
        slot: &LaneSlot,
        held: &mut HeldClaim,
        began: Instant,
        part: u64,
        batch: &mut Handled,
    ) -> Result<u64, Error> {
        let Range { pack, first, .. } = held.range;
        let texts = Arc::clone(&held.pack);
        let slow = self.batch_size.get().is_slow();
        let (mut waited, mut handled) = (true, 0);
        while first + handled <= held.range.last {
            let seq = first + handled;
            // Locks and clocks cost more than a quick handler. So the lane checks after every
            // message if the handler waited or is slow, and else now and then.
            let check = waited || slow || handled.is_multiple_of(CHECK_EVERY);
            if check && self.is_batch_over(began.elapsed(), handled, held.range.last - seq + 1) {
                break;
            }
            if handled > 0 {
                crash::point("mid-handling");
                if handled.is_multiple_of(part) {
                    tokio::task::yield_now().await;
                }
            }
            let partition = &slot.partition;
            let message = message(partition, &texts, held.range, seq, &batch.outcomes);
            let span = MessageSpan::new(&self.ctx, &message);
            let mut effects = Effects::default();
            let ended = {
                let handling = span.around(self.handler.handle(message, &mut effects));
                let handling = AssertUnwindSafe(handling).catch_unwind();
                let mut handling = std::pin::pin!(handling);
                match poll_once(handling.as_mut()).await {
                    Poll::Ready(ended) => {
                        waited = false;
                        Some(ended)
                    }
                    // Boxed: a quick handler pays nothing for it.
                    Poll::Pending => {
                        waited = true;
                        Box::pin(self.wait(slot, held, seq, handling, batch)).await?
                    }
                }
            };
            let Some(ended) = ended else {
                break;
            };
            let ended = ended.unwrap_or_else(|_| Err("the handler panicked".into()));
            span.record(&ended);
            match ended {
                Ok(()) => batch.outcomes.done(effects),
                Err(error) if self.gives_back(&error, &message) => {
                    self.set_trouble(error.reason);
                    batch.unavailable = true;
                    break;
                }
                Err(error) => {
                    self.fail(partition, error, message, &mut batch.outcomes)
                        .await?;
                }
            }
            if let Some(digest) = &mut batch.outcomes.digest {
                digest.add(seq - pack, message.text);
            }
            handled += 1;
            if batch.outcomes.is_large() {
                break;
            }
        }
        Ok(handled)
    }

    fn is_batch_over(&self, took: Duration, handled: u64, left: u64) -> bool {
        self.ctx.interrupted() || self.batch_size.get().is_over(took, handled, left)
    }

    /// Waits for the handler of message `seq`. If it takes longer than a moment, the lane keeps this
    /// message alone. `None` if the node stops and the handler does not end in time.
    async fn wait(
        &self,
        slot: &LaneSlot,
        held: &mut HeldClaim,
        seq: u64,
        handling: impl Future<Output = Ended>,
        batch: &mut Handled,
    ) -> Result<Option<Ended>, Error> {
        let mut ending = std::pin::pin!(self.in_time(handling));
        let has_others = batch.outcomes.count() > 0 || seq < held.range.last;
        if !has_others {
            return Ok(ending.await);
        }
        if let Ok(ended) = tokio::time::timeout(MOMENT, ending.as_mut()).await {
            return Ok(ended);
        }
        self.batch_size.get().takes_longer_than(MOMENT);
        let (ended, kept) = tokio::join!(ending, self.keep_only(slot, held, seq, batch));
        kept?;
        Ok(ended)
    }

    /// Waits for a handler until its time is up. None if the node stops before.
    async fn in_time(&self, handling: impl Future<Output = Ended>) -> Option<Ended> {
        let timeout = self.ctx.config.timeout;
        let time_is_up = async {
            match timeout {
                Some(timeout) => tokio::time::sleep(timeout).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            result = handling => Some(result),
            () = time_is_up => {
                let timeout = humantime::format_duration(timeout.unwrap_or_default());
                let reason = format!("it took longer than its timeout of {timeout}");
                Some(Ok(Err(reason.into())))
            }
            () = self.ctx.stopped_for(STOP_GRACE) => None,
        }
    }

    /// Ends the messages before `seq`, which takes long, and gives back those behind it: other lanes
    /// may be idle.
    async fn keep_only(
        &self,
        slot: &LaneSlot,
        held: &mut HeldClaim,
        seq: u64,
        batch: &mut Handled,
    ) -> Result<(), Error> {
        let before = std::mem::replace(&mut batch.outcomes, self.no_outcomes(held, seq));
        slot.end_before(held, &before).await?;
        slot.give_back_after(held, seq).await
    }

    /// A handler failed: the message is to be tried again, or goes to the errors store.
    async fn fail(
        &self,
        partition: &Partition,
        error: HandlerError,
        message: Message<'_>,
        outcomes: &mut Outcomes,
    ) -> Result<(), Error> {
        let Message {
            seq,
            attempt,
            text,
            key,
            ..
        } = message;
        let reason = cut(&error.reason);
        let tried_before = match attempt {
            1 => None,
            _ => self.note(partition, seq).await?,
        };
        let first_reason = tried_before.map(|note| note.first_reason);
        let after = match error.remedy {
            Remedy::Retry { after } if attempt < self.ctx.config.attempts => after,
            Remedy::GiveBack { .. } if attempt < self.ctx.config.attempts => None,
            _ => {
                let first_reason = first_reason.unwrap_or_default();
                let now_ms = self.ctx.clock.now_ms();
                outcomes.failed(key, text, reason, &first_reason, now_ms);
                return Ok(());
            }
        };
        let note = Note {
            first_reason: first_reason.unwrap_or_else(|| reason.to_owned()),
            last_reason: reason.to_owned(),
        };
        let delay = self.ctx.config.backoff.wait(attempt, after);
        outcomes.delayed(key, text, delay, &note);
        Ok(())
    }

    /// Reads why earlier attempts of a message failed.
    async fn note(&self, partition: &Partition, seq: u64) -> Result<Option<Note>, Error> {
        loop {
            match partition.store.note(seq).await {
                Err(error) if error.is_transient() && !self.ctx.stopping() => {
                    partition.pause_after(&error).await;
                }
                // A node that stops does not wait for a reason.
                Err(error) if error.is_transient() => return Ok(None),
                note => return note,
            }
        }
    }
}

fn message<'a>(
    partition: &Partition,
    texts: &'a OwnedPack,
    range: Range,
    seq: u64,
    outcomes: &Outcomes,
) -> Message<'a> {
    Message {
        seq,
        partition: partition.store.partition(),
        at_ms: outcomes.published_ms.unwrap_or_default(),
        attempt: outcomes.attempt(),
        text: texts.text(seq - range.pack).unwrap_or_default(),
        key: texts.key(seq - range.pack, seq),
    }
}

/// Polls a future once.
async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await
}

/// The beginning of a reason, if it is long.
fn cut(reason: &str) -> &str {
    let mut end = reason.len().min(MAX_REASON_BYTES);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    &reason[..end]
}
