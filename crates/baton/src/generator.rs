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

use crate::context::{Context, Role};
use crate::protocol::{Publish, PublishCall, Seal};
use crate::{Digest, Error, Event, Missed, PackBuilder, Source, crash};

/// Most packs under way at once.
const WINDOW: usize = 8;
/// What is kept after Redis confirmed it: bytes and time.
const KEPT: (usize, Duration) = (8 << 20, Duration::from_secs(3));
/// Pauses of a generator whose queue is full: the first, and the longest.
const FULL_PAUSE: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));

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
        let reign = Reign::new(ctx, &mut source, epoch);
        let (by, fenced) = match reign.run().await? {
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

/// A pack on its way.
struct Prepared {
    first: u64,
    count: u64,
    cursor_ms: u64,
    digest: Option<Digest>,
    pack: Vec<u8>,
    /// The text of a single message, for the log.
    text: Option<Vec<u8>>,
    announced: bool,
}

/// The time in which this node generates under one epoch.
struct Reign<'a, S> {
    ctx: &'a Arc<Context>,
    source: &'a mut S,
    epoch: u64,
    /// The number of the next new message.
    next: u64,
    /// Which tick is next, in ms on Redis's clock.
    cursor_ms: u64,
    /// Refused or unanswered, to be sent (again), in order.
    unsent: VecDeque<Prepared>,
    /// Confirmed a moment ago.
    kept: VecDeque<(Instant, Prepared)>,
    kept_bytes: usize,
    full_pause: Duration,
    warned: bool,
    text: Vec<u8>,
    builder: PackBuilder,
}

impl<'a, S: Source> Reign<'a, S> {
    fn new(ctx: &'a Arc<Context>, source: &'a mut S, epoch: u64) -> Self {
        Self {
            ctx,
            source,
            epoch,
            next: 0,
            cursor_ms: 0,
            unsent: VecDeque::new(),
            kept: VecDeque::new(),
            kept_bytes: 0,
            full_pause: FULL_PAUSE.0,
            warned: false,
            text: Vec::new(),
            builder: PackBuilder::default(),
        }
    }

