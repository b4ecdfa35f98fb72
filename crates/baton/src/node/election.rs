//! The election: which node of the fleet generates.
//!
//! # The lease
//!
//! Redis decides. It has one lease: a holder, an epoch, and an end on Redis's clock. Every node
//! beats. The holder's beat renews the lease. Any other node's beat takes the lease, under the next
//! epoch, if the lease is free. It is free when
//!
//! - no node holds it,
//! - its end has passed, or
//! - its holder is absent from its presence channel: a killed process loses its sockets within
//!   milliseconds, and Redis sees that.
//!
//! # Roles
//!
//! ```text
//!              another node holds the lease         this node holds it
//!   Unknown ──────────────────────────────▶ Worker ────────────────────▶ Generator
//!      ▲                                      ▲                              │ │
//!      │                                      └── another node holds it ─────┘ │
//!      └───────────── no beat was answered until the trust ended ──────────────┘
//! ```
//!
//! # Trust
//!
//! A generator trusts its lease until *start of the beat + time to live − margin* on its own
//! monotonic clock. The window begins with the start, so a slow round trip does not stretch it, and
//! it ends before the lease does. The window makes a generator that lost Redis stop early. Safety
//! does not depend on it: two generators are harmless because Redis checks the fence with every
//! publish.
//!
//! # Standbys
//!
//! Standbys queue up in the order in which they joined. The first two beat every 50 ms, so they
//! notice a death. The others beat at the pace of the time to live: a thousand nodes are not a
//! thousand polls per tick. When one of the first two moves up or dies, the beat that finds out
//! calls the next standby to beat at once.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use baton_protocol::{Beat, BeatCall, Reclaimed, crash};
use tokio::time::Instant;

use crate::node::config::GeneratorWorks;
use crate::node::context::{Context, Role};
use crate::node::no_worker::NoWorker;
use crate::node::partition::Partition;
use crate::node::warning::Warning;
use crate::observe::snapshot::{About, shortened_reason};
use crate::{Error, Event};

/// The share of the time to live that a generator keeps as a margin.
const MARGIN_SHARE: u32 = 10;
/// How many reclaims one beat sends at most. A node of many lanes leaves more claims than one call
/// looks at.
const MAX_RECLAIMS: usize = 32;
/// A delayed message that is due so soon does not wait for the next reclaim of its partition.
const SOON: Duration = Duration::from_millis(100);
/// Shortest pause between two beats, however soon a delayed message is due.
const MIN_PAUSE: Duration = Duration::from_millis(2);
/// Longest pause of a generator that is the only node. Its lanes may wait for its next beat.
const MAX_LONE_BEAT: Duration = Duration::from_secs(1);
/// How long a generator of several partitions goes on after each sign that only the lease's server is away.
const PROLONGED: Duration = Duration::from_millis(500);
/// Longest wait for a lost connection before a generator checks its trust again.
const LOST_PAUSE: Duration = Duration::from_millis(50);

/// Beats until the node stops. Ends early only with an error that needs an operator.
pub(crate) async fn run(ctx: &Context, partitions: &[Arc<Partition>]) -> Result<(), Error> {
    let mut election = Election {
        generator_works: ctx.config.generator_works,
        ..Election::default()
    };
    let mut about = About {
        host: crate::node::host_name(),
        pid: u64::from(std::process::id()),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..About::default()
    };
    while !ctx.stopping() {
        let run_id = ctx.control.run_id();
        let about = describe(&mut about, ctx);
        let pause = election.beat(ctx, partitions, &about).await?;
        ctx.meter.turns_again_after(pause);
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = ctx.beat_now.notified() => {}
            () = ctx.control.wait_called() => {}
            // The others need to know what this node knows.
            () = ctx.control.wait_other_run(&run_id) => {}
            () = ctx.stopped() => {}
        }
    }
    Ok(())
}

/// What the node says about itself with a beat, as JSON.
fn describe(about: &mut About, ctx: &Context) -> String {
    let meter = &ctx.meter;
    about.published = meter.published();
    about.processed = meter.processed();
    about.failed = meter.failed();
    about.delayed = meter.delayed();
    about.handler_trouble = meter.handler_trouble().as_deref().map(shortened_reason);
    about.publish_trouble = meter.publish_trouble().as_deref().map(shortened_reason);
    about.source_trouble = ctx.source_trouble().as_deref().map(shortened_reason);
    about.durability = Some(ctx.config.durability.to_string());
    about.durability_trouble = ctx.durability_trouble().as_deref().map(shortened_reason);
    about.latency = meter.latency();
    // Serializing strings and numbers cannot fail.
    serde_json::to_string(about).unwrap_or_default()
}

