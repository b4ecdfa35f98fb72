//! The worker's work: each lane claims messages, handles them one by one and commits.
//!
//! A lane takes about a slice of work at a time ([`Pace`]), judged by its own measured handling
//! time. When that lasts longer, the lane commits what it has handled and gives back the rest,
//! so that nobody is idle while another sits on work. In the steady case the
//! commit and the next claim share one round trip.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::Instant;

use crate::node::bell::Bell;
use crate::node::context::{Context, Role};
use crate::node::held::Held;
use crate::node::pace::Pace;
use crate::node::pack_cache::PackId;
use crate::{Effects, Error, Event, Handler, Message, Rejected};
use baton_protocol::OwnedPack;
use baton_protocol::outcome::{Ended, Outcomes};
use baton_protocol::{Claim, ClaimCall, ClaimedPack, Commit, GiveBack, Slot};
use baton_protocol::{Digest, Range, crash};

/// How long a lane may go on when the node is to stop.
const STOP_GRACE: Duration = Duration::from_secs(5);
/// Pause after a sleep that failed, or a claim that cannot be given back.
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// After how many messages that took no time a lane looks at the clock.
const LOOK_EVERY: u64 = 16;
/// Pause before a commit is repeated for which the errors store had no room.
const FULL_PAUSE: Duration = Duration::from_millis(500);

/// One lane of a worker.
pub(crate) struct Lane<H> {
    ctx: Arc<Context>,
    handler: Arc<H>,
    bell: Arc<Bell>,
    slot: Slot,
    /// Number of the claim that is held or was asked for last.
    number: u64,
    pace: Pace,
    /// The run of the server when the last claim was sent. The answer may be read much later.
    asked: String,
    /// Messages of the claim at hand that failed because their effects were refused.
    refused: Vec<u64>,
}

impl<H: Handler> Lane<H> {
    pub(crate) fn new(ctx: Arc<Context>, handler: Arc<H>, bell: Arc<Bell>, lane: usize) -> Self {
        let slot = Slot::new(ctx.store.node(), lane);
        Self {
            ctx,
            handler,
            bell,
            slot,
            number: 0,
            pace: Pace::default(),
            asked: String::new(),
            refused: Vec::new(),
        }
    }

    /// Works whenever this node is a worker, until it stops.
    pub(crate) async fn run(mut self) -> Result<(), Error> {
        loop {
            tokio::select! {
                biased;
                () = self.ctx.stopped() => return Ok(()),
                () = self.ctx.role_is(|role| role == Role::Worker) => {}
            }
            self.number += 1;
            let mut held = self.claim().await?;
            loop {
                held = match held {
                    // When interrupted, this gives back what was not begun.
                    Some(holding) => {
                        let outcomes = self.handle(&holding).await;
                        self.settle(&holding, outcomes).await?
                    }
                    None if self.interrupted() => break,
                    None => self.sleep().await?,
                };
            }
        }
    }

