//! The beat: a node announces itself, and renews the lease or takes it.

use super::{MAX_TTL_MS, Script};
use crate::call::Reply;
use crate::flaw::Flaw;
use crate::state::{How, Lease, Ms, Node, RunId, Seq, Takeover};

/// Standbys that beat often.
const FIRST_STANDBYS: usize = 2;
/// Nodes at the head of the line that a beat checks.
const LINE_CHECKS: usize = 8;
/// Max time between two beats of a small fleet, and the time for the first standbys.
const SLOW_MS: Ms = 2000;
const FAST_MS: Ms = 50;
/// After so long without a beat a node is forgotten, so many at a time.
const FORGET_MS: Ms = 600_000;
const FORGET_AT_ONCE: usize = 8;
/// Takeovers that are kept.
const MAX_TAKEOVERS: usize = 100;
/// How long the holder of an expired lease has to come back to another server process.
const WAIT_FOR_HOLDER_MS: Ms = 200;
/// Nodes that never generate join so much later than they do: behind all others.
const LINE_END_MS: Ms = 100_000_000_000_000;

/// The arguments of a beat.
pub(super) struct Beat {
    pub(super) node: Node,
    pub(super) run_id: RunId,
    pub(super) ttl: Ms,
    pub(super) above: u64,
    pub(super) candidate: bool,
    pub(super) known: Seq,
}

