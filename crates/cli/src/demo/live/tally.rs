//! What the user did and what came of it, in a few lines at the end.

use baton::inspect::{How, Snapshot};

/// What is counted while the demo runs, because a snapshot remembers only the latest takeovers.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Processes that were killed with -9.
    pub(super) kills: u64,
    takeovers: u64,
    longest_gap_ms: u64,
    /// Takeovers up to this epoch are counted.
    epoch: u64,
}

impl Tally {
    /// Counts the takeovers that are new in a snapshot. The first generator took over from nobody.
    pub(super) fn read(&mut self, snapshot: &Snapshot) {
        let counted = self.epoch;
        for takeover in &snapshot.takeovers {
            if takeover.epoch <= counted {
                break;
            }
            self.epoch = self.epoch.max(takeover.epoch);
            if takeover.how != How::First {
                self.takeovers += 1;
                self.longest_gap_ms = self.longest_gap_ms.max(takeover.gap_ms);
            }
        }
    }

    /// The lines to print when the demo is over.
    pub(super) fn words(&self, snapshot: &Snapshot) -> String {
        let under_way = snapshot.pending + snapshot.claimed;
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

    fn snapshot(takeovers: &[(u64, u64, How)]) -> Snapshot {
        let takeovers = takeovers.iter().map(|&(epoch, gap_ms, how)| {
            let mut made = Takeover::default();
            made.epoch = epoch;
            made.node = "n1".to_owned();
            made.at_ms = 0;
            made.gap_ms = gap_ms;
            made.how = how;
            made.from = None;
            made
        });
        {
            let mut made = Snapshot::default();
            made.takeovers = takeovers.collect();
            made
        }
    }

    #[test]
    fn a_takeover_is_counted_once_and_the_first_generator_is_none() {
        let mut tally = Tally::default();
        tally.read(&snapshot(&[(2, 31, How::Gone), (1, 0, How::First)]));
        tally.read(&snapshot(&[(2, 31, How::Gone), (1, 0, How::First)]));
        tally.read(&snapshot(&[(4, 7, How::Resigned), (3, 1501, How::Expired)]));
        assert_eq!(
            (tally.takeovers, tally.longest_gap_ms, tally.epoch),
            (3, 1501, 4)
        );
    }

    #[test]
    fn books_that_do_not_balance_are_said_loudly() {
        let words = |balanced| {
            Tally::default().words(&{
                let mut made = Snapshot::default();
                made.balanced = balanced;
                made
            })
        };
        assert!(words(true).contains("The books balance"));
        assert!(words(false).contains("DO NOT BALANCE"));
    }
}
