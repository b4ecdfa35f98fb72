//! The log of a node: one line per event on standard output.

pub(crate) mod json;
pub(crate) mod text;

use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use baton::Event;

use crate::args::LogFormat;
use crate::output::{self, Output};
use crate::stop::{Cause, Stop};

/// Writes events. A reader that is gone stops the node; any other trouble with the output is
/// said once, and the node goes on without its log.
pub(crate) struct Log {
    format: LogFormat,
    output: Output,
    stop: Stop,
    name: Arc<OnceLock<String>>,
    line: Mutex<Line>,
}

#[derive(Default)]
struct Line {
    bytes: Vec<u8>,
    broken: bool,
}

impl Log {
    /// A log for the node whose name will be in `name` before its first event.
    pub(crate) fn new(format: LogFormat, stop: Stop, name: Arc<OnceLock<String>>) -> Self {
        Self {
            format,
            output: Output::stdout(),
            stop,
            name,
            line: Mutex::default(),
        }
    }

    /// Writes one event, in one write.
    pub(crate) fn tell(&self, event: &Event) {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        if line.broken {
            return;
        }
        line.bytes.clear();
        let node = self.name.get().map_or("", String::as_str);
        let at = crate::time::now();
        match self.format {
            LogFormat::Text => text::write(&mut line.bytes, at, node, event),
            LogFormat::Json => json::write(&mut line.bytes, at, node, event),
        }
        if let Err(error) = self.output.write(&line.bytes) {
            line.broken = true;
            match error.kind() {
                io::ErrorKind::BrokenPipe => self.stop.ask(Cause::OutputClosed),
                _ => eprintln!(
                    "baton: cannot write the log ({}): going on without it",
                    output::plain(&error)
                ),
            }
        }
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

    /// All events in one form, without their times and names.
    pub(super) fn lines(
        write: impl Fn(&mut Vec<u8>, humantime::Rfc3339Timestamp, &str, &Event),
    ) -> Vec<String> {
        let at = std::time::UNIX_EPOCH + std::time::Duration::from_millis(AT_MS);
        let line = |event: &Event| {
            let mut bytes = Vec::new();
            write(
                &mut bytes,
                humantime::format_rfc3339_millis(at),
                "n0de",
                event,
            );
            let line = String::from_utf8(bytes).unwrap();
            assert_eq!(line.matches('\n').count(), 1, "{line:?}");
            line.trim_end().to_owned()
        };
        events().iter().map(line).collect()
    }
}
