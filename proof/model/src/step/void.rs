//! The void: numbers whose messages the server forgot get no others.

use super::Script;
use crate::call::Reply;
use crate::flaw::Flaw;
use crate::state::{LedgerEntry, Node, Seq};

/// The arguments of a void.
pub(super) struct Void {
    pub(super) node: Node,
    pub(super) epoch: u64,
    pub(super) first: Seq,
    pub(super) last: Seq,
    pub(super) audited: bool,
}

impl Script<'_> {
    pub(super) fn void(&mut self, call: &Void) -> Reply {
        if let Some(refusal) = self.refuse_void(call) {
            return refusal;
        }
        let Void { first, last, .. } = *call;
        let count = last - self.state.fence.last;
        if !self.has(Flaw::VoidLeavesLast) {
            self.state.fence.last = last;
        }
        if !self.has(Flaw::VoidUncounted) {
            self.state.void += count;
        }
        if call.audited {
            self.state.ledger.push(LedgerEntry::Void { first, last });
        }
        Reply::Published
    }

    /// The answer to a void that writes nothing.
    fn refuse_void(&self, call: &Void) -> Option<Reply> {
        let fence = &self.state.fence;
        let is_its = fence.node == Some(call.node) && fence.epoch == call.epoch;
        if !is_its && !self.has(Flaw::VoidUnfenced) {
            return Some(Reply::Fenced {
                node: fence.node,
                epoch: fence.epoch,
            });
        }
        let last = fence.last;
        if call.last <= last {
            return Some(Reply::AlreadyPublished { last });
        }
        if call.first != last + 1 && !self.has(Flaw::VoidWithHoles) {
            return Some(Reply::Gap { last });
        }
        let is_paused = fence.paused.generator.is_some() && !self.has(Flaw::VoidWhilePaused);
        is_paused.then_some(Reply::Paused)
    }
}