    async fn run(mut self) -> Result<End, Error> {
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
                    again.append(&mut self.unsent);
                    self.unsent = again;
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
                Ok(Seal::Sealed { last, cursor_ms }) => {
                    crash::point("after-seal");
                    self.next = last + 1;
                    self.cursor_ms = cursor_ms;
                    self.ctx.emit(Event::Generator { epoch: self.epoch });
                    return Ok(None);
                }
                Ok(Seal::Fenced { node, epoch }) => return Ok(Some(End::Fenced { node, epoch })),
                Err(error) if error.is_passing() => self.pause_after(&error).await,
                Err(error) => return Err(error),
            }
        }
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
    async fn finish<F>(mut self, mut under_way: FuturesOrdered<F>, end: End) -> Result<End, Error>
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
        if let Some(prepared) = self.unsent.pop_front() {
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
                .generate(self.next + builder.count(), &mut self.text)
                .await;
            if let Some(digest) = &mut digest {
                digest.add(builder.count(), &self.text);
            }
            builder.push(&self.text);
        }
        let (first, count) = (self.next, builder.count());
        self.next += count;
        self.advance(count);
        Some(Prepared {
            first,
            count,
            cursor_ms: self.cursor_ms,
            digest,
            pack: self.builder.finish(self.ctx.clock.now_ms()),
            text: (count == 1).then(|| self.text.clone()),
            announced: false,
        })
    }

    /// How many new messages are due now.
    fn due_messages(&mut self) -> u64 {
        let allowed = match self.ctx.config.messages {
            Some(total) => (total + 1).saturating_sub(self.next),
            None => u64::MAX,
        };
        let interval_ms = self.interval_ms();
        if interval_ms == 0 {
            return allowed;
        }
        let now_ms = self.ctx.clock.now_ms();
        // Before the first tick, and after a schedule with longer steps or a clock set back.
        if self.cursor_ms == 0 {
            self.cursor_ms = now_ms;
        }
        self.cursor_ms = self.cursor_ms.min(now_ms + interval_ms);
        let Some(late_ms) = now_ms.checked_sub(self.cursor_ms) else {
            return 0;
        };
        match self.ctx.config.missed {
            Missed::CatchUp => allowed.min(late_ms / interval_ms + 1),
            Missed::Skip => {
                self.cursor_ms += late_ms / interval_ms * interval_ms;
                allowed.min(1)
            }
        }
    }

    /// Moves the schedule on by the messages that were made.
    fn advance(&mut self, count: u64) {
        self.cursor_ms = match self.interval_ms() {
            0 => 0,
            interval_ms => self.cursor_ms + count * interval_ms,
        };
    }

    fn interval_ms(&self) -> u64 {
        self.ctx.config.interval.as_millis() as u64
    }

    /// When to look for new messages again, unless an answer comes before.
    fn next_due(&self, room: bool) -> Instant {
        let far = Duration::from_secs(3600);
        let finished = self
            .ctx
            .config
            .messages
            .is_some_and(|total| self.next > total);
        let wait = match self.interval_ms() {
            _ if finished || !room => far,
            0 => far,
            _ => Duration::from_millis(self.cursor_ms.saturating_sub(self.ctx.clock.now_ms())),
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
        let trouble = match answer {
            Ok(Publish::Ok | Publish::Already) => {
                self.full_pause = FULL_PAUSE.0;
                self.warned = false;
                if !prepared.announced {
                    prepared.announced = true;
                    crash::point("after-publish");
                    self.ctx.meter.has_published(prepared.count);
                    self.ctx.emit(Event::Published {
                        epoch: self.epoch,
                        first: prepared.first,
                        last: prepared.first + prepared.count - 1,
                        text: prepared.text.take(),
                    });
                }
                self.keep(prepared);
                return Ok(());
            }
            Ok(Publish::Fenced { node, epoch }) => Trouble::Fenced { node, epoch },
            Ok(Publish::Gap { last }) => Trouble::Gap { last },
            Ok(Publish::Full { .. }) => Trouble::Full,
            Err(error) => Trouble::Error(error),
        };
        Err(Box::new((prepared, trouble)))
    }

    /// Keeps a confirmed pack for a moment.
    fn keep(&mut self, prepared: Prepared) {
        let (most_bytes, longest) = KEPT;
        self.kept_bytes += prepared.pack.len();
        self.kept.push_back((Instant::now(), prepared));
        while let Some((at, oldest)) = self.kept.front() {
            if self.kept_bytes <= most_bytes && at.elapsed() <= longest {
                break;
            }
            self.kept_bytes -= oldest.pack.len();
            self.kept.pop_front();
        }
    }

    /// Makes good what went wrong, so that `unsent` can be sent again.
    async fn settle(&mut self, trouble: Trouble) -> Result<Option<End>, Error> {
        match trouble {
            Trouble::Fenced { node, epoch } => return Ok(Some(End::Fenced { node, epoch })),
            Trouble::Full => {
                let pause = self.full_pause;
                self.full_pause = (pause * 2).min(FULL_PAUSE.1);
                tokio::time::sleep(pause).await;
            }
            Trouble::Gap { last } => self.close_gap(last),
            Trouble::Error(error) if error.is_passing() => self.pause_after(&error).await,
            Trouble::Error(error) => return Err(error),
        }
        Ok(None)
    }

    /// The server's last number is lower than ours: it lost writes that it had confirmed.
    /// Sends again what is still kept, and numbers anew what comes after a real hole.
    fn close_gap(&mut self, last: u64) {
        let kept = std::mem::take(&mut self.kept)
            .into_iter()
            .map(|(_, prepared)| prepared);
        self.kept_bytes = 0;
        let mut again: VecDeque<Prepared> = kept.filter(|prepared| prepared.first > last).collect();
        again.append(&mut self.unsent);
        let oldest = again.front().map_or(self.next, |prepared| prepared.first);
        if oldest > last + 1 {
            self.ctx.emit(Event::Warning {
                text: format!(
                    "Redis lost messages #{}–#{} after it had confirmed them; its durability \
                     settings allow that (see `baton status`)",
                    last + 1,
                    oldest - 1
                ),
            });
        }
        self.next = last + 1;
        for prepared in &mut again {
            prepared.first = self.next;
            self.next += prepared.count;
        }
        self.unsent = again;
    }

    /// Waits until a call may be repeated; says once what is wrong with a server that answers.
    async fn pause_after(&mut self, error: &Error) {
        if let (Error::Unavailable(why), false) = (error, self.warned) {
            self.warned = true;
            self.ctx.emit(Event::Warning {
                text: format!("cannot publish for now: {why}"),
            });
        }
        tokio::select! {
            () = self.ctx.pause_after(error) => {}
            () = self.ctx.stopped() => {}
        }
    }
}

/// Why a pack was not accepted.
enum Trouble {
    Fenced { node: String, epoch: u64 },
    Gap { last: u64 },
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
        cursor_ms: prepared.cursor_ms,
        max_pending: ctx.config.max_pending,
        digest: prepared.digest,
        pack: &prepared.pack,
    };
    crash::point("before-publish");
    let answer = ctx.store.publish(call).await;
    (prepared, answer)
}
