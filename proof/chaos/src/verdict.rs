//! The fate of every message: compares the ledger, the census, the logs of the nodes and the output
//! of the drains with each other, for each partition. `fleet` puts the partitions together.

mod fleet;

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use baton::FailedMessage;
use baton::inspect::Finding;
use baton_log::LogEvent;
use baton_processes::Told;
use baton_protocol::Census;
use baton_protocol::{Entry, Ledger};

use crate::failover_check;
use crate::history::Verdict;

pub use fleet::{FleetEvidence, judge_fleet};

/// A server with `appendfsync everysec` may lose its last writes when it dies: at most this much.
const FORGETS: Duration = Duration::from_secs(5);
/// A line is read this much later than it was written, at most.
const READ_LATE: Duration = Duration::from_secs(1);

/// When a server may forget that dies at this moment, with `appendfsync everysec`.
pub fn forgetful_death(death: Instant) -> RangeInclusive<Instant> {
    death.checked_sub(FORGETS).unwrap_or(death)..=death + READ_LATE
}

/// A failed message that a drain printed.
#[derive(Debug, Clone)]
pub struct Print {
    /// Which drain.
    pub drain: usize,
    /// When it was read here.
    pub at: Instant,
    /// What it printed.
    pub failed: FailedMessage,
}

/// Everything that is known about one partition. The lines of nodes and drains are those about its messages.
pub struct Evidence<'a> {
    /// Which partition; `None` if the fleet has one only.
    pub partition: Option<u32>,
    /// The entries that Redis's scripts wrote. The verdict trusts them.
    pub ledger: &'a Ledger,
    /// Where every message was at the end.
    pub census: &'a Census,
    /// The log lines of the nodes.
    pub told: &'a [Told],
    /// The output of the drains, in order.
    pub prints: &'a [Print],
    /// Whether each drain succeeded: then it removed all that it printed.
    pub drains: &'a [bool],
    /// When servers may have forgotten what they had acknowledged.
    pub forgetful: &'a [RangeInclusive<Instant>],
    /// What is known about failovers; `None` if there was a single server.
    pub failovers: Option<failover_check::Evidence<'a>>,
}

/// A violation.
#[derive(Debug, PartialEq, Eq)]
pub struct Violation {
    /// The partition; `None` if the fleet has one only, or if the violation is about all of it.
    pub partition: Option<u32>,
    /// The sequence number of a message that it concerns, or 0.
    pub seq: u64,
    /// What is wrong.
    pub text: String,
}

/// The verdict on the evidence, with details.
#[derive(Debug, Default)]
pub struct Judgement {
    /// The counts.
    pub verdict: Verdict,
    /// Every violation.
    pub findings: Vec<Violation>,
    /// Messages in log lines whose entries the server lost when it died: its settings allow that.
    pub taken_back: u64,
    /// Failed messages that were printed again because the first drain died before it removed them.
    pub reprints: u64,
    /// Rows of a source that no message has any more: failovers took them back, and no generator that kept
    /// them was alive.
    pub missing_rows: u64,
    /// Commands of living nodes that ran beside the next attempt: the nodes were paused or cut off.
    pub beside_living: u64,
    /// For how long each command of a dead node ran beside the next attempt, in ms.
    pub beside_dead_ms: Vec<u64>,
}

/// Judges one partition.
fn judge(evidence: &Evidence<'_>) -> Judgement {
    let mut judgement = Judgement::default();
    let records = judgement.prints(evidence);
    judgement.audit(evidence, &records);
    judgement.logs(evidence);
    judgement.failovers(evidence);
    judgement
}

impl Evidence<'_> {
    /// Whether the server may have lost the entry of a line of this moment.
    fn forgiven(&self, at: Instant) -> bool {
        self.forgetful.iter().any(|time| time.contains(&at))
    }
}

impl Judgement {
    fn find(&mut self, seq: u64, text: String) {
        self.findings.push(Violation {
            partition: None,
            seq,
            text,
        });
    }

    /// Checks that each failed message was printed once; a second time only if the first drain
    /// failed, and then with the same text. Returns the records, sorted.
    fn prints(&mut self, evidence: &Evidence<'_>) -> Vec<(u64, Vec<u8>)> {
        let mut printed: HashMap<u64, &Print> = HashMap::new();
        for print in evidence.prints {
            let seq = print.failed.seq;
            let Some(before) = printed.insert(seq, print) else {
                continue;
            };
            if evidence.drains.get(before.drain) == Some(&true) && !evidence.forgiven(before.at) {
                self.verdict.duplicated += 1;
                self.find(
                    seq,
                    format!("#{seq} was printed again after it was removed"),
                );
            } else {
                self.reprints += 1;
            }
            if before.failed.text != print.failed.text {
                self.find(seq, format!("#{seq} was printed with two different texts"));
            }
        }
        self.verdict.drained = printed.len() as u64;
        let mut records: Vec<(u64, Vec<u8>)> = printed
            .into_iter()
            .map(|(seq, print)| (seq, baton_protocol::record::encode(&print.failed)))
            .collect();
        records.sort_unstable();
        if evidence.census.errors > 0 {
            let left = evidence.census.errors;
            self.find(
                0,
                format!("{left} failed messages are left after the last getErrors"),
            );
        }
        records
    }

