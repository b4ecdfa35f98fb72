//! A reign in one partition: what it sends, and when it has the turn.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use baton_protocol::{Parcel, Progress, Publish, Seal, crash};
use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use tokio::sync::{Mutex, MutexGuard, watch};
use tokio::time::Instant;

use super::lead::Lead;
use super::parking::{Unaccepted, Why};
use super::supply::Supply;
use super::{End, ReignState, Unsealed, publish, warned_lately};
use crate::node::context::Role;
use crate::node::outbox::{Kept, Outbox, Prepared};
use crate::node::partition::Partition;
use crate::node::warning::Warning;
use crate::{Durability, Error, Part};

/// Max packs under way at once.
const WINDOW: usize = 8;
/// The same, where an answer has to wait for replicas.
const CONFIRMED_WINDOW: usize = 32;
/// How often a partition looks whether its server answers another one again.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// After so many packs a partition gives the turn on.
const PACKS_OF_A_TURN: u32 = 64;

/// What a reign sends to one partition.
pub(super) struct PartitionReign {
    pub(super) partition: Arc<Partition>,
    /// All partitions of the fleet.
    pub(super) all: Arc<[Arc<Partition>]>,
    pub(super) epoch: u64,
    /// The packs of this node's reign before, if no other generator reigned since. What Redis forgot of
    /// them is sent again.
    kept: Option<Kept>,
    pub(super) outbox: Outbox,
    pub(super) unaccepted: Unaccepted,
    pub(super) lead: Lead,
    /// When the generator last warned that Redis takes nothing.
    unavailable_warned: Option<Instant>,
    /// When the generator last warned that the queue is full.
    pub(super) full_warned: Option<Instant>,
    /// Since when the queue is full.
    pub(super) full_since: Option<Instant>,
    /// The pause after the next answer that the queue is full.
    pub(super) full_pause: Duration,
}

/// A partition that is sealed.
pub(super) struct Sealed {
    /// Its last number.
    pub(super) last: u64,
    /// The highest number that a node knows to be given.
    known: u64,
    position: SourcePosition,
}

/// Where the source stands, as a partition knows it.
pub(super) struct SourcePosition {
    /// What the fleet had made; nothing in a fleet of one partition.
    pub(super) made: Progress,
    pub(super) cursor: Vec<u8>,
}

/// The turn of a partition: while it has it, the source's messages are its own.
pub(super) struct Turn<'a, 'b> {
    pub(super) supply: MutexGuard<'a, Supply<'b>>,
    packs: u32,
}

impl PartitionReign {
    pub(super) fn new(
        all: &Arc<[Arc<Partition>]>,
        partition: &Arc<Partition>,
        epoch: u64,
        kept: Option<Kept>,
    ) -> Self {
        // Under a later epoch, another generator has reigned in between.
        let kept = kept.filter(|kept| kept.epoch + 1 == epoch);
        partition.is_stalled.store(false, Ordering::Relaxed);
        partition.is_full.store(false, Ordering::Relaxed);
        Self {
            partition: Arc::clone(partition),
            all: Arc::clone(all),
            epoch,
            kept,
            outbox: Outbox::default(),
            unaccepted: Unaccepted::default(),
            lead: Lead::default(),
            unavailable_warned: None,
            full_warned: None,
            full_since: None,
            full_pause: publish::FULL_PAUSE.0,
        }
    }

