//! A lane's loop: claim, handle, commit; with one slot, or with all.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use baton_protocol::{Handed, Ring, Slot};
use tokio::sync::{Mutex, MutexGuard, oneshot};

use super::batch::{BatchHandler, Handled};
use super::claim::{ClaimNumbers, HeldClaim};
use super::{LaneBatchSize, LaneSlot};
use crate::node::context::{Context, Role};
use crate::node::partition::Partition;
use crate::node::rung::Look;
use crate::{Durability, Error, Handler};

/// After so many claims in a row that brought messages, a lane takes it that more wait.
const CLAIMS_OF_A_BACKLOG: u32 = 2;
/// Slots that claim ahead where an answer comes at once: one has its next messages on the way.
const AHEAD: usize = 1;
/// The same, where the answer to a commit has to wait for replicas: the others work meanwhile.
const CONFIRMED_AHEAD: usize = 7;
/// How long a slot waits for the handler before it gives its messages back.
const TURN_TIMEOUT: Duration = Duration::from_millis(40);

/// After so many claims a lane looks at another partition, if one is loud.
const CLAIMS_OF_A_STAY: u32 = 8;
/// After so many batches the slots of a lane end their work, if another partition is loud.
const BATCHES_OF_A_STAY: u32 = 64;

/// One lane of a worker.
pub(crate) struct Lane<H> {
    ctx: Arc<Context>,
    partitions: Arc<[Arc<Partition>]>,
    lane: usize,
    batches: BatchHandler<H>,
    batch_size: LaneBatchSize,
    /// The lane's slots in each partition in which it has claimed.
    slots: Vec<Option<Box<LaneSlots>>>,
}

/// The slots of a lane in one partition.
struct LaneSlots {
    /// The slot that is never idle while the lane works.
    first: LaneSlot,
    /// The slots that claim ahead.
    ahead: Vec<LaneSlot>,
}

impl LaneSlots {
    fn new(partition: &Arc<Partition>, lane: usize, batch_size: &LaneBatchSize) -> Self {
        let slot = |part: String, alone| LaneSlot {
            partition: Arc::clone(partition),
            slot: Slot::new(partition.store.node(), part),
            numbers: ClaimNumbers::default(),
            batch_size: batch_size.clone(),
            alone,
        };
        let ahead = match partition.config.durability {
            Durability::Replicas(_) => CONFIRMED_AHEAD,
            _ => AHEAD,
        };
        Self {
            first: slot(lane.to_string(), true),
            ahead: (1..=ahead)
                .map(|nth| slot(format!("{lane}+{nth}"), false))
                .collect(),
        }
    }
}

