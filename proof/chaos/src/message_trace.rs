//! The trace of one message: every log line and ledger entry about it, and the faults around.

use std::time::Instant;

use baton_log::LogEvent;
use baton_processes::Told;
use baton_protocol::{Entry, Ledger};

use crate::history::Fault;
use crate::verdict::Print;

/// A trace includes faults this close to the lines of its message, in s.
const AROUND_S: f64 = 2.0;

/// The sources of a trace.
pub struct MessageTrace<'a> {
    /// When the run began.
    pub began: Instant,
    /// The nodes' labels in the report, by their index in the fleet.
    pub labels: &'a [String],
    /// The log lines of the nodes.
    pub told: &'a [Told],
    /// The output of the drains.
    pub prints: &'a [Print],
    /// The ledger of each partition.
    pub ledgers: &'a [Ledger],
    /// Every fault.
    pub faults: &'a [Fault],
}

impl MessageTrace<'_> {
    /// The trace of a message, in order of time. The partition is `None` if the fleet has one only.
    pub fn of(&self, partition: Option<u32>, seq: u64) -> String {
        let at = |moment: Instant| moment.saturating_duration_since(self.began).as_secs_f64();
        let mut lines: Vec<(f64, String)> = Vec::new();
        let is_it = |told: &&Told| told.line.partition == partition && told.covers(seq);
        for told in self.told.iter().filter(is_it) {
            let label = self.labels.get(told.copy).map_or("", String::as_str);
            let mut line = told.line.clone();
            // The text is hostile, long and irrelevant.
            if let LogEvent::Published { text, .. } = &mut line.event {
                *text = None;
            }
            let line = serde_json::to_string(&line).unwrap_or_default();
            lines.push((at(told.at), format!("{label} told {line}")));
        }
        let is_it = |print: &&Print| (print.failed.partition, print.failed.seq) == (partition, seq);
        for print in self.prints.iter().filter(is_it) {
            let text = format!("getErrors {} printed it", print.drain + 1);
            lines.push((at(print.at), text));
        }
        let (from, to) = lines
            .iter()
            .fold((f64::MAX, 0.0_f64), |(from, to), (at, _)| {
                (from.min(*at), to.max(*at))
            });
        for fault in self.faults {
            if fault.from_s < to + AROUND_S && fault.to_s > from - AROUND_S {
                let text = format!(
                    "FAULT {} {} {}",
                    fault.name,
                    fault.targets.join(", "),
                    fault.note
                );
                lines.push((fault.from_s, text));
            }
        }
        lines.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let mut trace: Vec<String> = lines
            .into_iter()
            .map(|(at, text)| format!("    {at:8.3} s  {}", text.trim_end()))
            .collect();
        let ledger = self.ledgers.get(partition.unwrap_or_default() as usize);
        let entries = ledger.into_iter().flat_map(|ledger| &ledger.entries);
        let entries = entries.filter(|entry| (entry.first()..=entry.last()).contains(&seq));
        trace.extend(entries.map(|entry| format!("    the ledger: {}", self.entry(entry))));
        trace.join("\n")
    }

    fn entry(&self, entry: &Entry) -> String {
        let (first, last) = (entry.first(), entry.last());
        // Redis's clock may have jumped.
        let at_s = entry.at_us() as f64 / 1e6;
        match entry {
            Entry::Published { epoch, .. } => {
                format!("#{first} to #{last} published under epoch {epoch} at {at_s:.6}")
            }
            Entry::Ended { slot, failed, .. } => {
                let label = self.label(slot.split(':').next().unwrap_or_default());
                format!(
                    "#{first} to #{last} ended by {slot} ({label}), {failed} failed, at {at_s:.6}"
                )
            }
            Entry::Retried { seq, .. } => format!("#{seq} retried at {at_s:.6}"),
            Entry::Delayed { seq, .. } => format!("#{seq} delayed at {at_s:.6}"),
            Entry::Void { .. } => format!("#{first} to #{last} declared void at {at_s:.6}"),
        }
    }

    /// The label of a node with this name in Redis.
    fn label(&self, name: &str) -> &str {
        let told = self.told.iter().find(|told| told.node() == name);
        let label = told.and_then(|told| self.labels.get(told.copy));
        label.map_or("unknown", String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use baton_log::Line;

    use super::*;

    #[test]
    fn a_trace_has_all_that_concerns_its_message_in_order_and_nothing_else() {
        let began = Instant::now();
        let tell = |ms, copy, node: &'static str, event| Told {
            copy,
            at: began + Duration::from_millis(ms),
            line: Line {
                at: SystemTime::UNIX_EPOCH,
                node: node.into(),
                partition: None,
                event,
            },
        };
        let published = LogEvent::Published {
            epoch: 1,
            first: 5,
            last: 9,
            text: Some("\u{1b}".into()),
        };
        let processed = |seq| LogEvent::Processed {
            first: seq,
            last: seq,
            failed: Vec::new().into(),
            delayed: Vec::new().into(),
            attempt: 1,
        };
        let told = [
            tell(1000, 0, "a", published),
            tell(1500, 1, "b", processed(7)),
            tell(1600, 1, "b", processed(8)),
        ];
        let fault = |from_s, name: &str| Fault {
            name: name.to_owned(),
            targets: vec!["node 2".to_owned()],
            from_s,
            to_s: from_s,
            recovered_ms: None,
            note: String::new(),
        };
        let entries = [
            "p 1 5 9 ff 17 0",
            "c b:0 7 7 0 ff 18 0",
            "c b:0 8 8 0 ff 18 0",
        ];
        let trace = MessageTrace {
            began,
            labels: &["node 1".to_owned(), "node 2".to_owned()],
            told: &told,
            prints: &[],
            ledgers: &[Ledger {
                entries: entries
                    .iter()
                    .filter_map(|text| Entry::parse(text))
                    .collect(),
            }],
            faults: &[fault(1.2, "near"), fault(60.0, "far")],
        };
        assert_eq!(
            trace.of(None, 7).lines().map(str::trim).collect::<Vec<_>>(),
            [
                concat!(
                    r#"1.000 s  node 1 told {"at":"1970-01-01T00:00:00.000Z","event":"published","#,
                    r#""node":"a","epoch":1,"first":5,"last":9}"#
                ),
                "1.200 s  FAULT near node 2",
                concat!(
                    r#"1.500 s  node 2 told {"at":"1970-01-01T00:00:00.000Z","event":"processed","#,
                    r#""node":"b","first":7,"last":7,"failed":[],"attempt":1}"#
                ),
                "the ledger: #5 to #9 published under epoch 1 at 17.000000",
                "the ledger: #7 to #7 ended by b:0 (node 2), 0 failed, at 18.000000",
            ]
        );
    }
}
