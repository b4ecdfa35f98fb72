//! The control keys: the lease, in one place for the whole fleet.

use crate::call::{Call, Reply};
use crate::flaw::Flaw;
use crate::state::{Lease, Ms, Node, State};
use crate::step::{is_past, step};

/// Time to live of the lease.
const TTL: Ms = 1_000;

/// The lease, and the clock that it depends on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Control {
    redis: State,
    /// It begins anew with each beat: only what is left of the lease matters.
    now: Ms,
    /// The lease that a failover would bring back.
    replica: Option<Lease>,
}

impl Control {
    /// The control keys of a new fleet, whose nodes are all connected.
    pub(super) fn new(nodes: Node) -> Self {
        Self {
            redis: State {
                run_id: 1,
                present: (1 << nodes) - 1,
                ..State::default()
            },
            now: 0,
            replica: None,
        }
    }

    /// A node beats.
    pub(super) fn beat(&mut self, node: Node, above: u64, flaw: Option<Flaw>) -> Reply {
        let call = Call::Beat {
            node,
            run_id: self.redis.run_id,
            ttl: TTL,
            above,
            candidate: true,
            known: 0,
        };
        let (reply, _) = step(&mut self.redis, &call, self.now, flaw);
        // Nothing here depends on these; they would only multiply the states.
        self.redis.nodes.clear();
        self.redis.joined.clear();
        self.redis.seen.clear();
        self.redis.takeovers.clear();
        self.redis.lease.since = None;
        self.redis.lease.until -= self.now;
        self.now = 0;
        reply
    }

    /// The epoch of the lease.
    pub(super) fn epoch(&self) -> u64 {
        self.redis.lease.epoch
    }

    /// The node that has the lease, or had it last.
    pub(super) fn holder(&self) -> Option<Node> {
        self.redis.lease.node
    }

    /// Whether a node holds the lease and could renew it.
    pub(super) fn can_end(&self) -> bool {
        let lease = &self.redis.lease;
        lease.node.is_some() && !is_past(lease.until, self.now, None)
    }

    /// The lease expires: its holder sleeps.
    pub(super) fn end_lease(&mut self) {
        self.now = self.redis.lease.until;
    }

    /// The server notices that a node is dead.
    pub(super) fn disconnect(&mut self, node: Node) {
        self.redis.set_present(node, false);
    }

    /// Whether there is a replica that could take over.
    pub(super) fn has_replica(&self) -> bool {
        self.replica.is_some()
    }

    /// The replica catches up.
    pub(super) fn replicate(&mut self) {
        self.replica = Some(self.redis.lease.clone());
    }

    /// The replica takes over: the lease is an older one. The living nodes connect to it.
    pub(super) fn fail_over(&mut self) {
        if let Some(lease) = self.replica.take() {
            self.redis.lease = lease;
            self.redis.run_id += 1;
            self.now = 0;
        }
    }
}
