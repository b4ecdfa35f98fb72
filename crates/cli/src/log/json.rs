//! Events for programs: the lines of [`baton_log`].

use std::time::SystemTime;

use baton::Event;
use baton_log::{Line, LogEvent, RedisState, Role};

use super::Entry;
use crate::{hints, json};

/// Appends a line.
pub(crate) fn write(to: &mut Vec<u8>, at: SystemTime, node: &str, entry: &Entry<'_>) {
    let line = Line {
        at,
        node: node.into(),
        partition: match entry {
            Entry::Event(Event::InPartition { partition, .. }) => Some(*partition),
            _ => None,
        },
        event: log_event(entry),
    };
    if json::write_line(to, &line).is_err() {
        // JSON can express every event of ours.
        to.clear();
    }
}

/// The entry as programs read it. It borrows from the entry, so that a line costs no allocation.
fn log_event<'a>(entry: &Entry<'a>) -> LogEvent<'a> {
    let event = match entry {
        Entry::Event(event) => event.inner(),
        Entry::Output { seq, line } => {
            return LogEvent::HandlerOutput {
                seq: *seq,
                text: String::from_utf8_lossy(line),
            };
        }
        Entry::SourceOutput(line) => {
            return LogEvent::SourceOutput {
                text: String::from_utf8_lossy(line),
            };
        }
        Entry::Gap(lines) => return LogEvent::LogGap { lines: *lines },
    };
    match event {
        Event::Generator { epoch } => LogEvent::Generator { epoch: *epoch },
        Event::Worker { generator } => LogEvent::Worker {
            generator: generator.into(),
        },
        Event::Published {
            epoch,
            first,
            last,
            text,
        } => LogEvent::Published {
            epoch: *epoch,
            first: *first,
            last: *last,
            text: text.as_deref().map(String::from_utf8_lossy),
        },
        Event::Processed {
            first,
            last,
            failed,
            delayed,
            attempt,
        } => LogEvent::Processed {
            first: *first,
            last: *last,
            failed: failed.into(),
            delayed: delayed.into(),
            attempt: *attempt,
        },
        Event::Delayed {
            seq,
            attempt,
            delay,
            reason,
        } => LogEvent::Delayed {
            seq: *seq,
            attempt: *attempt,
            delay_ms: u64::try_from(delay.as_millis()).unwrap_or(u64::MAX),
            reason: reason.into(),
        },
        Event::Fenced { epoch, by } => LogEvent::Fenced {
            epoch: *epoch,
            by: by.as_deref().map(Into::into),
        },
        Event::Lost { first, last } => LogEvent::Lost {
            first: *first,
            last: *last,
        },
        Event::Regressed { first, last } => LogEvent::Regressed {
            first: *first,
            last: *last,
        },
        Event::Unconfirmed { first, last } => LogEvent::Unconfirmed {
            first: *first,
            last: *last,
        },
        Event::Void { first, last } => LogEvent::Void {
            first: *first,
            last: *last,
        },
        Event::Reclaimed { count, nodes } => LogEvent::Reclaimed {
            count: *count,
            nodes: nodes.into(),
        },
        Event::Dropped { count } => LogEvent::Dropped { count: *count },
        Event::Paused { part } => LogEvent::Paused {
            part: part.as_str().into(),
        },
        Event::Resumed { part } => LogEvent::Resumed {
            part: part.as_str().into(),
        },
        Event::Redis { up, reason } => LogEvent::Redis {
            state: match up {
                true => RedisState::Regained,
                false => RedisState::Lost,
            },
            reason: reason.as_deref().map(Into::into),
        },
        Event::Confirmed => LogEvent::Confirmed,
        Event::Warning(warning) => LogEvent::Warning {
            text: hints::warning(warning).into(),
        },
        Event::Snapshot {
            generator,
            published_per_s,
            processed_per_s,
            pending,
            claimed,
            delayed,
            errors,
        } => LogEvent::Snapshot {
            role: match generator {
                true => Role::Generator,
                false => Role::Worker,
            },
            published_per_s: tenths(*published_per_s),
            processed_per_s: tenths(*processed_per_s),
            pending: *pending,
            claimed: *claimed,
            delayed: *delayed,
            errors: *errors,
        },
        Event::Stopped => LogEvent::Stopped,
        // A newer library may have more events.
        _ => LogEvent::Other,
    }
}

