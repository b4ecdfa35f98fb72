//! Standard output, and what *printed* means there.
//!
//! Nothing is buffered in this process: a line is written or it is not. Into a pipe, written
//! is not yet printed: what lies in the pipe when its reader ends is lost. So there a line
//! counts once the reader has taken it out.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use baton_print::{wait, write_all};
use rustix::event::PollFlags;
use rustix::fs::{FileType, OFlags, fcntl_getfl, fdatasync, fstat};
use rustix::io::{Errno, ioctl_fionread};

/// How often an emptying pipe is looked at before looking costs less than waiting.
const EAGER_LOOKS: usize = 200;
/// Pauses between looks at the pipe of a slow reader: the first, and the longest.
const PAUSE: (Duration, Duration) = (Duration::from_micros(50), Duration::from_millis(20));
/// How long a halted print waits for the reader to take the line it is at.
const HALT_PATIENCE: Duration = Duration::from_millis(100);

/// Standard output.
pub(crate) struct Output {
    stdout: io::Stdout,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Pipe,
    File,
    Other,
}

/// How far a print has come; shared with whoever wants to end it early.
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

    /// Lets the print end after the line it is at.
    pub(crate) fn halt(&self) {
        self.halted.store(true, Ordering::Release);
    }

    fn is_halted(&self) -> bool {
        self.halted.load(Ordering::Acquire)
    }
}

impl Output {
    /// Standard output as this process was given it.
    pub(crate) fn stdout() -> Self {
        let stdout = io::stdout();
        let kind = match fstat(&stdout).map(|stat| FileType::from_raw_mode(stat.st_mode)) {
            Ok(FileType::Fifo) => Kind::Pipe,
            Ok(FileType::RegularFile) => Kind::File,
            _ => Kind::Other,
        };
        Self { stdout, kind }
    }

    /// Whether there is none: what is written goes nowhere. A closed descriptor is replaced
    /// by `/dev/null`, open for reading and writing, before `main` begins; a shell's
    /// `>/dev/null` is open for writing only, and meant.
    pub(crate) fn is_closed(&self) -> bool {
        let same_device = || -> io::Result<bool> {
            let null = fstat(File::open("/dev/null")?)?;
            let stdout = fstat(&self.stdout)?;
            Ok(
                FileType::from_raw_mode(stdout.st_mode) == FileType::CharacterDevice
                    && stdout.st_rdev == null.st_rdev
                    && fcntl_getfl(&self.stdout)?.contains(OFlags::RDWR),
            )
        };
        same_device().unwrap_or(true)
    }

    /// Writes bytes that need no account.
    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<()> {
        write_all(&self.stdout, bytes, || false).map(|_| ())
    }

    /// Prints lines one by one and counts them in `progress`. Returns early, without an
    /// error, if halted. Blocks.
    pub(crate) fn print(&self, lines: &[Vec<u8>], progress: &Progress) -> io::Result<()> {
        let written = self.print_each(lines, progress);
        if self.kind == Kind::File
            && let Err(error) = sync(&self.stdout)
        {
            progress.printed.store(0, Ordering::Release);
            return Err(error);
        }
        written
    }

    fn print_each(&self, lines: &[Vec<u8>], progress: &Progress) -> io::Result<()> {
        for line in lines {
            let printed = !progress.is_halted()
                && write_all(&self.stdout, line, || progress.is_halted())?
                && (self.kind != Kind::Pipe || self.is_taken(progress)?);
            if !printed {
                break;
            }
            progress.printed.fetch_add(1, Ordering::AcqRel);
        }
        Ok(())
    }

    /// Waits until the pipe is empty. False if halted before; an error if its reader is gone.
    fn is_taken(&self, progress: &Progress) -> io::Result<bool> {
        let (mut pause, longest) = PAUSE;
        let mut looks = 0;
        let mut last_look = None;
        loop {
            if ioctl_fionread(&self.stdout)? == 0 {
                return Ok(true);
            }
            if progress.is_halted() {
                let last_look = last_look.get_or_insert_with(|| Instant::now() + HALT_PATIENCE);
                if Instant::now() > *last_look {
                    return Ok(false);
                }
            }
            looks += 1;
            if looks < EAGER_LOOKS {
                thread::yield_now();
                continue;
            }
            // Asks for nothing, so only the end of the reader ends it before its time.
            if wait(&self.stdout, PollFlags::empty(), pause)? {
                // It may have read everything just before.
                return match ioctl_fionread(&self.stdout)? {
                    0 => Ok(true),
                    _ => Err(Errno::PIPE.into()),
                };
            }
            pause = (pause * 2).min(longest);
        }
    }
}

/// Forces a file to disk: some file systems tell only then that there was no room.
fn sync(file: &impl AsFd) -> io::Result<()> {
    match fdatasync(file) {
        Ok(()) | Err(Errno::INVAL | Errno::NOTSUP) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The error in the system's words, without its number.
pub(crate) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((words, _)) => words.to_owned(),
        None => text,
    }
}
