//! Messages whose commands ran when a supervisor died.
//!
//! One of them may have killed it, and the node cannot tell which. So the first death costs none of
//! them an attempt. The second one with the same message does, or a command that always kills its
//! supervisor would never run out of attempts.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use baton::Message;

/// Max messages that a node remembers: other nodes may handle them, and then they stay here.
const MAX_KEYS: usize = 100_000;

#[derive(Default)]
pub(crate) struct Suspects(Mutex<HashSet<String>>);

impl Suspects {
    /// The supervisor died while this message was in hand. Whether that is the first time.
    pub(crate) fn add(&self, message: Message<'_>) -> bool {
        let mut keys = self.lock();
        if keys.len() >= MAX_KEYS {
            keys.clear();
        }
        keys.insert(message.key().to_string())
    }

    /// The supervisor outlived the command of this message.
    pub(crate) fn clear(&self, message: Message<'_>) {
        let mut keys = self.lock();
        if !keys.is_empty() {
            keys.remove(&message.key().to_string());
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