    /// Publishes until the reign is over.
    pub(super) async fn run(
        &mut self,
        supply: &Mutex<Supply<'_>>,
        progress: &watch::Sender<ReignState>,
    ) -> Result<End, Error> {
        let mut under_way = FuturesOrdered::new();
        let mut turn: Option<Turn<'_, '_>> = None;
        let mut changes = progress.subscribe();
        let mut resumes = true;
        loop {
            if let Some(end) = self.over(progress) {
                return self.finish(&mut turn, under_way, end).await;
            }
            // Nothing overtakes what is sent again, unless a successor would find it parked.
            if resumes && self.outbox.is_empty() && self.unaccepted.are_parked() {
                resumes = false;
                progress.send_modify(|state| state.resuming -= 1);
            }
            let window = self.window();
            while under_way.len() < window {
                let Some(prepared) = self.outbox.pop() else {
                    break;
                };
                self.sends(&prepared);
                let sending = publish::send(Arc::clone(&self.partition), self.epoch, prepared);
                under_way.push_back(begin(sending).await);
            }
            let is_idle = under_way.is_empty() && self.outbox.is_empty();
            turn.take_if(|turn| self.is_turn_over(turn, is_idle));
            let may_ask = under_way.len() < window;
            let yields_until = self.lead.yields_until(Instant::now());
            let until = self.trusted_until();
            let until = yields_until.map_or(until, |at| at.min(until));
            let is_up = self.partition.store.is_up();
            let can_publish = is_up && self.outbox.is_empty() && !self.unaccepted.has_parked();
            let waits_for_server = self.is_one_of_several() && self.is_at_stalled_server();
            let others_resume = progress.borrow().resuming > 0;
            let may_take_turn =
                turn.is_none() && may_ask && can_publish && !waits_for_server && !others_resume;
            let until = match waits_for_server {
                true => until.min(Instant::now() + LOOK_AGAIN),
                false => until,
            };
            let stalls_at = self.stalls_at(&turn);
            tokio::select! {
                biased;
                Some((prepared, answer)) = under_way.next() => {
                    let refused = self.on_answer(&mut turn, prepared, answer);
                    let Some(refused) = refused else { continue };
                    self.requeue_refused(&mut turn, Some(refused.prepared), &mut under_way).await;
                    // What the source made behind a lost pack must not overtake it.
                    turn.take_if(|turn| !turn.supply.has_cursors() && self.is_one_of_several());
                    if let Some(end) = self.recover(&mut turn, refused.trouble).await? {
                        return Ok(end);
                    }
                }
                () = at(stalls_at) => {
                    if let Some(end) = self.park(&mut turn, Why::NoAnswer).await? {
                        return self.finish(&mut turn, under_way, end).await;
                    }
                }
                () = self.partition.role_is(|role| role.epoch() != Some(self.epoch)) => {}
                () = self.partition.stopped() => {}
                _ = changes.changed() => {}
                made = next_pack(&mut turn, self, may_ask, is_idle) => match made {
                    Some(prepared) => {
                        self.remember(&prepared);
                        self.outbox.add(prepared);
                    }
                    None => return self.finish(&mut turn, under_way, End::SourceGaveUp).await,
                },
                supply = supply.lock(), if may_take_turn => {
                    turn = Some(Turn { supply, packs: 0 });
                }
                () = self.partition.store.wait_up(), if !is_up => {}
                () = self.partition.store.wait_down(), if is_up && self.is_one_of_several() => {}
                // An idle reign still checks whether it is over.
                () = tokio::time::sleep_until(until) => {}
            }
        }
    }

    pub(super) fn is_one_of_several(&self) -> bool {
        self.partition.store.partitions() > 1
    }

    /// Whether the partition gives the turn on: it had messages, and Redis has all of them; or its server is
    /// away. A source without cursors need not wait for answers.
    fn is_turn_over(&self, turn: &Turn<'_, '_>, is_idle: bool) -> bool {
        let has_used_it = turn.packs > 0 && (is_idle || !turn.supply.has_cursors());
        let cannot_use_it = is_idle && !self.partition.store.is_up();
        self.is_one_of_several() && (has_used_it || cannot_use_it)
    }

    /// How many packs may be under way. While the generator is paused, one finds out when it may go
    /// on.
    fn window(&self) -> usize {
        match self.partition.pauses.is_paused(Part::Generator) {
            true => 1,
            false if self.lead.yields_until(Instant::now()).is_some() => 0,
            false if self.partition.config.durability == Durability::None => WINDOW,
            false => CONFIRMED_WINDOW,
        }
    }

    /// Waits for the answers to what is under way. What Redis refused, after the `first` refused pack,
    /// is to be sent again, in order.
    async fn requeue_refused<F>(
        &mut self,
        turn: &mut Option<Turn<'_, '_>>,
        first: Option<Prepared>,
        under_way: &mut FuturesOrdered<F>,
    ) where
        F: Future<Output = (Prepared, Result<Publish, Error>)>,
    {
        let mut again = VecDeque::from_iter(first);
        while let Some((prepared, answer)) = under_way.next().await {
            let refused = self.on_answer(turn, prepared, answer);
            again.extend(refused.map(|refused| refused.prepared));
        }
        self.outbox.requeue(again);
    }

    /// Raises the fence: from here on Redis refuses what an older generator publishes here.
    pub(super) async fn seal(&mut self) -> Result<Sealed, Unsealed> {
        let partition = Arc::clone(&self.partition);
        loop {
            if let Some(end) = self.is_lapsed() {
                return Err(Unsealed::End(end));
            }
            // The last generator knows what it published. Any other waits for what the others know.
            partition.witness.beats_at(partition.store.run_id());
            let all_told_at = partition
                .witness
                .all_told_at(partition.config.lease_ttl / 3);
            if let (None, Some(at)) = (&self.kept, all_told_at.filter(|at| *at > Instant::now())) {
                tokio::time::sleep_until(at.min(self.trusted_until())).await;
                continue;
            }
            crash::point("before-seal");
            match partition.store.seal(self.epoch).await {
                Ok(Seal::Sealed {
                    last,
                    cursor,
                    known,
                    made,
                }) => {
                    crash::point("after-seal");
                    let position = SourcePosition { made, cursor };
                    return Ok(Sealed {
                        last,
                        known,
                        position,
                    });
                }
                Ok(Seal::Fenced { node, epoch }) => {
                    return Err(Unsealed::End(End::Fenced { node, epoch }));
                }
                Err(error) if error.is_transient() => self.pause_after(&error).await,
                Err(error) => return Err(Unsealed::Error(error)),
            }
        }
    }

