//! The replicas of the partitions: what a failover brings back.

use super::{Events, Flaw, Fleet, PARTITIONS, Partition, SentCall};
use crate::call::Reply;

/// What the replica of each partition has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Replicas([Partition; PARTITIONS]);

impl Fleet {
    /// Whether a replica lacks something that its partition has.
    pub(super) fn lags(&self, at: usize) -> bool {
        let replicas = self.replicas.as_ref();
        replicas.is_some_and(|replicas| replicas.0[at] != self.partitions[at])
    }

    /// A replica catches up.
    pub(super) fn replicate(&mut self, at: usize) {
        if let Some(replicas) = &mut self.replicas {
            replicas.0[at] = self.partitions[at].clone();
        }
    }

    /// A node is going to hear an answer. If it asks for confirmations, it hears it only when the
    /// replica has what the answer stands for.
    pub(super) fn confirm(&mut self, sent: &SentCall, reply: &Reply) {
        let is_confirmed = match (reply, self.flaw) {
            (Reply::Sealed { .. }, Some(Flaw::SealUnconfirmed)) => false,
            (Reply::Published, Some(Flaw::ChangesUnconfirmed)) => false,
            (Reply::Sealed { .. } | Reply::Published | Reply::AlreadyPublished { .. }, _) => true,
            (Reply::Done, _) => true,
            _ => false,
        };
        if self.confirms && is_confirmed {
            self.replicate(sent.to);
        }
    }

    /// A replica replaces the server of a partition. The calls on their way to it are lost, and their
    /// senders repeat them.
    pub(super) fn fail_over(&mut self, at: usize) {
        let Some(replicas) = self.replicas.take() else {
            return;
        };
        self.events |= Events::FORGOT;
        self.partitions[at] = replicas.0[at].clone();
        let wire = std::mem::take(&mut self.wire);
        let (mut lost, wire): (Vec<_>, Vec<_>) = wire.into_iter().partition(|sent| sent.to == at);
        self.wire = wire;
        lost.dedup();
        for sent in lost {
            self.hear(&sent, None);
        }
    }
}
