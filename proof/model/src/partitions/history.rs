//! What happened, as far as no key tells it, and whether it may happen.

use std::collections::BTreeMap;

use crate::state::{Node, Seq};

/// A step that must never happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Violation {
    /// A partition accepted an older generator's pack after a newer one published or had sealed all.
    OlderPublished,
    /// Two nodes published under one epoch.
    TwoPublishers,
    /// A generator opened its source elsewhere than behind the last row and the newest cursor.
    OpenedElsewhere,
    /// A generator took a pack for accepted that its partition does not have.
    BelievedUntrue,
    /// A number got a row although a generator knows that it had another.
    NumberGivenAgain,
    /// A generator's oldest pack did not have the next number of its partition.
    WrongNumber,
}

/// What happened.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct History {
    /// The highest epoch that published, or that had sealed all partitions.
    newest: u64,
    /// Who published under each epoch.
    publishers: BTreeMap<u64, Node>,
    /// The highest row that a generator knows to be accepted.
    pub(super) acknowledged: Seq,
    /// The row of every number that a generator knows to be given, if partitions may forget.
    pub(super) given: BTreeMap<(usize, Seq), Seq>,
    /// Whether a generator died that had sealed one partition and not the other.
    pub(super) died_between_seals: bool,
    /// The first step that must never happen.
    pub(super) violation: Option<Violation>,
}

impl History {
    pub(super) fn note(&mut self, violation: Violation) {
        self.violation.get_or_insert(violation);
    }

    /// A partition accepted a publish.
    pub(super) fn note_publish(&mut self, node: Node, epoch: u64) {
        if epoch < self.newest {
            self.note(Violation::OlderPublished);
        }
        self.newest = self.newest.max(epoch);
        if *self.publishers.entry(epoch).or_insert(node) != node {
            self.note(Violation::TwoPublishers);
        }
    }

    /// A number gets a row.
    pub(super) fn note_row(&mut self, to: usize, seq: Seq, row: Seq) {
        let given = self.given.get(&(to, seq));
        if given.is_some_and(|given| *given != row) {
            self.note(Violation::NumberGivenAgain);
        }
    }

    /// A generator has sealed all partitions: that moment is the handover.
    pub(super) fn note_handover(&mut self, epoch: u64) {
        self.newest = self.newest.max(epoch);
    }
}
