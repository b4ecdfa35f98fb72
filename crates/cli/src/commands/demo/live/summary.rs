//! The summary that the live demo prints at its end.

use baton::inspect::{Snapshot, TakeoverCause};

/// Counts kills and takeovers while the demo runs: a snapshot has only the latest takeovers.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Summary {
    /// Processes that the user killed with -9.
    pub(super) kills: u64,
    takeovers: u64,
    longest_gap_ms: u64,
    /// The latest epoch whose takeover is counted.
    epoch: u64,
}

impl Summary {
    /// Counts the takeovers that are new in a snapshot. The first generator took over from no
    /// other, so it does not count.
    pub(super) fn count(&mut self, snapshot: &Snapshot) {
        let counted = self.epoch;
        for takeover in &snapshot.takeovers {
            if takeover.epoch <= counted {
                break;
            }
            self.epoch = self.epoch.max(takeover.epoch);
            if takeover.how != TakeoverCause::First {
                self.takeovers += 1;
                self.longest_gap_ms = self.longest_gap_ms.max(takeover.gap_ms);
            }
        }
    }

    /// The lines to print, with the counters of the last snapshot.
    pub(super) fn text(&self, snapshot: &Snapshot) -> String {
        let under_way = snapshot.pending + snapshot.claimed + snapshot.delayed;
        let gap = match self.takeovers {
            0 => String::new(),
            _ => format!(", the longest gap {} ms", self.longest_gap_ms),
        };
        let books = match snapshot.balanced {
            true => "The books balance: every message is in exactly one place.",
            false => "THE BOOKS DO NOT BALANCE.",
        };
        format!(
            "  published  {:>8}\n  done       {:>8}\n  failed     {:>8}\n  under way  {under_way:>8}\n  \
             kills      {:>8}\n  takeovers  {:>8}{gap}\n{books}\n",
            snapshot.published, snapshot.done, snapshot.failed, self.kills, self.takeovers
        )
    }
}

#[cfg(test)]
mod tests {
    use baton::inspect::Takeover;

    use super::*;

    fn snapshot(takeovers: &[(u64, u64, TakeoverCause)]) -> Snapshot {
        let takeovers = takeovers.iter().map(|&(epoch, gap_ms, how)| {
            let mut takeover = Takeover::default();
            takeover.epoch = epoch;
            takeover.gap_ms = gap_ms;
            takeover.how = how;
            takeover
        });
        let mut snapshot = Snapshot::default();
        snapshot.takeovers = takeovers.collect();
        snapshot
    }

    #[test]
    fn a_takeover_is_counted_once_and_the_first_generator_is_none() {
        let mut summary = Summary::default();
        summary.count(&snapshot(&[
            (2, 31, TakeoverCause::Gone),
            (1, 0, TakeoverCause::First),
        ]));
        summary.count(&snapshot(&[
            (2, 31, TakeoverCause::Gone),
            (1, 0, TakeoverCause::First),
        ]));
        summary.count(&snapshot(&[
            (4, 7, TakeoverCause::Resigned),
            (3, 1501, TakeoverCause::Expired),
        ]));
        assert_eq!(
            (summary.takeovers, summary.longest_gap_ms, summary.epoch),
            (3, 1501, 4)
        );
    }

    #[test]
    fn books_that_do_not_balance_are_printed_in_capitals() {
        let text = |balanced| {
            let mut snapshot = Snapshot::default();
            snapshot.balanced = balanced;
            Summary::default().text(&snapshot)
        };
        assert!(text(true).contains("The books balance"));
        assert!(text(false).contains("DO NOT BALANCE"));
    }
}
