//! What became of failed messages that a person retried or dropped, as JSON.

use baton::inspect::Settlement;
use serde::Serialize;

/// The counts of a [`Settlement`].
#[derive(Debug, Serialize)]
pub(crate) struct Outcome {
    dropped: u64,
    retried: u64,
    /// Messages that were gone, or that another has claimed.
    missing: u64,
    /// Records that are no messages of this fleet; they are still there.
    unfit: u64,
}

impl Outcome {
    pub(crate) fn of(settlement: &Settlement) -> Self {
        Self {
            dropped: settlement.dropped,
            retried: settlement.retried,
            missing: settlement.missing,
            unfit: settlement.unfit,
        }
    }
}
