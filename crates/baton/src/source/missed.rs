//! What becomes of ticks that no node saw.

use std::time::Duration;

/// How much missed time a generator makes up for, unless it is set.
const CATCH_UP: Duration = Duration::from_secs(600);
/// A tick that is no later than this was not missed: a takeover takes a moment.
pub(super) const ON_TIME: Duration = Duration::from_secs(5);

/// What becomes of ticks that passed while no node generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Missed {
    /// The generator makes up for them at once.
    CatchUp {
        /// For those of so long a time; older ones are left out, and the generator says how many.
        at_most: Duration,
    },
    /// They are left out. An interval goes on with the newest tick that is due, cron with those that are
    /// at most 5 s late.
    Skip,
    /// Only the last one is made, of each entry of a crontab. Ticks that are at most 5 s late are not
    /// missed: they are all made.
    Last,
}

impl Default for Missed {
    fn default() -> Self {
        Self::CatchUp { at_most: CATCH_UP }
    }
}