    /// Sleeps until the bell rings or it is time to look, and claims under the current
    /// number: a claim that found nothing has not used it up.
    async fn sleep(&mut self) -> Result<Option<Held>, Error> {
        let sent = self.about_to_ask();
        let (ctx, bell) = (Arc::clone(&self.ctx), Arc::clone(&self.bell));
        let answer = tokio::select! {
            answer = bell.wait(&ctx, self.call()) => answer,
            () = ctx.stopped() => {
                // The claim that was sent ahead may have met a token on its way out.
                self.give_back().await?;
                return Ok(None);
            }
        };
        match answer {
            Ok(claim) => self.accept(claim, sent).await,
            Err(error) if error.is_transient() => {
                // It may be the second connection alone that fails.
                tokio::time::sleep(RETRY_PAUSE).await;
                match self.patience(&error).await {
                    Some(()) => self.claim().await,
                    None => Ok(None),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Claims under the current number, repeating the call until it is answered.
    async fn claim(&mut self) -> Result<Option<Held>, Error> {
        loop {
            let sent = self.about_to_ask();
            match self.ask().await {
                Ok(claim) => {
                    self.pace.answered(sent.elapsed());
                    return self.accept(claim, sent).await;
                }
                Err(error) if error.is_transient() => {
                    if self.patience(&error).await.is_none() {
                        return Ok(None);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Notes when, and which run of the server, is asked.
    fn about_to_ask(&mut self) -> Instant {
        self.asked = self.ctx.store.link().run();
        Instant::now()
    }

    async fn ask(&self) -> Result<Claim, Error> {
        self.ctx.store.claim(self.call()).await
    }

    fn call(&self) -> ClaimCall<'_> {
        ClaimCall {
            slot: &self.slot,
            number: self.number,
            want: self.pace.want(),
            ttl: self.ctx.config.claim_ttl,
        }
    }

    /// Takes the answer to a claim; asks again under a new number if it was no answer to this.
    async fn accept(&mut self, claim: Claim, sent: Instant) -> Result<Option<Held>, Error> {
        match claim {
            Claim::Claimed { range, pack } => {
                crash::point("after-claim");
                let name = self.slot.name().to_owned();
                let in_hand = (self.slot.clone(), self.number, sent);
                self.ctx.in_hand().insert(name, in_hand);
                if let Some(pack) = self.pack_of(range, pack).await? {
                    return Ok(Some(Held { range, pack }));
                }
                // The claim was lost meanwhile, or the pack is missing: then the next claim
                // finds that out.
                self.give_back().await?;
                self.let_go();
                self.number += 1;
            }
            Claim::Empty => return Ok(None),
            // A late twin of an earlier call got ahead of this one.
            Claim::Stale => self.number += 1,
            Claim::Held { number } => {
                self.number = self.number.max(number + 1);
                match self.ctx.store.give_back(&self.slot, number).await {
                    Ok(GiveBack::Ok) => {}
                    // Not a claim that a script of ours wrote: wait for somebody to look.
                    Ok(GiveBack::Lost) => tokio::time::sleep(RETRY_PAUSE).await,
                    Err(error) if error.is_transient() => {}
                    Err(error) => return Err(error),
                }
            }
        }
        if self.ctx.stopping() {
            return Ok(None);
        }
        Box::pin(self.claim()).await
    }

    /// The pack of a claim: as it came, or read for all lanes. None if it is not there, or if
    /// the node stops before it is.
    async fn pack_of(
        &self,
        range: Range,
        pack: ClaimedPack,
    ) -> Result<Option<Arc<OwnedPack>>, Error> {
        let born = match pack {
            ClaimedPack::Sent(bytes) => return Ok(Some(Arc::new(OwnedPack::new(bytes)))),
            ClaimedPack::Kept { born } => born,
        };
        let id = PackId {
            run: self.asked.clone(),
            born,
            first: range.pack,
        };
        let Context { store, packs, .. } = &*self.ctx;
        loop {
            match packs.get(&id, store.pack(&id.born, id.first)).await {
                Ok(pack) => return Ok(pack),
                Err(error) if error.is_transient() => {
                    if self.patience(&error).await.is_none() {
                        return Ok(None);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Handles what is held, message by message, for about a slice.
    async fn handle(&mut self, held: &Held) -> Outcomes {
        let Range {
            pack: base,
            first,
            last,
            returns,
            ..
        } = held.range;
        let node = self.ctx.store.node();
        let mut outcomes = Outcomes::new(node, first, returns + 1);
        outcomes.digest = self.ctx.config.audit.then(Digest::default);
        let Some(at_ms) = held
            .pack
            .at_ms()
            .filter(|_| last - base < held.pack.count())
        else {
            outcomes.fail_unreadable(last, held.pack.bytes(), self.ctx.clock.now_ms());
            return outcomes;
        };
        outcomes.published_ms = Some(at_ms);
        let began = Instant::now();
        // Locks and clocks cost more than a quick handler: such a one is asked about now and
        // then, one that waited or is slow after every message.
        let slow = self.pace.is_slow();
        let mut look = true;
        for seq in first..=last {
            let text = held.text(seq);
            if (look || slow || (seq - first).is_multiple_of(LOOK_EVERY))
                && (self.interrupted()
                    || self
                        .pace
                        .is_over(began.elapsed(), seq - first, last - seq + 1))
            {
                break;
            }
            if seq > first {
                crash::point("mid-handling");
            }
            let message = Message {
                seq,
                at_ms,
                attempt: returns + 1,
                text,
            };
            let mut effects = Effects::default();
            let Some((ended, waited)) = self.handle_one(message, &mut effects).await else {
                break;
            };
            look = waited;
            match ended {
                Ok(()) => outcomes.done(effects),
                Err(rejected) => {
                    outcomes.failed(rejected.reason(), text, self.ctx.clock.now_ms());
                }
            }
            if let Some(digest) = &mut outcomes.digest {
                digest.add(seq - base, text);
            }
        }
        let (count, took) = (outcomes.count(), began.elapsed());
        self.pace.measure(count, took);
        if let Ok(handled @ 1..) = u32::try_from(count) {
            self.ctx.meter.handled(took / handled, count);
        }
        outcomes
    }

    /// Runs the handler; says also whether it had to wait. `None` when the node stops and the
    /// handler does not end in time.
    async fn handle_one(
        &self,
        message: Message<'_>,
        effects: &mut Effects,
    ) -> Option<(Result<(), Rejected>, bool)> {
        let handling = AssertUnwindSafe(self.handler.handle(message, effects)).catch_unwind();
        let mut handling = std::pin::pin!(handling);
        let first_poll = std::future::poll_fn(|cx| Poll::Ready(handling.as_mut().poll(cx))).await;
        let waited = first_poll.is_pending();
        let ended = match first_poll {
            Poll::Ready(ended) => ended,
            Poll::Pending => tokio::select! {
                ended = handling => ended,
                () = self.out_of_time() => return None,
            },
        };
        let ended = ended.unwrap_or_else(|_| Err("the handler panicked".into()));
        Some((ended, waited))
    }

    async fn out_of_time(&self) {
        self.ctx.stopped_for(STOP_GRACE).await;
    }

    /// Whether the lane should rather stop: the node does, or has become the generator.
    fn interrupted(&self) -> bool {
        self.ctx.stopping() || self.ctx.role.borrow().epoch().is_some()
    }

    /// Commits, gives back what was not handled, and claims the next messages if there are
    /// to be any.
    async fn settle(&mut self, held: &Held, outcomes: Outcomes) -> Result<Option<Held>, Error> {
        let whole = outcomes.last() == held.range.last;
        if outcomes.count() > 0 {
            crash::point("before-commit");
        }
        if whole && !self.interrupted() {
            return self.commit_and_claim(held, &outcomes).await;
        }
        let mut committed = Ended::Kept;
        if outcomes.count() > 0 {
            committed = self.commit(held, &outcomes, None).await?;
            self.tell(&outcomes, committed);
        }
        if !whole && committed == Ended::Kept {
            crash::point("before-give-back");
            self.give_back().await?;
            crash::point("after-give-back");
        }
        self.let_go();
        if self.interrupted() {
            return Ok(None);
        }
        self.number += 1;
        self.claim().await
    }

    /// Commit and next claim in one round trip. If the commit has to be repeated, the claim
    /// that overtook it was answered *held* and is repeated after it.
    async fn commit_and_claim(
        &mut self,
        held: &Held,
        outcomes: &Outcomes,
    ) -> Result<Option<Held>, Error> {
        let number = self.number;
        let sent = self.about_to_ask();
        let next = ClaimCall {
            number: number + 1,
            ..self.call()
        };
        let call = outcomes.call(self.ctx.config.max_errors);
        let store = &self.ctx.store;
        let both = store.commit_and_claim(&self.slot, number, call, next).await;
        let (commit, claim) = match both {
            Ok((commit, claim)) => {
                self.pace.answered(sent.elapsed());
                (commit, Some(claim))
            }
            Err(error) => (Err(error), None),
        };
        let settled = matches!(commit, Ok(Commit::Done | Commit::Already | Commit::Lost));
        let ended = self.commit(held, outcomes, Some(commit)).await?;
        self.tell(outcomes, ended);
        self.let_go();
        self.number += 1;
        match claim {
            // It overtook the commit, whose script the server had to be sent first.
            Some(Ok(Claim::Held { number: held })) if held == number => self.claim().await,
            Some(Ok(claim)) if settled => self.accept(claim, sent).await,
            _ => self.claim().await,
        }
    }

    /// Commits all outcomes, repeating the call until it is answered. `answer` is the answer
    /// to a first try.
    async fn commit(
        &mut self,
        held: &Held,
        outcomes: &Outcomes,
        mut answer: Option<Result<Commit, Error>>,
    ) -> Result<Ended, Error> {
        let mut warned = false;
        loop {
            let max_errors = self.ctx.config.max_errors;
            let answered = match answer.take() {
                Some(answered) => answered,
                None => {
                    let call = outcomes.call(max_errors);
                    self.ctx.store.commit(&self.slot, self.number, call).await
                }
            };
            // An effect on a key that the user may not touch is refused before the script runs.
            let answered = match answered {
                Err(Error::Refused(reason)) if outcomes.has_effects() => {
                    Ok(Commit::Refused { reason })
                }
                answered => answered,
            };
            match answered {
                Ok(Commit::Done | Commit::Already) => return Ok(Ended::Kept),
                Ok(Commit::Lost) => return Ok(Ended::Lost),
                Ok(Commit::Refused { .. }) if outcomes.count() > 1 => {
                    return self.commit_one_by_one(held, outcomes).await;
                }
                Ok(Commit::Refused { reason }) => {
                    self.refused.push(outcomes.first());
                    let text = held.text(outcomes.first());
                    let failed = outcomes.refused(&reason, text, self.ctx.clock.now_ms());
                    return Box::pin(self.commit(held, &failed, None)).await;
                }
                Ok(Commit::Full { records }) => {
                    if !std::mem::replace(&mut warned, true) {
                        self.ctx.emit(Event::Warning {
                            text: format!(
                                "the errors store is full ({records} failed messages): take them \
                                 with `baton getErrors`, or raise --max-errors"
                            ),
                        });
                    }
                    if self.ctx.stopping() {
                        self.give_back().await?;
                        return Ok(Ended::Lost);
                    }
                    tokio::time::sleep(FULL_PAUSE).await;
                }
                Err(error) if error.is_transient() => {
                    if self.patience(&error).await.is_none() {
                        return Ok(Ended::Lost);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// An effect was refused: the message it belongs to fails, its neighbours do not.
    async fn commit_one_by_one(
        &mut self,
        held: &Held,
        outcomes: &Outcomes,
    ) -> Result<Ended, Error> {
        for mut single in outcomes.singles() {
            if self.ctx.config.audit {
                let seq = single.first();
                single.digest = Some(Digest::of(seq - held.range.pack, held.text(seq)));
            }
            if Box::pin(self.commit(held, &single, None)).await? == Ended::Lost {
                return Ok(Ended::Lost);
            }
        }
        Ok(Ended::Kept)
    }

    async fn give_back(&mut self) -> Result<(), Error> {
        loop {
            match self.ctx.store.give_back(&self.slot, self.number).await {
                Ok(GiveBack::Ok | GiveBack::Lost) => return Ok(()),
                Err(error) if error.is_transient() => {
                    if self.patience(&error).await.is_none() {
                        return Ok(());
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits until a call may be repeated; `None` when the node has been stopping for too long.
    async fn patience(&self, error: &Error) -> Option<()> {
        tokio::select! {
            () = self.ctx.pause_after(error) => Some(()),
            () = self.out_of_time() => None,
        }
    }

    fn let_go(&self) {
        self.ctx.in_hand().remove(self.slot.name());
    }

    /// Tells what became of the messages.
    fn tell(&mut self, outcomes: &Outcomes, ended: Ended) {
        let (first, last) = (outcomes.first(), outcomes.last());
        let mut failed = outcomes.failed_numbers();
        failed.append(&mut self.refused);
        failed.sort_unstable();
        match ended {
            Ended::Kept => {
                crash::point("after-commit");
                let meter = &self.ctx.meter;
                meter.has_processed(outcomes.count(), failed.len() as u64);
                if let Some(at_ms) = outcomes.published_ms {
                    let ms = self.ctx.clock.now_ms().saturating_sub(at_ms);
                    meter.took(Duration::from_millis(ms), outcomes.count());
                }
                self.ctx.emit(Event::Processed {
                    first,
                    last,
                    failed,
                    attempt: outcomes.attempt(),
                });
            }
            Ended::Lost => {
                self.ctx.meter.has_lost(outcomes.count());
                self.ctx.emit(Event::Lost { first, last });
            }
        }
    }
}
