//! The generator: it seals, asks its source for messages, and publishes them.
//!
//! Packs go out in order, a few at a time. The generator keeps a pack that Redis has not answered
//! and sends it again unchanged, so that an *already* tells what became of it. It keeps a confirmed
//! pack a little longer, so that a server that lost its last writes gets them again.
//!
//! Here is a reign: when it begins, what it sends and how it ends. `publish` reads the answers,
//! `supply` gets messages from the source, `lead` keeps the generator near its workers.

mod lead;
mod publish;
mod supply;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use baton_protocol::{Publish, Seal, crash};
use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use tokio::time::Instant;

use self::lead::Lead;
use self::supply::Supply;
use crate::node::context::{Context, Role};
use crate::node::outbox::{Kept, Outbox, Prepared};
use crate::node::source_task::SourceTask;
use crate::node::warning::Warning;
use crate::{Durability, Error, Event, Part, Source};

/// Max packs under way at once.
const WINDOW: usize = 8;
/// The same, where an answer has to wait for replicas.
const CONFIRMED_WINDOW: usize = 32;
/// Shortest time between two warnings of one kind.
const WARN_EVERY: Duration = Duration::from_secs(10);
/// How long a source has to release everything when its node stops.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Generates whenever this node holds the lease, until it stops.
pub(crate) async fn run<S: Source>(ctx: &Arc<Context>, source: S) -> Result<(), Error> {
    let mut source = SourceTask::start(source, Arc::clone(&ctx.clock));
    let ended = reign_until_stopped(ctx, &mut source).await;
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, source.end()).await;
    ended
}

async fn reign_until_stopped(ctx: &Arc<Context>, source: &mut SourceTask) -> Result<(), Error> {
    let mut kept = None;
    loop {
        tokio::select! {
            biased;
            () = ctx.stopped() => return Ok(()),
            () = ctx.role_is(|role| role.epoch().is_some()) => {}
            // Another node generates. What it publishes may be what this node's source made.
            () = ctx.role_is(|role| role == Role::Worker), if kept.is_some() => {
                kept = None;
            }
        }
        let Some(epoch) = ctx.role.borrow().epoch() else {
            continue;
        };
        let mut reign = Reign::new(ctx, source, epoch, kept.take());
        let end = reign.run().await?;
        reign.supply.end(ctx);
        let gave_up = reign.supply.gave_up().map(str::to_owned);
        kept = Some(reign.outbox.into_kept(epoch));
        let fenced = match end {
            End::Stopped => return Ok(()),
            End::SourceGaveUp => {
                let _ = ctx.source_trouble.set(gave_up.unwrap_or_default());
                ctx.beat_now.notify_one();
                // The election gives up the lease with its next beat.
                ctx.stopped().await;
                return Ok(());
            }
            End::Reopen => None,
            End::Lapsed => Some((None, epoch)),
            End::Fenced { node, epoch } => {
                Some((Some(node).filter(|node| !node.is_empty()), epoch))
            }
        };
        // This reign is over for good. If the lease is still, or again, this node's, it goes on
        // under a higher epoch: perhaps no other node took the lease, and a server that lost its
        // data counts from one again.
        let above = fenced.as_ref().map_or(epoch, |(_, fenced)| *fenced);
        ctx.above.fetch_max(epoch.max(above), Ordering::Relaxed);
        ctx.beat_now.notify_one();
        if let Some((by, _)) = fenced {
            ctx.emit(Event::Fenced { epoch, by });
        }
        tokio::select! {
            biased;
            () = ctx.stopped() => return Ok(()),
            () = ctx.role_is(|role| role.epoch() != Some(epoch)) => {}
        }
    }
}

/// How a reign ends.
enum End {
    /// The node stops.
    Stopped,
    /// The trust in the lease ended, or the election gave the node another role.
    Lapsed,
    /// Another generator has sealed.
    Fenced { node: String, epoch: u64 },
    /// The fleet's last number is not this generator's. A new reign fills what is missing and opens the
    /// source again: Redis refuses what is still on its way under the old epoch.
    Reopen,
    /// The source cannot go on: this node gives up the lease for good.
    SourceGaveUp,
}