impl Script<'_> {
    pub(super) fn beat(&mut self, call: &Beat) -> Reply {
        let Beat {
            node, run_id, ttl, ..
        } = *call;
        let now = self.now;
        let lease = self.state.lease.clone();
        let slow = ttl.min(SLOW_MS).max(self.state.joined.len() as Ms * 2);
        let line = self.head_of_line();
        let gone = self.gone_nodes(node, run_id, &line);
        let waits = self.waits_for_holder(&lease, node, run_id);
        let is_free = match lease.node {
            Some(holder) if holder == node => false,
            Some(holder) => self.is_past(lease.until) && !waits || gone.contains(&holder),
            None => true,
        };
        let takes = is_free && (call.candidate || self.has(Flaw::DeclinerTakesLease));
        let is_holder = lease.node == Some(node);
        let resigns = is_holder && !call.candidate && !self.has(Flaw::DeclinerKeepsLease);
        let generator = match (takes, resigns) {
            (true, _) => Some(node),
            (_, true) => None,
            _ => lease.node,
        };
        let seen = |name: &Node| self.state.seen.get(name).copied().unwrap_or(0);
        let is_dead = |name: &Node| {
            *name != node && (gone.contains(name) || self.is_past(seen(name) + 3 * slow))
        };
        let (dead, mut standbys): (Vec<Node>, Vec<Node>) = line.into_iter().partition(is_dead);
        standbys.retain(|name| Some(*name) != generator);
        standbys.truncate(FIRST_STANDBYS);
        let place = self.standby_place(node, &standbys);
        let standbys = standbys.len();
        let (how, last_alive) = self.cause(node, &gone);

        self.state.seen.insert(node, now);
        self.state.nodes.insert(node, run_id);
        let joined = self.state.joined.entry(node).or_insert(now);
        if !call.candidate && *joined < LINE_END_MS {
            *joined += LINE_END_MS;
        }
        for name in dead {
            self.state.joined.remove(&name);
        }
        self.learn_known(call.known);
        if waits {
            let lease = &mut self.state.lease;
            (lease.until, lease.waited) = (now + WAIT_FOR_HOLDER_MS, run_id);
        }
        self.forget_seen(|at| at <= now - FORGET_MS);
        self.forget_seen(|at| at >= now + MAX_TTL_MS);

        if generator != Some(node) {
            if resigns {
                self.end_lease();
                self.state.lease.waited = 0;
            }
            return Reply::Worker {
                holder: generator,
                epoch: lease.epoch,
                next: if place > 0 { FAST_MS } else { slow },
                now,
                place: place as u64,
                last: self.state.fence.last,
            };
        }
        if takes || lease.epoch <= call.above {
            let gap = (now - last_alive.unwrap_or(now)).max(0);
            self.take_over(node, call.above, how, gap);
        }
        let lease = &mut self.state.lease;
        lease.node = Some(node);
        lease.until = now + ttl;
        lease.run_id = run_id;
        Reply::Generator {
            epoch: lease.epoch,
            next: ttl / 3,
            now,
            standbys: standbys as u64,
            last: self.state.fence.last,
        }
    }

    /// Whether a beat gives the holder of an expired lease time to come back: once per server
    /// process, if the holder renewed its lease at another one.
    fn waits_for_holder(&self, lease: &Lease, node: Node, run_id: RunId) -> bool {
        let is_held = lease.node.is_some_and(|holder| holder != node);
        let has_waited = lease.waited == run_id && !self.has(Flaw::WaitsForEver);
        is_held
            && self.is_past(lease.until)
            && lease.run_id != run_id
            && !has_waited
            && !self.has(Flaw::NoWaitForHolder)
    }

    /// Notes a number that a node knows, if the server has forgotten it.
    pub(super) fn learn_known(&mut self, known: Seq) {
        let keeps = !self.has(Flaw::KnownNotKept);
        let fence = &mut self.state.fence;
        if keeps && known > fence.last.max(fence.known) {
            fence.known = known;
        }
    }

    /// The nodes that joined first.
    fn head_of_line(&self) -> Vec<Node> {
        let joined = self.state.joined.iter().map(|(node, at)| (*at, *node));
        let mut line: Vec<(Ms, Node)> = joined.collect();
        line.sort_unstable();
        line.truncate(LINE_CHECKS);
        line.into_iter().map(|(_, node)| node).collect()
    }

    /// Those of the holder and of the nodes in line, except the caller, that are gone.
    fn gone_nodes(&self, node: Node, run_id: RunId, line: &[Node]) -> Vec<Node> {
        let lease = &self.state.lease;
        let holder = lease
            .node
            .filter(|holder| self.is_gone(*holder, lease.run_id, run_id));
        let in_line = line.iter().copied().filter(|other| {
            let its_run_id = self.state.nodes.get(other).copied().unwrap_or(0);
            self.is_gone(*other, its_run_id, run_id)
        });
        let gone = holder.into_iter().chain(in_line);
        gone.filter(|other| *other != node).collect()
    }

    /// The caller's place among the first standbys, from 1; 0 for none.
    fn standby_place(&self, node: Node, standbys: &[Node]) -> usize {
        let fleet = self.state.joined.len();
        let joins = !self.state.joined.contains_key(&node);
        let has_room = standbys.len() < FIRST_STANDBYS && fleet < LINE_CHECKS;
        match standbys.iter().position(|name| *name == node) {
            Some(at) => at + 1,
            None if joins && has_room => standbys.len() + 1,
            None => 0,
        }
    }

    /// Why the caller would take the lease, and when its holder was known to live.
    fn cause(&self, node: Node, gone: &[Node]) -> (How, Option<Ms>) {
        let lease = &self.state.lease;
        let seen = &self.state.seen;
        match lease.node {
            Some(holder) if holder == node => (How::Raised, None),
            Some(holder) if gone.contains(&holder) => (How::Gone, seen.values().max().copied()),
            Some(holder) => (How::Expired, seen.get(&holder).copied()),
            None if lease.epoch == 0 => (How::First, lease.since),
            None => (How::Resigned, lease.since),
        }
    }

    /// The lease gets a new epoch.
    fn take_over(&mut self, node: Node, above: u64, how: How, gap: Ms) {
        let (at, from) = (self.now, self.state.lease.node);
        let lease = &mut self.state.lease;
        lease.epoch = lease.epoch.max(above) + 1;
        lease.since = Some(at);
        let takeover = Takeover {
            epoch: lease.epoch,
            node,
            at,
            gap,
            how,
            from,
        };
        self.state.takeovers.insert(0, takeover);
        self.state.takeovers.truncate(MAX_TAKEOVERS);
    }

    /// Forgets some of the nodes whose last beat was at such a time.
    fn forget_seen(&mut self, is_wrong: impl Fn(Ms) -> bool) {
        let seen = self.state.seen.iter().map(|(node, at)| (*at, *node));
        let mut old: Vec<(Ms, Node)> = seen.filter(|(at, _)| is_wrong(*at)).collect();
        old.sort_unstable();
        for (_, name) in old.into_iter().take(FORGET_AT_ONCE) {
            self.state.seen.remove(&name);
            self.state.joined.remove(&name);
            self.state.nodes.remove(&name);
        }
    }
}
