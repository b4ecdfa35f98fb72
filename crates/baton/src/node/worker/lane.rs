//! A lane's loop: claim, handle, commit; with one slot, or with all.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use baton_protocol::Slot;
use tokio::sync::{Mutex, MutexGuard};

use super::batch::{BatchHandler, Handled};
use super::claim::{ClaimNumbers, HeldClaim};
use super::{LaneBatchSize, LaneSlot};
use crate::node::context::{Context, Role};
use crate::{Durability, Error, Handler};

/// After so many claims in a row that brought messages, a lane takes it that more wait.
const CLAIMS_OF_A_BACKLOG: u32 = 2;
/// Slots that claim ahead where an answer comes at once: one has its next messages on the way.
const AHEAD: usize = 1;
/// The same, where the answer to a commit has to wait for replicas: the others work meanwhile.
const CONFIRMED_AHEAD: usize = 7;
/// How long a slot waits for the handler before it gives its messages back.
const TURN_TIMEOUT: Duration = Duration::from_millis(40);

/// One lane of a worker.
pub(crate) struct Lane<H> {
    ctx: Arc<Context>,
    batches: BatchHandler<H>,
    batch_size: LaneBatchSize,
    /// The slot that is never idle while the lane works. It alone sleeps at the bell.
    first: LaneSlot,
    /// The slots that claim ahead.
    ahead: Vec<LaneSlot>,
}

impl<H: Handler> Lane<H> {
    pub(crate) fn new(ctx: Arc<Context>, handler: Arc<H>, lane: usize) -> Self {
        let batch_size = LaneBatchSize::new(&ctx);
        let slot = |part: String, alone| LaneSlot {
            ctx: Arc::clone(&ctx),
            slot: Slot::new(ctx.store.node(), part),
            numbers: ClaimNumbers::default(),
            batch_size: batch_size.clone(),
            alone,
        };
        let ahead = match ctx.config.durability {
            Durability::Replicas(_) => CONFIRMED_AHEAD,
            _ => AHEAD,
        };
        Self {
            first: slot(lane.to_string(), true),
            ahead: (1..=ahead)
                .map(|nth| slot(format!("{lane}+{nth}"), false))
                .collect(),
            batches: BatchHandler::new(Arc::clone(&ctx), handler, batch_size.clone()),
            ctx,
            batch_size,
        }
    }

    /// Works whenever this node's role is to work, until it stops.
    pub(crate) async fn run(mut self) -> Result<(), Error> {
        loop {
            tokio::select! {
                biased;
                () = self.ctx.stopped() => return Ok(()),
                () = self.ctx.role_is(Role::works) => {}
            }
            self.work().await?;
            // A node that does not work cannot find out when its handler works again.
            self.batches.clear_trouble();
        }
    }

    /// Works until the lane is interrupted.
    async fn work(&mut self) -> Result<(), Error> {
        let mut claims_in_a_row = 0;
        let mut next = self.first.claim(None).await?;
        loop {
            next = match next {
                Some(mut held) => {
                    claims_in_a_row += 1;
                    if claims_in_a_row >= CLAIMS_OF_A_BACKLOG && self.may_claim_ahead(&held) {
                        claims_in_a_row = 0;
                        // Boxed: an idle lane has no memory for it.
                        Box::pin(self.work_with_all(held)).await?
                    } else {
                        // When the lane is interrupted, it gives back what it has not begun.
                        let batch = self.batches.handle(&self.first, &mut held, false).await?;
                        self.end(&held, batch).await?
                    }
                }
                None if self.ctx.interrupted() => return Ok(()),
                None => {
                    claims_in_a_row = 0;
                    self.first.sleep().await?
                }
            };
        }
    }

    /// Ends a claim, and returns the next one. If the handler cannot work, the lane pauses before it
    /// claims again.
    async fn end(
        &mut self,
        held: &HeldClaim,
        Handled {
            outcomes,
            unavailable,
        }: Handled,
    ) -> Result<Option<HeldClaim>, Error> {
        let next = self.first.end(held, &outcomes, !unavailable).await?;
        if !unavailable {
            return Ok(next);
        }
        self.batches.pause().await;
        self.claim_anew().await
    }

    async fn claim_anew(&mut self) -> Result<Option<HeldClaim>, Error> {
        match self.ctx.interrupted() {
            true => Ok(None),
            false => self.first.claim(None).await,
        }
    }