/// What the election remembers from one beat to the next.
#[derive(Debug, Default)]
struct Election {
    /// The generator that the log named last; none while this node generates.
    announced: Option<String>,
    /// The epoch of the last lease, and whether this node holds it.
    lease: (u64, bool),
    /// Whether this node returns what the dead held, along with its beats.
    reclaims: bool,
    /// How often it has.
    reclaims_so_far: usize,
    generator_works: GeneratorWorks,
    no_worker: NoWorker,
}

/// What a node does after the answer to a beat.
#[derive(Debug, PartialEq)]
struct Step {
    role: Role,
    /// The generator that the log names.
    announce: Option<String>,
    /// Whether the node generates, does not work, and has had no worker for long.
    lacks_worker: bool,
    /// When to beat again.
    next: Duration,
}

impl Election {
    /// Notes the lease. Returns whether it is another one, and its epoch does not exceed that of the one
    /// before: then the server lost its data.
    fn fell_back(&mut self, beat: &Beat) -> bool {
        let (epoch, is_mine) = match beat {
            Beat::Generator { epoch, .. } => (*epoch, true),
            Beat::Worker { epoch, .. } => (*epoch, false),
        };
        let before = std::mem::replace(&mut self.lease, (epoch, is_mine));
        epoch < before.0 || (epoch == before.0 && is_mine && !before.1)
    }

    /// Decides what to do after the answer to a beat, at `now`. As a generator, this node may trust
    /// its lease until `trusted_until`.
    fn step(&mut self, beat: Beat, trusted_until: Instant, now: Instant) -> Step {
        match beat {
            Beat::Generator {
                epoch,
                next,
                standbys,
                ..
            } => {
                self.announced = None;
                self.reclaims = true;
                let works = self.generator_works.beside(standbys);
                Step {
                    role: Role::Generator {
                        epoch,
                        until: trusted_until,
                        works,
                    },
                    announce: None,
                    lacks_worker: self.no_worker.note(standbys == 0 && !works, now),
                    next: if standbys == 0 {
                        next.min(MAX_LONE_BEAT)
                    } else {
                        next
                    },
                }
            }
            Beat::Worker {
                generator,
                next,
                place,
                ..
            } => {
                // One standby is enough; the second is the first as soon as that one dies.
                self.reclaims = place == 1;
                self.no_worker = NoWorker::default();
                // An empty name: no node may generate, or none has the lease yet.
                let is_new = self.announced.as_ref() != Some(&generator);
                let announce = (is_new && !generator.is_empty()).then_some(generator);
                if announce.is_some() {
                    self.announced.clone_from(&announce);
                }
                Step {
                    role: Role::Worker,
                    announce,
                    lacks_worker: false,
                    next,
                }
            }
        }
    }

    /// Beats once, and reclaims if that is this node's part. Returns how long to pause.
    async fn beat(
        &mut self,
        ctx: &Context,
        partitions: &[Arc<Partition>],
        about: &str,
    ) -> Result<Duration, Error> {
        let above = ctx.above.load(Ordering::Relaxed);
        // A node of several partitions tells each of them by another call what it knows there.
        let only = match partitions {
            [only] => Some(only),
            _ => None,
        };
        let known = only.map_or(0, |only| only.witness.known());
        if let Some(only) = only {
            only.witness.beats_at(ctx.control.run_id());
        }
        let sent = Instant::now();
        let beat = ctx.control.beat(BeatCall {
            lease_ttl: ctx.config.lease_ttl,
            about,
            above,
            is_candidate: ctx.may_generate(),
            known,
        });
        let (beat, reclaimed) = match self.reclaims {
            true => match only {
                Some(only) => tokio::join!(beat, reclaim(only)),
                None => {
                    self.reclaims_so_far = self.reclaims_so_far.wrapping_add(1);
                    reclaim_some(partitions, self.reclaims_so_far);
                    (beat.await, Ok(Reclaimed::default()))
                }
            },
            false => (beat.await, Ok(Reclaimed::default())),
        };
        let next_due = report(ctx, reclaimed)?;
        match beat {
            Ok(beat) => {
                ctx.meter.has_joined();
                let generates = matches!(beat, Beat::Generator { .. });
                ctx.set_clock(beat.now_ms(), sent, generates);
                if let Some(only) = only {
                    only.compare_beat(known, beat.last());
                }
                let trusted_until = trusted_until(sent, ctx.config.lease_ttl);
                if let (true, Some(only)) = (self.fell_back(&beat), only) {
                    only.witness.data_lost();
                }
                let step = self.step(beat, trusted_until, Instant::now());
                let pause = apply(ctx, step);
                // Messages may have come back, or by another hand.
                for partition in partitions {
                    partition.wake_lane();
                }
                Ok(next_due.map_or(pause, |due| pause.min(due.max(MIN_PAUSE))))
            }
            Err(error) if error.is_transient() => {
                let (role, now) = (*ctx.role.borrow(), Instant::now());
                ctx.set_role(match partitions.len() > 1 && !ctx.control.is_up() {
                    true => role.prolonged_until(now + PROLONGED),
                    false => role.trusted_at(now),
                });
                // Until the connection is back, or the trust may have ended.
                let pause = ctx.pause_after(&ctx.control, &error);
                let _ = tokio::time::timeout(LOST_PAUSE, pause).await;
                Ok(Duration::ZERO)
            }
            Err(error) => Err(error),
        }
    }
}

