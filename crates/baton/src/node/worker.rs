//! The worker: each of its lanes claims messages, handles them one by one and commits.
//!
//! A lane claims about as many messages as it handles in 40 ms ([`BatchSize`]). When they take
//! longer, it commits what it has handled and gives back the rest, so that no lane idles while
//! another holds messages that it has not begun. In the steady case the commit and the next claim
//! share one round trip. While its handler is quick and messages wait, a lane works with two slots:
//! one has its next messages on the way while the lane handles those of the other. Where a commit has
//! to wait for replicas, it works with eight.
//!
//! `lane` is a lane's loop. `batch` handles what a claim holds, `commit` ends it. Here is how a slot
//! claims.

mod batch;
mod claim;
mod commit;
mod lane;
mod message_span;
pub(crate) mod refused_messages;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use baton_protocol::{
    Claim, ClaimCall, ClaimedPack, GiveBack, Handed, OwnedPack, Range, Slot, crash,
};
use tokio::sync::OwnedMutexGuard;
use tokio::time::Instant;

use self::claim::{Answered, Asked, ClaimNumbers, HeldClaim};
pub(crate) use self::lane::Lane;
use crate::node::batch_size::BatchSize;
use crate::node::context::Context;
use crate::node::pack_cache::PackId;
use crate::node::partition::Partition;
use crate::{Error, Part};

/// How long a lane goes on after the node was told to stop.
pub(crate) const STOP_GRACE: Duration = Duration::from_secs(5);
/// Pause after a claim that cannot be given back.
const LANE_PAUSE: Duration = Duration::from_millis(100);

/// The batch size of a lane, for both its slots.
#[derive(Clone)]
struct LaneBatchSize(Arc<Mutex<BatchSize>>);

impl LaneBatchSize {
    fn new(ctx: &Context) -> Self {
        let known = Arc::clone(&ctx.handling);
        Self(Arc::new(Mutex::new(BatchSize::new(known))))
    }

    fn get(&self) -> MutexGuard<'_, BatchSize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One slot of a lane. It holds at most one claim at a time.
struct LaneSlot {
    partition: Arc<Partition>,
    slot: Slot,
    numbers: ClaimNumbers,
    batch_size: LaneBatchSize,
    /// Whether the lane's other slots hold no claim.
    alone: bool,
}

impl LaneSlot {
    /// Claims until Redis gives messages or has none. `answer` is the answer to a first call.
    async fn claim(&mut self, mut answer: Option<Answered>) -> Result<Option<HeldClaim>, Error> {
        loop {
            let answered = match answer.take() {
                Some(answered) => answered,
                None => match self.ask(None).await? {
                    Some(answered) => answered,
                    None => return Ok(None),
                },
            };
            match answered.claim {
                Claim::Empty => {
                    self.partition.note_pause(Part::Workers, false);
                    return Ok(None);
                }
                Claim::Paused => {
                    self.partition.note_pause(Part::Workers, true);
                    return Ok(None);
                }
                Claim::Claimed { range, pack } => {
                    self.partition.note_pause(Part::Workers, false);
                    let held = self.hold(range, pack, answered.asked).await?;
                    if held.is_some() {
                        return Ok(held);
                    }
                }
                // A late twin of an earlier call used up the number.
                Claim::Stale => self.numbers.use_up(self.numbers.next()),
                Claim::Held { number } => self.give_back_unknown(number).await?,
            }
            if self.partition.stopping() {
                return Ok(None);
            }
        }
    }

    /// Claims for a lane that had nothing to do.
    async fn claim_rung(&mut self) -> Result<Option<HeldClaim>, Error> {
        let sleepers = self.partition.rung.sleepers();
        match self.ask(Some(sleepers)).await? {
            Some(answered) => self.claim(Some(answered)).await,
            None => Ok(None),
        }
    }

    /// Sends a claim. None if it is not answered: then the lane looks elsewhere. `sleepers` is for a lane
    /// that had nothing to do: how many others still have not.
    async fn ask(&mut self, sleepers: Option<usize>) -> Result<Option<Answered>, Error> {
        let (asked, store) = (self.asked_now(), &self.partition.store);
        let claim = match sleepers {
            Some(sleepers) => store.claim_awake(self.call(), sleepers).await,
            None => store.claim(self.call()).await,
        };
        let answered = self.look_elsewhere_after(claim)?;
        if answered.is_some() {
            self.measure_answer(asked.at);
        }
        Ok(answered.map(|claim| Answered { claim, asked }))
    }

