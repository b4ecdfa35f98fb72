//! Who is here and who generates: beat, leave, seal, reclaim, census.

use std::collections::BTreeSet;

use super::{LONGEST_TTL_MS, Script};
use crate::call::Reply;
use crate::flaw::Flaw;
use crate::state::{Entry, How, Lease, Ms, Node, Range, Run, Slot, Takeover};

const FIRST_STANDBYS: usize = 2;
const LINE_LOOK: usize = 8;
const SLOW_MS: Ms = 2000;
const FAST_MS: Ms = 50;
const FORGET_MS: Ms = 600_000;
const FORGET_AT_ONCE: usize = 8;
const WORKERS_FORGET_S: Ms = 600;
const TAKEOVERS: usize = 100;
const LAST_LOOK: usize = 2;
const SUSPECT_LOOK: usize = 16;

impl Script<'_> {
    pub(super) fn beat(&mut self, node: Node, run: Run, ttl: Ms, above: u64) -> Reply {
        let now = self.now;
        let lease = self.state.lease.clone();
        let fleet = self.state.joined.len();
        let slow = ttl.min(SLOW_MS).max(fleet as Ms * 2);
        let mut line: Vec<(Ms, Node)> = self
            .state
            .joined
            .iter()
            .map(|(node, at)| (*at, *node))
            .collect();
        line.sort_unstable();
        line.truncate(LINE_LOOK);

        let gone = |other: Node| {
            let as_holder = lease.node == Some(other) && self.is_gone(other, lease.run, run);
            let beat_at = self.state.nodes.get(&other).copied().unwrap_or(0);
            let in_line = line.iter().any(|(_, name)| *name == other);
            other != node && (as_holder || in_line && self.is_gone(other, beat_at, run))
        };
        let takes = match lease.node {
            Some(holder) if holder == node => false,
            Some(holder) => self.is_past(lease.until) || gone(holder),
            None => true,
        };
        let generator = if takes { Some(node) } else { lease.node };

        let (mut dead, mut first) = (Vec::new(), Vec::new());
        for (_, name) in &line {
            let seen = self.state.seen.get(name).copied().unwrap_or(0);
            if *name != node && (gone(*name) || self.is_past(seen + 3 * slow)) {
                dead.push(*name);
            } else if Some(*name) != generator && first.len() < FIRST_STANDBYS {
                first.push(*name);
            }
        }
        let (how, alive) = match lease.node {
            Some(holder) if holder == node => (How::Raised, None),
            Some(holder) if gone(holder) => (How::Gone, self.state.seen.values().max().copied()),
            Some(holder) => (How::Expired, self.state.seen.get(&holder).copied()),
            None if lease.epoch == 0 => (How::First, lease.since),
            None => (How::Resigned, lease.since),
        };
        let joins = !self.state.joined.contains_key(&node);
        let place = match first.iter().position(|name| *name == node) {
            Some(at) => at + 1,
            None if joins && first.len() < FIRST_STANDBYS && fleet < LINE_LOOK => first.len() + 1,
            None => 0,
        };

        self.state.seen.insert(node, now);
        self.state.nodes.insert(node, run);
        self.state.joined.entry(node).or_insert(now);
        for name in dead {
            self.state.joined.remove(&name);
        }
        self.forget_seen(|at| at <= now - FORGET_MS);
        self.forget_seen(|at| at >= now + LONGEST_TTL_MS);

        if generator != Some(node) {
            return Reply::Worker {
                holder: lease.node,
                epoch: lease.epoch,
                next: if place > 0 { FAST_MS } else { slow },
                now,
                place: place as u64,
            };
        }
        let from = lease.node;
        let lease = &mut self.state.lease;
        if takes || lease.epoch <= above {
            lease.epoch = lease.epoch.max(above) + 1;
            lease.since = Some(now);
            let takeover = Takeover {
                epoch: lease.epoch,
                node,
                at: now,
                gap: (now - alive.unwrap_or(now)).max(0),
                how,
                from,
            };
            self.state.takeovers.insert(0, takeover);
            self.state.takeovers.truncate(TAKEOVERS);
        }
        let lease = &mut self.state.lease;
        lease.node = Some(node);
        lease.until = now + ttl;
        lease.run = run;
        Reply::Generator {
            epoch: lease.epoch,
            next: ttl / 3,
            now,
        }
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

    pub(super) fn leave(&mut self, node: Node) -> Reply {
        let state = &mut self.state;
        state.nodes.remove(&node);
        state.joined.remove(&node);
        state.seen.remove(&node);
        let resigned = state.lease.node == Some(node);
        if resigned {
            self.end_lease();
        }
        Reply::Left { resigned }
    }

    /// The lease is free; its epoch stays.
    fn end_lease(&mut self) {
        let lease = &mut self.state.lease;
        *lease = Lease {
            epoch: lease.epoch,
            since: Some(self.now),
            ..Lease::default()
        };
    }

    pub(super) fn free(&mut self) -> Reply {
        let holder = self.state.lease.node;
        let holder = holder.filter(|holder| !self.state.is_present(*holder));
        if holder.is_some() {
            self.end_lease();
        }
        Reply::Freed { holder }
    }

    pub(super) fn seal(&mut self, node: Node, epoch: u64) -> Reply {
        let waits = !self.state.queue.is_empty();
        let same_node = self.state.fence.node == Some(node) || self.has(Flaw::EpochOnlyFence);
        let fence = &mut self.state.fence;
        if fence.epoch > epoch || (fence.epoch == epoch && !same_node) {
            return Reply::Fenced {
                node: fence.node,
                epoch: fence.epoch,
            };
        }
        fence.node = Some(node);
        fence.epoch = epoch;
        fence.born = true;
        let reply = Reply::Sealed {
            last: fence.last,
            cursor: fence.cursor,
        };
        self.state.bell |= waits;
        reply
    }

    /// Strikes off suspects that are present, of the first ranges that wait and of the last ones.
    fn acquit(&mut self) {
        let length = self.state.queue.len();
        for at in 0..length {
            if let Entry::Range(range) = self.state.queue[at]
                && (at < SUSPECT_LOOK || at + SUSPECT_LOOK >= length)
            {
                let suspects = self.still_gone(range.suspects);
                self.state.queue[at] = Entry::Range(Range { suspects, ..range });
            }
        }
    }

    pub(super) fn reclaim(
        &mut self,
        run: Run,
        most: usize,
        looked_at: &[Slot],
        checked: &[Slot],
    ) -> Reply {
        let now = self.now;
        let waits = !self.state.queue.is_empty();
        let mut due: Vec<(Ms, Slot)> = self
            .state
            .deadlines
            .iter()
            .map(|(slot, at)| (*at, *slot))
            .collect();
        due.sort_unstable();
        // The last ones may have been made under a clock that was ahead.
        let last = due.split_off(due.len().min(most));
        due.extend_from_slice(&last[last.len().saturating_sub(LAST_LOOK)..]);
        let claim_run = |slot: &Slot| self.state.claims.get(slot).map_or(0, |claim| claim.run);
        let gone: BTreeSet<Node> = due
            .iter()
            .filter(|(_, slot)| self.is_gone(slot.node, claim_run(slot), run))
            .map(|(_, slot)| slot.node)
            .collect();

        let (mut messages, mut records, mut nodes) = (0, 0, Vec::new());
        for (at, slot) in due {
            if !self.is_past(at) && !gone.contains(&slot.node) {
                continue;
            }
            if !self.state.claims.contains_key(&slot) {
                self.state.deadlines.remove(&slot);
                continue;
            }
            let (m, r) = self.put_back(slot, Some(run));
            messages += m;
            records += r;
            if !nodes.contains(&slot.node) {
                nodes.push(slot.node);
            }
        }
        self.state.bell |= waits;
        self.acquit();
        for slot in checked {
            if self.state.claims.contains_key(slot) {
                self.state.deadlines.entry(*slot).or_insert(now);
            }
        }
        for slot in looked_at {
            // Kept in whole seconds, compared with a clock that has fractions.
            let old = |at: Ms| (at / 1000 + WORKERS_FORGET_S) * 1000 < now;
            if self.state.workers.get(slot).is_some_and(|s| old(s.at)) {
                self.state.workers.remove(slot);
            }
        }
        Reply::Reclaimed {
            messages,
            records,
            nodes,
        }
    }

    pub(super) fn census(&self) -> Reply {
        let state = &self.state;
        let pending = state.queue.iter().map(|entry| match entry {
            Entry::Range(range) => range.size(),
            Entry::Foreign(_) => 0,
        });
        Reply::Counted {
            published: state.fence.last,
            done: state.done,
            failed: state.failed,
            pending: pending.sum(),
            claimed: state.in_hand().map(|range: Range| range.size()).sum(),
            errors: state.errors.len() as u64,
            foreign: state.foreign,
            retried: state.retried,
        }
    }
}