/// Until when a generator trusts a lease for which it beat at `sent`.
fn trusted_until(sent: Instant, lease_ttl: Duration) -> Instant {
    sent + lease_ttl - lease_ttl / MARGIN_SHARE
}

/// Applies a step. Returns how long to pause.
fn apply(ctx: &Context, step: Step) -> Duration {
    let generates = step.role.epoch().is_some();
    if generates && ctx.role.borrow().epoch().is_none() {
        crash::point("after-beat-took-lease");
    }
    ctx.set_role(step.role);
    if step.lacks_worker {
        ctx.warn(Warning::NoWorker);
    }
    if let Some(generator) = step.announce {
        ctx.emit(Event::Worker { generator });
    }
    match generates {
        true => step.next,
        // So that standbys do not beat in step.
        false => step.next.mul_f64(rand::random_range(0.8..1.2)),
    }
}

/// Returns what the dead held in several partitions, in tasks of their own: the beat waits for no server of
/// another partition. Each call looks at half of them, because the first standby beats often, and the
/// servers have other work.
fn reclaim_some(partitions: &[Arc<Partition>], turn: usize) {
    let meant = partitions.iter().enumerate();
    for (_, partition) in meant.filter(|(index, _)| index % 2 == turn % 2) {
        if !partition.store.is_up() || partition.is_reclaiming.swap(true, Ordering::Relaxed) {
            continue;
        }
        let partition = Arc::clone(partition);
        tokio::spawn(async move {
            reclaim_until_due(&partition).await;
            partition.is_reclaiming.store(false, Ordering::Relaxed);
        });
    }
}

/// Returns what the dead held in a partition, and, if a delayed message is due before the next call, that
/// message, too. An error is the next call's.
async fn reclaim_until_due(partition: &Partition) {
    for _ in 0..MAX_RECLAIMS {
        let Ok(Some(due)) = report(partition, reclaim(partition).await) else {
            return;
        };
        if due > SOON || partition.stopping() {
            return;
        }
        tokio::time::sleep(due.max(MIN_PAUSE)).await;
    }
}

/// Returns what the dead held in a partition.
async fn reclaim(partition: &Partition) -> Result<Reclaimed, Error> {
    let mut all = Reclaimed::default();
    for _ in 0..MAX_RECLAIMS {
        let some = partition.store.reclaim().await?;
        let is_more = !some.nodes.is_empty() || some.next_due == Some(Duration::ZERO);
        all.add(some);
        if !is_more {
            break;
        }
    }
    Ok(all)
}

