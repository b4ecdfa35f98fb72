//! A cluster whose masters have the fleet's slots.

use anyhow::Result;
use baton::FleetName;
use baton_protocol::Keys;
use baton_server::ClusterGroup;

/// The cluster.
pub struct Cluster {
    pub(super) group: ClusterGroup,
    /// The slot of the lease and of the nodes.
    pub(super) control: u16,
    /// The slot of each partition, in order.
    slots: Vec<u16>,
}

impl Cluster {
    /// A cluster with a fleet of so many partitions.
    pub(super) fn new(group: ClusterGroup, fleet: &FleetName, partitions: u32) -> Result<Self> {
        let slot = |keys: Keys| group.slot(&keys.fence);
        let of_partition = |index| slot(Keys::of_partition(fleet, index, partitions));
        let slots: Result<Vec<u16>, _> = (0..partitions).map(of_partition).collect();
        Ok(Self {
            control: slot(Keys::new(fleet))?,
            slots: slots?,
            group,
        })
    }

    /// The slot of each partition, in order.
    pub fn slots(&self) -> &[u16] {
        &self.slots
    }

    /// All slots of the fleet: those of the partitions, and that of the lease if it is another one.
    pub fn all_slots(&self) -> Vec<u16> {
        let control = Some(self.control).filter(|slot| !self.slots.contains(slot));
        self.slots.iter().copied().chain(control).collect()
    }

    /// The master of each of these slots.
    pub fn owners(&self, slots: &[u16]) -> Result<Vec<usize>> {
        Ok(self.group.owners(slots)?)
    }

    /// The masters that have slots, but this one.
    pub fn masters_beside(&self, server: usize) -> Result<Vec<usize>> {
        let mut masters = self.group.masters_seen_by(server)?;
        masters.retain(|master| *master != server);
        Ok(masters)
    }

    /// The masters that the fleet does not use.
    pub fn unused_masters(&self) -> Result<Vec<usize>> {
        let used = self.owners(&self.all_slots())?;
        let mut masters = self.group.masters_seen_by(used[0])?;
        masters.retain(|master| !used.contains(master));
        Ok(masters)
    }

    /// Moves a slot with its keys to this server, or to the master that it follows now.
    pub fn move_slot(&self, slot: u16, server: usize) -> Result<()> {
        let master = self.group.master_of(server)?;
        Ok(self.group.move_slot(slot, master)?)
    }

    /// Adds a master without slots, with a replica. Returns the master.
    pub fn add_master(&mut self) -> Result<usize> {
        Ok(self.group.add_master()?)
    }

    /// Removes the master that was added last, with its replica.
    pub fn remove_master(&mut self, master: usize) -> Result<()> {
        Ok(self.group.remove_master(master)?)
    }
}
