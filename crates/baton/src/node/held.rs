//! What a lane of a worker holds.

use std::sync::Arc;

use baton_protocol::OwnedPack;
use baton_protocol::Range;

/// What a lane holds.
pub(crate) struct Held {
    pub(crate) range: Range,
    pub(crate) pack: Arc<OwnedPack>,
}

impl Held {
    /// The text of a message in it.
    pub(crate) fn text(&self, seq: u64) -> &[u8] {
        self.pack.text(seq - self.range.pack).unwrap_or_default()
    }
}
