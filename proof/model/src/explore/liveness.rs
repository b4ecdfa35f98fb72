//! Liveness: when no more faults happen, the nodes take their steps in turn, every call arrives and
//! the server notices the dead, then every message must end.

use super::drain::Drain;
use super::generator::Generator;
use super::held_claim::Outcomes;
use super::lane::LaneState;
use super::{Client, Part, Scenario, TTL, World};
use crate::state::Node;

/// Turns within which every message must end.
const TURNS: usize = 60;
/// Turns between two times at which every deadline passes.
const TURNS_PER_TIMEOUT: usize = 8;

impl World {
    /// Whether every published message ends, done or failed, when no more faults happen.
    pub(super) fn everything_ends(&self, scenario: &Scenario) -> bool {
        let mut world = self.clone();
        world.faults = super::Faults::default();
        for part in [Part::Generator, Part::Workers] {
            world.pause(part, true);
        }
        // One more node, in case all others are dead.
        world.nodes.push(Client::default());
        let fresh = (world.nodes.len() - 1) as Node;
        for turn in 0..TURNS {
            if world.history.all_ended() && world.is_quiet() && world.has_generator(scenario) {
                return true;
            }
            let workers = scenario.generators..scenario.generators + scenario.workers;
            for node in workers.chain([fresh]) {
                world.work_on(node);
            }
            let generates = scenario.generators > 0;
            for node in (0..scenario.generators).chain(generates.then_some(fresh)) {
                world.generate_on(node);
            }
            for node in 0..world.nodes.len() as Node {
                let dead = world.nodes[node as usize].dead;
                world.redis.set_present(node, !dead);
                world.connected |= u32::from(!dead) << node;
                world.finish_drain(node);
            }
            while !world.wire.is_empty() && world.wire.len() < 100 {
                world.arrive(0, true);
            }
            let confirming = if self.confirms { world.nodes.len() } else { 0 };
            for node in 0..confirming as Node {
                world.begin_confirmation(node);
                world.end_confirmation(node);
            }
            world.reclaim(false);
            if turn % TURNS_PER_TIMEOUT == TURNS_PER_TIMEOUT - 1 {
                world.now += 2 * TTL;
                world.reclaim(false);
            }
        }
        false
    }

    /// Whether no node waits for an answer. A stuck node waits for ever.
    fn is_quiet(&self) -> bool {
        self.wire.is_empty()
            && self.nodes.iter().all(|client| {
                client.dead
                    || client.lane.state == LaneState::Idle
                        && client.handed.is_quiet()
                        && !matches!(client.drain, Drain::Claiming | Drain::Committing { .. })
                        && !matches!(&client.generator, Generator::Publishing(publishing) if publishing.has_unsent())
            })
    }

    /// Whether a living node that may generate holds the lease, if the scenario has generators.
    fn has_generator(&self, scenario: &Scenario) -> bool {
        let holder = self.redis.lease.node;
        let is_fit = |node: Node| {
            let client = &self.nodes[node as usize];
            !client.dead && !client.declines
        };
        scenario.generators == 0 || holder.is_some_and(is_fit)
    }

    fn work_on(&mut self, node: Node) {
        if self.nodes[node as usize].handed.may_hear() {
            self.hear_ring(node);
        }
        if self.nodes[node as usize].handed.is_handling() {
            self.commit_handed(node);
        }
        match self.nodes[node as usize].lane.state {
            _ if self.nodes[node as usize].dead => {}
            LaneState::Idle if !self.redis.queue.is_empty() => self.claim(node),
            LaneState::Handling(_) => self.commit_all(node, Outcomes::default()),
            _ => {}
        }
    }

    fn generate_on(&mut self, node: Node) {
        if self.nodes[node as usize].dead {
            return;
        }
        self.beat(node, true);
        if let Generator::Publishing(publishing) = &self.nodes[node as usize].generator
            && publishing.has_unsent()
        {
            self.resend(node);
        }
    }

    fn finish_drain(&mut self, node: Node) {
        if let Drain::Printing { records } = self.nodes[node as usize].drain {
            self.drain_on(node, Drain::Committing { printed: records });
        }
    }
}
