//! The generator's supply of messages: what it asks its source for, and what becomes of the answers.

use std::sync::Arc;
use std::time::Duration;

use baton_protocol::bounds::{MAX_CURSOR_BYTES, MAX_PACK_MESSAGES};
use baton_protocol::{Backoff, PackBuilder, Progress};
use tokio::time::Instant;

use super::warned_lately;
use crate::node::context::Context;
use crate::node::outbox::{Outbox, Prepared};
use crate::node::partition::Partition;
use crate::node::rate::Pace;
use crate::node::source_task::{Made, SourceTask};
use crate::node::warning::Warning;
use crate::source::{Batch, Flow, SourceError};

/// Pauses before a source that failed is opened again: the first, and the longest.
const REOPEN_PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));
/// The pause after a batch without messages.
const EMPTY_PAUSE: Duration = Duration::from_millis(1);

/// So many packs fit into a queue: workers have some while the generator makes others.
const PACKS_OF_A_FULL_QUEUE: u64 = 4;

/// What the source does.
enum State {
    /// It waits for the generator to ask.
    Open,
    /// It was asked for a batch.
    Asked,
    /// It had nothing, or has to wait by the fleet's rate; the generator asks again then.
    Empty(Instant),
    /// It failed; the generator opens it again then.
    Failed(Instant),
    /// It has no more messages.
    Ended,
    /// It cannot go on, for this reason.
    GaveUp(String),
}

/// The messages of one reign, as its source makes them.
pub(super) struct Supply<'a> {
    source: &'a mut SourceTask,
    state: State,
    /// What the fleet has made, in all partitions; none in a fleet of one partition, where the sequence
    /// numbers say it.
    pub(super) made: Option<Progress>,
    /// What the fleet had made with the newest pack that Redis has, or that is parked; none in a fleet of one
    /// partition.
    accepted: Option<Progress>,
    /// What Redis has stored of the source: its kind and its cursor. Empty if nothing.
    stored: Vec<u8>,
    has_cursors: bool,
    backoff: Backoff,
    failure_warned: Option<Instant>,
    left_out: LeftOutSince,
    builder: PackBuilder,
    pace: Option<Pace>,
    /// A random name: with it, a sequence number is a message's key. A number that gets other texts
    /// after a loss of data gets another origin, too.
    origin: String,
}

/// What was left out since the last warning of that.
#[derive(Default)]
struct LeftOutSince {
    count: u64,
    of_ms: u64,
    at_most_ms: u64,
    warned: Option<Instant>,
}

impl<'a> Supply<'a> {
    pub(super) fn new(ctx: &Context, source: &'a mut SourceTask) -> Self {
        let rate = ctx.config.rate;
        Self {
            source,
            state: State::Ended,
            made: None,
            accepted: None,
            stored: Vec::new(),
            has_cursors: false,
            backoff: Backoff::new(REOPEN_PAUSE.0, REOPEN_PAUSE.1),
            failure_warned: None,
            left_out: LeftOutSince::default(),
            builder: PackBuilder::default(),
            pace: rate.map(|rate| Pace::new(rate, Instant::now())),
            origin: String::new(),
        }
    }

    /// Whether the source makes the same texts under the same numbers again.
    pub(super) fn replays(&self) -> bool {
        self.source.replays()
    }

    /// Whether the source gives its batches cursors.
    pub(super) fn has_cursors(&self) -> bool {
        self.has_cursors
    }

    /// The number of the next message, as the source counts.
    fn next_seq(&self, outbox: &Outbox) -> u64 {
        self.made.map_or(outbox.next, |made| made.messages + 1)
    }

    /// Opens the source where the fleet stands.
    pub(super) fn open(&mut self, ctx: &Context, next_seq: u64, stored: Vec<u8>) {
        let cursor = own_cursor(&stored, self.source.kind());
        if cursor.is_none() && !stored.is_empty() {
            warn_foreign_cursor(ctx);
        }
        self.has_cursors = cursor.is_some();
        self.source.open(next_seq, cursor.map(<[u8]>::to_vec));
        self.stored = stored;
        self.state = State::Open;
        self.origin = baton_protocol::new_name();
    }

