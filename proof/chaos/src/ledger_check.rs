//! Checks the ledger while the run goes on, so that a run ends soon after the first violation.

use baton_protocol::Entry;

/// The state of the entries so far.
#[derive(Debug, Clone, Default)]
pub struct LedgerCheck {
    /// How many entries were read.
    pub read: usize,
    last: u64,
    /// Whether a message has ended; index 0 is unused.
    ended: Vec<bool>,
}

impl LedgerCheck {
    /// Checks the next entries and returns every violation.
    pub fn check(&mut self, entries: &[Entry]) -> Vec<String> {
        self.read += entries.len();
        let mut findings = Vec::new();
        for entry in entries {
            let (first, last) = (entry.first(), entry.last());
            match entry {
                Entry::Published { .. } => {
                    if first != self.last + 1 {
                        findings.push(format!(
                            "published #{first} where #{} was due",
                            self.last + 1
                        ));
                    }
                    self.last = self.last.max(last);
                    self.ended.resize(self.last as usize + 1, false);
                }
                // No message has these numbers, so none may end.
                Entry::Void { .. } => {
                    if first != self.last + 1 {
                        findings.push(format!("void #{first} where #{} was due", self.last + 1));
                    }
                    self.last = self.last.max(last);
                    self.ended.resize(self.last as usize + 1, true);
                }
                Entry::Ended { .. } => {
                    for seq in first..=last {
                        match self.ended.get_mut(seq as usize) {
                            None => findings.push(format!("committed but never published: #{seq}")),
                            Some(true) => {
                                findings.push(format!("committed more than once: #{seq}"));
                            }
                            Some(ended) => *ended = true,
                        }
                    }
                }
                // The message has to end once more.
                Entry::Retried { seq, .. } | Entry::Delayed { seq, .. } => {
                    match self.ended.get_mut(*seq as usize) {
                        Some(ended @ true) => *ended = false,
                        _ => findings.push(format!("tried again without an end: #{seq}")),
                    }
                }
            }
        }
        findings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(lines: &[&str]) -> Vec<Entry> {
        let parse = |line: &&str| Entry::parse(line).unwrap();
        lines.iter().map(parse).collect()
    }

    #[test]
    fn a_ledger_in_order_has_no_finding_however_they_are_read() {
        let all = entries(&[
            "p 1 1 3 ff 1 1",
            "c a:0 2 3 0 ff 1 1",
            "p 2 4 4 ff 1 1",
            "c b:0 1 1 1 - 1 1",
            "r 1 1 1",
            "c b:0 1 1 0 ff 1 1",
        ]);
        let mut check = LedgerCheck::default();
        for entry in &all {
            assert_eq!(
                check.check(std::slice::from_ref(entry)),
                Vec::<String>::new()
            );
        }
        assert_eq!(check.read, 6);
    }

    #[test]
    fn holes_second_ends_and_phantoms_are_named() {
        let all = entries(&[
            "p 1 1 1 ff 1 1",
            "p 1 3 3 ff 1 1",
            "c a:0 1 1 0 ff 1 1",
            "c b:0 1 1 0 ff 1 1",
            "c b:0 4 4 0 ff 1 1",
            "r 3 1 1",
        ]);
        assert_eq!(
            LedgerCheck::default().check(&all),
            [
                "published #3 where #2 was due",
                "committed more than once: #1",
                "committed but never published: #4",
                "tried again without an end: #3"
            ]
        );
    }
}
