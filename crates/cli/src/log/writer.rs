//! The thread that writes the log, and the bounded buffer in front of it.
//!
//! A write to standard output blocks while its reader does not read: a full pipe, a terminal
//! after Ctrl-S. A node that waited for such a write would lose its lease. So the node only
//! appends to a buffer, which never waits, and this thread writes.
//!
//! The buffer is bounded. It drops and counts the lines that do not fit. In front of the next
//! line that fits it puts a line with the count.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread};

use baton_print::{PIPE_BUF, errln_within, write_some};

use crate::shutdown::{Cause, Shutdown};
use crate::stdout;

/// The most bytes that the buffer holds. At full speed a node logs less than this per second, so
/// a short pause of the reader costs no line.
const MAX_WAITING_BYTES: usize = 4 << 20;
/// How long a log that closes waits for its reader.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a message on stderr waits for its reader.
const STDERR_TIMEOUT: Duration = Duration::from_millis(100);
/// Pauses between attempts to write to an output that fails: the first, and the longest.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

/// The buffer and its thread.
pub(super) struct Writer(Arc<Shared>);

struct Shared {
    /// The most bytes that the buffer holds.
    max_waiting: usize,
    /// After a dropped line the buffer takes no line until it is this empty. Without this gap
    /// it would drop every second line, and half of the log would be counts.
    resume_at: usize,
    buffer: Mutex<Buffer>,
    /// The buffer has lines, or the log closes.
    changed: Condvar,
    /// The thread has ended.
    finished: Condvar,
}

#[derive(Default)]
struct Buffer {
    /// Whole lines. A pipe takes each chunk in one piece, so two nodes that share a pipe do not
    /// mix their lines. A longer line has a chunk of its own.
    chunks: VecDeque<Vec<u8>>,
    /// Bytes of the chunks and of the chunk that the thread writes.
    waiting: usize,
    /// Lines of the chunk that the thread writes.
    writing: usize,
    /// Lines that the buffer dropped since the last line that it took.
    dropped: u64,
    /// A line is rendered here, because only then its length is known.
    scratch: Vec<u8>,
    /// Whether the thread waits for lines.
    idle: bool,
    /// Whether the log closes: the thread does not retry any more.
    closing: bool,
    /// Whether the thread has ended.
    ended: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Buffer> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Writer {
    /// Starts the thread that writes to standard output. It requests a shutdown when the
    /// reader is gone.
    pub(super) fn start(shutdown: Shutdown) -> io::Result<Self> {
        Self::start_on(io::stdout(), MAX_WAITING_BYTES, shutdown)
    }

    fn start_on<O: AsFd + Send + 'static>(
        output: O,
        max_waiting: usize,
        shutdown: Shutdown,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            max_waiting,
            resume_at: max_waiting / 2,
            buffer: Mutex::default(),
            changed: Condvar::new(),
            finished: Condvar::new(),
        });
        let thread = Thread {
            shared: Arc::clone(&shared),
            output,
            shutdown,
            failing: false,
        };
        thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || thread.run())?;
        Ok(Self(shared))
    }

    /// Appends the line that `line` renders, and never waits for the output. If the buffer
    /// dropped lines before, `gap` renders their count first.
    pub(super) fn append(
        &self,
        line: impl FnOnce(&mut Vec<u8>),
        gap: impl FnOnce(&mut Vec<u8>, u64),
    ) {
        let mut buffer = self.0.lock();
        if buffer.ended {
            return;
        }
        if buffer.dropped > 0 && buffer.waiting > self.0.resume_at {
            buffer.dropped += 1;
            return;
        }
        let mut bytes = std::mem::take(&mut buffer.scratch);
        bytes.clear();
        line(&mut bytes);
        // An empty buffer takes a line that is longer than the buffer, or the line would never
        // be written.
        if buffer.waiting > 0 && buffer.waiting + bytes.len() > self.0.max_waiting {
            buffer.dropped += 1;
        } else {
            buffer.fill_gap(gap);
            buffer.push(&bytes);
        }
        buffer.scratch = bytes;
        let wake = buffer.idle;
        drop(buffer);
        if wake {
            self.0.changed.notify_one();
        }
    }

    /// Waits until the thread has written everything, for at most [`CLOSE_TIMEOUT`]. A message on
    /// stderr counts the lines that are left.
    pub(super) fn close(&self, gap: impl FnOnce(&mut Vec<u8>, u64)) {
        let deadline = Instant::now() + CLOSE_TIMEOUT;
        let mut buffer = self.0.lock();
        if buffer.closing || buffer.ended {
            return;
        }
        buffer.fill_gap(gap);
        buffer.closing = true;
        self.0.changed.notify_one();
        while !buffer.ended {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.0.finished.wait_timeout(buffer, left);
            buffer = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let waiting: usize = buffer.chunks.iter().map(|chunk| lines(chunk)).sum();
        let unwritten = buffer.writing + waiting;
        drop(buffer);
        if unwritten > 0 {
            let text =
                format!("baton: the output of the log takes no more: {unwritten} lines are lost");
            errln_within(&text, STDERR_TIMEOUT);
        }
    }
}