    /// Waits for the next pack. Asks the source if it may. None if the source cannot go on.
    pub(super) async fn next(
        &mut self,
        partition: &Partition,
        outbox: &Outbox,
        may_ask: bool,
        is_idle: bool,
    ) -> Option<Prepared> {
        let ctx = &partition.ctx;
        loop {
            match self.state {
                State::Open if may_ask && outbox.is_empty() => {
                    self.ask(ctx, self.next_seq(outbox));
                }
                State::Empty(at) => {
                    tokio::time::sleep_until(at).await;
                    self.state = State::Open;
                }
                // What is under way was made before it failed, and counts.
                State::Failed(at) if is_idle => {
                    tokio::time::sleep_until(at).await;
                    let stored = std::mem::take(&mut self.stored);
                    self.open(ctx, self.next_seq(outbox), stored);
                }
                State::Open | State::Failed(_) | State::Ended => std::future::pending().await,
                // What it made before counts, also if Redis takes it later.
                State::GaveUp(_) if is_idle => return None,
                State::GaveUp(_) => std::future::pending().await,
                State::Asked => {
                    let made = self.source.next().await;
                    if let Some(prepared) = self.take(partition, outbox, made) {
                        return Some(prepared);
                    }
                }
            }
        }
    }

    /// Asks for messages, unless the fleet has published all that it may, or has to wait by its rate.
    fn ask(&mut self, ctx: &Context, next_seq: u64) {
        let config = &ctx.config;
        let allowed = config
            .messages
            .map(|total| (total + 1).saturating_sub(next_seq));
        if allowed == Some(0) {
            self.state = State::Ended;
            return;
        }
        let by_rate = match self.pace.as_ref().map(|pace| pace.allowed(Instant::now())) {
            Some(Err(due)) => {
                self.state = State::Empty(due);
                return;
            }
            Some(Ok(by_rate)) => by_rate,
            None => u64::MAX,
        };
        let max_pending = ctx.max_pending_each();
        let limit = max_pending.min(MAX_PACK_MESSAGES);
        let limit = allowed.map_or(limit, |allowed| limit.min(allowed));
        let is_last = allowed == Some(limit);
        let builder = std::mem::take(&mut self.builder);
        let mut batch = Batch::new(next_seq, limit, is_last, config.audit, builder);
        let fitting = (max_pending / PACKS_OF_A_FULL_QUEUE).max(1);
        batch.ask_for(by_rate.min(fitting));
        self.source.fill(batch);
        self.state = State::Asked;
    }

    /// Takes what the source made: a pack if it has messages.
    fn take(&mut self, partition: &Partition, outbox: &Outbox, made: Made) -> Option<Prepared> {
        let ctx = &partition.ctx;
        let (mut batch, flow) = match made {
            Made::Batch(batch, flow) => (batch, flow),
            Made::Failed(error) => {
                self.fail(ctx, error);
                return None;
            }
        };
        let count = batch.count();
        if let Err(error) = self.check_cursor(&batch) {
            self.fail(ctx, error);
            return None;
        }
        self.state = match flow {
            Flow::End => State::Ended,
            Flow::More if count == 0 && batch.cursor.is_none() => {
                State::Empty(Instant::now() + EMPTY_PAUSE)
            }
            Flow::More => State::Open,
        };
        self.backoff.reset();
        ctx.set_source_failure(None);
        self.leave_out(ctx, &batch);
        if batch.begins_anew {
            warn_foreign_cursor(ctx);
        }
        if count == 0 && batch.cursor.is_none() {
            self.builder = batch.pack;
            return None;
        }
        if let Some(pace) = &mut self.pace {
            pace.made(count, Instant::now());
        }
        let first = outbox.next;
        self.made = self.made.map(|made| made.plus(count));
        let origin = match self.made {
            None => &self.origin,
            // Each partition numbers from 1 on.
            Some(_) => &format!("{}.{}", self.origin, partition.index()),
        };
        let prepared = Prepared {
            first,
            count,
            made: self.made,
            cursor: batch.cursor.take().map_or_else(Vec::new, |cursor| {
                [self.source.kind().as_bytes(), b" ", &cursor].concat()
            }),
            is_scheduled: batch.is_scheduled,
            digest: batch.digest,
            pack: Arc::new(batch.pack.finish(ctx.clock.now_ms(), origin, first)),
            stage: partition.store.new_stage(),
            is_staged: false,
            text: batch.only_text,
            announced: false,
            maybe_there: false,
            sent_after: 0,
            is_void: false,
        };
        self.builder = batch.pack;
        Some(prepared)
    }

