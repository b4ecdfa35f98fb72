//! Slots of the fleet move from master to master of a cluster under load, key by key, and come back.

use anyhow::{Context, Result, ensure};

use super::failover::wait_for;
use super::{Fault, Note};
use crate::arena::Arena;
use crate::group::{Cluster, Member};
use crate::rng::Rng;

/// A slot that moved, and the master that had it.
type Moved = (u16, usize);

/// Slots of one master move to another one; lifting the fault moves them back.
pub(super) struct Move {
    rng: Rng,
    moved: Vec<Moved>,
}

impl Move {
    pub(super) fn new(rng: Rng) -> Self {
        Self {
            rng,
            moved: Vec::new(),
        }
    }
}

impl Fault for Move {
    fn inject(&mut self, arena: &mut Arena, note: &mut Note) -> Result<()> {
        let cluster = arena.group()?.cluster()?;
        let mut homes = homes(cluster)?;
        let (_, home) = self.rng.pick(&homes).context("there is no slot")?;
        homes.retain(|(_, of)| *of == home);
        let others = cluster.masters_beside(home)?;
        let other = self.rng.pick(&others).context("there is no other master")?;
        let slots = some_of(homes, &mut self.rng);
        note.text = there_and_back(slots.len(), Some(home), other);
        move_all(cluster, slots, other, &mut self.moved)
    }

    fn lift(&mut self, arena: &mut Arena, _note: &mut Note) -> Result<()> {
        move_back(arena, &self.moved)
    }
}

/// A master joins and takes slots of all others, as in a cluster that grows; lifting the fault moves them
/// back and removes the master.
pub(super) struct ScaleOut {
    rng: Rng,
    moved: Vec<Moved>,
    new: Option<usize>,
}

impl ScaleOut {
    pub(super) fn new(rng: Rng) -> Self {
        Self {
            rng,
            moved: Vec::new(),
            new: None,
        }
    }
}

impl Fault for ScaleOut {
    fn inject(&mut self, arena: &mut Arena, note: &mut Note) -> Result<()> {
        let cluster = arena.group()?.cluster_mut()?;
        let new = cluster.add_master()?;
        self.new = Some(new);
        let slots = some_of(homes(cluster)?, &mut self.rng);
        note.text = there_and_back(slots.len(), None, new);
        move_all(cluster, slots, new, &mut self.moved)
    }

    fn lift(&mut self, arena: &mut Arena, _note: &mut Note) -> Result<()> {
        move_back(arena, &self.moved)?;
        match self.new {
            Some(new) => arena.group()?.cluster_mut()?.remove_master(new),
            None => Ok(()),
        }
    }
}

/// Each slot of the fleet, and the master that has it.
fn homes(cluster: &Cluster) -> Result<Vec<Moved>> {
    let slots = cluster.all_slots();
    let owners = cluster.owners(&slots)?;
    Ok(slots.into_iter().zip(owners).collect())
}

/// Some of these slots: several, if there are several.
fn some_of(mut slots: Vec<Moved>, rng: &mut Rng) -> Vec<Moved> {
    let all = slots.len() as u64;
    rng.shuffle(&mut slots);
    slots.truncate(rng.between(all.min(2), all) as usize);
    slots
}

/// Moves slots. Notes each before it moves, because it may stop half way.
fn move_all(cluster: &Cluster, slots: Vec<Moved>, to: usize, moved: &mut Vec<Moved>) -> Result<()> {
    ensure!(!slots.is_empty(), "there is no slot");
    for (slot, home) in slots {
        moved.push((slot, home));
        cluster.move_slot(slot, to)?;
    }
    Ok(())
}

fn there_and_back(slots: usize, home: Option<usize>, other: usize) -> String {
    let slots = match slots {
        1 => "1 slot".to_owned(),
        count => format!("{count} slots"),
    };
    let from = home.map_or_else(String::new, |home| {
        format!(" from {}", Member::Server(home))
    });
    format!("{slots}{from} to {} and back", Member::Server(other))
}

/// Goes on from where each slot is: a busy machine may have stopped it half way.
fn move_back(arena: &mut Arena, moved: &[Moved]) -> Result<()> {
    for (slot, home) in moved {
        wait_for(arena, "the slot to move back", |group| {
            group.cluster()?.move_slot(*slot, *home).map(|()| true)
        })?;
    }
    Ok(())
}