impl<H: Handler> Lane<H> {
    pub(crate) fn new(
        ctx: &Arc<Context>,
        partitions: &Arc<[Arc<Partition>]>,
        handler: Arc<H>,
        lane: usize,
    ) -> Self {
        let batch_size = LaneBatchSize::new(ctx);
        Self {
            partitions: Arc::clone(partitions),
            lane,
            batches: BatchHandler::new(Arc::clone(ctx), handler, batch_size.clone()),
            ctx: Arc::clone(ctx),
            batch_size,
            slots: partitions.iter().map(|_| None).collect(),
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

    /// Works in all partitions until the lane is interrupted.
    async fn work(&mut self) -> Result<(), Error> {
        while !self.ctx.interrupted() {
            let ring = match self.ctx.rung.look() {
                Look::At(partition) => Ring {
                    partition,
                    handed: None,
                },
                Look::Sleep(woken) => match self.sleep(woken).await {
                    Some(ring) => ring,
                    None => continue,
                },
            };
            self.work_at(ring).await?;
        }
        Ok(())
    }

    /// Sleeps until a partition rings. None if the lane is interrupted.
    async fn sleep(&self, mut woken: oneshot::Receiver<Ring>) -> Option<Ring> {
        tokio::select! {
            biased;
            ring = &mut woken => return ring.ok(),
            () = self.ctx.stopped() => {}
            () = self.ctx.role_is(|role| !role.works()) => {}
        }
        woken.close();
        let ring = woken.try_recv().ok()?;
        if !self.ctx.interrupted() {
            return Some(ring);
        }
        // The ring came at the last moment: another node hears it.
        self.partitions[ring.partition].pass_on(ring.handed).await;
        None
    }

    /// Works in one partition until no message is left there, or another one has waited long enough.
    async fn work_at(&mut self, Ring { partition, handed }: Ring) -> Result<(), Error> {
        let mut slots = self.take_slots(partition);
        let worked = self.stay_with(&mut slots, partition, handed).await;
        self.slots[partition] = Some(slots);
        worked
    }

    fn take_slots(&mut self, index: usize) -> Box<LaneSlots> {
        let new = || LaneSlots::new(&self.partitions[index], self.lane, &self.batch_size);
        let slots = self.slots[index].take();
        slots.unwrap_or_else(|| Box::new(new()))
    }

    /// Works in one partition, beginning with the messages that the lane was woken with.
    async fn stay_with(
        &self,
        slots: &mut LaneSlots,
        index: usize,
        handed: Option<Handed>,
    ) -> Result<(), Error> {
        let (mut claims_in_a_row, mut claims) = (0, 0);
        let mut next = match handed {
            Some(handed) => slots.first.hold_handed(handed).await?,
            None => slots.first.claim_rung().await?,
        };
        while let Some(held) = next {
            claims += 1;
            let stays = claims < CLAIMS_OF_A_STAY || !self.ctx.rung.is_another_loud(index);
            next = self
                .handle(slots, held, &mut claims_in_a_row, stays)
                .await?;
            if !stays && next.is_none() {
                self.ctx.rung.set_loud(index);
                return Ok(());
            }
        }
        if self.ctx.interrupted() {
            self.ctx.rung.set_loud(index);
        }
        Ok(())
    }

    /// Handles a claim, and returns the next one if the lane stays.
    async fn handle(
        &self,
        slots: &mut LaneSlots,
        mut held: HeldClaim,
        claims_in_a_row: &mut u32,
        stays: bool,
    ) -> Result<Option<HeldClaim>, Error> {
        *claims_in_a_row += 1;
        if stays && *claims_in_a_row >= CLAIMS_OF_A_BACKLOG && self.may_claim_ahead(&held) {
            *claims_in_a_row = 0;
            // Boxed: an idle lane has no memory for it.
            return Box::pin(self.work_with_all(slots, held)).await;
        }
        // When the lane is interrupted, it gives back what it has not begun.
        let batch = self.batches.handle(&slots.first, &mut held, false).await?;
        self.end(slots, &held, batch, stays).await
    }

    /// Ends a claim, and returns the next one if the lane stays. If the handler cannot work, the lane
    /// pauses before it claims again.
    async fn end(
        &self,
        slots: &mut LaneSlots,
        held: &HeldClaim,
        Handled {
            outcomes,
            unavailable,
        }: Handled,
        stays: bool,
    ) -> Result<Option<HeldClaim>, Error> {
        let claims = stays && !unavailable;
        let next = slots.first.end(held, &outcomes, claims).await?;
        if !unavailable {
            return Ok(next);
        }
        self.batches.pause().await;
        self.claim_anew(slots).await
    }

    async fn claim_anew(&self, slots: &mut LaneSlots) -> Result<Option<HeldClaim>, Error> {
        match self.ctx.interrupted() {
            true => Ok(None),
            false => slots.first.claim(None).await,
        }
    }

    /// Whether the other slots may claim while the lane handles this batch. A lane that may die of
    /// its messages holds no others.
    fn may_claim_ahead(&self, held: &HeldClaim) -> bool {
        held.range.returns == 0 && self.batch_size.get().is_quick()
    }

    /// Works with all slots, beginning with a claim of the first. Returns when messages run out,
    /// the handler is no longer quick, or the lane is interrupted; with the first slot's next claim.
    async fn work_with_all(
        &self,
        slots: &mut LaneSlots,
        held: HeldClaim,
    ) -> Result<Option<HeldClaim>, Error> {
        slots.first.alone = false;
        let turns = Turns::new(&self.batches, Arc::clone(&slots.first.partition));
        let ahead = slots.ahead.iter_mut().map(|slot| turns.work_ahead(slot));
        let (next, _) = tokio::try_join!(
            turns.work_first(&mut slots.first, held),
            futures_util::future::try_join_all(ahead),
        )?;
        let unavailable = turns.unavailable.into_inner();
        slots.first.alone = true;
        if unavailable {
            self.batches.pause().await;
        }
        match next {
            // Messages may wait that a worker may have died with. A slot alone may claim them.
            None => self.claim_anew(slots).await,
            next => Ok(next),
        }
    }
}

/// The slots of a lane take turns: the lane handles one batch at a time.
struct Turns<'a, H> {
    batches: &'a BatchHandler<H>,
    partition: Arc<Partition>,
    /// Batches that the slots have begun.
    begun: AtomicU32,
    turn: Mutex<()>,
    /// Whether all slots work.
    all: AtomicBool,
    /// Whether the handler cannot work.
    unavailable: AtomicBool,
}

impl<'a, H: Handler> Turns<'a, H> {
    fn new(batches: &'a BatchHandler<H>, partition: Arc<Partition>) -> Self {
        Self {
            batches,
            partition,
            begun: AtomicU32::new(0),
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
        self.all.load(Ordering::Relaxed)
            && self.batches.batch_size.get().is_quick()
            && !self.is_stay_over()
    }

    /// Whether the lane has been here for long, and another partition is loud.
    fn is_stay_over(&self) -> bool {
        let begun = self.begun.load(Ordering::Relaxed);
        begun >= BATCHES_OF_A_STAY && self.partition.rung.is_another_loud(self.partition.index())
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
        self.begun.fetch_add(1, Ordering::Relaxed);
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
        slot.drop_claim(&held.slot, held.number).await?;
        Ok(None)
    }
}
