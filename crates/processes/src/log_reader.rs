//! Reads the log of a copy: a pipe whose reader can stall, or a file whose disk can be full.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Pause between two reads of a file that has not grown.
const FILE_PAUSE: Duration = Duration::from_millis(10);
/// The capacity of a pipe whose reader stalls: the smallest possible, so that the pipe is full
/// soon.
#[cfg(target_os = "linux")]
const STALLED_PIPE_BYTES: usize = 4096;

/// Where a copy logs to.
pub(crate) enum Place {
    /// A pipe.
    Pipe,
    /// This file. The fleet creates it.
    File(PathBuf),
}

impl Place {
    /// The stdout of the copy.
    pub(crate) fn stdio(&self) -> io::Result<Stdio> {
        match self {
            Self::Pipe => Ok(Stdio::piped()),
            Self::File(path) => {
                let file = File::options().create(true).append(true).open(path)?;
                Ok(file.into())
            }
        }
    }
}

#[derive(Default)]
struct Shared {
    stalled: Mutex<bool>,
    moved: Condvar,
    /// Whether the copy has ended. Its file grows no more then.
    ended: AtomicBool,
}

/// The thread that reads the log of one copy.
pub(crate) struct LogReader {
    shared: Arc<Shared>,
    /// The end of the pipe that the thread reads.
    pipe: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl LogReader {
    /// Starts the thread. It gives every line to `hear` until the copy has ended.
    pub(crate) fn start(
        place: &Place,
        stdout: Option<ChildStdout>,
        hear: impl FnMut(&str) + Send + 'static,
    ) -> io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let (source, pipe): (Box<dyn Read + Send>, _) = match (place, stdout) {
            (Place::Pipe, Some(stdout)) => {
                let pipe = stdout.as_fd().try_clone_to_owned()?;
                (Box::new(stdout), Some(pipe))
            }
            (Place::File(path), _) => (Box::new(Tail::open(path, &shared)?), None),
            (Place::Pipe, None) => return Err(io::Error::other("no stdout")),
        };
        let own = Arc::clone(&shared);
        let thread = std::thread::spawn(move || own.read(source, hear));
        Ok(Self {
            shared,
            pipe,
            thread: Some(thread),
        })
    }

    /// Stops reading, or resumes.
    pub(crate) fn stall(&self, stalled: bool) {
        self.shared.stall(stalled);
        #[cfg(target_os = "linux")]
        if let (true, Some(pipe)) = (stalled, &self.pipe) {
            // This fails if the pipe holds more already. The pipe is nearly full then anyway.
            let _ = rustix::pipe::fcntl_setpipe_size(pipe, STALLED_PIPE_BYTES);
        }
    }

    /// Reads the rest of the log of a copy that has ended.
    pub(crate) fn finish(&mut self) {
        self.shared.stall(false);
        self.shared.ended.store(true, Ordering::Relaxed);
        self.pipe = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn stall(&self, stalled: bool) {
        *self.stalled.lock().unwrap_or_else(PoisonError::into_inner) = stalled;
        self.moved.notify_all();
    }

    fn read(&self, source: Box<dyn Read + Send>, mut hear: impl FnMut(&str)) {
        let mut lines = BufReader::new(source).split(b'\n');
        loop {
            let stalled = self.stalled.lock().unwrap_or_else(PoisonError::into_inner);
            drop(self.moved.wait_while(stalled, |stalled| *stalled));
            match lines.next() {
                Some(Ok(line)) => hear(&String::from_utf8_lossy(&line)),
                Some(Err(_)) | None => return,
            }
        }
    }
}

/// A file that grows while the copy lives.
struct Tail {
    file: File,
    shared: Arc<Shared>,
}

impl Tail {
    fn open(path: &Path, shared: &Arc<Shared>) -> io::Result<Self> {
        let file = File::open(path)?;
        let shared = Arc::clone(shared);
        Ok(Self { file, shared })
    }
}

impl Read for Tail {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            // Before the read, so that the last lines are not missed.
            let ended = self.shared.ended.load(Ordering::Relaxed);
            let bytes = self.file.read(buffer)?;
            if bytes > 0 || ended {
                return Ok(bytes);
            }
            std::thread::sleep(FILE_PAUSE);
        }
    }
}