/// Logs what was returned. A reclaim that a transient error cut short goes on with the next beat.
/// Returns when the next delayed message is due.
fn report(ctx: &Context, reclaimed: Result<Reclaimed, Error>) -> Result<Option<Duration>, Error> {
    match reclaimed {
        Ok(Reclaimed {
            messages: 0,
            next_due,
            ..
        }) => Ok(next_due),
        Ok(Reclaimed {
            messages,
            nodes,
            next_due,
            ..
        }) => {
            crash::point("after-reclaim");
            ctx.emit(Event::Reclaimed {
                count: messages,
                nodes,
            });
            Ok(next_due)
        }
        Err(error) if error.is_transient() => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEXT: Duration = Duration::from_millis(70);

    fn generator(epoch: u64) -> Beat {
        beside(1, epoch)
    }

    fn beside(standbys: u64, epoch: u64) -> Beat {
        Beat::Generator {
            epoch,
            next: NEXT,
            now_ms: 1,
            standbys,
            last: 0,
        }
    }

    fn worker(generator: &str, epoch: u64, place: u64) -> Beat {
        Beat::Worker {
            generator: generator.to_owned(),
            epoch,
            next: NEXT,
            now_ms: 1,
            place,
            last: 0,
        }
    }

    fn works(announce: Option<&str>) -> Step {
        Step {
            role: Role::Worker,
            announce: announce.map(str::to_owned),
            lacks_worker: false,
            next: NEXT,
        }
    }

    #[test]
    fn a_node_with_the_lease_generates_while_it_may_trust_it_and_reclaims() {
        let (mut election, until) = (Election::default(), Instant::now());
        let generates = Step {
            role: Role::Generator {
                epoch: 3,
                until,
                works: false,
            },
            announce: None,
            lacks_worker: false,
            next: NEXT,
        };
        assert_eq!(election.step(generator(3), until, until), generates);
        assert!(election.reclaims);
    }

    #[test]
    fn a_worker_names_each_generator_once() {
        let (mut election, now) = (Election::default(), Instant::now());
        let mut step = |generator, epoch| election.step(worker(generator, epoch, 0), now, now);
        assert_eq!(step("a", 1), works(Some("a")));
        assert_eq!(step("a", 1), works(None));
        assert_eq!(step("b", 2), works(Some("b")));
        assert_eq!(step("b", 3), works(None));
    }

    #[test]
    fn an_epoch_that_does_not_grow_says_that_the_server_lost_its_data() {
        let mut election = Election::default();
        let mut fell = |beat: Beat| election.fell_back(&beat);
        assert!(!fell(worker("a", 1, 1)) && !fell(worker("a", 1, 1)));
        assert!(!fell(generator(2)) && !fell(generator(2)), "a takeover");
        assert!(!fell(worker("", 2, 1)), "it gave up its lease");
        assert!(fell(generator(2)), "the same epoch a second time");
        assert!(!fell(worker("b", 7, 1)));
        assert!(fell(worker("c", 1, 1)));
    }

    #[test]
    fn a_node_that_generated_meanwhile_names_the_same_generator_again() {
        let (mut election, now) = (Election::default(), Instant::now());
        let _ = election.step(worker("a", 1, 0), now, now);
        let _ = election.step(generator(2), now, now);
        assert_eq!(election.step(worker("a", 3, 0), now, now), works(Some("a")));
    }

    #[test]
    fn only_the_first_standby_reclaims_beside_the_generator() {
        let (mut election, now) = (Election::default(), Instant::now());
        for (place, reclaims) in [(1, true), (2, false), (1, true), (0, false)] {
            let _ = election.step(worker("a", 1, place), now, now);
            assert_eq!(election.reclaims, reclaims, "place {place}");
        }
    }

    #[test]
    fn a_generator_works_never_while_it_is_alone_or_always() {
        use GeneratorWorks::{Alone, Always, Never};
        let now = Instant::now();
        for (generator_works, alone, beside_one) in [
            (Never, false, false),
            (Alone, true, false),
            (Always, true, true),
        ] {
            let mut election = Election {
                generator_works,
                ..Election::default()
            };
            let mut works = |standbys| election.step(beside(standbys, 1), now, now).role.works();
            assert_eq!((works(0), works(1), works(0)), (alone, beside_one, alone));
        }
    }

    #[test]
    fn a_generator_lacks_a_worker_only_if_it_does_not_work_itself() {
        use GeneratorWorks::{Alone, Always, Never};
        let now = Instant::now();
        for (generator_works, expected) in [(Never, true), (Alone, false), (Always, false)] {
            let mut election = Election {
                generator_works,
                ..Election::default()
            };
            let _ = election.step(beside(0, 1), now, now);
            let later = now + Duration::from_secs(5);
            let step = election.step(beside(0, 1), later, later);
            assert_eq!(step.lacks_worker, expected, "{generator_works:?}");
        }
    }

    #[test]
    fn trust_counts_from_the_start_of_the_beat_and_ends_before_the_lease() {
        let (sent, ms) = (Instant::now(), Duration::from_millis);
        assert_eq!(trusted_until(sent, ms(1500)), sent + ms(1350));
    }
}
