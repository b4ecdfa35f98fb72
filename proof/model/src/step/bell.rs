//! Which nodes sleep, and which of them a message wakes.

use super::Script;
use super::claim::Wanted;
use crate::flaw::Flaw;
use crate::state::Node;

/// Max nodes that one ring wakes.
const MAX_RUNG_NODES: usize = 16;

impl Script<'_> {
    /// The node is idle, unless the lane holds another claim. A generator is not idle: its lanes do
    /// not sleep.
    pub(super) fn fall_asleep(&mut self, node: Node, alone: bool) {
        let works = alone && self.state.fence.node != Some(node);
        if works && !self.has(Flaw::EmptyNotIdle) {
            self.state.idle.entry(node).or_insert(self.now);
        }
    }

    /// A lane gets messages. If it has slept, so many other lanes of its node wait to sleep.
    pub(super) fn wake_up(&mut self, node: Node, call: &Wanted) {
        match call.sleepers {
            Some(0) => drop(self.state.idle.remove(&node)),
            Some(_) => self.fall_asleep(node, call.alone),
            None => {}
        }
    }

    /// Puts a token into the bell of a node.
    pub(super) fn ring_node(&mut self, node: Node) {
        self.state.bells |= 1 << node;
    }

    /// Wakes the node that is idle longest, and goes on while the nodes are absent. Returns whether
    /// a present node was woken.
    pub(super) fn ring(&mut self) -> bool {
        for _ in 0..MAX_RUNG_NODES {
            let idle = self.state.idle.iter();
            let longest = idle.min_by_key(|(node, since)| (**since, **node));
            let Some(node) = longest.map(|(node, _)| *node) else {
                return false;
            };
            self.state.idle.remove(&node);
            self.ring_node(node);
            if self.state.is_present(node) || self.has(Flaw::RingTheDead) {
                return true;
            }
        }
        false
    }
}
