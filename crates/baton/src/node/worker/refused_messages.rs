//! Messages for which the handler could not work at all.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Max messages that a node remembers.
const MAX_REFUSED: usize = 1000;

/// Tells a handler that cannot work from one that cannot work for a certain message, such as a script
/// with a mistake in a rare branch. The second is the message's fault: without an attempt that
/// counts, it would come back for ever.
#[derive(Debug, Default)]
pub(crate) struct RefusedMessages {
    /// The key of a message, and how many messages this node had handled when it was refused.
    handled_at: Mutex<HashMap<String, u64>>,
}

impl RefusedMessages {
    /// Notes that the handler cannot work for a message, now that the node has handled so many. Returns
    /// whether the message is to blame: the handler refused it before and worked for others since.
    pub(crate) fn is_to_blame(&self, key: String, handled: u64) -> bool {
        let mut handled_at = self
            .handled_at
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = handled_at.get(&key) {
            return *at < handled;
        }
        if handled_at.len() == MAX_REFUSED {
            handled_at.clear();
        }
        handled_at.insert(key, handled);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_to_blame_if_others_went_well_between_two_refusals() {
        let refused = RefusedMessages::default();
        let is_to_blame = |key: &str, handled| refused.is_to_blame(key.to_owned(), handled);
        assert!(!is_to_blame("a", 7));
        assert!(!is_to_blame("a", 7), "the handler has not worked since");
        assert!(!is_to_blame("b", 8));
        assert!(is_to_blame("a", 8));
        assert!(is_to_blame("a", 8), "a message stays to blame");
    }

    #[test]
    fn a_node_remembers_a_bounded_number_of_messages() {
        let refused = RefusedMessages::default();
        for message in 0..5 * MAX_REFUSED {
            assert!(!refused.is_to_blame(message.to_string(), 0));
        }
        assert!(refused.handled_at.lock().unwrap().len() <= MAX_REFUSED);
    }
}