    /// A lane does not wait for a partition whose server does not answer. A lane looks there again when it
    /// may.
    fn look_elsewhere_after<T>(&self, answer: Result<T, Error>) -> Result<Option<T>, Error> {
        match answer {
            Ok(answer) => Ok(Some(answer)),
            Err(error) if error.is_transient() => {
                let partition = Arc::clone(&self.partition);
                tokio::spawn(async move {
                    tokio::select! {
                        () = partition.pause_after(&error) => {
                            partition.rung.set_loud(partition.index());
                        }
                        () = partition.stopped() => {}
                    }
                });
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Notes how long Redis took to answer a claim. A lane that works with all slots hears the
    /// answer when it has handled another batch, so that says nothing about Redis.
    fn measure_answer(&self, asked_at: Instant) {
        if self.alone {
            self.batch_size.get().answered(asked_at.elapsed());
        }
    }

    fn asked_now(&self) -> Asked {
        Asked {
            run_id: self.partition.store.run_id(),
            at: Instant::now(),
        }
    }

    fn call(&self) -> ClaimCall<'_> {
        ClaimCall {
            slot: &self.slot,
            number: self.numbers.next(),
            want: self.batch_size.get().want(),
            ttl: self.partition.config.claim_ttl,
            alone: self.alone,
        }
    }

    /// Takes what a claim brought. None if the pack cannot be had: then the claim is lost, or the
    /// next claim finds out that its pack is missing.
    async fn hold(
        &mut self,
        range: Range,
        pack: ClaimedPack,
        asked: Asked,
    ) -> Result<Option<HeldClaim>, Error> {
        crash::point("after-claim");
        let number = self.numbers.next();
        self.numbers.use_up(number);
        let slot = self.slot.clone();
        self.partition.held_claims.insert(&slot, number, asked.at);
        // More messages may wait.
        self.partition.wake_lane();
        let pack = self.pack_claimed_at(asked.run_id, range, pack).await?;
        self.held(slot, number, range, pack, None).await
    }

    /// A claim whose pack is there; else the slot gives it back.
    async fn held(
        &self,
        slot: Slot,
        number: u64,
        range: Range,
        pack: Option<Arc<OwnedPack>>,
        turn: Option<OwnedMutexGuard<()>>,
    ) -> Result<Option<HeldClaim>, Error> {
        let Some(pack) = pack else {
            self.drop_claim(&slot, number).await?;
            return Ok(None);
        };
        Ok(Some(HeldClaim {
            slot,
            number,
            range,
            pack,
            _turn: turn,
        }))
    }

    /// Takes messages that Redis has claimed for this node.
    async fn hold_handed(&self, handed: Handed) -> Result<Option<HeldClaim>, Error> {
        crash::point("after-claim");
        let Handed {
            number,
            range,
            pack,
            run_id,
        } = handed;
        let Some(turn) = self.partition.handed_turn().await else {
            return Ok(None);
        };
        let slot = Slot::handed(self.partition.store.node());
        let held_claims = &self.partition.held_claims;
        held_claims.insert(&slot, number, Instant::now());
        self.partition.note_pause(Part::Workers, false);
        let pack = self.pack_claimed_at(run_id, range, pack).await?;
        self.held(slot, number, range, pack, Some(turn)).await
    }

    /// Gives back what a claim still holds, and holds it no longer.
    async fn drop_claim(&self, slot: &Slot, number: u64) -> Result<(), Error> {
        self.give_back(slot, number).await?;
        self.partition.held_claims.remove(slot);
        Ok(())
    }

    /// The pack of a claim that was made at the server process `run_id`. If the node is at another one now, the
    /// claim may have run there, where the same number may have another text: such a claim shares no pack.
    async fn pack_claimed_at(
        &self,
        run_id: String,
        range: Range,
        pack: ClaimedPack,
    ) -> Result<Option<Arc<OwnedPack>>, Error> {
        let run_id = match self.partition.store.run_id() == run_id {
            true => run_id,
            false => baton_protocol::new_name(),
        };
        self.pack_of(range, pack, run_id).await
    }

    /// The pack of a claim: as it came, or read, and once for all lanes if they share it. None if
    /// Redis does not have it, or if the node stops before it comes.
    async fn pack_of(
        &self,
        range: Range,
        pack: ClaimedPack,
        run_id: String,
    ) -> Result<Option<Arc<OwnedPack>>, Error> {
        let first = range.pack;
        let Partition { store, packs, .. } = &*self.partition;
        let born = match pack {
            ClaimedPack::Sent(bytes) => return Ok(Some(Arc::new(OwnedPack::new(bytes)))),
            ClaimedPack::Whole => {
                let bytes = self.insist(|| store.pack(first)).await?.flatten();
                return Ok(bytes.map(|bytes| Arc::new(OwnedPack::new(bytes))));
            }
            ClaimedPack::Part { born } => born,
        };
        let id = PackId {
            run_id,
            born,
            first,
        };
        let read = || packs.get(&id, store.pack(first));
        Ok(self.insist(read).await?.flatten())
    }

    /// Gives back what a claim still holds.
    async fn give_back(&self, slot: &Slot, number: u64) -> Result<(), Error> {
        let give_back = || self.partition.store.give_back(slot, number);
        // A claim that is lost holds nothing.
        let (Some(GiveBack::Ok | GiveBack::Lost) | None) = self.insist(give_back).await?;
        self.partition.wake_lane();
        Ok(())
    }

    /// Gives back a claim whose first message the handler refused. That message goes to the end of
    /// the queue: another one may show that the handler works.
    async fn give_back_refused(&self, held: &HeldClaim, refused: u64) -> Result<(), Error> {
        let (store, slot, number) = (&self.partition.store, &held.slot, held.number);
        if refused < held.range.last {
            let give_back = || store.give_back_after(slot, number, refused);
            let (Some(GiveBack::Ok | GiveBack::Lost) | None) = self.insist(give_back).await?;
        }
        let give_back = || store.give_back_last(slot, number);
        let (Some(GiveBack::Ok | GiveBack::Lost) | None) = self.insist(give_back).await?;
        self.partition.wake_lane();
        Ok(())
    }

    /// Gives back the messages of a claim behind `keep`.
    async fn give_back_after(&self, held: &mut HeldClaim, keep: u64) -> Result<(), Error> {
        if keep == held.range.last {
            return Ok(());
        }
        crash::point("before-give-back");
        let give_back = || {
            let store = &self.partition.store;
            store.give_back_after(&held.slot, held.number, keep)
        };
        let answer = self.insist(give_back).await?;
        // The commit of a claim that is lost finds that out.
        if let Some(GiveBack::Ok | GiveBack::Lost) = answer {
            held.range.last = keep;
            crash::point("after-give-back");
        }
        Ok(())
    }

    /// Gives back a claim of this slot that the lane does not know: a late twin of an earlier call
    /// took messages.
    async fn give_back_unknown(&mut self, number: u64) -> Result<(), Error> {
        self.numbers.use_up(number);
        match self.partition.store.give_back(&self.slot, number).await {
            Ok(GiveBack::Ok) => Ok(()),
            // Not a claim that a script of ours wrote: a reclaim removes it at its deadline.
            Ok(GiveBack::Lost) => {
                tokio::time::sleep(LANE_PAUSE).await;
                Ok(())
            }
            Err(error) if error.is_transient() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Repeats a call until Redis answers. None if the node has been stopping for too long.
    async fn insist<T, F: Future<Output = Result<T, Error>>>(
        &self,
        call: impl Fn() -> F,
    ) -> Result<Option<T>, Error> {
        loop {
            match call().await {
                Ok(answer) => return Ok(Some(answer)),
                Err(error) if error.is_transient() => {
                    if !self.may_retry_after(&error).await {
                        return Ok(None);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits until a call may be repeated. False if the node has been stopping for too long.
    async fn may_retry_after(&self, error: &Error) -> bool {
        tokio::select! {
            biased;
            () = self.partition.stopped_for(STOP_GRACE) => false,
            () = self.partition.pause_after(error) => true,
        }
    }
}
