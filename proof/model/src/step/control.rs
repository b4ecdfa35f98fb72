//! Leave, free, seal, pause and census.

use super::Script;
use crate::call::Reply;
use crate::flaw::Flaw;
use crate::state::{Entry, Lease, Ms, Node, Paused, Range, Seq};

impl Script<'_> {
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
    pub(super) fn end_lease(&mut self) {
        let lease = &mut self.state.lease;
        *lease = Lease {
            epoch: lease.epoch,
            since: Some(self.now),
            waited: lease.waited,
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
        let forgets = self.has(Flaw::SealForgetsCursor);
        let forgets_known = self.has(Flaw::SealForgetsKnown);
        let ends_pause = self.has(Flaw::SealEndsPause);
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
        if ends_pause {
            fence.paused.generator = None;
        }
        let reply = Reply::Sealed {
            last: fence.last,
            cursor: if forgets { 0 } else { fence.cursor },
            known: if forgets_known { 0 } else { fence.known },
        };
        self.state.idle.remove(&(node, self.state.run_id));
        if waits {
            self.ring();
        }
        reply
    }

    pub(super) fn pause(&mut self, resume: bool, generator: bool, workers: bool) -> Reply {
        let now = self.now;
        let then = |is_meant: bool, since: Option<Ms>| match (is_meant, resume) {
            (false, _) => since,
            (true, false) => since.or(Some(now)),
            (true, true) => None,
        };
        let before = self.state.fence.paused;
        self.state.fence.paused = Paused {
            generator: then(generator, before.generator),
            workers: then(workers, before.workers),
        };
        if resume && workers && !self.state.queue.is_empty() {
            self.ring();
        }
        Reply::WasPaused(before)
    }

    pub(super) fn tell(&mut self, known: Seq) -> Reply {
        self.learn_known(known);
        let last = self.state.fence.last;
        Reply::Told { last }
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
            claimed: state.claimed().map(|range: Range| range.size()).sum(),
            delayed: state.delayed.len() as u64,
            errors: state.errors.len() as u64,
            foreign: state.foreign,
            retried: state.retried,
            dropped: state.dropped,
            void: state.void,
            paused: state.fence.paused,
        }
    }
}