impl Buffer {
    fn fill_gap(&mut self, gap: impl FnOnce(&mut Vec<u8>, u64)) {
        let dropped = std::mem::take(&mut self.dropped);
        if dropped > 0 {
            let mut bytes = Vec::new();
            gap(&mut bytes, dropped);
            self.push(&bytes);
        }
    }

    fn push(&mut self, line: &[u8]) {
        self.waiting += line.len();
        match self.chunks.back_mut() {
            Some(chunk) if chunk.len() + line.len() <= PIPE_BUF => chunk.extend_from_slice(line),
            _ => self.chunks.push_back(line.to_vec()),
        }
    }
}

fn lines(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte == b'\n').count()
}

/// How much of a chunk was written.
enum Written {
    All,
    /// This many bytes. The log closes, so the thread does not retry.
    Part(usize),
    ReaderGone,
}

struct Thread<O> {
    shared: Arc<Shared>,
    output: O,
    shutdown: Shutdown,
    /// Whether the last write failed. A message on stderr said so then.
    failing: bool,
}

impl<O: AsFd> Thread<O> {
    fn run(mut self) {
        while let Some(chunk) = self.next() {
            let written = self.write(&chunk);
            let mut buffer = self.shared.lock();
            buffer.waiting -= chunk.len();
            buffer.writing = 0;
            match written {
                Written::All => {}
                Written::Part(written) => {
                    buffer.writing = lines(&chunk[written..]);
                    break;
                }
                // Lines that have no reader are not lost.
                Written::ReaderGone => {
                    buffer.chunks.clear();
                    break;
                }
            }
        }
        self.shared.lock().ended = true;
        self.shared.finished.notify_all();
    }

    /// Waits for the next chunk. `None` when the log is closed and everything is written.
    fn next(&self) -> Option<Vec<u8>> {
        let mut buffer = self.shared.lock();
        loop {
            if let Some(chunk) = buffer.chunks.pop_front() {
                buffer.writing = lines(&chunk);
                return Some(chunk);
            }
            if buffer.closing {
                return None;
            }
            buffer.idle = true;
            let changed = self.shared.changed.wait(buffer);
            buffer = changed.unwrap_or_else(PoisonError::into_inner);
            buffer.idle = false;
        }
    }

