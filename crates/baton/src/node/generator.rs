//! The generator's work: seal, then publish tick by tick, or at full speed.
//!
//! Packs go out in order, a few at a time. What Redis has not answered is kept and sent
//! again unchanged, so that an *already* tells what became of it; what it has answered is
//! kept a little longer, so that a server that lost its last writes gets them again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use tokio::time::Instant;

use crate::node::context::{self, Context, Role};
use crate::node::outbox::{Outbox, Prepared};
use crate::node::schedule::Schedule;
use crate::{Error, Event, Missed, Source};
use baton_protocol::{Cursor, Digest, PackBuilder, crash};
use baton_protocol::{Publish, PublishCall, Seal};

/// Most packs under way at once.
const WINDOW: usize = 8;
/// Pauses of a generator whose queue is full: the first, and the longest.
const FULL_PAUSE: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));
/// How often a generator that cannot keep up says what it leaves out.
const LEFT_OUT_EVERY: Duration = Duration::from_secs(10);

/// How often a generator says that Redis takes nothing.
const WARN_EVERY: Duration = Duration::from_secs(10);

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
        reign.say_left_out(true);
        let sealed = reign.sealed;
        let (by, fenced) = match end {
            End::Stopped => return Ok(()),
            End::Lapsed => (None, epoch),
            End::Fenced { node, epoch } => (Some(node).filter(|node| !node.is_empty()), epoch),
        };
        // This reign is over for good. If the lease is still, or again, this node's, it goes
        // on under an epoch of its own: nobody may have taken it, and a server that lost its
        // data counts from one again.
        ctx.above.fetch_max(epoch.max(fenced), Ordering::Relaxed);
        ctx.beat_now.notify_one();
        ctx.emit(Event::Fenced { epoch, by });
        if sealed {
            tokio::select! {
                biased;
                () = ctx.stopped() => return Ok(()),
                looked = ctx.look_for_loss(Some(epoch)) => looked?,
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
    Stopped,
    /// The lease ran out, or the election says so.
    Lapsed,
    /// Another generator has sealed.
    Fenced {
        node: String,
        epoch: u64,
    },
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
    /// Left out of the schedule and not said yet, and when that was last said.
    left_out: u64,
    left_out_said: Option<Instant>,
    full_pause: Duration,
    /// When it was said last that Redis takes nothing.
    warned: Option<Instant>,
    text: Vec<u8>,
    builder: PackBuilder,
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
            left_out_said: None,
            full_pause: FULL_PAUSE.0,
            warned: None,
            text: Vec::new(),
            builder: PackBuilder::default(),
        }
    }

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
                under_way.push_back(publish(Arc::clone(self.ctx), self.epoch, prepared));
            }
            // With a full window nothing new is sent before an answer comes.
            let due = self.next_due(under_way.len() < WINDOW);
            tokio::select! {
                biased;
                Some((prepared, answer)) = under_way.next() => {
                    let Err(refused) = self.take(prepared, answer) else { continue };
                    let (prepared, trouble) = *refused;
                    // What was sent after it was refused with it: all of it again, in order.
                    let mut again = VecDeque::from([prepared]);
                    while let Some((prepared, answer)) = under_way.next().await {
                        again.extend(self.take(prepared, answer).err().map(|refused| refused.0));
                    }
                    self.outbox.take_back(again);
                    if let Some(end) = self.settle(trouble).await? {
                        return Ok(end);
                    }
                }
                () = self.ctx.role_is(|role| role.epoch() != Some(self.epoch)) => {}
                () = self.ctx.stopped() => {}
                () = tokio::time::sleep_until(due) => {}
            }
        }
    }

    /// Raises the fence: the moment of the handover.
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
                    self.go_on(last, cursor);
                    return Ok(None);
                }
                Ok(Seal::Fenced { node, epoch }) => return Ok(Some(End::Fenced { node, epoch })),
                Err(error) if error.is_transient() => self.pause_after(&error).await,
                Err(error) => return Err(error),
            }
        }
    }

    /// Goes on where the fleet stands.
    fn go_on(&mut self, last: u64, cursor: Option<Cursor>) {
        let ctx = self.ctx;
        ctx.compare(last, false);
        if cursor.is_none() {
            let key = &ctx.store.keys().fence;
            ctx.warn(format!(
                "the field cursor of {key} is no time: the schedule begins anew"
            ));
        }
        self.outbox = Outbox::after(last);
        self.schedule
            .resume(cursor.and_then(|cursor| ctx.clock.steady(cursor)));
    }

    /// Whether and how this reign is over.
    fn over(&self) -> Option<End> {
        if self.ctx.stopping() {
            return Some(End::Stopped);
        }
        match *self.ctx.role.borrow() {
            // A process that was paused may wake up here, long after its time.
            Role::Generator { epoch, until } if epoch == self.epoch && Instant::now() < until => {
                None
            }
            _ => Some(End::Lapsed),
        }
    }

    /// Hears the answers to what is under way, so that what took effect is told.
    async fn finish<F>(&mut self, mut under_way: FuturesOrdered<F>, end: End) -> Result<End, Error>
    where
        F: Future<Output = (Prepared, Result<Publish, Error>)>,
    {
        while let Some((prepared, answer)) = under_way.next().await {
            let _ = self.take(prepared, answer);
        }
        Ok(end)
    }

    /// The next pack to send: one that has to be repeated, or a new one if it is due.
    async fn next_pack(&mut self) -> Option<Prepared> {
        if let Some(prepared) = self.outbox.pop() {
            return Some(prepared);
        }
        let wanted = self.due_messages().min(self.ctx.config.max_pending);
        if wanted == 0 {
            return None;
        }
        let builder = &mut self.builder;
        builder.clear();
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
            // A fleet whose limit is raised later has missed nothing until then.
            self.schedule.begin_anew();
        }
        Some(Prepared {
            first,
            count,
            cursor: self.ctx.clock.cursor(self.schedule.next()),
            digest,
            pack: self.builder.finish(self.ctx.clock.now_ms()),
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
        self.say_left_out(false);
        due.count.min(allowed)
    }

    /// Says what was left out: at once, but not again and again, unless the reign ends.
    fn say_left_out(&mut self, at_once: bool) {
        let lately = |at: Instant| at.elapsed() < LEFT_OUT_EVERY;
        let wait = self.left_out_said.is_some_and(lately) && !at_once;
        if self.left_out == 0 || wait {
            return;
        }
        self.left_out_said = Some(Instant::now());
        let count = std::mem::take(&mut self.left_out);
        let config = &self.ctx.config;
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let time = context::words(millis(config.interval).saturating_mul(count));
        let Missed::CatchUp { at_most } = config.missed else {
            return;
        };
        let at_most = context::words(millis(at_most));
        self.ctx.warn(format!(
            "left out {count} missed messages of {time}: no more than {at_most} are made up for"
        ));
    }

    /// When to look for new messages again, unless an answer comes before.
    fn next_due(&self, room: bool) -> Instant {
        let far = Duration::from_secs(3600);
        let wait = match self.schedule.wait(self.ctx.clock.steady_ms()) {
            Some(wait) if room && self.allowed() > 0 => wait,
            _ => far,
        };
        // An idle reign still looks whether it is over.
        let until = match *self.ctx.role.borrow() {
            Role::Generator { until, .. } => until,
            _ => Instant::now(),
        };
        (Instant::now() + wait).min(until)
    }

    /// Takes the answer to one pack. Returns a pack that was not accepted, and why.
    fn take(
        &mut self,
        mut prepared: Prepared,
        answer: Result<Publish, Error>,
    ) -> Result<(), Box<(Prepared, Trouble)>> {
        let accepted = match &answer {
            Ok(Publish::Ok) => true,
            Ok(Publish::Already { last }) => self.outbox.is_there(&prepared, *last),
            _ => false,
        };
        let trouble = match answer {
            Ok(_) if accepted => {
                self.full_pause = FULL_PAUSE.0;
                if !prepared.announced {
                    prepared.announced = true;
                    crash::point("after-publish");
                    self.ctx.meter.has_published(prepared.count);
                    self.ctx.emit(Event::Published {
                        epoch: self.epoch,
                        first: prepared.first,
                        last: prepared.last(),
                        text: prepared.text.take(),
                    });
                }
                self.outbox.confirm(prepared);
                return Ok(());
            }
            Ok(Publish::Ok) => return Ok(()),
            Ok(Publish::Already { last }) => Trouble::Foreign { last },
            // The last number lies within this pack, whose messages come and go together.
            Ok(Publish::Gap { last }) if last >= prepared.first => Trouble::Foreign { last },
            Ok(Publish::Fenced { node, epoch }) => Trouble::Fenced { node, epoch },
            Ok(Publish::Gap { last }) => Trouble::Gap { last },
            Ok(Publish::Full { .. }) => Trouble::Full,
            Err(error) => {
                prepared.maybe_there |= matches!(error, Error::ReplyLost(_));
                Trouble::Error(error)
            }
        };
        Err(Box::new((prepared, trouble)))
    }

    /// Makes good what went wrong, so that what was refused can be sent again.
    async fn settle(&mut self, trouble: Trouble) -> Result<Option<End>, Error> {
        match trouble {
            Trouble::Fenced { node, epoch } => return Ok(Some(End::Fenced { node, epoch })),
            Trouble::Full => {
                let pause = self.full_pause;
                self.full_pause = (pause * 2).min(FULL_PAUSE.1);
                tokio::time::sleep(pause).await;
            }
            Trouble::Gap { last } => self.close_gap(last),
            Trouble::Foreign { last } => self.go_on_after(last),
            Trouble::Error(error) if error.is_transient() => self.pause_after(&error).await,
            Trouble::Error(error) => return Err(error),
        }
        Ok(None)
    }

    /// Redis lost writes that it had confirmed: closes the gap as far as that can be.
    fn close_gap(&mut self, last: u64) {
        let Some((first_lost, last_lost)) = self.outbox.close_gap(last) else {
            return;
        };
        // Said here, and more exactly than anywhere else.
        let _ = self.ctx.witness.notice(last, true);
        self.ctx.warn(format!(
            "Redis lost messages #{first_lost}–#{last_lost} after it had confirmed them; its \
             durability settings allow that (see `baton status`)"
        ));
    }

    /// Another hand has moved the fleet's last number: goes on after it.
    fn go_on_after(&mut self, last: u64) {
        let own = self.outbox.confirmed();
        let key = &self.ctx.store.keys().fence;
        self.ctx.warn(format!(
            "the field last of {key} is {last}, but the last message of the fleet is #{own}: \
             another hand wrote it. Messages go on with #{}, those between do not exist",
            last.max(own) + 1
        ));
        self.outbox.go_on_after(last);
    }

    /// Waits until a call may be repeated; says now and then what is wrong with a server that
    /// answers. A full server takes some messages in between.
    async fn pause_after(&mut self, error: &Error) {
        let told = self.warned.is_some_and(|at| at.elapsed() < WARN_EVERY);
        if let (Error::Unavailable(why), false) = (error, told) {
            self.warned = Some(Instant::now());
            self.ctx.warn(format!("cannot publish for now: {why}"));
        }
        tokio::select! {
            () = self.ctx.pause_after(error) => {}
            () = self.ctx.stopped() => {}
        }
    }
}

/// Why a pack was not accepted.
enum Trouble {
    Fenced {
        node: String,
        epoch: u64,
    },
    Gap {
        last: u64,
    },
    /// The fleet's last number is higher than any that this generator sent.
    Foreign {
        last: u64,
    },
    Full,
    Error(Error),
}

async fn publish(
    ctx: Arc<Context>,
    epoch: u64,
    prepared: Prepared,
) -> (Prepared, Result<Publish, Error>) {
    let call = PublishCall {
        epoch,
        first: prepared.first,
        count: prepared.count,
        cursor: prepared.cursor,
        max_pending: ctx.config.max_pending,
        digest: prepared.digest,
        pack: &prepared.pack,
    };
    crash::point("before-publish");
    let answer = ctx.store.publish(call).await;
    (prepared, answer)
}