    /// A pack without a cursor between packs with one would be lost or doubled at a takeover.
    fn check_cursor(&mut self, batch: &Batch) -> Result<(), SourceError> {
        let length = batch.cursor.as_ref().map(Vec::len);
        let most = MAX_CURSOR_BYTES - self.source.kind().len() - 1;
        match length {
            Some(length) if length > most => Err(SourceError::Fatal(format!(
                "the source gave a cursor of {length} bytes; it may have {most}"
            ))),
            None if self.has_cursors && batch.count() > 0 => Err(SourceError::fatal(
                "the source gave messages without a cursor, after others with one",
            )),
            _ => {
                self.has_cursors |= length.is_some();
                Ok(())
            }
        }
    }

    fn fail(&mut self, ctx: &Context, error: SourceError) {
        match error {
            SourceError::Fatal(reason) => {
                self.state = State::GaveUp(reason.clone());
                ctx.warn(Warning::SourceGaveUp { reason });
            }
            SourceError::Retry(reason) => {
                self.state = State::Failed(Instant::now() + self.backoff.pause());
                ctx.set_source_failure(Some(reason.clone()));
                if !warned_lately(self.failure_warned) {
                    self.failure_warned = Some(Instant::now());
                    ctx.warn(Warning::SourceFailed { reason });
                }
            }
        }
    }

    /// Why the source cannot go on, if it gave up.
    pub(super) fn gave_up(&self) -> Option<&str> {
        match &self.state {
            State::GaveUp(reason) => Some(reason),
            _ => None,
        }
    }

    /// Tells the source that Redis has what it made up to this cursor. Of several partitions, one may accept
    /// late what comes before.
    pub(super) fn accepted(&mut self, stored: &[u8], made: Option<Progress>) {
        if made < self.accepted {
            return;
        }
        self.accepted = made;
        if let Some(cursor) = own_cursor(stored, self.source.kind()) {
            self.source.accepted(cursor.to_vec());
        }
        stored.clone_into(&mut self.stored);
    }

    /// Warns now and then of what the source left out.
    fn leave_out(&mut self, ctx: &Context, batch: &Batch) {
        let left_out = &mut self.left_out;
        left_out.count = left_out.count.saturating_add(batch.left_out.count);
        left_out.of_ms = left_out.of_ms.saturating_add(batch.left_out.of_ms);
        left_out.at_most_ms = batch.left_out.at_most_ms;
        if !warned_lately(left_out.warned) {
            left_out.warn(ctx);
        }
    }

    /// Ends the reign: closes the source.
    pub(super) fn end(&mut self, ctx: &Context) {
        self.left_out.warn(ctx);
        ctx.set_source_failure(None);
        self.source.close();
    }
}

impl LeftOutSince {
    fn warn(&mut self, ctx: &Context) {
        if self.count == 0 {
            return;
        }
        self.warned = Some(Instant::now());
        ctx.warn(Warning::LeftOut {
            count: std::mem::take(&mut self.count),
            of_ms: std::mem::take(&mut self.of_ms),
            at_most_ms: self.at_most_ms,
        });
    }
}

fn warn_foreign_cursor(ctx: &Context) {
    ctx.warn(Warning::ForeignCursor {
        key: ctx.control.keys().fence.clone(),
    });
}

/// The cursor in what Redis has stored, if a source of this kind wrote it.
fn own_cursor<'a>(stored: &'a [u8], kind: &str) -> Option<&'a [u8]> {
    stored.strip_prefix(kind.as_bytes())?.strip_prefix(b" ")
}