    /// Writes a chunk, and retries until the log closes: a full disk may have room again. After a
    /// partial write it continues with the next byte, also within a line.
    fn write(&mut self, chunk: &[u8]) -> Written {
        let mut done = 0;
        let (mut pause, longest) = RETRY;
        while done < chunk.len() {
            match write_some(&self.output, &chunk[done..], || self.shared.lock().closing) {
                Ok(Some(written)) => done += written,
                Ok(None) => return Written::Part(done),
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                    self.shutdown.request(Cause::OutputClosed);
                    return Written::ReaderGone;
                }
                Err(error) => {
                    self.report(&error);
                    if self.closes_within(pause) {
                        return Written::Part(done);
                    }
                    pause = (pause * 2).min(longest);
                }
            }
        }
        self.failing = false;
        Written::All
    }

    /// Says on stderr why the log has to wait, once per failure of the output.
    fn report(&mut self, error: &io::Error) {
        if !std::mem::replace(&mut self.failing, true) {
            let text = format!(
                "baton: cannot write the log ({}): trying again; lines that {} MiB cannot hold \
                 are dropped and counted",
                stdout::plain(error),
                MAX_WAITING_BYTES >> 20
            );
            errln_within(&text, STDERR_TIMEOUT);
        }
    }

    /// Waits for this long. Returns true if the log closes meanwhile.
    fn closes_within(&self, pause: Duration) -> bool {
        let deadline = Instant::now() + pause;
        let mut buffer = self.shared.lock();
        while !buffer.closing {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.shared.changed.wait_timeout(buffer, left);
            buffer = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::io::{PipeReader, Read, pipe};

    use super::*;

    /// Far more bytes than a pipe holds.
    const MAX: usize = 256 * 1024;

    fn start() -> (Writer, PipeReader, Shutdown) {
        let (reader, output) = pipe().unwrap();
        let shutdown = Shutdown::without_signals();
        let writer = Writer::start_on(output, MAX, shutdown.clone()).unwrap();
        (writer, reader, shutdown)
    }

    fn gap(to: &mut Vec<u8>, lines: u64) {
        to.extend_from_slice(format!("gap {lines}\n").as_bytes());
    }

    fn append(writer: &Writer, number: u64) {
        let line = format!("{number}\n");
        writer.append(|to| to.extend_from_slice(line.as_bytes()), gap);
    }

    /// The gaps of a log. Every number must be a line, or be counted where it is missing.
    #[track_caller]
    fn gaps(log: &str, numbers: u64) -> Vec<u64> {
        let (mut next, mut gaps) = (0, Vec::new());
        for line in log.lines() {
            match line.strip_prefix("gap ") {
                Some(lines) => {
                    gaps.push(lines.parse().unwrap());
                    next += gaps.last().unwrap();
                }
                None => {
                    assert_eq!(line.parse(), Ok(next));
                    next += 1;
                }
            }
        }
        assert_eq!(next, numbers);
        gaps
    }

    #[test]
    fn every_line_is_written_in_order_or_counted_where_it_is_missing() {
        let (writer, mut reader, _shutdown) = start();
        let numbers = 100_000;
        (0..numbers).for_each(|number| append(&writer, number));
        let reading = thread::spawn(move || {
            let mut log = String::new();
            reader.read_to_string(&mut log).map(|_| log)
        });
        // Meanwhile the reader makes room.
        (numbers..2 * numbers).for_each(|number| append(&writer, number));
        writer.close(gap);
        let log = reading.join().unwrap().unwrap();
        assert_ne!(gaps(&log, 2 * numbers), Vec::<u64>::new());
    }

    #[test]
    fn a_close_that_nothing_reads_takes_no_longer_than_its_timeout() {
        let (writer, _reader, shutdown) = start();
        (0..100_000).for_each(|number| append(&writer, number));
        let began = Instant::now();
        writer.close(gap);
        let took = began.elapsed();
        assert!(
            took >= CLOSE_TIMEOUT && took < 3 * CLOSE_TIMEOUT,
            "{took:?}"
        );
        assert_eq!(shutdown.cause(), None);
    }

    #[test]
    fn a_line_longer_than_the_buffer_is_written() {
        let (writer, mut reader, _shutdown) = start();
        let long = "x".repeat(2 * MAX);
        let reading = thread::spawn(move || {
            let mut log = String::new();
            reader.read_to_string(&mut log).map(|_| log)
        });
        writer.append(|to| to.extend_from_slice(long.as_bytes()), gap);
        writer.close(gap);
        assert_eq!(reading.join().unwrap().unwrap(), long);
    }

    #[test]
    fn a_reader_that_is_gone_requests_a_shutdown() {
        let (writer, reader, shutdown) = start();
        drop(reader);
        append(&writer, 0);
        writer.close(gap);
        assert_eq!(shutdown.cause(), Some(Cause::OutputClosed));
    }
}
