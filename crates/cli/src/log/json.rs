//! Events for programs.

use baton::Event;
use humantime::Rfc3339Timestamp;
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::Entry;
use crate::json;

/// Appends a line.
pub(crate) fn write(to: &mut Vec<u8>, at: Rfc3339Timestamp, node: &str, entry: &Entry<'_>) {
    let line = Line { at, node, entry };
    if json::write_line(to, &line).is_err() {
        // No event of ours has anything that JSON cannot say.
        to.clear();
    }
}

struct Line<'a> {
    at: Rfc3339Timestamp,
    node: &'a str,
    entry: &'a Entry<'a>,
}

impl Serialize for Line<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut line = serializer.serialize_map(None)?;
        line.serialize_entry("at", &format_args!("{}", self.at))?;
        match self.entry {
            Entry::Event(event) => {
                line.serialize_entry("event", name(event))?;
                line.serialize_entry("node", self.node)?;
                fields(&mut line, event)?;
            }
            Entry::Gap(lines) => {
                line.serialize_entry("event", "log_gap")?;
                line.serialize_entry("node", self.node)?;
                line.serialize_entry("lines", lines)?;
            }
        }
        line.end()
    }
}

fn name(event: &Event) -> &'static str {
    match event {
        Event::Generator { .. } => "generator",
        Event::Worker { .. } => "worker",
        Event::Published { .. } => "published",
        Event::Processed { .. } => "processed",
        Event::Fenced { .. } => "fenced",
        Event::Lost { .. } => "lost",
        Event::Reclaimed { .. } => "reclaimed",
        Event::Redis { .. } => "redis",
        Event::Warning { .. } => "warning",
        Event::Snapshot { .. } => "snapshot",
        Event::Stopped => "stopped",
        // A newer library may tell more.
        _ => "other",
    }
}

fn fields<M: SerializeMap>(line: &mut M, event: &Event) -> Result<(), M::Error> {
    match event {
        Event::Generator { epoch } => line.serialize_entry("epoch", epoch),
        Event::Worker { generator } => line.serialize_entry("generator", generator),
        Event::Published {
            epoch,
            first,
            last,
            text,
        } => {
            line.serialize_entry("epoch", epoch)?;
            line.serialize_entry("first", first)?;
            line.serialize_entry("last", last)?;
            match text {
                Some(text) => line.serialize_entry("text", &String::from_utf8_lossy(text)),
                None => Ok(()),
            }
        }
        Event::Processed {
            first,
            last,
            failed,
            attempt,
        } => {
            line.serialize_entry("first", first)?;
            line.serialize_entry("last", last)?;
            line.serialize_entry("failed", failed)?;
            line.serialize_entry("attempt", attempt)
        }
        Event::Fenced { epoch, by } => {
            line.serialize_entry("epoch", epoch)?;
            line.serialize_entry("by", by)
        }
        Event::Lost { first, last } => {
            line.serialize_entry("first", first)?;
            line.serialize_entry("last", last)
        }
        Event::Reclaimed { count, nodes } => {
            line.serialize_entry("count", count)?;
            line.serialize_entry("nodes", nodes)
        }
        Event::Redis { up, reason } => {
            line.serialize_entry("state", if *up { "regained" } else { "lost" })?;
            match reason {
                Some(reason) => line.serialize_entry("reason", reason),
                None => Ok(()),
            }
        }
        Event::Warning { text } => line.serialize_entry("text", text),
        Event::Snapshot {
            generator,
            published_per_s,
            processed_per_s,
            pending,
            claimed,
            errors,
        } => {
            let tenths = |rate: f64| (rate * 10.0).round() / 10.0;
            line.serialize_entry("role", if *generator { "generator" } else { "worker" })?;
            line.serialize_entry("published_per_s", &tenths(*published_per_s))?;
            line.serialize_entry("processed_per_s", &tenths(*processed_per_s))?;
            line.serialize_entry("pending", pending)?;
            line.serialize_entry("claimed", claimed)?;
            line.serialize_entry("errors", errors)
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::lines;

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
                r#"fenced","node":"n0de","epoch":3,"by":null}"#,
                r#"fenced","node":"n0de","epoch":3,"by":"k3v9x0a7qm"}"#,
                r#"lost","node":"n0de","first":5,"last":6}"#,
                r#"reclaimed","node":"n0de","count":1,"nodes":["k3v9x0a7qm"]}"#,
                r#"reclaimed","node":"n0de","count":3,"nodes":["k3v9x0a7qm","b"]}"#,
                r#"redis","node":"n0de","state":"lost","reason":"connection refused"}"#,
                r#"redis","node":"n0de","state":"regained"}"#,
                r#"warning","node":"n0de","text":"the errors store is full"}"#,
                concat!(
                    r#"snapshot","node":"n0de","role":"generator","published_per_s":2.0,"#,
                    r#""processed_per_s":0.0,"pending":3,"claimed":1,"errors":6}"#
                ),
                r#"stopped","node":"n0de"}"#,
                r#"log_gap","node":"n0de","lines":12}"#,
            ]
        );
    }
}
