//! What a node knows of an operator's pause: it learns of one from the answers to its own calls.

use std::sync::atomic::{AtomicBool, Ordering};

use baton_protocol::Part;

/// Which parts of the fleet were paused when this node last heard of them.
#[derive(Debug, Default)]
pub(crate) struct PauseNotes {
    generator: AtomicBool,
    workers: AtomicBool,
}

impl PauseNotes {
    /// Whether the part is paused, as far as this node knows.
    pub(crate) fn is_paused(&self, part: Part) -> bool {
        self.of(part).load(Ordering::Relaxed)
    }

    /// Notes whether the part is paused now. Returns whether that is news.
    pub(crate) fn note(&self, part: Part, is_paused: bool) -> bool {
        self.of(part).swap(is_paused, Ordering::Relaxed) != is_paused
    }

    fn of(&self, part: Part) -> &AtomicBool {
        match part {
            Part::Generator => &self.generator,
            _ => &self.workers,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_news_once_and_so_is_its_end() {
        let notes = PauseNotes::default();
        let [generator, workers] = Part::ALL;
        assert!(!notes.note(generator, false), "it was not paused");
        assert!(notes.note(generator, true) && !notes.note(generator, true));
        assert!(notes.is_paused(generator) && !notes.is_paused(workers));
        assert!(notes.note(generator, false) && !notes.note(generator, false));
    }
}
