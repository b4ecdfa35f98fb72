//! Parked packs: a generator that cannot reach their own partition keeps copies of them here.

use super::Script;
use crate::call::{Parking, Reply};
use crate::flaw::Flaw;
use crate::state::Node;

impl Script<'_> {
    pub(super) fn park(&mut self, node: Node, epoch: u64, parking: &Parking) -> Reply {
        let fence = &self.state.fence;
        let is_its = fence.node == Some(node) && fence.epoch == epoch;
        if !is_its && !self.has(Flaw::ParkUnfenced) {
            return Reply::Fenced {
                node: fence.node,
                epoch: fence.epoch,
            };
        }
        match parking {
            Parking::Keep(packs) => self.state.parked.extend(packs.iter().copied()),
            Parking::Remove(_) if self.has(Flaw::ParkKeepsRemoved) => {}
            Parking::Remove(fields) => self.state.parked.retain(|field, _| !fields.contains(field)),
        }
        Reply::Done
    }
}
