//! A Postgres that belongs to the process that starts it, for tests of sources.

use std::fs::{self, File};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use std::{env, thread};

use tempfile::TempDir;

use crate::Error;
use crate::error::log_tail;
use crate::watchdog::Watchdog;

/// How long Postgres may take to answer.
const TIMEOUT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(10);
/// Postgres refuses to run as root: as `nobody`, it runs.
const NOBODY: u32 = 65_534;

/// A Postgres of this process's own, in a temporary folder, on a socket. It is gone when the owner drops
/// this value, ends or is killed.
#[derive(Debug)]
pub struct PrivatePostgres {
    /// The folder of its programs.
    programs: PathBuf,
    process: Option<Child>,
    // The order matters: fields are dropped from the first to the last.
    watchdog: Watchdog,
    folder: TempDir,
}

impl PrivatePostgres {
    /// The folder of Postgres's programs: the variable `BATON_POSTGRES`, a folder of `PATH`, or the place
    /// where Debian keeps the newest version.
    #[must_use]
    pub fn find_programs() -> Option<PathBuf> {
        let named = env::var_os("BATON_POSTGRES").filter(|named| !named.is_empty());
        if let Some(named) = named {
            return Some(named.into());
        }
        let path = env::var_os("PATH").unwrap_or_default();
        let mut versions: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
            .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
            .unwrap_or_default();
        versions.sort_by_key(|path| path.file_name().map(|name| (name.len(), name.to_owned())));
        let debian = versions.into_iter().rev().map(|path| path.join("bin"));
        // A link leads to the folder that has all programs.
        env::split_paths(&path)
            .chain(debian)
            .find_map(|folder| folder.join("postgres").canonicalize().ok())
            .and_then(|postgres| postgres.parent().map(Path::to_owned))
    }

    /// Makes a new database and starts Postgres.
    ///
    /// # Errors
    ///
    /// If there is no Postgres, or if it does not answer.
    pub fn start() -> Result<Self, Error> {
        let programs = Self::find_programs().ok_or(Error::PostgresNotFound)?;
        let folder = tempfile::Builder::new()
            .prefix("baton-postgres-")
            .tempdir_in("/tmp")
            .map_err(Error::io("create a folder in /tmp"))?;
        if is_root() {
            chown(folder.path(), Some(NOBODY), Some(NOBODY))
                .map_err(Error::io("give a folder to nobody"))?;
        }
        let watchdog = Watchdog::start(folder.path()).map_err(Error::io("start a watchdog"))?;
        let mut postgres = Self {
            programs,
            process: None,
            watchdog,
            folder,
        };
        postgres.init()?;
        postgres.restart()?;
        Ok(postgres)
    }

    /// The database, for a client: `host=/tmp/… user=baton dbname=postgres`.
    #[must_use]
    pub fn address(&self) -> String {
        let folder = self.folder.path().display();
        format!("host={folder} user=baton dbname=postgres")
    }

    /// Kills Postgres with SIGKILL, as a crash would. Its sessions notice and end. Nothing happens if it is
    /// down.
    pub fn kill9(&mut self) {
        let Some(mut process) = self.process.take() else {
            return;
        };
        let _ = process.kill();
        let _ = self.watchdog.forget();
        let _ = process.wait();
    }

    /// Starts Postgres again with the same data, and waits until it answers.
    ///
    /// # Errors
    ///
    /// If it does not answer within 30 seconds.
    pub fn restart(&mut self) -> Result<(), Error> {
        self.kill9();
        let deadline = Instant::now() + TIMEOUT;
        let mut is_ready = Command::new(self.programs.join("pg_isready"));
        is_ready.arg("-q").arg("-h").arg(self.folder.path());
        loop {
            // It does not start while sessions of a killed Postgres still end.
            if !self.is_running() {
                self.launch()?;
            }
            if is_ready
                .status()
                .map_err(Error::io("run pg_isready"))?
                .success()
            {
                return Ok(());
            }
            if Instant::now() > deadline {
                self.kill9();
                return Err(Error::NoAnswer {
                    seconds: TIMEOUT.as_secs(),
                    log: log_tail(&self.log_path(), 0),
                });
            }
            thread::sleep(POLL);
        }
    }

    fn is_running(&mut self) -> bool {
        let ended = self.process.as_mut().map(Child::try_wait);
        let is_running = matches!(ended, Some(Ok(None)));
        if !is_running {
            self.kill9();
        }
        is_running
    }

    fn init(&self) -> Result<(), Error> {
        let script = self.script(
            "initdb",
            "--no-sync --no-locale --encoding UTF8 --auth trust --username baton",
        )?;
        let made = Command::new("/bin/sh")
            .arg(script)
            .stdout(self.log()?)
            .stderr(self.log()?)
            .status()
            .map_err(Error::io("run initdb"))?;
        match made.success() {
            true => Ok(()),
            false => Err(Error::EndedEarly {
                log: log_tail(&self.log_path(), 0),
            }),
        }
    }

    fn launch(&mut self) -> Result<(), Error> {
        let settings = "-c listen_addresses= -c shared_buffers=16MB -c unix_socket_directories=.. \
                        -c max_wal_size=128MB";
        let script = self.script("postgres", settings)?;
        let log = self.log()?;
        let process = self
            .watchdog
            .run(Path::new("/bin/sh"), &[script.as_os_str()], log)
            .map_err(Error::io("run postgres"))?;
        self.process = Some(process);
        Ok(())
    }

    /// Writes a script that becomes one of Postgres's programs, as a user who is not root.
    fn script(&self, program: &str, arguments: &str) -> Result<PathBuf, Error> {
        let script = self.folder.path().join(format!("{program}.sh"));
        let user = match is_root() {
            true => format!("setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups "),
            false => String::new(),
        };
        let text = format!(
            "cd '{folder}' && exec {user}'{programs}/{program}' -D '{folder}/data' {arguments}\n",
            folder = self.folder.path().display(),
            programs = self.programs.display(),
        );
        fs::write(&script, text).map_err(Error::io(format!("write {}", script.display())))?;
        Ok(script)
    }

    fn log_path(&self) -> PathBuf {
        self.folder.path().join("postgres.log")
    }

    fn log(&self) -> Result<File, Error> {
        File::options()
            .create(true)
            .append(true)
            .open(self.log_path())
            .map_err(Error::io(format!("open {}", self.log_path().display())))
    }
}

impl Drop for PrivatePostgres {
    fn drop(&mut self) {
        self.kill9();
    }
}

fn is_root() -> bool {
    rustix::process::getuid().is_root()
}
