//! Standard output, and what *printed* means there.
//!
//! This process buffers nothing: a line is written or it is not. In a pipe, a written line is not
//! yet printed: it is lost if the reader ends before reading it. So a line into a pipe counts as
//! printed once the reader has taken it out.

use std::fs::File;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{io, thread};

use anyhow::Context;
use baton_print::{wait, write_all};
use rustix::event::PollFlags;
use rustix::fs::{FileType, OFlags, fcntl_getfl, fdatasync, fstat};
use rustix::io::{Errno, ioctl_fionread};

/// How often the writer polls a pipe without a pause. Most readers empty it by then.
const EAGER_POLLS: usize = 200;
/// The first and the longest pause between two polls of the pipe of a slow reader.
const PAUSE: (Duration, Duration) = (Duration::from_micros(50), Duration::from_millis(20));
/// How long a halted print waits for the reader to take its current line.
const HALT_TIMEOUT: Duration = Duration::from_millis(100);

/// Standard output.
pub(crate) struct Stdout {
    stdout: io::Stdout,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Pipe,
    File,
    Other,
}

/// The progress of a print. Another thread can read it and can halt the print.
#[derive(Default)]
pub(crate) struct Progress {
    printed: AtomicUsize,
    halted: AtomicBool,
}

impl Progress {
    /// How many lines are certainly printed.
    pub(crate) fn printed(&self) -> usize {
        self.printed.load(Ordering::Acquire)
    }

    /// Ends the print after its current line.
    pub(crate) fn halt(&self) {
        self.halted.store(true, Ordering::Release);
    }

    fn is_halted(&self) -> bool {
        self.halted.load(Ordering::Acquire)
    }
}

/// Whether the reader of standard output still reads.
#[derive(Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Reader {
    Reads,
    Gone,
}

impl Stdout {
    /// Standard output as this process got it.
    pub(crate) fn new() -> Self {
        let stdout = io::stdout();
        let kind = match fstat(&stdout).map(|stat| FileType::from_raw_mode(stat.st_mode)) {
            Ok(FileType::Fifo) => Kind::Pipe,
            Ok(FileType::RegularFile) => Kind::File,
            _ => Kind::Other,
        };
        Self { stdout, kind }
    }

    /// Whether the caller started this process without a standard output. Rust then opens
    /// `/dev/null` for reading and writing before `main` begins. A shell's `> /dev/null` opens it
    /// for writing only, and the user means it.
    pub(crate) fn is_closed(&self) -> bool {
        let is_replaced = || -> io::Result<bool> {
            let null = fstat(File::open("/dev/null")?)?;
            let stdout = fstat(&self.stdout)?;
            Ok(
                FileType::from_raw_mode(stdout.st_mode) == FileType::CharacterDevice
                    && stdout.st_rdev == null.st_rdev
                    && fcntl_getfl(&self.stdout)?.contains(OFlags::RDWR),
            )
        };
        is_replaced().unwrap_or(true)
    }

    /// Writes bytes whose loss does not matter. A reader that is gone is not an error.
    pub(crate) fn write(&self, bytes: &[u8]) -> anyhow::Result<Reader> {
        match write_all(&self.stdout, bytes, || false) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Reader::Gone),
            written => written
                .map(|_| Reader::Reads)
                .context("cannot write to stdout"),
        }
    }

    /// Prints lines one by one and counts them in `progress`. A halted print returns early and
    /// without an error. This call blocks.
    pub(crate) fn print(&self, lines: &[Vec<u8>], progress: &Progress) -> io::Result<()> {
        let printed = self.print_each(lines, progress);
        if self.kind == Kind::File
            && let Err(error) = sync(&self.stdout)
        {
            progress.printed.store(0, Ordering::Release);
            return Err(error);
        }
        printed
    }

    fn print_each(&self, lines: &[Vec<u8>], progress: &Progress) -> io::Result<()> {
        for line in lines {
            let printed = !progress.is_halted()
                && write_all(&self.stdout, line, || progress.is_halted())?
                && (self.kind != Kind::Pipe || self.wait_empty(progress)?);
            if !printed {
                break;
            }
            progress.printed.fetch_add(1, Ordering::AcqRel);
        }
        Ok(())
    }

    /// Waits until the reader has emptied the pipe. False if the print was halted before; an
    /// error if the reader is gone.
    fn wait_empty(&self, progress: &Progress) -> io::Result<bool> {
        let (mut pause, longest) = PAUSE;
        let mut polls = 0;
        let mut deadline = None;
        loop {
            if ioctl_fionread(&self.stdout)? == 0 {
                return Ok(true);
            }
            if progress.is_halted() {
                let deadline = deadline.get_or_insert_with(|| Instant::now() + HALT_TIMEOUT);
                if Instant::now() > *deadline {
                    return Ok(false);
                }
            }
            polls += 1;
            if polls < EAGER_POLLS {
                thread::yield_now();
                continue;
            }
            // Without flags, only the end of the reader interrupts the pause.
            if wait(&self.stdout, PollFlags::empty(), pause)? {
                // The reader may have read everything just before its end.
                return match ioctl_fionread(&self.stdout)? {
                    0 => Ok(true),
                    _ => Err(Errno::PIPE.into()),
                };
            }
            pause = (pause * 2).min(longest);
        }
    }
}

/// Prints bytes whose loss does not matter. A reader that is gone is not an error.
pub(crate) fn print(bytes: &[u8]) -> anyhow::Result<()> {
    Stdout::new().write(bytes).map(|_| ())
}

/// Forces a file to disk: some file systems report a full disk only then.
fn sync(file: &impl AsFd) -> io::Result<()> {
    match fdatasync(file) {
        Ok(()) | Err(Errno::INVAL | Errno::NOTSUP) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The text of a system error without its number.
pub(crate) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((words, _)) => words.to_owned(),
        None => text,
    }
}
