//! A source that is a command: its output is the messages.
//!
//! - `line_buffer` splits the output into lines, `json_line` reads a line of JSON.
//! - `message_reader` moves messages into batches, and ends a batch at a cursor.
//! - `child` is one run of the command. It never outlives its node (see `supervisor`).

mod child;
mod json_line;
mod line_buffer;
mod message_reader;

/// What the fuzz target reads with.
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz {
    pub(crate) use super::Format;
    pub(crate) use super::json_line::JsonLine;
    pub(crate) use super::message_reader::{MAX_UNCOVERED, MessageReader, Stopped};
}

use std::ffi::OsString;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use baton::{Batch, Flow, Position, Source, SourceError};
use serde::Serialize;
use tokio::time::Instant;

use self::child::{Child, OnOutput};
use self::line_buffer::Found;
use self::message_reader::{MessageReader, Stopped};
use crate::leash::{self, Cause, Request};
use crate::plan::Plan;
use crate::supervisor_process::Supervisor;
use crate::variables::{NEXT, RUN};

/// A source has no timeout. This is longer than any machine runs.
const FOREVER: Duration = Duration::from_secs(100 * 366 * 24 * 3600);
/// Reads after which a batch leaves, and other tasks have their turn.
const MAX_READS: u32 = 16;
/// After this time the log says that messages wait for a cursor.
const COVER_WITHIN: Duration = Duration::from_secs(10);

/// What a source's command prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// One message per line: its bytes without the newline. `BATON_NEXT` says where to continue.
    Lines,
    /// One object per line, with a text, a cursor or both.
    Json,
}

/// Makes messages with a shell command, which runs as long as its node generates.
///
/// | it ends | what follows |
/// |---|---|
/// | with code 0 | all its lines are messages; the source has ended |
/// | in any other way | it starts again where Redis stands, after a pause |
///
/// Its stderr goes to the log. When its node generates no more, its process group is killed.
pub struct CommandSource {
    format: Format,
    supervisor: Supervisor,
    on_output: OnOutput,
    runs: u64,
    child: Option<Child>,
    reader: MessageReader,
    uncovered: Uncovered,
}

/// Messages that wait for a cursor.
#[derive(Default)]
struct Uncovered {
    since: Option<Instant>,
    /// Whether the log has said so.
    is_told: bool,
}

/// The first line that a command reads.
#[derive(Serialize)]
struct Hello<'a> {
    /// The version of the format.
    baton: u64,
    /// The number of the next message.
    next: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<&'a str>,
}

/// Redis has all messages up to this cursor.
#[derive(Serialize)]
struct Accepted<'a> {
    accepted: &'a str,
}

fn line(value: &impl Serialize) -> Vec<u8> {
    // JSON can express every text and number.
    leash::line(value).unwrap_or_default()
}

impl CommandSource {
    /// A command for `/bin/sh`. `supervisor` makes the command line of a program that calls
    /// [`crate::supervise`] and does nothing else. `on_output` gets each line of the command's stderr.
    pub fn shell(
        command: impl Into<OsString>,
        format: Format,
        supervisor: impl Fn() -> Command + Send + Sync + 'static,
        on_output: impl Fn(&[u8]) + Send + Sync + 'static,
    ) -> Self {
        let plan = Plan {
            words: vec!["/bin/sh".into(), "-c".into(), command.into()],
            timeout: FOREVER,
            kill_after: Duration::ZERO,
            folder: Default::default(),
        };
        Self {
            format,
            supervisor: Supervisor::new(Box::new(supervisor), plan),
            on_output: Arc::new(on_output),
            runs: 0,
            child: None,
            reader: MessageReader::new(format),
            uncovered: Uncovered::default(),
        }
    }

    /// Lines are counted as messages are. If the fleet has messages of another source, as many lines are
    /// left out, and the log says so.
    fn warn_of_left_out(&self, from: &Position<'_>) {
        let count = from.next_seq - 1;
        if self.format == Format::Lines && from.cursor.is_none() && count > 0 {
            let words = format!(
                "the fleet has {count} messages that no such source made: as many lines are left out, \
                 and BATON_NEXT is {}; give the lines a fleet of their own",
                from.next_seq
            );
            (self.on_output)(words.as_bytes());
        }
    }