    /// Compares the ledger with the counters, the failed messages and the digests of the texts.
    fn audit(&mut self, evidence: &Evidence<'_>, records: &[(u64, Vec<u8>)]) {
        let audit = baton_protocol::audit::compare(evidence.ledger, evidence.census, records);
        self.verdict.published = audit.published;
        self.verdict.done = audit.done;
        self.verdict.failed = audit.failed;
        self.verdict.lost = audit.lost;
        self.verdict.duplicated += audit.duplicated;
        for finding in &audit.findings {
            let mut text = finding.to_string();
            let seq = match finding {
                Finding::Phantom { first, last } => {
                    self.verdict.phantom += last - first + 1;
                    *first
                }
                // A failed message is gone and was never printed; or one was printed that did not fail.
                Finding::Failed {
                    first,
                    last,
                    failed,
                    kept,
                } => {
                    self.verdict.lost += failed.saturating_sub(*kept);
                    self.verdict.phantom += kept.saturating_sub(*failed);
                    let range = range(*first, *last);
                    text = format!("{failed} of {range} failed, {kept} were printed");
                    *first
                }
                Finding::Lost { first, .. }
                | Finding::Duplicated { first, .. }
                | Finding::Misnumbered { first, .. }
                | Finding::Texts { first, .. }
                | Finding::Retried { first, .. } => *first,
                Finding::Errors { seq, .. } => *seq,
                // The counters, and what a later library finds.
                _ => 0,
            };
            self.find(seq, text);
        }
    }

    /// Checks what failovers did to messages that nodes had logged.
    fn failovers(&mut self, evidence: &Evidence<'_>) {
        if let Some(failovers) = &evidence.failovers {
            let (losses, findings) = failover_check::check(failovers);
            self.verdict.losses = Some(losses);
            for (seq, text) in findings {
                self.find(seq, text);
            }
        }
    }

    /// Checks that every log line has an entry in the ledger, and no two lines the same one. An
    /// entry may lack its line: a killed node may have died before it logged.
    fn logs(&mut self, evidence: &Evidence<'_>) {
        let mut entries = Entries::of(evidence.ledger);
        // Of two lines for one entry, the one whose entry the server may have lost comes last.
        let lines = evidence.told.iter();
        let (excused, rest): (Vec<_>, Vec<_>) = lines.partition(|told| evidence.forgiven(told.at));
        for told in rest.into_iter().chain(excused) {
            let Some(messages) = told.event().messages() else {
                continue;
            };
            let line = Line {
                first: *messages.start(),
                last: *messages.end(),
                forgiven: evidence.forgiven(told.at),
            };
            match told.event() {
                LogEvent::Processed { failed, .. } => {
                    let key = (told.node(), line.first, line.last);
                    self.processed_line(&line, failed.len() as u64, entries.ended.get_mut(&key));
                }
                LogEvent::Published { epoch, .. } => {
                    let key = (*epoch, line.first, line.last);
                    self.published_line(&line, entries.published.get_mut(&key));
                }
                _ => {}
            }
        }
    }

    /// Checks a line about handled messages. `left` has the failures that the ledger counts for
    /// each of its entries that has no line yet.
    fn processed_line(&mut self, line: &Line, failed: u64, left: Option<&mut Vec<u64>>) {
        let (range, first) = (range(line.first, line.last), line.first);
        match left {
            Some(left) if left.contains(&failed) => {
                let at = left.iter().position(|entry| *entry == failed);
                at.map(|at| left.swap_remove(at));
            }
            _ if line.forgiven => self.taken_back += line.count(),
            Some(left) if left.is_empty() => {
                self.verdict.duplicated += line.count();
                self.find(first, format!("{range} told as processed more than once"));
            }
            Some(left) => {
                let text = format!("{range}: {failed} told as failed, not {left:?}");
                self.find(first, text);
            }
            None => {
                self.verdict.phantom += line.count();
                let text = format!("{range} told as processed, the ledger has it not");
                self.find(first, text);
            }
        }
    }

    /// Checks a line about published messages. `logged` says whether the ledger's entry has a line
    /// already.
    fn published_line(&mut self, line: &Line, logged: Option<&mut bool>) {
        let (range, first) = (range(line.first, line.last), line.first);
        match logged {
            Some(logged @ false) => *logged = true,
            _ if line.forgiven => self.taken_back += line.count(),
            Some(true) => {
                self.find(first, format!("{range} told as published more than once"));
            }
            None => {
                self.verdict.phantom += line.count();
                let text = format!("{range} told as published, the ledger has it not");
                self.find(first, text);
            }
        }
    }
}

/// The messages of one log line.
struct Line {
    first: u64,
    last: u64,
    /// Whether the server may have lost the entry.
    forgiven: bool,
}

impl Line {
    fn count(&self) -> u64 {
        (self.last + 1).saturating_sub(self.first)
    }
}

/// The entries of a ledger for which nodes log a line.
struct Entries<'a> {
    /// Node, first and last message → the failures of each entry without a line.
    ended: HashMap<(&'a str, u64, u64), Vec<u64>>,
    /// Epoch, first and last message → whether the entry has a line.
    published: HashMap<(u64, u64, u64), bool>,
}

impl<'a> Entries<'a> {
    fn of(ledger: &'a Ledger) -> Self {
        let (mut ended, mut published) = (HashMap::new(), HashMap::new());
        for entry in &ledger.entries {
            match entry {
                Entry::Published {
                    epoch, first, last, ..
                } => {
                    published.insert((*epoch, *first, *last), false);
                }
                Entry::Ended {
                    slot,
                    first,
                    last,
                    failed,
                    ..
                } => {
                    let node = slot.split(':').next().unwrap_or_default();
                    let failures: &mut Vec<u64> = ended.entry((node, *first, *last)).or_default();
                    failures.push(*failed);
                }
                // A retry has no line of its own, a delay is in the line of its commit, and void numbers
                // have no message.
                Entry::Retried { .. } | Entry::Delayed { .. } | Entry::Void { .. } => {}
            }
        }
        Self { ended, published }
    }
}

fn range(first: u64, last: u64) -> String {
    match first == last {
        true => format!("#{first}"),
        false => format!("#{first} to #{last}"),
    }
}

#[cfg(test)]
mod tests;
