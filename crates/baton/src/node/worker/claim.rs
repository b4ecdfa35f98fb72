//! A lane's claims: how they are numbered, and what one holds.

use std::sync::Arc;

use baton_protocol::{Claim, Key, OwnedPack, Range, Slot};
use tokio::sync::OwnedMutexGuard;
use tokio::time::Instant;

/// A claim that its lane still holds.
pub(super) struct HeldClaim {
    /// The slot that holds it: the lane's own, or the one in which its node gets messages at once.
    pub(super) slot: Slot,
    pub(super) number: u64,
    pub(super) range: Range,
    pub(super) pack: Arc<OwnedPack>,
    /// The turn with the slot that the lanes share, see [`Partition::handed_turn`]. It ends with the claim.
    ///
    /// [`Partition::handed_turn`]: crate::node::partition::Partition::handed_turn
    pub(super) _turn: Option<OwnedMutexGuard<()>>,
}

impl HeldClaim {
    /// When its messages were published, in ms on Redis's clock. None if the pack cannot be read or
    /// does not have the messages.
    pub(super) fn published_ms(&self) -> Option<u64> {
        let Range { pack, last, .. } = self.range;
        let has_all = last - pack < self.pack.count();
        self.pack.at_ms().filter(|_| has_all)
    }

    /// The text of one of its messages.
    pub(super) fn text(&self, seq: u64) -> &[u8] {
        self.pack.text(seq - self.range.pack).unwrap_or_default()
    }

    /// The key of one of its messages.
    pub(super) fn key(&self, seq: u64) -> Key<'_> {
        self.pack.key(seq - self.range.pack, seq)
    }
}

/// When a lane sent a claim, and to which process of the server. The lane may read the answer much
/// later.
pub(super) struct Asked {
    pub(super) at: Instant,
    pub(super) run_id: String,
}

/// The answer to a claim.
pub(super) struct Answered {
    pub(super) claim: Claim,
    pub(super) asked: Asked,
}

/// Numbers a lane's claims.
pub(super) struct ClaimNumbers {
    next: u64,
}

impl Default for ClaimNumbers {
    fn default() -> Self {
        Self { next: 1 }
    }
}

impl ClaimNumbers {
    /// The number under which the lane claims. It stays the same until a claim uses it up, so that
    /// a repeated call finds what an earlier one took.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// A claim has used up `number`: the lane claims under a later one.
    pub(super) fn use_up(&mut self, number: u64) {
        self.next = self.next.max(number + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_stays_until_it_is_used_up_and_never_comes_back() {
        let mut numbers = ClaimNumbers::default();
        assert_eq!((numbers.next(), numbers.next()), (1, 1));
        numbers.use_up(1);
        assert_eq!(numbers.next(), 2);
        numbers.use_up(7);
        numbers.use_up(3);
        assert_eq!(numbers.next(), 8);
    }
}