/// The time in which this node generates under one epoch.
struct Reign<'a> {
    ctx: &'a Arc<Context>,
    epoch: u64,
    /// The packs of this node's reign before, if no other generator reigned since. What Redis forgot of
    /// them is sent again.
    kept: Option<Kept>,
    outbox: Outbox,
    supply: Supply<'a>,
    lead: Lead,
    /// When the generator last warned that Redis takes nothing.
    unavailable_warned: Option<Instant>,
    /// When the generator last warned that the queue is full.
    full_warned: Option<Instant>,
    /// Since when the queue is full.
    full_since: Option<Instant>,
    /// The pause after the next answer that the queue is full.
    full_pause: Duration,
}

impl<'a> Reign<'a> {
    fn new(
        ctx: &'a Arc<Context>,
        source: &'a mut SourceTask,
        epoch: u64,
        kept: Option<Kept>,
    ) -> Self {
        // Under a later epoch, another generator has reigned in between.
        let kept = kept.filter(|kept| kept.epoch + 1 == epoch);
        Self {
            ctx,
            epoch,
            kept,
            outbox: Outbox::default(),
            supply: Supply::new(ctx, source),
            lead: Lead::default(),
            unavailable_warned: None,
            full_warned: None,
            full_since: None,
            full_pause: publish::FULL_PAUSE.0,
        }
    }

    /// Seals and publishes until the reign is over.
    async fn run(&mut self) -> Result<End, Error> {
        if let Some(end) = self.seal().await? {
            return Ok(end);
        }
        let mut under_way = FuturesOrdered::new();
        loop {
            if let Some(end) = self.over() {
                return self.finish(under_way, end).await;
            }
            let window = self.window();
            while under_way.len() < window {
                let Some(prepared) = self.outbox.pop() else {
                    break;
                };
                let sending = publish::send(Arc::clone(self.ctx), self.epoch, prepared);
                under_way.push_back(begin(sending).await);
            }
            let is_idle = under_way.is_empty();
            let may_ask = under_way.len() < window;
            let yields_until = self.lead.yields_until(Instant::now());
            let until = self.trusted_until();
            let until = yields_until.map_or(until, |at| at.min(until));
            tokio::select! {
                biased;
                Some((prepared, answer)) = under_way.next() => {
                    let Some(refused) = self.on_answer(prepared, answer) else { continue };
                    self.requeue_refused(Some(refused.prepared), &mut under_way).await;
                    if let Some(end) = self.recover(refused.trouble).await? {
                        return Ok(end);
                    }
                }
                () = self.ctx.role_is(|role| role.epoch() != Some(self.epoch)) => {}
                () = self.ctx.stopped() => {}
                made = self.supply.next(self.ctx, &self.outbox, may_ask, is_idle) => match made {
                    Some(prepared) => self.outbox.add(prepared),
                    None => return self.finish(under_way, End::SourceGaveUp).await,
                },
                // An idle reign still checks whether it is over.
                () = tokio::time::sleep_until(until) => {}
            }
        }
    }

    /// How many packs may be under way. While the generator is paused, one finds out when it may go
    /// on.
    fn window(&self) -> usize {
        match self.ctx.pauses.is_paused(Part::Generator) {
            true => 1,
            false if self.lead.yields_until(Instant::now()).is_some() => 0,
            false if self.ctx.config.durability == Durability::None => WINDOW,
            false => CONFIRMED_WINDOW,
        }
    }

    /// Waits for the answers to what is under way. What Redis refused, after the `first` refused pack,
    /// is to be sent again, in order.
    async fn requeue_refused<F>(
        &mut self,
        first: Option<Prepared>,
        under_way: &mut FuturesOrdered<F>,
    ) where
        F: Future<Output = (Prepared, Result<Publish, Error>)>,
    {
        let mut again = VecDeque::from_iter(first);
        while let Some((prepared, answer)) = under_way.next().await {
            let refused = self.on_answer(prepared, answer);
            again.extend(refused.map(|refused| refused.prepared));
        }
        self.outbox.requeue(again);
    }

