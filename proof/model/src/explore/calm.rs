//! When fate lets go: the nodes take their steps in turn, every call arrives, the dead are
//! noticed. Then everything must come to its end.

use super::drain::Drain;
use super::lane::Doing;
use super::reign::Reign;
use super::{Client, Setting, TTL, World};
use crate::state::Node;

/// Turns within which everything must have ended, and without which a deadline passes.
const TURNS: usize = 60;
const PATIENT_TURNS: usize = 8;

impl World {
    /// Whether everything published ends, done or failed, when nothing more goes wrong.
    pub(super) fn comes_to_an_end(&self, setting: &Setting) -> bool {
        let mut world = self.clone();
        world.fate = super::Fate::default();
        // One more node, in case all others are dead; it has time.
        world.nodes.push(Client::default());
        let fresh = (world.nodes.len() - 1) as Node;
        for turn in 0..TURNS {
            if world.history.all_ended() && world.is_quiet() && world.is_led(setting) {
                return true;
            }
            let workers = setting.generators..setting.generators + setting.workers;
            for node in workers.chain([fresh]) {
                world.work_on(node);
            }
            let leads = setting.generators > 0;
            for node in (0..setting.generators).chain(leads.then_some(fresh)) {
                world.generate_on(node);
            }
            for node in 0..world.nodes.len() as Node {
                let dead = world.nodes[node as usize].dead;
                world.redis.set_present(node, !dead);
                world.drain_away(node);
            }
            while !world.wire.is_empty() && world.wire.len() < 100 {
                world.arrive(0, true);
            }
            world.reclaim(false);
            if turn % PATIENT_TURNS == PATIENT_TURNS - 1 {
                world.now += 2 * TTL;
                world.reclaim(false);
            }
        }
        false
    }

    /// Whether nobody waits for an answer: a stuck node is one that does for ever.
    fn is_quiet(&self) -> bool {
        self.wire.is_empty()
            && self.nodes.iter().all(|client| {
                client.dead
                    || client.lane.doing == Doing::Idle
                        && !matches!(client.drain, Drain::Claiming | Drain::Committing { .. })
                        && !matches!(&client.reign, Reign::On(reign) if reign.has_unsent())
            })
    }

    /// Whether a node that lives holds the lease, where nodes generate.
    fn is_led(&self, setting: &Setting) -> bool {
        let holder = self.redis.lease.node;
        setting.generators == 0 || holder.is_some_and(|node| !self.nodes[node as usize].dead)
    }

    fn work_on(&mut self, node: Node) {
        match self.nodes[node as usize].lane.doing {
            _ if self.nodes[node as usize].dead => {}
            Doing::Idle if !self.redis.queue.is_empty() => self.ask(node),
            Doing::Handling(_) => self.finish(node, false),
            _ => {}
        }
    }

    fn generate_on(&mut self, node: Node) {
        if self.nodes[node as usize].dead {
            return;
        }
        self.beat(node, true);
        if let Reign::On(reign) = &self.nodes[node as usize].reign
            && reign.has_unsent()
        {
            self.send_again(node);
        }
    }

    fn drain_away(&mut self, node: Node) {
        if let Drain::Printing { records } = self.nodes[node as usize].drain {
            self.drain_on(node, Drain::Committing { printed: records });
        }
    }
}
