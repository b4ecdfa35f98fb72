//! Turns the output of a source into messages and cursors.

use baton::{Batch, SourceError};

use super::Format;
use super::json_line::JsonLine;
use super::line_buffer::{LineBuffer, MAX_LINE_BYTES, TooLong};

/// Max messages that wait for a cursor: as many as a pack has.
pub(crate) const MAX_UNCOVERED: usize = 1000;
/// With so many bytes no further message waits for a cursor.
pub(crate) const MAX_UNCOVERED_BYTES: usize = 256 << 10;

/// Why the reader moves no further message into the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// It needs more of the output.
    NeedsMore,
    /// The batch must leave first.
    BatchIsReady,
}

/// A message that no cursor covers yet.
struct Uncovered {
    text: Vec<u8>,
    id: Option<String>,
}

/// Reads the output of one run of a source.
pub(crate) struct MessageReader {
    format: Format,
    pub(crate) lines: LineBuffer,
    /// Messages that no cursor covers yet: a pack ends at a cursor, because a successor could not
    /// continue elsewhere.
    uncovered: Vec<Uncovered>,
    uncovered_bytes: usize,
    /// What covers them. They wait for room in a batch.
    cursor: Option<String>,
}

impl MessageReader {
    pub(crate) fn new(format: Format) -> Self {
        Self {
            format,
            lines: LineBuffer::default(),
            uncovered: Vec::new(),
            uncovered_bytes: 0,
            cursor: None,
        }
    }

    /// Moves whole messages into the batch. `has_given` says whether the batch has anything already;
    /// if so, an error waits until the batch has left.
    pub(crate) fn take(
        &mut self,
        batch: &mut Batch,
        has_given: &mut bool,
    ) -> Result<Stopped, SourceError> {
        let taken = match self.format {
            Format::Lines => self.take_lines(batch, has_given),
            Format::Json => self.take_json(batch, has_given),
        };
        match taken {
            Err(_) if *has_given => Ok(Stopped::BatchIsReady),
            Err(words) => {
                // A cursor that cannot be taken was in the line before.
                let number = self.lines.number() - u64::from(self.cursor.is_some());
                Err(SourceError::Fatal(format!("line {number}: {words}")))
            }
            Ok(stopped) => Ok(stopped),
        }
    }

    fn take_lines(&mut self, batch: &mut Batch, has_given: &mut bool) -> Result<Stopped, String> {
        while batch.has_room() {
            let Some(line) = self.lines.peek().map_err(too_long)? else {
                return Ok(Stopped::NeedsMore);
            };
            batch.push(line);
            // Its kind alone is stored: these messages are lines.
            batch.set_cursor([]);
            *has_given = true;
            self.lines.advance();
        }
        Ok(Stopped::BatchIsReady)
    }

    fn take_json(&mut self, batch: &mut Batch, has_given: &mut bool) -> Result<Stopped, String> {
        loop {
            if let Some(cursor) = &self.cursor {
                let count = self.uncovered.len();
                let room = usize::try_from(batch.room()).unwrap_or(usize::MAX);
                if *has_given && (count > room || !batch.has_room()) {
                    return Ok(Stopped::BatchIsReady);
                }
                if count > room {
                    return Err(format!(
                        "a cursor after {count} messages, and this fleet takes {room} at once"
                    ));
                }
                for message in self.uncovered.drain(..) {
                    match message.id {
                        None => batch.push(&message.text),
                        Some(id) => batch.push_keyed(&id, &message.text),
                    }
                }
                batch.set_cursor(cursor.as_bytes());
                *has_given = true;
                self.uncovered_bytes = 0;
                self.cursor = None;
            }
            let Some(line) = self.lines.peek().map_err(too_long)? else {
                return Ok(Stopped::NeedsMore);
            };
            let JsonLine { text, id, cursor } = JsonLine::parse(line)?;
            if let Some(text) = text {
                let (count, bytes) = (self.uncovered.len(), self.uncovered_bytes);
                if count >= MAX_UNCOVERED || bytes >= MAX_UNCOVERED_BYTES {
                    return Err(format!(
                        "{count} messages with {bytes} bytes came without a cursor, and no more fit \
                         into a pack"
                    ));
                }
                self.uncovered_bytes += text.len();
                self.uncovered.push(Uncovered { text, id });
            }
            self.cursor = cursor;
            self.lines.advance();
        }
    }

    /// The source exited with 0. Whether its last line, which has no newline, is still to be taken.
    pub(crate) fn end(&mut self) -> Result<bool, SourceError> {
        if self.lines.end() {
            return Ok(true);
        }
        match self.uncovered.len() {
            0 => Ok(false),
            count => Err(SourceError::Fatal(format!(
                "the command ended, and no cursor covers its last messages ({count})"
            ))),
        }
    }

    /// How many messages wait for a cursor.
    pub(crate) fn uncovered(&self) -> usize {
        self.uncovered.len()
    }
}

fn too_long(_: TooLong) -> String {
    format!("it has more than {MAX_LINE_BYTES} bytes")
}