    /// Raises the fence: from here on Redis refuses what an older generator publishes. Opens the
    /// source where the fleet stands.
    async fn seal(&mut self) -> Result<Option<End>, Error> {
        loop {
            if let Some(end) = self.over() {
                return Ok(Some(end));
            }
            // The last generator knows what it published. Any other waits for what the others know.
            let all_told_at = self.ctx.witness.all_told_at(self.ctx.config.lease_ttl / 3);
            if let (None, Some(at)) = (&self.kept, all_told_at.filter(|at| *at > Instant::now())) {
                tokio::time::sleep_until(at.min(self.trusted_until())).await;
                continue;
            }
            crash::point("before-seal");
            match self.ctx.store.seal(self.epoch).await {
                Ok(Seal::Sealed {
                    last,
                    cursor,
                    known,
                }) => {
                    crash::point("after-seal");
                    self.ctx.emit(Event::Generator { epoch: self.epoch });
                    self.resume(last, cursor, known);
                    return Ok(None);
                }
                Ok(Seal::Fenced { node, epoch }) => return Ok(Some(End::Fenced { node, epoch })),
                Err(error) if error.is_transient() => self.pause_after(&error).await,
                Err(error) => return Err(error),
            }
        }
    }

    /// Goes on where the fleet stands. Redis may have forgotten messages up to `known`: a source that
    /// replays makes them again; else the generator sends what it keeps, and the other numbers become
    /// void. A source with cursors makes again what is void, under new numbers: it is opened where the
    /// fleet stands, so it must not have made what is sent again.
    fn resume(&mut self, last: u64, cursor: Vec<u8>, known: u64) {
        // No message has been published since the seal.
        let own = self.ctx.witness.known();
        self.ctx.compare_last(own, last);
        let (known, kept) = match self.supply.replays() {
            true => (last, None),
            false => (known.max(own), self.kept.take()),
        };
        self.outbox = Outbox::fill(last, &cursor, known, kept);
        let cursor = self.outbox.cursor().map(<[u8]>::to_vec).unwrap_or(cursor);
        self.supply.open(self.ctx, self.outbox.next, cursor);
    }

    /// How this reign ends, if it is over.
    fn over(&self) -> Option<End> {
        if self.ctx.stopping() {
            return Some(End::Stopped);
        }
        // A process that was paused may wake up here, long after its trust ended.
        let role = self.ctx.role.borrow().trusted_at(Instant::now());
        (role.epoch() != Some(self.epoch)).then_some(End::Lapsed)
    }

    /// Waits for the answers to what is under way, so that the log has what took effect. Keeps what did
    /// not.
    async fn finish<F>(&mut self, mut under_way: FuturesOrdered<F>, end: End) -> Result<End, Error>
    where
        F: Future<Output = (Prepared, Result<Publish, Error>)>,
    {
        self.requeue_refused(None, &mut under_way).await;
        Ok(end)
    }

    /// Until when this node trusts its lease.
    fn trusted_until(&self) -> Instant {
        match *self.ctx.role.borrow() {
            Role::Generator { until, .. } => until,
            _ => Instant::now(),
        }
    }

    /// Waits until a call may be repeated. Warns now and then of a server that answers and takes
    /// nothing; a server with full memory takes some messages in between.
    async fn pause_after(&mut self, error: &Error) {
        let warned = warned_lately(self.unavailable_warned);
        if let (Error::Unavailable(why), false) = (error, warned) {
            self.unavailable_warned = Some(Instant::now());
            self.ctx.warn(Warning::CannotPublish {
                reason: why.clone(),
            });
        }
        tokio::select! {
            () = self.ctx.pause_after(error) => {}
            () = self.ctx.stopped() => {}
        }
    }
}

/// Begins to send a pack, and lets the connection write it. Else Redis would wait for all packs of the
/// window to be made, and the generator for all of them to be answered.
async fn begin<F: Future>(sending: F) -> impl Future<Output = F::Output> {
    let mut sending = Box::pin(sending);
    let sent = std::future::poll_fn(|cx| Poll::Ready(sending.as_mut().poll(cx))).await;
    tokio::task::yield_now().await;
    async move {
        match sent {
            Poll::Ready(answer) => answer,
            Poll::Pending => sending.await,
        }
    }
}

fn warned_lately(at: Option<Instant>) -> bool {
    at.is_some_and(|at| at.elapsed() < WARN_EVERY)
}
