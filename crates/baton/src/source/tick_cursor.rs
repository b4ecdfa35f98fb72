//! The cursor of a schedule: where the ticks of an interval stand.

use baton_protocol::exact;

/// Where the schedule stands. A generator stores it for its successor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TickCursor {
    /// The next tick, in ms on Redis's clock; 0 if the schedule begins anew.
    pub(crate) due_ms: u64,
    /// Redis's clock at that time, as far as the generator knew; 0 if unknown. A node that saw a
    /// step of the clock learns from it whether `due_ms` is from before or after the step.
    pub(crate) known_ms: u64,
}

impl std::fmt::Display for TickCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.known_ms {
            0 => write!(f, "{}", self.due_ms),
            known_ms => write!(f, "{} {known_ms}", self.due_ms),
        }
    }
}

impl TickCursor {
    /// Reads what [`Display`](std::fmt::Display) wrote; none if the text is something else.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (due, known) = text.split_once(' ').unwrap_or((text, "0"));
        let number = |digits: &str| exact(digits).filter(|_| !digits.is_empty());
        Some(Self {
            due_ms: number(due)?,
            known_ms: number(known)?,
        })
    }
}
