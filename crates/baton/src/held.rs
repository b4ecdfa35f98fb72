//! What a lane of a worker holds.

use std::sync::Arc;

use crate::{Pack, Range};

/// What a lane holds.
pub(crate) struct Held {
    pub(crate) range: Range,
    pub(crate) pack: Arc<Vec<u8>>,
}

impl Held {
    /// The text of a message in it.
    pub(crate) fn text(&self, seq: u64) -> &[u8] {
        let pack = Pack::parse(&self.pack).ok();
        let at = (seq - self.range.pack) as usize;
        pack.and_then(|pack| pack.texts.get(at).copied())
            .unwrap_or_default()
    }
}