    /// The packs that are parked here for other partitions.
    pub(super) async fn parked(&mut self) -> Result<Vec<Parcel>, Unsealed> {
        loop {
            if let Some(end) = self.is_lapsed() {
                return Err(Unsealed::End(end));
            }
            match self.partition.store.parked().await {
                Ok(parcels) => return Ok(parcels),
                Err(error) if !error.is_transient() => return Err(Unsealed::Error(error)),
                Err(error) => self.pause_after(&error).await,
            }
        }
    }

    /// Goes on where the partition stands. Redis may have forgotten messages up to a number that a node
    /// knows: in a fleet of one partition, a source that replays makes them again. Else the generator
    /// sends what it keeps, and the other numbers become void. A source with cursors makes again what is
    /// void, under new numbers: it is opened where the fleet stands, so it must not have made what is sent
    /// again. `parked` are the packs of this partition that wait in others. Returns where the source stands
    /// behind what is sent again.
    pub(super) fn resume(
        &mut self,
        sealed: Sealed,
        parked: Vec<Parcel>,
        replays: bool,
    ) -> SourcePosition {
        let Sealed {
            last,
            known,
            position,
        } = sealed;
        // No message has been published since the seal.
        let own = self.partition.witness.known();
        self.partition.compare_last(own, last);
        if self.is_one_of_several() && self.partition.config.durability == Durability::None {
            // The source goes on behind these messages: a server that forgets them loses them.
            self.partition.witness.acknowledged(last);
        }
        let (known, kept) = match replays && !self.is_one_of_several() {
            true => (last, None),
            false => (known.max(own), self.kept.take()),
        };
        let parked = parked.into_iter().filter(|parcel| parcel.first > last);
        let stage = || self.partition.store.new_stage();
        let parked: Vec<_> = parked.map(|p| Prepared::parked(p, stage())).collect();
        let kept = Kept::with_parked(kept, last, &position.cursor, parked);
        self.outbox = Outbox::fill(last, &position.cursor, known, kept);
        match self.outbox.newest() {
            Some(newest) => SourcePosition {
                made: newest.made.unwrap_or_default(),
                cursor: newest.cursor.clone(),
            },
            None => position,
        }
    }

    /// How this reign ends, if it is over.
    fn over(&self, progress: &watch::Sender<ReignState>) -> Option<End> {
        // Another partition has ended it, and says how.
        let is_over = progress.borrow().is_over.then_some(End::Stopped);
        is_over.or_else(|| self.is_lapsed())
    }

    /// How this reign ends, if the node stops or does not hold the lease any more.
    fn is_lapsed(&self) -> Option<End> {
        if self.partition.stopping() {
            return Some(End::Stopped);
        }
        // A process that was paused may wake up here, long after its trust ended.
        let role = self.partition.role.borrow().trusted_at(Instant::now());
        (role.epoch() != Some(self.epoch)).then_some(End::Lapsed)
    }

    /// Waits for the answers to what is under way, so that the log has what took effect. Keeps what did
    /// not.
    async fn finish<F>(
        &mut self,
        turn: &mut Option<Turn<'_, '_>>,
        mut under_way: FuturesOrdered<F>,
        end: End,
    ) -> Result<End, Error>
    where
        F: Future<Output = (Prepared, Result<Publish, Error>)>,
    {
        self.requeue_refused(turn, None, &mut under_way).await;
        Ok(end)
    }

    /// Until when this node trusts its lease.
    fn trusted_until(&self) -> Instant {
        match *self.partition.role.borrow() {
            Role::Generator { until, .. } => until,
            _ => Instant::now(),
        }
    }

    /// Waits until a call may be repeated. Warns now and then of a server that answers and takes
    /// nothing; a server with full memory takes some messages in between.
    pub(super) async fn pause_after(&mut self, error: &Error) {
        if let Error::Unavailable(why) = error {
            // This node lives and beats meanwhile: its beats say it.
            self.partition.set_publish_trouble(Some(why.clone()));
            if !warned_lately(self.unavailable_warned) {
                self.unavailable_warned = Some(Instant::now());
                self.partition.warn(Warning::CannotPublish {
                    reason: why.clone(),
                });
            }
        }
        tokio::select! {
            () = self.partition.pause_after(error) => {}
            () = self.partition.stopped() => {}
            // The lease may be gone before the server is back.
            () = tokio::time::sleep_until(self.trusted_until()), if self.is_one_of_several() => {}
        }
    }
}

/// The next pack of the source, while the partition has the turn. None if the source cannot go on.
async fn next_pack(
    turn: &mut Option<Turn<'_, '_>>,
    reign: &PartitionReign,
    may_ask: bool,
    is_idle: bool,
) -> Option<Prepared> {
    let Some(turn) = turn else {
        return std::future::pending().await;
    };
    let is_full = reign.is_one_of_several() && turn.packs >= PACKS_OF_A_TURN;
    let (partition, outbox) = (&reign.partition, &reign.outbox);
    let made = turn
        .supply
        .next(partition, outbox, may_ask && !is_full, is_idle);
    let made = made.await;
    turn.packs += 1;
    made
}

/// Waits until this time; for ever if there is none.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
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
