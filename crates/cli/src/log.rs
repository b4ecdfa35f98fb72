//! The log of a node: one line per event on standard output.

pub(crate) mod json;
pub(crate) mod text;
mod writer;

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use baton::Event;

use crate::args::LogFormat;
use crate::shutdown::Shutdown;
use writer::Writer;

/// Takes a node's events and never makes the node wait: a thread of its own writes them. The
/// node stops if the reader of the log is gone. An output that fails or stalls costs lines,
/// and the log counts them.
pub(crate) struct Log {
    format: LogFormat,
    name: Arc<OnceLock<String>>,
    writer: Writer,
}

/// What one line of the log says.
pub(crate) enum Entry<'a> {
    /// An event of the node.
    Event(&'a Event),
    /// The command that handles this message printed this line.
    Output { seq: u64, line: &'a [u8] },
    /// The command that is the source printed this line.
    SourceOutput(&'a [u8]),
    /// The log dropped this many lines here.
    Gap(u64),
}

impl Log {
    /// Starts the log of a node. The caller puts the node's name into `name` before the first
    /// event.
    pub(crate) fn start(
        format: LogFormat,
        shutdown: Shutdown,
        name: Arc<OnceLock<String>>,
    ) -> io::Result<Self> {
        Ok(Self {
            format,
            name,
            writer: Writer::start(shutdown)?,
        })
    }

    /// Takes one event. It never waits for the output.
    pub(crate) fn tell(&self, event: &Event) {
        self.append(&Entry::Event(event));
    }

    /// Takes a line that the command of a message printed. It never waits for the output.
    pub(crate) fn tell_output(&self, seq: u64, line: &[u8]) {
        self.append(&Entry::Output { seq, line });
    }

    /// Takes a line that the source's command printed. It never waits for the output.
    pub(crate) fn tell_source_output(&self, line: &[u8]) {
        self.append(&Entry::SourceOutput(line));
    }

    fn append(&self, entry: &Entry<'_>) {
        self.writer.append(
            |to| self.render(to, entry),
            |to, lines| self.render(to, &Entry::Gap(lines)),
        );
    }

    /// Writes the lines that wait, for at most a second. The log takes no event afterwards.
    pub(crate) fn close(&self) {
        self.writer
            .close(|to, lines| self.render(to, &Entry::Gap(lines)));
    }

    fn render(&self, to: &mut Vec<u8>, entry: &Entry<'_>) {
        let write: fn(&mut Vec<u8>, SystemTime, &str, &Entry<'_>) = match self.format {
            LogFormat::Text => text::write,
            LogFormat::Json => json::write,
        };
        let node = self.name.get().map_or("", String::as_str);
        write(to, SystemTime::now(), node, entry);
    }
}

impl Drop for Log {
    /// A node that panics still writes its log.
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use baton::Part;

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
                delayed: vec![],
                attempt: 1,
            },
            Event::Processed {
                first: 17,
                last: 17,
                failed: vec![17],
                delayed: vec![],
                attempt: 2,
            },
            Event::Processed {
                first: 1,
                last: 500,
                failed: vec![],
                delayed: vec![],
                attempt: 1,
            },
            Event::Processed {
                first: 1,
                last: 500,
                failed: vec![3, 4],
                delayed: vec![],
                attempt: 1,
            },
            Event::Processed {
                first: 1,
                last: 2,
                failed: vec![1, 2],
                delayed: vec![],
                attempt: 1,
            },
            Event::Processed {
                first: 1,
                last: 3,
                failed: vec![1],
                delayed: vec![2],
                attempt: 1,
            },
            Event::Processed {
                first: 7,
                last: 7,
                failed: vec![],
                delayed: vec![7],
                attempt: 2,
            },
            Event::Delayed {
                seq: 7,
                attempt: 2,
                delay: Duration::from_millis(2100),
                reason: "no\nanswer".to_owned(),
            },
            Event::Fenced { epoch: 3, by: None },
            Event::Fenced {
                epoch: 3,
                by: Some(node()),
            },
            Event::Lost { first: 5, last: 6 },
            Event::Unconfirmed { first: 5, last: 6 },
            Event::Regressed { first: 7, last: 9 },
            Event::Void { first: 8, last: 8 },
            Event::Reclaimed {
                count: 1,
                nodes: vec![node()],
            },
            Event::Reclaimed {
                count: 3,
                nodes: vec![node(), "b".to_owned()],
            },
            Event::Dropped { count: 500 },
            Event::Paused {
                part: Part::Generator,
            },
            Event::Resumed {
                part: Part::Workers,
            },
            Event::Redis {
                up: false,
                reason: Some("connection refused".to_owned()),
            },
            Event::Redis {
                up: true,
                reason: None,
            },
            Event::Confirmed,
            Event::Warning(baton::Warning::CannotPublish {
                reason: "OOM command not allowed".to_owned(),
            }),
            Event::Snapshot {
                generator: true,
                published_per_s: 2.04,
                processed_per_s: 0.0,
                pending: 3,
                claimed: 1,
                delayed: 2,
                errors: 6,
            },
            Event::Stopped,
        ]
    }

    /// All events, outputs and a gap.
    pub(super) fn entries(events: &[Event]) -> impl Iterator<Item = Entry<'_>> {
        let line = "tab\tand grün".as_bytes();
        let others = [
            Entry::Output { seq: 17, line },
            Entry::SourceOutput(line),
            Entry::Gap(12),
        ];
        events.iter().map(Entry::Event).chain(others)
    }

    /// All entries, as one writer renders them.
    pub(super) fn lines(write: impl Fn(&mut Vec<u8>, SystemTime, &str, &Entry<'_>)) -> Vec<String> {
        let at = SystemTime::UNIX_EPOCH + std::time::Duration::from_millis(AT_MS);
        let line = |entry: &Entry<'_>| {
            let mut bytes = Vec::new();
            write(&mut bytes, at, "n0de", entry);
            let line = String::from_utf8(bytes).unwrap();
            assert_eq!(line.matches('\n').count(), 1, "{line:?}");
            line.trim_end().to_owned()
        };
        entries(&events()).map(|entry| line(&entry)).collect()
    }
}
