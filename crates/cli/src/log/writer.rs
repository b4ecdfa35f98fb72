//! The thread that writes the log, and the bounded buffer in front of it.
//!
//! A write to standard output may block for as long as its reader likes: a pipe that is full,
//! a terminal after Ctrl-S. A node whose beat, generator or workers waited for that would lose
//! its lease. So they only append to a buffer, which never waits, and this thread writes.
//!
//! The buffer is bounded. Lines that do not fit are dropped and counted, and the next line that
//! fits is preceded by one that names the count.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use baton_print::{PIPE_BUF, errln_within, write_some};

use crate::shutdown::{Cause, Shutdown};
use crate::stdout;

/// Bytes that may wait to be written. At full speed a node logs less than this per second, so
/// a reader that only hesitates costs no line.
const MAX_WAITING_BYTES: usize = 4 << 20;
/// How long a closing log waits for its reader.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long words on stderr wait for their reader.
const STDERR_TIMEOUT: Duration = Duration::from_millis(100);
/// Pauses between tries to write to an output that fails: the first, and the longest.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

/// The buffer and its thread.
pub(super) struct Writer(Arc<Shared>);

struct Shared {
    /// Bytes that may wait, and how few must wait before a line is taken after one that was
    /// dropped: with every second line dropped, half of the log would be counts.
    max_waiting: usize,
    resume_at: usize,
    buffer: Mutex<Buffer>,
    /// There are lines, or the log closes.
    changed: Condvar,
    /// Everything is written, or never will be.
    settled: Condvar,
}

#[derive(Default)]
struct Buffer {
    /// Whole lines, together no longer than a pipe takes in one piece: two nodes that share a
    /// pipe do not mix their lines. A line that is longer has a chunk of its own.
    chunks: VecDeque<Vec<u8>>,
    /// Bytes of the chunks, and of the one that is being written.
    waiting: usize,
    /// Lines of the chunk that is being written.
    writing: usize,
    /// Lines that did not fit since the last one that did.
    dropped: u64,
    /// Where a line is rendered before it is known to fit.
    scratch: Vec<u8>,
    /// Whether the thread waits for lines.
    idle: bool,
    /// Whether the node has ended: what cannot be written now never will be.
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
    /// Starts the thread that writes to standard output. A reader that is gone asks `stop`.
    pub(super) fn start(stop: Shutdown) -> io::Result<Self> {
        Self::start_on(io::stdout(), MAX_WAITING_BYTES, stop)
    }

    fn start_on<O: AsFd + Send + 'static>(
        output: O,
        max_waiting: usize,
        stop: Shutdown,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            max_waiting,
            resume_at: max_waiting / 2,
            buffer: Mutex::default(),
            changed: Condvar::new(),
            settled: Condvar::new(),
        });
        let thread = Thread {
            shared: Arc::clone(&shared),
            output,
            stop,
            failing: false,
        };
        thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || thread.run())?;
        Ok(Self(shared))
    }

    /// Appends the line that `line` renders; never waits for the output. If lines were dropped
    /// before it, `gap` renders their count first.
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
        // A single line may be longer than the whole buffer: it is no reason to drop it.
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

    /// Waits until everything is written, but no longer than [`CLOSE_TIMEOUT`]. What is left is
    /// counted on stderr.
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
            let waited = self.0.settled.wait_timeout(buffer, left);
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
    /// So many bytes; the log closes, so there is no other try.
    Part(usize),
    ReaderGone,
}

struct Thread<O> {
    shared: Arc<Shared>,
    output: O,
    stop: Shutdown,
    /// Whether the last write failed, which stderr was told then.
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
                // A reader that is gone misses nothing.
                Written::ReaderGone => {
                    buffer.chunks.clear();
                    break;
                }
            }
        }
        self.shared.lock().ended = true;
        self.shared.settled.notify_all();
    }

    /// The next chunk, as soon as there is one. `None` once the log is closed and written.
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

    /// Writes a chunk, for as long as it takes: a full disk may have room again. Goes on in the
    /// middle of a line where a write ended there.
    fn write(&mut self, chunk: &[u8]) -> Written {
        let mut done = 0;
        let (mut pause, longest) = RETRY;
        while done < chunk.len() {
            match write_some(&self.output, &chunk[done..], || self.shared.lock().closing) {
                Ok(Some(written)) => done += written,
                Ok(None) => return Written::Part(done),
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                    self.stop.request(Cause::OutputClosed);
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

    /// Says once per failure of the output why the log has to wait.
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

    /// Waits; true if the log closes meanwhile.
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

    /// Far more than a pipe holds.
    const MAX: usize = 256 * 1024;

    fn start() -> (Writer, PipeReader, Shutdown) {
        let (reader, output) = pipe().unwrap();
        let stop = Shutdown::without_signals();
        let writer = Writer::start_on(output, MAX, stop.clone()).unwrap();
        (writer, reader, stop)
    }

    fn gap(to: &mut Vec<u8>, lines: u64) {
        to.extend_from_slice(format!("gap {lines}\n").as_bytes());
    }

    fn append(writer: &Writer, number: u64) {
        let line = format!("{number}\n");
        writer.append(|to| to.extend_from_slice(line.as_bytes()), gap);
    }

    /// The gaps of a log in which every number is a line or counted where it is missing.
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
        let (writer, mut reader, _stop) = start();
        let numbers = 100_000;
        (0..numbers).for_each(|number| append(&writer, number));
        let reading = thread::spawn(move || {
            let mut log = String::new();
            reader.read_to_string(&mut log).map(|_| log)
        });
        // The reader makes room meanwhile, at a moment that does not matter.
        (numbers..2 * numbers).for_each(|number| append(&writer, number));
        writer.close(gap);
        let log = reading.join().unwrap().unwrap();
        assert_ne!(gaps(&log, 2 * numbers), Vec::<u64>::new());
    }

    #[test]
    fn a_close_that_nothing_reads_takes_no_longer_than_its_timeout() {
        let (writer, _reader, stop) = start();
        (0..100_000).for_each(|number| append(&writer, number));
        let began = Instant::now();
        writer.close(gap);
        let took = began.elapsed();
        assert!(
            took >= CLOSE_TIMEOUT && took < 3 * CLOSE_TIMEOUT,
            "{took:?}"
        );
        assert_eq!(stop.cause(), None);
    }

    #[test]
    fn a_line_longer_than_the_buffer_is_written() {
        let (writer, mut reader, _stop) = start();
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
    fn a_reader_that_is_gone_asks_to_stop() {
        let (writer, reader, stop) = start();
        drop(reader);
        append(&writer, 0);
        writer.close(gap);
        assert_eq!(stop.cause(), Some(Cause::OutputClosed));
    }
}
