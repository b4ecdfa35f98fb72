//! Failovers of a master that lives.

use std::time::Instant;

use anyhow::{Context, Result, bail};

use super::{Fault, Note};
use crate::arena::Arena;
use crate::group::{Group, Member, Shard};
use crate::rng::Rng;

/// Another server becomes the master while the first one lives and still takes writes.
pub(super) struct Forced(pub(super) Rng);

impl Fault for Forced {
    fn inject(&mut self, arena: &mut Arena, note: &mut Note) -> Result<()> {
        let shard = arena.group()?.pick_shard(&mut self.0)?;
        let (old, new) = fail_over(arena, shard, &mut self.0)?;
        note.text = format!(
            "{} gives way to {}",
            Member::Server(old),
            Member::Server(new)
        );
        Ok(())
    }
}

/// Another server becomes the master, and then the first one again, without a restart: to a client
/// that missed the time between, all looks as before.
pub(super) struct ThereAndBack {
    rng: Rng,
    passed_over: Option<usize>,
}

impl ThereAndBack {
    pub(super) fn new(rng: Rng) -> Self {
        Self {
            rng,
            passed_over: None,
        }
    }
}

impl Fault for ThereAndBack {
    fn inject(&mut self, arena: &mut Arena, note: &mut Note) -> Result<()> {
        let shard = arena.group()?.pick_shard(&mut self.rng)?;
        let master = arena.group()?.master(shard)?;
        let replicas = arena.group()?.replicas(master)?;
        let third = self.rng.pick(&replicas).context("there is no replica")?;
        // Only two servers take part. In a cluster there are no more.
        if replicas.len() > 1 {
            arena.group()?.set_promotable(third, false)?;
            self.passed_over = Some(third);
            wait_for(arena, "the Sentinels to pass a server over", |group| {
                group.is_passed_over(third)
            })?;
        }
        let (first, second) = fail_over(arena, shard, &mut self.rng)?;
        wait_for(arena, "the group to be whole on the way", |group| {
            group.check_whole().map(|_| true)
        })?;
        let (_, last) = fail_over(arena, shard, &mut self.rng)?;
        note.text = format!(
            "{}, {}, {}",
            Member::Server(first),
            Member::Server(second),
            Member::Server(last)
        );
        match last == first {
            true => Ok(()),
            false => bail!("{} became the master instead", Member::Server(last)),
        }
    }

    fn lift(&mut self, arena: &mut Arena, _note: &mut Note) -> Result<()> {
        match self.passed_over {
            Some(server) => arena.group()?.set_promotable(server, true),
            None => Ok(()),
        }
    }
}

/// Replaces the master of a shard, which lives. Returns the old one and the new one.
fn fail_over(arena: &mut Arena, shard: Shard, rng: &mut Rng) -> Result<(usize, usize)> {
    let old = arena.group()?.master(shard)?;
    arena.begin_failover(old)?;
    arena.group()?.fail_over(old, rng)?;
    wait_for_another_master(arena, shard, old).map(|new| (old, new))
}

/// Waits until a shard has another master.
pub(super) fn wait_for_another_master(
    arena: &mut Arena,
    shard: Shard,
    old: usize,
) -> Result<usize> {
    wait_for(arena, "another master", |group| {
        Ok(group.master(shard).is_ok_and(|master| master != old))
    })?;
    arena.group()?.master(shard)
}

/// Waits for a state of the group.
pub(super) fn wait_for(
    arena: &mut Arena,
    what: &str,
    holds: impl Fn(&Group) -> Result<bool>,
) -> Result<()> {
    let timeout = arena.settings.timeout;
    let deadline = Instant::now() + timeout;
    loop {
        let seen = holds(arena.group()?);
        if matches!(seen, Ok(true)) {
            return Ok(());
        }
        if Instant::now() > deadline {
            let why = seen.map_or_else(|error| format!(": {error:#}"), |_| String::new());
            bail!("waited {timeout:?} for {what}{why}");
        }
        arena.stop.pause_poll()?;
    }
}
