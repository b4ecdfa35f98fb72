//! Writing to standard output and standard error without ever panicking.
//!
//! `println!` and `eprintln!` panic when the write fails. A full disk or a closed pipe then ends
//! the program with the wrong exit code, often right after it has succeeded. The workspace's
//! lints forbid both macros, and every program writes through this crate instead:
//!
//! - [`outln!`] and [`errln!`] take the place of the macros. A line that cannot be written is
//!   lost, because there is no better place to report that.
//! - [`write_all`] returns the error, for a caller whose output is its result.
//! - [`errln_within`] also gives up when the reader stalls, for a caller that must go on.
//! - [`thousands`] writes a number as people read it.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};
use std::{fmt, io};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
pub use rustix::pipe::PIPE_BUF;

/// Pause before the next attempt of a write that would block.
const BLOCKED_PAUSE: Duration = Duration::from_millis(50);

/// Writes one line to standard output, or loses it.
#[macro_export]
macro_rules! outln {
    () => { $crate::out(::core::format_args!("\n")) };
    ($($words:tt)*) => { $crate::out(::core::format_args!("{}\n", ::core::format_args!($($words)*))) };
}

/// Writes one line to standard error, or loses it.
#[macro_export]
macro_rules! errln {
    ($($words:tt)*) => { $crate::err(::core::format_args!("{}\n", ::core::format_args!($($words)*))) };
}

/// Writes words to standard output, in one write where the system allows, or loses them.
pub fn out(words: fmt::Arguments<'_>) {
    let _ = write_all(&io::stdout(), words.to_string().as_bytes(), || false);
}

/// Writes words to standard error, in one write where the system allows, or loses them.
pub fn err(words: fmt::Arguments<'_>) {
    let _ = write_all(&io::stderr(), words.to_string().as_bytes(), || false);
}

/// `1234567` as `1,234,567`.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Writes one line to standard error, and gives up when the reader has not taken it within
/// `timeout`: a node must end even if its stderr is a full pipe.
pub fn errln_within(line: &str, timeout: Duration) {
    let stderr = io::stderr();
    let deadline = Instant::now() + timeout;
    // A pipe that is ready takes this many bytes without blocking.
    for piece in format!("{line}\n").as_bytes().chunks(PIPE_BUF) {
        let left = deadline.saturating_duration_since(Instant::now());
        let ready = matches!(wait(&stderr, PollFlags::OUT, left), Ok(true));
        let written = || write_all(&stderr, piece, || Instant::now() > deadline);
        if !ready || !matches!(written(), Ok(true)) {
            return;
        }
    }
}

/// Writes all bytes, also to a non-blocking descriptor. Returns false if `give_up` ended the write;
/// it is called whenever the descriptor would block.
///
/// # Errors
///
/// Those of the write, except an interruption, which is retried.
pub fn write_all(fd: &impl AsFd, mut bytes: &[u8], give_up: impl Fn() -> bool) -> io::Result<bool> {
    while !bytes.is_empty() {
        match write_some(fd, bytes, &give_up)? {
            Some(written) => bytes = &bytes[written..],
            None => return Ok(false),
        }
    }
    Ok(true)
}

/// Writes as many bytes as one write takes, at least one. Returns `None` if `give_up` ended the
/// wait for a non-blocking descriptor.
///
/// # Errors
///
/// Those of the write, except an interruption, which is retried.
pub fn write_some(
    fd: &impl AsFd,
    bytes: &[u8],
    give_up: impl Fn() -> bool,
) -> io::Result<Option<usize>> {
    loop {
        match rustix::io::write(fd, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => return Ok(Some(written)),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if give_up() => return Ok(None),
            Err(Errno::AGAIN) => {
                wait(fd, PollFlags::OUT, BLOCKED_PAUSE)?;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Waits for an event of a descriptor. Returns false at the timeout.
///
/// # Errors
///
/// If the system cannot watch the descriptor.
pub fn wait(fd: &impl AsFd, flags: PollFlags, timeout: Duration) -> io::Result<bool> {
    let timeout = Timespec::try_from(timeout).map_err(io::Error::other)?;
    match poll(&mut [PollFd::new(fd, flags)], Some(&timeout)) {
        Ok(happened) => Ok(happened > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (1_234_567, "1,234,567"),
            (u64::MAX, "18,446,744,073,709,551,615"),
        ] {
            assert_eq!(thousands(number), text);
        }
    }
}
