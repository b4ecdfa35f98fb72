//! The verdict on a whole fleet: that on each partition, and what only the fleet as a whole shows.

use super::{Evidence, Judgement, Violation, judge};
use crate::handlers::Beside;
use crate::row_check::{self, Stored};

/// Everything that is known about a run.
pub struct FleetEvidence<'a> {
    /// Each partition, in order.
    pub partitions: &'a [Evidence<'a>],
    /// How often the effects of messages counted; `None` if the handler has none.
    pub counted: Option<u64>,
    /// Commands that ran beside the next attempt of their message.
    pub besides: &'a [Beside],
    /// Where the source stood at the end; `None` if its texts are random.
    pub stored: Option<Stored>,
    /// Whether a failover may take rows back that a partition had.
    pub may_lose_rows: bool,
}

/// Judges the evidence.
pub fn judge_fleet(evidence: &FleetEvidence<'_>) -> Judgement {
    let mut judgement = Judgement::default();
    for partition in evidence.partitions {
        judgement.add(partition.partition, judge(partition));
    }
    judgement.effects(evidence);
    judgement.besides(evidence);
    judgement.rows(evidence);
    judgement
}

impl Judgement {
    /// Adds the verdict on a partition.
    fn add(&mut self, partition: Option<u32>, other: Self) {
        let (sum, part) = (&mut self.verdict, other.verdict);
        for (sum, count) in [
            (&mut sum.published, part.published),
            (&mut sum.done, part.done),
            (&mut sum.failed, part.failed),
            (&mut sum.drained, part.drained),
            (&mut sum.lost, part.lost),
            (&mut sum.duplicated, part.duplicated),
            (&mut sum.phantom, part.phantom),
            (&mut self.taken_back, other.taken_back),
            (&mut self.reprints, other.reprints),
        ] {
            *sum += count;
        }
        if let Some(losses) = part.losses {
            sum.losses.get_or_insert_default().add(&losses);
        }
        let named = other.findings.into_iter().map(|found| Violation {
            partition,
            text: match partition {
                Some(partition) => format!("partition {partition}: {}", found.text),
                None => found.text,
            },
            ..found
        });
        self.findings.extend(named);
    }

    /// Checks that each message that is done has counted once, and no other.
    fn effects(&mut self, evidence: &FleetEvidence<'_>) {
        let partitions = evidence.partitions.iter();
        let done: u64 = partitions.map(|partition| partition.census.done).sum();
        self.verdict.counted = evidence.counted;
        if let Some(counted) = evidence.counted.filter(|counted| *counted != done) {
            let text = format!("{done} messages are done, their effects counted {counted}");
            self.find(0, text);
        }
    }

    /// Checks that commands of dead nodes ended. A command may run beside the next attempt for as
    /// long as its supervisor takes to kill it.
    fn besides(&mut self, evidence: &FleetEvidence<'_>) {
        for Beside {
            seq,
            node,
            orphaned,
            ms,
        } in evidence.besides
        {
            if !orphaned {
                self.beside_living += 1;
                continue;
            }
            self.beside_dead_ms.push(*ms);
            if *ms >= Beside::MAX_MS {
                let node = node + 1;
                let text = format!(
                    "#{seq}: a command of node {node}, which is dead, ran for {ms} ms beside the \
                     next attempt"
                );
                self.find(*seq, text);
            }
        }
    }

    /// Checks that the messages are the rows, and that the cursor stands behind the last one.
    fn rows(&mut self, evidence: &FleetEvidence<'_>) {
        let Some(stored) = &evidence.stored else {
            return;
        };
        self.findings.extend(match evidence.partitions {
            [only] => row_check::wrong_texts(&only.ledger.entries),
            several => {
                let ledgers = several.iter().map(|partition| partition.ledger);
                let max_missing = match evidence.may_lose_rows {
                    true => self.verdict.losses.unwrap_or_default().forgotten(),
                    false => 0,
                };
                let rows = row_check::check_rows(ledgers, stored.made, max_missing);
                self.missing_rows = rows.missing;
                rows.findings
            }
        });
        if let Some(text) = stored.check() {
            self.find(0, text);
        }
    }
}
