//! The generator: it seals, then publishes tick by tick, or at full speed.
//!
//! Packs go out in order, a few at a time. The generator keeps a pack that Redis has not answered
//! and sends it again unchanged, so that an *already* tells what became of it. It keeps a confirmed
//! pack a little longer, so that a server that lost its last writes gets them again.
//!
//! Here is a reign: when it begins, what it sends and how it ends. `publish` reads the answers.

mod publish;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use baton_protocol::{Cursor, Digest, PackBuilder, Publish, Seal, crash};
use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use tokio::time::Instant;

use crate::node::context::{Context, Role};
use crate::node::outbox::{Outbox, Prepared};
use crate::node::schedule::Schedule;
use crate::node::warning::Warning;
use crate::{Error, Event, Missed, Source};

/// Max packs under way at once.
const WINDOW: usize = 8;
/// Shortest time between two warnings of one kind.
const WARN_EVERY: Duration = Duration::from_secs(10);
/// How long a generator without a next tick waits before it looks at its schedule again.
const IDLE_WAIT: Duration = Duration::from_secs(3600);

/// Generates whenever this node holds the lease, until it stops.
pub(crate) async fn run<S: Source>(ctx: &Arc<Context>, mut source: S) -> Result<(), Error> {
    loop {
        tokio::select! {
            biased;
            () = ctx.stopped() => return Ok(()),
            () = ctx.role_is(|role| role.epoch().is_some()) => {}
        }
        let Some(epoch) = ctx.role.borrow().epoch() else {
            continue;
        };
        let mut reign = Reign::new(ctx, &mut source, epoch);
        let end = reign.run().await?;
        reign.warn_left_out(true);
        let sealed = reign.sealed;
        let (by, fenced) = match end {
            End::Stopped => return Ok(()),
            End::Lapsed => (None, epoch),
            End::Fenced { node, epoch } => (Some(node).filter(|node| !node.is_empty()), epoch),
        };
        // This reign is over for good. If the lease is still, or again, this node's, it goes on
        // under a higher epoch: perhaps no other node took the lease, and a server that lost its
        // data counts from one again.
        ctx.above.fetch_max(epoch.max(fenced), Ordering::Relaxed);
        ctx.beat_now.notify_one();
        ctx.emit(Event::Fenced { epoch, by });
        if sealed {
            tokio::select! {
                biased;
                () = ctx.stopped() => return Ok(()),
                checked = ctx.check_for_loss(Some(epoch)) => checked?,
            }
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
}

/// The time in which this node generates under one epoch.
struct Reign<'a, S> {
    ctx: &'a Arc<Context>,
    source: &'a mut S,
    epoch: u64,
    /// Whether the fence was raised.
    sealed: bool,
    outbox: Outbox,
    schedule: Schedule,
    /// Messages left out of the schedule since the last warning of that.
    left_out: u64,
    left_out_warned: Option<Instant>,
    /// When the generator last warned that Redis takes nothing.
    unavailable_warned: Option<Instant>,
    /// When the generator last warned that the queue is full.
    full_warned: Option<Instant>,
    /// Since when the queue is full.
    full_since: Option<Instant>,
    /// The pause after the next answer that the queue is full.
    full_pause: Duration,
    text: Vec<u8>,
    builder: PackBuilder,
    /// A random name: with it, a sequence number is a message's key. A number that gets other texts
    /// after a loss of data gets another origin, too.
    origin: String,
}

impl<'a, S: Source> Reign<'a, S> {
    fn new(ctx: &'a Arc<Context>, source: &'a mut S, epoch: u64) -> Self {
        Self {
            ctx,
            source,
            epoch,
            sealed: false,
            outbox: Outbox::default(),
            schedule: Schedule::new(ctx.config.interval, ctx.config.missed),
            left_out: 0,
            left_out_warned: None,
            unavailable_warned: None,
            full_warned: None,
            full_since: None,
            full_pause: publish::FULL_PAUSE.0,
            text: Vec::new(),
            builder: PackBuilder::default(),
            origin: baton_protocol::new_name(),
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
            while under_way.len() < WINDOW {
                let Some(prepared) = self.next_pack().await else {
                    break;
                };
                let sending = publish::send(Arc::clone(self.ctx), self.epoch, prepared);
                under_way.push_back(begin(sending).await);
            }
            // With a full window nothing new is sent before an answer comes.
            let due = self.next_due(under_way.len() < WINDOW);
            tokio::select! {
                biased;
                Some((prepared, answer)) = under_way.next() => {
                    let Some(refused) = self.on_answer(prepared, answer) else { continue };
                    self.requeue_refused(refused.prepared, &mut under_way).await;
                    if let Some(end) = self.recover(refused.trouble).await? {
                        return Ok(end);
                    }
                }
                () = self.ctx.role_is(|role| role.epoch() != Some(self.epoch)) => {}
                () = self.ctx.stopped() => {}
                () = tokio::time::sleep_until(due) => {}
            }
        }
    }

    /// Redis refused what was sent after the first refused pack, too: sends all of it again, in
    /// order.
    async fn requeue_refused<F>(&mut self, first: Prepared, under_way: &mut FuturesOrdered<F>)
    where
        F: Future<Output = (Prepared, Result<Publish, Error>)>,
    {
        let mut again = VecDeque::from([first]);
        while let Some((prepared, answer)) = under_way.next().await {
            let refused = self.on_answer(prepared, answer);
            again.extend(refused.map(|refused| refused.prepared));
        }
        self.outbox.requeue(again);
    }

    /// Raises the fence: from here on Redis refuses what an older generator publishes.
    async fn seal(&mut self) -> Result<Option<End>, Error> {
        loop {
            if let Some(end) = self.over() {
                return Ok(Some(end));
            }
            crash::point("before-seal");
            match self.ctx.store.seal(self.epoch).await {
                Ok(Seal::Sealed { last, cursor }) => {
                    crash::point("after-seal");
                    self.sealed = true;
                    self.ctx.emit(Event::Generator { epoch: self.epoch });
                    self.resume(last, cursor);
                    return Ok(None);
                }
                Ok(Seal::Fenced { node, epoch }) => return Ok(Some(End::Fenced { node, epoch })),
                Err(error) if error.is_transient() => self.pause_after(&error).await,
                Err(error) => return Err(error),
            }
        }
    }

    /// Goes on where the fleet stands.
    fn resume(&mut self, last: u64, cursor: Option<Cursor>) {
        let ctx = self.ctx;
        // No message has been published since the seal.
        ctx.compare_last(ctx.witness.confirmed(), last);
        if cursor.is_none() {
            ctx.warn(Warning::ForeignCursor {
                key: ctx.store.keys().fence.clone(),
            });
        }
        self.outbox = Outbox::after(last);
        self.schedule
            .resume(cursor.and_then(|cursor| ctx.clock.steady(cursor)));
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

    /// Waits for the answers to what is under way, so that the log has what took effect.
    async fn finish<F>(&mut self, mut under_way: FuturesOrdered<F>, end: End) -> Result<End, Error>
    where
        F: Future<Output = (Prepared, Result<Publish, Error>)>,
    {
        while let Some((prepared, answer)) = under_way.next().await {
            let _ = self.on_answer(prepared, answer);
        }
        Ok(end)
    }

    /// The next pack to send: one that Redis refused, or a new one if it is due.
    async fn next_pack(&mut self) -> Option<Prepared> {
        if let Some(prepared) = self.outbox.pop() {
            return Some(prepared);
        }
        let wanted = self.due_messages().min(self.ctx.config.max_pending);
        if wanted == 0 {
            return None;
        }
        let builder = &mut self.builder;
        let mut digest = self.ctx.config.audit.then(Digest::default);
        while builder.count() < wanted && !builder.is_full() {
            self.text.clear();
            self.source
                .generate(self.outbox.next + builder.count(), &mut self.text)
                .await;
            if let Some(digest) = &mut digest {
                digest.add(builder.count(), &self.text);
            }
            builder.push(&self.text);
        }
        let count = builder.count();
        let first = self.outbox.number(count);
        self.schedule.advance(count);
        if self.allowed() == 0 {
            // A fleet whose limit an operator raises later has missed nothing until then.
            self.schedule.begin_anew();
        }
        Some(Prepared {
            first,
            count,
            cursor: self.ctx.clock.cursor(self.schedule.next()),
            digest,
            pack: self.builder.finish(self.ctx.clock.now_ms(), &self.origin),
            stage: self.ctx.store.new_stage(),
            is_staged: false,
            text: (count == 1).then(|| self.text.clone()),
            announced: false,
            maybe_there: false,
        })
    }

    /// How many more messages the fleet may publish.
    fn allowed(&self) -> u64 {
        match self.ctx.config.messages {
            Some(total) => (total + 1).saturating_sub(self.outbox.next),
            None => u64::MAX,
        }
    }

    /// How many new messages are due now.
    fn due_messages(&mut self) -> u64 {
        let allowed = self.allowed();
        if allowed == 0 {
            return 0;
        }
        let due = self.schedule.due(self.ctx.clock.steady_ms());
        self.left_out = self.left_out.saturating_add(due.left_out);
        self.warn_left_out(false);
        due.count.min(allowed)
    }

    /// Warns of what was left out: now and then, and when the reign ends.
    fn warn_left_out(&mut self, at_end: bool) {
        if self.left_out == 0 || (warned_lately(self.left_out_warned) && !at_end) {
            return;
        }
        self.left_out_warned = Some(Instant::now());
        let count = std::mem::take(&mut self.left_out);
        let config = &self.ctx.config;
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let Missed::CatchUp { at_most } = config.missed else {
            return;
        };
        self.ctx.warn(Warning::LeftOut {
            count,
            of_ms: millis(config.interval).saturating_mul(count),
            at_most_ms: millis(at_most),
        });
    }

    /// When new messages are due, unless an answer comes before. With no room in the window none
    /// are.
    fn next_due(&self, room: bool) -> Instant {
        let wait = match self.schedule.wait(self.ctx.clock.steady_ms()) {
            Some(wait) if room && self.allowed() > 0 => wait,
            _ => IDLE_WAIT,
        };
        // An idle reign still checks whether it is over.
        let until = match *self.ctx.role.borrow() {
            Role::Generator { until, .. } => until,
            _ => Instant::now(),
        };
        (Instant::now() + wait).min(until)
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
