//! Members of a group of servers killed or paused.

use anyhow::{Context, Result};

use super::{Fault, Note};
use crate::arena::Arena;
use crate::group::{Group, Member, Rejoin};
use crate::rng::Rng;

/// How often a master that was killed comes back as a replica, in a hundred. Otherwise it comes back as
/// a master, with all that the others have forgotten, until Sentinels demote it.
pub(super) const AS_REPLICA: u64 = 60;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whom {
    Master,
    Replica,
    Sentinel,
}

impl Whom {
    fn pick(self, group: &Group, rng: &mut Rng) -> Result<Member> {
        Ok(match self {
            Self::Master => Member::Server(group.master()?),
            Self::Replica => {
                let replicas = group.replicas()?;
                Member::Server(rng.pick(&replicas).context("there is no replica")?)
            }
            Self::Sentinel => {
                let last = group.sentinels() as u64 - 1;
                Member::Sentinel(rng.between(0, last) as usize)
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
}

impl Kill {
    pub(super) fn new(whom: Whom, with_generator: bool, rng: Rng) -> Self {
        Self {
            whom,
            with_generator,
            rng,
            victim: None,
        }
    }
}

impl Fault for Kill {
    fn inject(&mut self, arena: &mut Arena, note: &mut Note) -> Result<()> {
        let generator = match self.with_generator {
            true => Some(arena.generator().context("no node generates")?),
            false => None,
        };
        let victim = self.whom.pick(arena.group()?, &mut self.rng)?;
        if self.whom == Whom::Master {
            arena.begin_failover();
        }
        arena.group()?.process(victim).kill9();
        self.victim = Some(victim);
        note.text = victim.to_string();
        note.targets = arena.labels(generator.as_slice());
        generator.map_or(Ok(()), |generator| arena.kill(generator))
    }

    fn lift(&mut self, arena: &mut Arena, note: &mut Note) -> Result<()> {
        let Some(victim) = self.victim else {
            return Ok(());
        };
        let how = match self.whom == Whom::Master && self.rng.chance(AS_REPLICA) {
            true => Rejoin::AsReplica,
            false => Rejoin::AsItWas,
        };
        let how = arena.group()?.restart(victim, how)?;
        if self.whom == Whom::Master {
            note.text = format!("{victim}, back {how}");
        }
        Ok(())
    }
}

/// Pauses a member until the Sentinels have taken it for dead.
pub(super) struct Pause {
    whom: Whom,
    rng: Rng,
    victim: Option<Member>,
}

impl Pause {
    pub(super) fn new(whom: Whom, rng: Rng) -> Self {
        Self {
            whom,
            rng,
            victim: None,
        }
    }
}

impl Fault for Pause {
    fn inject(&mut self, arena: &mut Arena, note: &mut Note) -> Result<()> {
        let victim = self.whom.pick(arena.group()?, &mut self.rng)?;
        if self.whom == Whom::Master {
            arena.begin_failover();
        }
        note.text = victim.to_string();
        arena.group()?.process(victim).pause()?;
        self.victim = Some(victim);
        Ok(())
    }

    fn lift(&mut self, arena: &mut Arena, _note: &mut Note) -> Result<()> {
        match self.victim {
            Some(victim) => Ok(arena.group()?.process(victim).resume()?),
            None => Ok(()),
        }
    }
}
