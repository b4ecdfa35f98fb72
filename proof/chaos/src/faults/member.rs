//! Members of a group of servers killed or paused.

use std::time::Duration;

use anyhow::{Context, Result};
use baton_log::{LogEvent, RedisState};

use super::failover::wait_for_another_master;
use super::{Fault, Note};
use crate::arena::Arena;
use crate::group::{Group, Member, Rejoin, Shard};
use crate::rng::Rng;

/// How often a master that was killed comes back as a replica, in a hundred. Otherwise it comes back as
/// a master, with all that the others have forgotten, until Sentinels demote it.
pub(super) const AS_REPLICA: u64 = 60;
/// How often a master that was paused wakes up after another has taken its place, in a hundred. It does
/// not know that yet, and takes the writes that have waited for it.
const REPLACED: u64 = 80;

/// How long a generator goes on after a master was paused.
const ON_THEIR_WAY: Duration = Duration::from_millis(300);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whom {
    Master,
    /// The master of the lease.
    ControlMaster,
    Replica,
    Sentinel,
    /// A master of the cluster that the fleet does not use.
    OtherMaster,
}

impl Whom {
    /// Whether it is a master that the fleet uses.
    fn is_master(self) -> bool {
        matches!(self, Self::Master | Self::ControlMaster)
    }

    /// The shard that is hit, if it is one that the fleet uses.
    fn pick_shard(self, group: &Group, rng: &mut Rng) -> Result<Shard> {
        match self {
            Self::ControlMaster => Ok(group.control_shard()),
            _ => group.pick_shard(rng),
        }
    }

    fn pick(self, group: &Group, shard: Shard, rng: &mut Rng) -> Result<Member> {
        Ok(match self {
            Self::Master | Self::ControlMaster => Member::Server(group.master(shard)?),
            Self::Replica => {
                let replicas = group.replicas(group.master(shard)?)?;
                Member::Server(rng.pick(&replicas).context("there is no replica")?)
            }
            Self::Sentinel => {
                let sentinels: Vec<usize> = (0..group.count_sentinels()).collect();
                Member::Sentinel(rng.pick(&sentinels).context("there is no Sentinel")?)
            }
            Self::OtherMaster => {
                let others = group.cluster()?.unused_masters()?;
                Member::Server(rng.pick(&others).context("there is no other master")?)
            }
        })
    }
}

/// Kills a member with -9; lifting the fault starts it again.
pub(super) struct Kill {
    whom: Whom,
    with_generator: bool,
    rng: Rng,
    victim: Option<Member>,
    /// What the nodes had logged before.
    mark: usize,
}

impl Kill {
    pub(super) fn new(whom: Whom, with_generator: bool, rng: Rng) -> Self {
        Self {
            whom,
            with_generator,
            rng,
            victim: None,
            mark: 0,
        }
    }
}

impl Fault for Kill {
    fn inject(&mut self, arena: &mut Arena, note: &mut Note) -> Result<()> {
        let generator = match self.with_generator {
            true => Some(arena.generator().context("no node generates")?),
            false => None,
        };
        let shard = self.whom.pick_shard(arena.group()?, &mut self.rng)?;
        let victim = self.whom.pick(arena.group()?, shard, &mut self.rng)?;
        begin_failover_of(arena, self.whom, victim)?;
        self.mark = arena.fleet.mark();
        arena.group()?.process(victim)?.kill9();
        self.victim = Some(victim);
        note.text = victim.to_string();
        note.targets = arena.labels(generator.as_slice());
        generator.map_or(Ok(()), |generator| arena.kill(generator))
    }

    fn lift(&mut self, arena: &mut Arena, note: &mut Note) -> Result<()> {
        let Some(victim) = self.victim else {
            return Ok(());
        };
        let how = match self.whom.is_master() && self.rng.chance(AS_REPLICA) {
            true => Rejoin::AsReplica,
            false => Rejoin::AsItWas,
        };
        let how = arena.group()?.restart(victim, how)?;
        if self.whom.is_master() {
            note.text = format!("{victim}, back {how}");
        }
        Ok(())
    }

    /// A fleet must not notice the death of a master that it does not use.
    fn finish(&mut self, arena: &mut Arena, note: &mut Note) -> Result<()> {
        if self.whom != Whom::OtherMaster || arena.crowded {
            return Ok(());
        }
        let told = arena.fleet.told_since(self.mark);
        let lost = told.iter().find_map(|told| match told.event() {
            LogEvent::Redis {
                state: RedisState::Lost,
                reason,
            } => Some((told.copy, reason.clone().unwrap_or_default())),
            _ => None,
        });
        if let Some((node, reason)) = lost {
            let (label, victim) = (&arena.nodes[node].label, &note.text);
            let text = format!("{label} lost Redis when {victim} died, which it does not use");
            arena.findings.push(format!("{text}: {reason}"));
        }
        Ok(())
    }
}

/// Notes that the servers may forget something, if the victim is a master that the fleet uses.
fn begin_failover_of(arena: &mut Arena, whom: Whom, victim: Member) -> Result<()> {
    match victim {
        Member::Server(master) if whom.is_master() => arena.begin_failover(master),
        _ => Ok(()),
    }
}

/// Pauses a member until the Sentinels or the cluster have taken it for dead.
pub(super) struct Pause {
    whom: Whom,
    /// Whether the generator dies soon after, with messages on their way to the member.
    with_generator: bool,
    rng: Rng,
    victim: Option<(Shard, Member)>,
}

impl Pause {
    pub(super) fn new(whom: Whom, rng: Rng) -> Self {
        Self {
            whom,
            with_generator: false,
            rng,
            victim: None,
        }
    }

    /// A master is paused, and the generator dies.
    pub(super) fn with_generator(rng: Rng) -> Self {
        Self {
            with_generator: true,
            ..Self::new(Whom::Master, rng)
        }
    }
}

impl Fault for Pause {
    fn inject(&mut self, arena: &mut Arena, note: &mut Note) -> Result<()> {
        let generator = match self.with_generator {
            true => Some(arena.generator().context("no node generates")?),
            false => None,
        };
        let shard = self.whom.pick_shard(arena.group()?, &mut self.rng)?;
        let victim = self.whom.pick(arena.group()?, shard, &mut self.rng)?;
        begin_failover_of(arena, self.whom, victim)?;
        note.text = victim.to_string();
        note.targets = arena.labels(generator.as_slice());
        arena.group()?.process(victim)?.pause()?;
        self.victim = Some((shard, victim));
        match generator {
            Some(generator) => {
                arena.stop.wait(ON_THEIR_WAY);
                arena.kill(generator)
            }
            None => Ok(()),
        }
    }

    fn lift(&mut self, arena: &mut Arena, note: &mut Note) -> Result<()> {
        let Some((shard, victim)) = self.victim else {
            return Ok(());
        };
        if let (true, Member::Server(old)) = (self.whom.is_master(), victim)
            && self.rng.chance(REPLACED)
        {
            // If there is no other, the run says so when the group is not whole.
            if let Ok(new) = wait_for_another_master(arena, shard, old) {
                note.text = format!("{victim}, replaced by {}", Member::Server(new));
            }
        }
        Ok(arena.group()?.process(victim)?.resume()?)
    }
}
