//! What becomes of a fleet that is left alone.

use super::actions::Action;
use super::{Fleet, PARTITIONS, Scenario};
use crate::state::Node;

/// More rounds than any state needs.
const MAX_ROUNDS: usize = 40;

impl Fleet {
    /// Whether all rows are published once the faults stop, if a node lives.
    pub(super) fn everything_is_published(&self, scenario: &Scenario) -> bool {
        if self.nodes.iter().all(|client| client.dead) {
            return true;
        }
        let mut fleet = self.clone();
        for _ in 0..MAX_ROUNDS {
            if fleet.rows_published() == scenario.rows && fleet.wire.is_empty() {
                return true;
            }
            fleet.take_turns(scenario);
        }
        false
    }

    /// All calls arrive, and each node takes a step.
    fn take_turns(&mut self, scenario: &Scenario) {
        for _ in 0..self.wire.len() {
            self.arrive(0, true);
        }
        for node in 0..self.nodes.len() as Node {
            if self.client(node).dead {
                continue;
            }
            self.beat(node, true);
            self.generate_if_ready(scenario, node);
        }
    }

    fn generate_if_ready(&mut self, scenario: &Scenario, node: Node) {
        let flaw = self.flaw;
        let Some(reign) = &self.client(node).reign else {
            return;
        };
        let ready = (0..PARTITIONS).filter_map(|to| Some((to, reign.rows_if_ready(to, flaw)?)));
        let ready = ready.filter(|(_, rows)| *rows < scenario.rows);
        // In turn, so that both partitions get rows.
        if let Some((to, _)) = ready.max_by_key(|(to, rows)| (*to as u64 + rows) % 2) {
            self.apply(&Action::Generate { node, to, count: 1 });
        }
    }
}
