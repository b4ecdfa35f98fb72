//! The generator: it seals, asks its source for messages, and publishes them.
//!
//! Packs go out in order, a few at a time. The generator keeps a pack that Redis has not answered
//! and sends it again unchanged, so that an *already* tells what became of it. It keeps a confirmed
//! pack a little longer, so that a server that lost its last writes gets them again.
//!
//! # Partitions
//!
//! A generator seals all partitions before it publishes to any: so the whole fleet has one generator. Its
//! source stands at one place, and what it makes next goes to one partition at a time, which *has the
//! turn*. A partition gives the turn on when Redis has all that was made in it. So what Redis has of a
//! source never has a hole: only the newest packs may be missing, and they are all in one partition. If
//! its server does not answer, copies of them are *parked* in another partition, and the turn goes on.
//!
//! Here is a reign: when it begins and how it ends. `partition_reign` is what it sends to one partition,
//! `parking` keeps what cannot be sent, `publish` reads the answers, `supply` gets messages from the source, `lead` keeps the generator near
//! its workers.

mod lead;
mod parking;
mod partition_reign;
mod publish;
mod supply;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use baton_protocol::Parcel;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;

use self::partition_reign::{PartitionReign, Sealed, SourcePosition};
use self::supply::Supply;
use crate::node::context::{Context, Role};
use crate::node::outbox::Kept;
use crate::node::partition::Partition;
use crate::node::source_task::SourceTask;
use crate::{Error, Event, Source};

/// Shortest time between two warnings of one kind.
const WARN_EVERY: Duration = Duration::from_secs(10);
/// How long a source has to release everything when its node stops.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Generates whenever this node holds the lease, until it stops.
pub(crate) async fn run<S: Source>(
    ctx: &Arc<Context>,
    partitions: &Arc<[Arc<Partition>]>,
    source: S,
) -> Result<(), Error> {
    let mut source = SourceTask::start(source, Arc::clone(&ctx.clock));
    let ended = reign_until_stopped(ctx, partitions, &mut source).await;
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, source.end()).await;
    ended
}