    /// Whether the other slots may claim while the lane handles this batch. A lane that may die of
    /// its messages holds no others.
    fn may_claim_ahead(&self, held: &HeldClaim) -> bool {
        held.range.returns == 0 && self.batch_size.get().is_quick()
    }

    /// Works with all slots, beginning with a claim of the first. Returns when messages run out,
    /// the handler is no longer quick, or the lane is interrupted; with the first slot's next claim.
    async fn work_with_all(&mut self, held: HeldClaim) -> Result<Option<HeldClaim>, Error> {
        self.first.alone = false;
        let turns = Turns::new(&self.batches);
        let ahead = self.ahead.iter_mut().map(|slot| turns.work_ahead(slot));
        let (next, _) = tokio::try_join!(
            turns.work_first(&mut self.first, held),
            futures_util::future::try_join_all(ahead),
        )?;
        let unavailable = turns.unavailable.into_inner();
        self.first.alone = true;
        if unavailable {
            self.batches.pause().await;
        }
        match next {
            // Messages may wait that a worker may have died with. A slot alone may claim them.
            None => self.claim_anew().await,
            next => Ok(next),
        }
    }
}

/// The slots of a lane take turns: the lane handles one batch at a time.
struct Turns<'a, H> {
    batches: &'a BatchHandler<H>,
    turn: Mutex<()>,
    /// Whether all slots work.
    all: AtomicBool,
    /// Whether the handler cannot work.
    unavailable: AtomicBool,
}

impl<'a, H: Handler> Turns<'a, H> {
    fn new(batches: &'a BatchHandler<H>) -> Self {
        Self {
            batches,
            turn: Mutex::new(()),
            all: AtomicBool::new(true),
            unavailable: AtomicBool::new(false),
        }
    }

    /// Works with the first slot until another one is through; returns the slot's next claim.
    async fn work_first(
        &self,
        slot: &mut LaneSlot,
        held: HeldClaim,
    ) -> Result<Option<HeldClaim>, Error> {
        let mut next = Some(held);
        while let Some(mut held) = next.take_if(|_| self.go_on()) {
            next = match self.handle(slot, &mut held).await? {
                Some(batch) => {
                    self.note(batch.unavailable);
                    slot.end(&held, &batch.outcomes, !batch.unavailable).await?
                }
                None => self.give_up(slot, held).await?,
            };
        }
        self.all.store(false, Ordering::Relaxed);
        Ok(next)
    }

    /// Works with a slot that claims ahead until one of the slots is through.
    async fn work_ahead(&self, slot: &mut LaneSlot) -> Result<(), Error> {
        let mut next = slot.claim(None).await?;
        while let Some(mut held) = next {
            next = match self.handle(slot, &mut held).await? {
                Some(batch) => {
                    self.note(batch.unavailable);
                    slot.end(&held, &batch.outcomes, self.go_on()).await?
                }
                None => self.give_up(slot, held).await?,
            };
        }
        self.all.store(false, Ordering::Relaxed);
        Ok(())
    }

    fn go_on(&self) -> bool {
        self.all.load(Ordering::Relaxed) && self.batches.batch_size.get().is_quick()
    }

    /// Ends the work with all slots if the handler cannot work.
    fn note(&self, unavailable: bool) {
        if unavailable {
            self.all.store(false, Ordering::Relaxed);
            self.unavailable.store(true, Ordering::Relaxed);
        }
    }

    /// Handles a claim when it is the slot's turn. None if the turn of another slot takes too long.
    async fn handle(
        &self,
        slot: &LaneSlot,
        held: &mut HeldClaim,
    ) -> Result<Option<Handled>, Error> {
        let Some(_turn) = self.next_turn().await else {
            return Ok(None);
        };
        // A quick handler never waits: what the other slots have to send must be sent before, so that
        // Redis works at the same time.
        tokio::task::yield_now().await;
        self.batches.handle(slot, held, true).await.map(Some)
    }

    async fn next_turn(&self) -> Option<MutexGuard<'_, ()>> {
        let turn = tokio::time::timeout(TURN_TIMEOUT, self.turn.lock());
        turn.await.ok()
    }

    /// Gives back a claim that the lane would not begin soon.
    async fn give_up(&self, slot: &LaneSlot, held: HeldClaim) -> Result<Option<HeldClaim>, Error> {
        self.all.store(false, Ordering::Relaxed);
        slot.drop_claim(held.number).await?;
        Ok(None)
    }
}
