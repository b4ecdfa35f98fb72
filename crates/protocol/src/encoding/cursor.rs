//! The schedule's position, as the fence keeps it.

use crate::calls::answer::exact;

/// Where the schedule stands: what a generator leaves for its successor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cursor {
    /// Which tick is next, in ms on Redis's clock; 0 if the schedule begins anew.
    pub due_ms: u64,
    /// What Redis's clock showed, as far as the generator knew, when it said so; 0 if unknown.
    /// A node that saw the clock being set tells from this on which side of the step it was.
    pub known_ms: u64,
}

impl std::fmt::Display for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.known_ms {
            0 => write!(f, "{}", self.due_ms),
            known_ms => write!(f, "{} {known_ms}", self.due_ms),
        }
    }
}

impl Cursor {
    /// Reads what [`Display`](std::fmt::Display) wrote; nothing if it is something else.
    pub fn parse(text: &str) -> Option<Self> {
        let (due, known) = text.split_once(' ').unwrap_or((text, "0"));
        let number = |digits: &str| exact(digits).filter(|_| !digits.is_empty());
        Some(Self {
            due_ms: number(due)?,
            known_ms: number(known)?,
        })
    }
}