    /// The first line that a command reads, if it reads any.
    fn first_line(&self, from: &Position<'_>) -> Result<Option<Vec<u8>>, SourceError> {
        if self.format == Format::Lines {
            return Ok(None);
        }
        let cursor = from.cursor.map(str::from_utf8).transpose();
        let cursor = cursor.map_err(|_| SourceError::fatal("the stored cursor is not UTF-8"))?;
        Ok(Some(line(&Hello {
            baton: 1,
            next: from.next_seq,
            cursor,
        })))
    }

    /// Waits for output, or for the end. If messages wait for a cursor all the time, the log says so.
    async fn wait(&mut self) -> Result<(), SourceError> {
        let Some(child) = &mut self.child else {
            return Ok(());
        };
        let count = self.reader.uncovered();
        let waiting = &mut self.uncovered;
        if count == 0 {
            waiting.since = None;
            return child.wait().await;
        }
        let since = *waiting.since.get_or_insert_with(Instant::now);
        tokio::select! {
            waited = child.wait() => waited,
            () = tokio::time::sleep_until(since + COVER_WITHIN), if !waiting.is_told => {
                waiting.is_told = true;
                let words = format!(
                    "no cursor for {COVER_WITHIN:?}; messages that wait for one: {count}"
                );
                (self.on_output)(words.as_bytes());
                Ok(())
            }
        }
    }

    /// What the end of the command means. None if its last line is still to be taken.
    async fn judge(&mut self, cause: Cause) -> Result<Option<Flow>, SourceError> {
        if cause == Cause::Exit(0) {
            let has_line = self.reader.end()?;
            return Ok((!has_line).then_some(Flow::End));
        }
        let stderr = match &mut self.child {
            Some(child) => child.stderr().await,
            None => String::new(),
        };
        Err(SourceError::Retry(match stderr.is_empty() {
            true => cause.to_string(),
            false => format!("{cause}: {stderr}"),
        }))
    }
}

impl Source for CommandSource {
    async fn open(&mut self, from: Position<'_>) -> Result<(), SourceError> {
        // One at a time: the next one may write where the last one did.
        self.close().await;
        let first_line = self.first_line(&from)?;
        self.warn_of_left_out(&from);
        self.runs += 1;
        let request = Request {
            variables: vec![(NEXT.to_owned(), from.next_seq.to_string())],
            mark: RUN.to_owned(),
            file: self.runs.to_string(),
        };
        let supervisor = self.supervisor.process()?;
        let on_output = Arc::clone(&self.on_output);
        let child = Child::start(supervisor, request, first_line, on_output).await?;
        self.child = Some(child);
        self.reader = MessageReader::new(self.format);
        self.uncovered = Uncovered::default();
        Ok(())
    }

    async fn next(&mut self, batch: &mut Batch) -> Result<Flow, SourceError> {
        let (mut has_given, mut reads) = (false, 0);
        loop {
            if self.reader.take(batch, &mut has_given)? == Stopped::BatchIsReady {
                return Ok(Flow::More);
            }
            let Some(child) = &mut self.child else {
                return Err(SourceError::fatal("the source is not open"));
            };
            let found = child.read(&mut self.reader.lines)?;
            reads += 1;
            match found {
                Found::Bytes if reads < MAX_READS => {}
                // It has paused, or it does not pause at all.
                _ if has_given => return Ok(Flow::More),
                Found::Bytes => {
                    reads = 0;
                    tokio::task::yield_now().await;
                }
                Found::Pause => self.wait().await?,
                Found::End => match child.cause() {
                    None => self.wait().await?,
                    Some(cause) => {
                        if let Some(flow) = self.judge(cause).await? {
                            return Ok(flow);
                        }
                    }
                },
            }
        }
    }

    async fn accepted(&mut self, cursor: &[u8]) {
        if let (Some(child), Ok(cursor)) = (&self.child, str::from_utf8(cursor)) {
            child.tell(line(&Accepted { accepted: cursor }));
        }
    }

    async fn close(&mut self) {
        if let Some(child) = self.child.take() {
            child.kill().await;
        }
    }

    /// A command that is started at a number or at a cursor prints the same messages again.
    fn replays(&self) -> bool {
        true
    }

    fn kind(&self) -> &str {
        match self.format {
            Format::Lines => "lines",
            Format::Json => "json",
        }
    }
}
