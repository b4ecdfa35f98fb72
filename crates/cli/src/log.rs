//! The log of a node: one line per event on standard output.

pub(crate) mod json;
pub(crate) mod text;
mod writer;

use std::io;
use std::sync::{Arc, OnceLock};

use baton::Event;
use humantime::Rfc3339Timestamp;

use crate::args::LogFormat;
use crate::shutdown::Shutdown;
use writer::Writer;

/// Takes events, and lets a thread of its own write them: the output never holds up the node.
/// A reader that is gone stops the node; an output that fails or stalls costs lines, which the
/// log counts.
pub(crate) struct Log {
    format: LogFormat,
    name: Arc<OnceLock<String>>,
    writer: Writer,
}

/// What a line of the log tells.
pub(crate) enum Entry<'a> {
    /// An event of the node.
    Event(&'a Event),
    /// How many lines were dropped at this place of the log.
    Gap(u64),
}

impl Log {
    /// A log for the node whose name will be in `name` before its first event.
    pub(crate) fn start(
        format: LogFormat,
        stop: Shutdown,
        name: Arc<OnceLock<String>>,
    ) -> io::Result<Self> {
        Ok(Self {
            format,
            name,
            writer: Writer::start(stop)?,
        })
    }

    /// Takes one event; never waits for the output.
    pub(crate) fn tell(&self, event: &Event) {
        self.writer.append(
            |to| self.render(to, &Entry::Event(event)),
            |to, lines| self.render(to, &Entry::Gap(lines)),
        );
    }

    /// Writes what it has, within a second; there is nothing to tell afterwards.
    pub(crate) fn close(&self) {
        self.writer
            .close(|to, lines| self.render(to, &Entry::Gap(lines)));
    }

    fn render(&self, to: &mut Vec<u8>, entry: &Entry<'_>) {
        let write: fn(&mut Vec<u8>, Rfc3339Timestamp, &str, &Entry<'_>) = match self.format {
            LogFormat::Text => text::write,
            LogFormat::Json => json::write,
        };
        let node = self.name.get().map_or("", String::as_str);
        write(to, crate::time::now(), node, entry);
    }
}

impl Drop for Log {
    /// Also when the node panics, its log is written.
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) const AT_MS: u64 = 1_700_000_000_123;

    pub(super) fn events() -> Vec<Event> {
        let text = |text: &[u8]| Some(text.to_vec());
        let node = || "k3v9x0a7qm".to_owned();
        vec![
            Event::Generator { epoch: 3 },
            Event::Worker { generator: node() },
            Event::Published {
                epoch: 3,
                first: 17,
                last: 17,
                text: text(b"two\nlines\xff"),
            },
            Event::Published {
                epoch: 3,
                first: 1,
                last: 500,
                text: None,
            },
            Event::Processed {
                first: 17,
                last: 17,
                failed: vec![],
                attempt: 1,
            },
            Event::Processed {
                first: 17,
                last: 17,
                failed: vec![17],
                attempt: 2,
            },
            Event::Processed {
                first: 1,
                last: 500,
                failed: vec![],
                attempt: 1,
            },
            Event::Processed {
                first: 1,
                last: 500,
                failed: vec![3, 4],
                attempt: 1,
            },
            Event::Processed {
                first: 1,
                last: 2,
                failed: vec![1, 2],
                attempt: 1,
            },
            Event::Fenced { epoch: 3, by: None },
            Event::Fenced {
                epoch: 3,
                by: Some(node()),
            },
            Event::Lost { first: 5, last: 6 },
            Event::Reclaimed {
                count: 1,
                nodes: vec![node()],
            },
            Event::Reclaimed {
                count: 3,
                nodes: vec![node(), "b".to_owned()],
            },
            Event::Redis {
                up: false,
                reason: Some("connection refused".to_owned()),
            },
            Event::Redis {
                up: true,
                reason: None,
            },
            Event::Warning {
                text: "the errors store is full".to_owned(),
            },
            Event::Snapshot {
                generator: true,
                published_per_s: 2.04,
                processed_per_s: 0.0,
                pending: 3,
                claimed: 1,
                errors: 6,
            },
            Event::Stopped,
        ]
    }

    /// All events and a gap in one form.
    pub(super) fn lines(
        write: impl Fn(&mut Vec<u8>, Rfc3339Timestamp, &str, &Entry<'_>),
    ) -> Vec<String> {
        let at = std::time::UNIX_EPOCH + std::time::Duration::from_millis(AT_MS);
        let line = |entry: &Entry<'_>| {
            let mut bytes = Vec::new();
            write(
                &mut bytes,
                humantime::format_rfc3339_millis(at),
                "n0de",
                entry,
            );
            let line = String::from_utf8(bytes).unwrap();
            assert_eq!(line.matches('\n').count(), 1, "{line:?}");
            line.trim_end().to_owned()
        };
        let events = events();
        let entries = events.iter().map(Entry::Event).chain([Entry::Gap(12)]);
        entries.map(|entry| line(&entry)).collect()
    }
}
