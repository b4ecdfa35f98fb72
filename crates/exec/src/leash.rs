//! The leash of one command: a socket between its node and the supervisor.
//!
//! The node writes one line, the request. The supervisor answers with one line per report. When the
//! node lets go of its end, because it has what it needs, because it stops or because it died, the
//! supervisor kills what is left of the command.

use std::{fmt, io};

use rustix::io::Errno;
use rustix::net::{RecvFlags, Shutdown, recv, shutdown};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use signal_hook::low_level::signal_name;
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;

/// Max bytes of a line. A request has a key and some numbers, a report the words of an error.
const MAX_LINE_BYTES: usize = 64 << 10;

/// What the node asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Request {
    /// What the command's environment has beside the node's.
    pub(crate) variables: Vec<(String, String)>,
    /// One more variable: the path of a file that no other command has.
    pub(crate) mark: String,
    /// The name of that file.
    pub(crate) file: String,
}

/// What the supervisor reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Report {
    /// The command did not start; if it `is_exhausted`, because this machine lacks something just now.
    Failed { reason: String, is_exhausted: bool },
    /// Its time is over, and its group got SIGKILL. The system may still take its time.
    Killed,
    /// Its first process has ended.
    Ended(Ended),
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ended {
    pub(crate) cause: Cause,
    /// Whether it ended after its timeout.
    pub(crate) timed_out: bool,
}

/// What ended a command's first process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Cause {
    /// It exited with this code.
    Exit(i32),
    /// This signal killed it.
    Signal(i32),
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exit(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => match signal_name(*signal) {
                Some(name) => write!(f, "killed by {name}"),
                None => write!(f, "killed by signal {signal}"),
            },
        }
    }
}

/// Whether the system lacks something just now: open files, processes or memory.
pub(crate) fn is_exhausted(error: &io::Error) -> bool {
    let lacking = [Errno::MFILE, Errno::NFILE, Errno::AGAIN, Errno::NOMEM];
    Errno::from_io_error(error).is_some_and(|errno| lacking.contains(&errno))
}

/// A value as a line.
pub(crate) fn line(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

/// One end of a leash.
pub(crate) struct Leash {
    stream: UnixStream,
    /// What came and is no whole line yet.
    read: Vec<u8>,
}

impl Leash {
    /// Takes an end that does not block.
    pub(crate) fn new(stream: std::os::unix::net::UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream: UnixStream::from_std(stream)?,
            read: Vec::new(),
        })
    }

    /// Reads the next line. None if the other end is gone. May be cancelled.
    pub(crate) async fn next<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let value = serde_json::from_slice(&self.read[..end])?;
                self.read.drain(..=end);
                return Ok(Some(value));
            }
            if self.read.len() > MAX_LINE_BYTES {
                return Err(io::Error::other("a line on the leash is too long"));
            }
            if self.stream.read_buf(&mut self.read).await? == 0 {
                return Ok(None);
            }
        }
    }

    /// Writes a line. It fits into the socket's buffer, because one end writes only a few. If the
    /// other end is gone, no process needs the line.
    pub(crate) fn tell(&self, value: &impl Serialize) {
        if let Ok(line) = line(value) {
            let _ = self.stream.try_write(&line);
        }
    }

    /// Lets go of the command, so that the supervisor kills what is left of it. The leash still says
    /// when that is done.
    pub(crate) fn let_go(&self) {
        // It fails if the other end is gone.
        let _ = shutdown(&self.stream, Shutdown::Write);
    }

    /// Whether the other end is gone already.
    pub(crate) fn is_gone(&self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        recv(&self.stream, &mut [0; 1][..], flags).is_ok_and(|(_, count)| count == 0)
    }

    /// Waits until the other end is gone. May be cancelled.
    pub(crate) async fn gone(&self) {
        let mut bytes = [0; 64];
        while self.stream.readable().await.is_ok() {
            match self.stream.try_read(&mut bytes) {
                Ok(0) => return,
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return,
                _ => {}
            }
        }
    }
}