fn tenths(rate: f64) -> f64 {
    (rate * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::super::tests::{entries, events, lines};
    use super::*;

    #[test]
    fn every_event_is_one_object_with_its_time_name_and_node_first() {
        let lines = lines(super::write);
        let head = r#"{"at":"2023-11-14T22:13:20.123Z","event":""#;
        let rest: Vec<&str> = lines
            .iter()
            .map(|line| line.strip_prefix(head).unwrap())
            .collect();
        assert_eq!(
            rest,
            [
                r#"generator","node":"n0de","epoch":3}"#,
                r#"worker","node":"n0de","generator":"k3v9x0a7qm"}"#,
                r#"published","node":"n0de","epoch":3,"first":17,"last":17,"text":"two\nlines�"}"#,
                r#"published","node":"n0de","epoch":3,"first":1,"last":500}"#,
                r#"processed","node":"n0de","first":17,"last":17,"failed":[],"attempt":1}"#,
                r#"processed","node":"n0de","first":17,"last":17,"failed":[17],"attempt":2}"#,
                r#"processed","node":"n0de","first":1,"last":500,"failed":[],"attempt":1}"#,
                r#"processed","node":"n0de","first":1,"last":500,"failed":[3,4],"attempt":1}"#,
                r#"processed","node":"n0de","first":1,"last":2,"failed":[1,2],"attempt":1}"#,
                r#"processed","node":"n0de","first":1,"last":3,"failed":[1],"delayed":[2],"attempt":1}"#,
                r#"processed","node":"n0de","first":7,"last":7,"failed":[],"delayed":[7],"attempt":2}"#,
                r#"delayed","node":"n0de","seq":7,"attempt":2,"delay_ms":2100,"reason":"no\nanswer"}"#,
                r#"fenced","node":"n0de","epoch":3,"by":null}"#,
                r#"fenced","node":"n0de","epoch":3,"by":"k3v9x0a7qm"}"#,
                r#"lost","node":"n0de","first":5,"last":6}"#,
                r#"unconfirmed","node":"n0de","first":5,"last":6}"#,
                r#"regressed","node":"n0de","first":7,"last":9}"#,
                r#"void","node":"n0de","first":8,"last":8}"#,
                r#"reclaimed","node":"n0de","count":1,"nodes":["k3v9x0a7qm"]}"#,
                r#"reclaimed","node":"n0de","count":3,"nodes":["k3v9x0a7qm","b"]}"#,
                r#"dropped","node":"n0de","count":500}"#,
                r#"paused","node":"n0de","part":"generator"}"#,
                r#"resumed","node":"n0de","part":"workers"}"#,
                r#"redis","node":"n0de","state":"lost","reason":"connection refused"}"#,
                r#"redis","node":"n0de","state":"regained"}"#,
                r#"confirmed","node":"n0de"}"#,
                r#"warning","node":"n0de","text":"cannot publish for now: OOM command not allowed"}"#,
                concat!(
                    r#"snapshot","node":"n0de","role":"generator","published_per_s":2.0,"#,
                    r#""processed_per_s":0.0,"pending":3,"claimed":1,"delayed":2,"errors":6}"#
                ),
                r#"stopped","node":"n0de"}"#,
                r#"handler_output","node":"n0de","seq":17,"text":"tab\tand grün"}"#,
                r#"source_output","node":"n0de","text":"tab\tand grün"}"#,
                r#"log_gap","node":"n0de","lines":12}"#,
            ]
        );
    }

    #[test]
    fn a_program_reads_every_event_back_and_knows_it() {
        for text in lines(super::write) {
            let line: Line = serde_json::from_str(&text).unwrap();
            assert_ne!(line.event, LogEvent::Other, "{text}");
            assert_eq!(serde_json::to_string(&line).unwrap(), text);
        }
    }

    #[test]
    fn a_line_costs_no_allocation() {
        let events = events();
        let valid = |entry: &Entry<'_>| {
            match entry {
                // A text that is not UTF-8 has to be converted.
                Entry::Event(baton::Event::Published { text, .. }) => text
                    .as_ref()
                    .is_none_or(|text| str::from_utf8(text).is_ok()),
                // A warning is rare, and its words are put together.
                Entry::Event(baton::Event::Warning(_)) => false,
                _ => true,
            }
        };
        let mut to = Vec::with_capacity(4096);
        for entry in entries(&events).filter(valid) {
            to.clear();
            let used = allocation_counter::measure(|| {
                super::write(&mut to, UNIX_EPOCH, "n0de", &entry);
            });
            let line = String::from_utf8_lossy(&to);
            assert_eq!(used.count_total, 0, "{line}");
        }
    }
}
