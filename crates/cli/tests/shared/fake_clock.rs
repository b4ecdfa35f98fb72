//! A server whose wall clock can be set, by libfaketime, which `scripts/setup-chaos` fetches.
//! Without it the tests say that they are skipped; with `BATON_REQUIRE_TOOLS=1` they fail.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use baton_server::{Fsync, PrivateServer};
use tempfile::TempDir;

/// A server that keeps what it confirmed, and its clock.
pub(crate) struct FakeClock {
    pub(crate) server: PrivateServer,
    clock: PathBuf,
    _folder: TempDir,
}

impl FakeClock {
    /// Starts one; nothing, and a line that says so, where that cannot be.
    pub(crate) fn start() -> Option<Self> {
        let Some(library) = library() else {
            let required = std::env::var_os("BATON_REQUIRE_TOOLS");
            assert!(
                required.is_none_or(|value| value != "1"),
                "libfaketime is not there, and BATON_REQUIRE_TOOLS is 1"
            );
            baton_print::errln!("SKIPPED: libfaketime is not there (scripts/setup-chaos)");
            return None;
        };
        // No tool helps a server whose own allocator clashes with the library.
        let started = Self::with(&library);
        if let Err(error) = &started {
            baton_print::errln!("SKIPPED: this server does not run with libfaketime: {error}");
        }
        started.ok()
    }

    fn with(library: &Path) -> Result<Self, baton_server::Error> {
        let folder = tempfile::tempdir().unwrap();
        let (clock, script) = (folder.path().join("clock"), folder.path().join("server"));
        fs::write(&clock, "+0").unwrap();
        let program = baton_server::find_program().unwrap();
        let text = format!(
            "#!/bin/sh\nexec env LD_PRELOAD='{}' FAKETIME_TIMESTAMP_FILE='{}' \
             FAKETIME_NO_CACHE=1 FAKETIME_DONT_FAKE_MONOTONIC=1 '{}' \"$@\"\n",
            library.display(),
            clock.display(),
            program.display()
        );
        fs::write(&script, text).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o700)).unwrap();
        let server = PrivateServer::builder()
            .appendonly(Fsync::Always)
            .program(script)
            .start()?;
        Ok(Self {
            server,
            clock,
            _folder: folder,
        })
    }

    /// Sets the clock, in one step: so many seconds ahead of the right time.
    pub(crate) fn set(&self, ahead_s: i64) {
        let next = self.clock.with_extension("next");
        fs::write(&next, format!("{ahead_s:+}")).unwrap();
        fs::rename(next, &self.clock).unwrap();
    }
}

fn library() -> Option<PathBuf> {
    let program = Path::new(env!("CARGO_BIN_EXE_baton"));
    let mut files = program
        .ancestors()
        .map(|folder| folder.join("tools/libfaketime.so.1"));
    files.find(|file| file.is_file())
}