async fn reign_until_stopped(
    ctx: &Arc<Context>,
    partitions: &Arc<[Arc<Partition>]>,
    source: &mut SourceTask,
) -> Result<(), Error> {
    // One of each partition, or none at all.
    let mut kept: Vec<Kept> = Vec::new();
    loop {
        tokio::select! {
            biased;
            () = ctx.stopped() => return Ok(()),
            () = ctx.role_is(|role| role.epoch().is_some()) => {}
            // Another node generates. What it publishes may be what this node's source made.
            () = ctx.role_is(|role| role == Role::Worker), if !kept.is_empty() => {
                kept = Vec::new();
            }
        }
        let Some(epoch) = ctx.role.borrow().epoch() else {
            continue;
        };
        let mut reign = Reign::new(ctx, partitions, source, epoch, std::mem::take(&mut kept));
        let end = reign.run().await?;
        let supply = reign.supply.get_mut();
        supply.end(ctx);
        // What this node does not publish any more, no server refuses.
        ctx.meter.clear_publish_troubles();
        let gave_up = supply.gave_up().map(str::to_owned);
        kept = reign.into_kept();
        let end = match end {
            // The lease ended before the reign saw that its source had given up.
            End::Lapsed | End::Fenced { .. } if gave_up.is_some() => End::SourceGaveUp,
            end => end,
        };
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
    /// The source, behind the turn: one partition at a time has it.
    supply: Mutex<Supply<'a>>,
    partitions: Vec<PartitionReign>,
    /// Whether all partitions are sealed: only then it could publish.
    is_sealed: bool,
}

impl<'a> Reign<'a> {
    fn new(
        ctx: &'a Arc<Context>,
        partitions: &Arc<[Arc<Partition>]>,
        source: &'a mut SourceTask,
        epoch: u64,
        kept: Vec<Kept>,
    ) -> Self {
        let mut kept = kept.into_iter();
        let partitions = partitions
            .iter()
            .map(|partition| PartitionReign::new(partitions, partition, epoch, kept.next()));
        Self {
            ctx,
            epoch,
            supply: Mutex::new(Supply::new(ctx, source)),
            partitions: partitions.collect(),
            is_sealed: false,
        }
    }

    /// Seals and publishes until the reign is over.
    async fn run(&mut self) -> Result<End, Error> {
        match self.seal().await {
            Ok((sealed, parked)) => self.resume(sealed, parked),
            Err(Unsealed::End(end)) => return Ok(end),
            Err(Unsealed::Error(error)) => return Err(error),
        }
        let state = watch::Sender::new(ReignState {
            is_over: false,
            resuming: self.partitions.len(),
        });
        let runs = self.partitions.iter_mut();
        let runs = runs.map(|partition| partition.run(&self.supply, &state));
        let mut runs: FuturesUnordered<_> = runs.collect();
        let mut end = Ok(End::Stopped);
        while let Some(ended) = runs.next().await {
            // The first end of a partition is the end of the reign. The others wait for their answers.
            let is_first = !state.borrow().is_over;
            state.send_modify(|state| state.is_over = true);
            if is_first {
                end = ended;
            }
        }
        end
    }

    /// Raises the fence of every partition: from here on Redis refuses what an older generator
    /// publishes. Nothing is published before all are sealed. Returns what an older one parked, too.
    async fn seal(&mut self) -> Result<(Vec<Sealed>, Vec<Parcel>), Unsealed> {
        let seals = self.partitions.iter_mut().map(PartitionReign::seal);
        let sealed = futures_util::future::try_join_all(seals).await?;
        let parked = match self.partitions.len() {
            1 => Vec::new(),
            _ => {
                let reads = self.partitions.iter_mut().map(PartitionReign::parked);
                futures_util::future::try_join_all(reads).await?
            }
        };
        for (place, parcels) in parked.iter().enumerate() {
            self.remove_old_copies(place, parcels, &sealed);
        }
        self.is_sealed = true;
        self.ctx.meter.clear_publish_troubles();
        self.ctx.emit(Event::Generator { epoch: self.epoch });
        Ok((sealed, parked.into_iter().flatten().collect()))
    }

    /// Removes the copies that their own partition has by now. The others stay until it has them.
    fn remove_old_copies(&mut self, place: usize, parcels: &[Parcel], sealed: &[Sealed]) {
        let mut fields = Vec::new();
        for parcel in parcels {
            let index = parcel.partition as usize;
            match (self.partitions.get_mut(index), sealed.get(index)) {
                (Some(partition), Some(sealed)) if parcel.first > sealed.last => {
                    partition.is_parked_at(parcel.first, place);
                }
                _ => fields.push(Parcel::field(parcel.partition, parcel.first)),
            }
        }
        if let (false, Some(place)) = (fields.is_empty(), self.partitions.get(place)) {
            parking::remove_copies(&place.partition, self.epoch, fields);
        }
    }

    /// Opens the source where the fleet stands. Of several partitions, the one that has what the source
    /// made last knows it.
    fn resume(&mut self, sealed: Vec<Sealed>, mut parked: Vec<Parcel>) {
        let replays = self.supply.get_mut().replays();
        let mut last: Option<SourcePosition> = None;
        for (partition, sealed) in self.partitions.iter_mut().zip(sealed) {
            let index = partition.partition.store.partition();
            let own = parked.extract_if(.., |parcel| parcel.partition == index);
            let position = partition.resume(sealed, own.collect(), replays);
            if last.as_ref().is_none_or(|last| last.made <= position.made) {
                last = Some(position);
            }
        }
        let Some(SourcePosition { made, cursor }) = last else {
            return;
        };
        let is_only = self.partitions.len() == 1;
        let only = self.partitions.first().filter(|_| is_only);
        let next_seq = only.map_or(made.messages + 1, |only| only.outbox.next);
        let supply = self.supply.get_mut();
        supply.made = (!is_only).then_some(made);
        supply.open(self.ctx, next_seq, cursor);
    }

    /// What the next reign may send again. A reign that never sealed knows nothing.
    fn into_kept(self) -> Vec<Kept> {
        let epoch = self.epoch;
        if !self.is_sealed {
            return Vec::new();
        }
        let partitions = self.partitions.into_iter();
        partitions.map(|p| p.outbox.into_kept(epoch)).collect()
    }
}

/// What the partitions of a reign tell each other.
struct ReignState {
    is_over: bool,
    /// How many partitions still send again what the reign before left: until then the source makes
    /// nothing new.
    resuming: usize,
}

/// Why a partition is not sealed.
enum Unsealed {
    End(End),
    Error(Error),
}

fn warned_lately(at: Option<Instant>) -> bool {
    at.is_some_and(|at| at.elapsed() < WARN_EVERY)
}
