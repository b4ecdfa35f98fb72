//! Fake wall clocks: libfaketime adds the offset in a file to a program's clock.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Timeout of a program that prints its version.
const VERSION: Duration = Duration::from_secs(5);

/// Whether a program runs with the library at all. A program with its own allocator may hang.
pub fn runs_with(program: &Path, library: &Path) -> bool {
    let started = Command::new(program)
        .arg("--version")
        .envs(variables(library, Path::new("/dev/null")))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut child) = started else { return false };
    let _traces = Traces(child.id());
    let deadline = Instant::now() + VERSION;
    while Instant::now() < deadline {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) => std::thread::sleep(Duration::from_millis(10)),
            Err(_) => break,
        }
    }
    // The program may have ended just now.
    let _ = child.kill();
    let _ = child.wait();
    false
}

/// The environment variables of a program whose clock follows a file.
pub(super) fn variables(library: &Path, clock: &Path) -> [(String, String); 4] {
    [
        ("LD_PRELOAD", library.display().to_string()),
        ("FAKETIME_TIMESTAMP_FILE", clock.display().to_string()),
        ("FAKETIME_NO_CACHE", "1".to_owned()),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
}

/// The files in shared memory that the library keeps for a process. A killed process leaves them
/// behind; dropping this removes them. The running process no longer needs the names.
pub(super) struct Traces(pub(super) u32);

impl Drop for Traces {
    fn drop(&mut self) {
        for name in ["faketime_shm", "sem.faketime_sem"] {
            // Without the library there are no files.
            let _ = fs::remove_file(format!("/dev/shm/{name}_{}", self.0));
        }
    }
}
