//! The position of the schedule, which the fence stores.

use crate::calls::answer::exact;

/// Where the schedule stands. A generator stores it for its successor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cursor {
    /// The next tick, in ms on Redis's clock; 0 if the schedule begins anew.
    pub due_ms: u64,
    /// Redis's clock at that time, as far as the generator knew; 0 if unknown. A node that saw a
    /// step of the clock learns from it whether `due_ms` is from before or after the step.
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
    /// Reads what [`Display`](std::fmt::Display) wrote; none if the text is something else.
    pub fn parse(text: &str) -> Option<Self> {
        let (due, known) = text.split_once(' ').unwrap_or((text, "0"));
        let number = |digits: &str| exact(digits).filter(|_| !digits.is_empty());
        Some(Self {
            due_ms: number(due)?,
            known_ms: number(known)?,
        })
    }
}
