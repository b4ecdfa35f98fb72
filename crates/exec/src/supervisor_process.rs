//! The supervisor as its node sees it: a process that takes commands.

use std::fs::Permissions;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::Shutdown;
use tempfile::TempDir;
use tokio::io::Interest;
use tokio::net::UnixStream;

use crate::descriptors;
use crate::orphans;
use crate::plan::Plan;
use crate::variables;

/// How long a node that ends waits for its supervisor, and how often it looks.
const END_TIMEOUT: Duration = Duration::from_secs(1);
const END_POLL: Duration = Duration::from_millis(1);

/// How long a node waits for a supervisor beyond the time of a command: it may have a thousand
/// commands to start first.
const ANSWER_MARGIN: Duration = Duration::from_secs(10);

/// The reason if a supervisor does not answer in time.
pub(crate) const UNANSWERED: &str = "the supervisor of its command did not answer and was killed";

/// Starts a supervisor when the first command comes, and another one if the first has died.
pub(crate) struct Supervisor {
    /// Makes the command line of a program that calls [`crate::supervise`].
    program: Box<Program>,
    /// What it does with every command, but for its folder.
    plan: Plan,
    process: Mutex<Option<Arc<SupervisorProcess>>>,
}

type Program = dyn Fn() -> Command + Send + Sync;

/// A running supervisor.
pub(crate) struct SupervisorProcess {
    /// The folder of the commands' files.
    pub(crate) folder: PathBuf,
    /// How long the report of a command may take.
    pub(crate) answer_timeout: Duration,
    control: UnixStream,
    child: Mutex<Child>,
    /// Whether a command saw that the supervisor or its folder is gone.
    lost: AtomicBool,
}

impl Supervisor {
    pub(crate) fn new(program: Box<Program>, plan: Plan) -> Self {
        Self {
            program,
            plan,
            process: Mutex::new(None),
        }
    }

    /// The supervisor that runs. Starts one if none does.
    pub(crate) fn process(&self) -> io::Result<Arc<SupervisorProcess>> {
        let mut running = self.lock();
        if let Some(process) = running.as_ref().filter(|process| process.is_alive()) {
            return Ok(Arc::clone(process));
        }
        let process = Arc::new(SupervisorProcess::start((self.program)(), &self.plan)?);
        Ok(Arc::clone(running.insert(process)))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<SupervisorProcess>>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SupervisorProcess {
    fn start(mut command: Command, plan: &Plan) -> io::Result<Self> {
        let folder = folder_in(&std::env::temp_dir())?;
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        // A group of its own, so that Ctrl-C in the node's terminal does not reach it.
        command.process_group(0);
        for variable in variables::SERVICE_MANAGER {
            command.env_remove(variable);
        }
        command.stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs)));
        command.stdout(Stdio::null());
        let child = command.spawn()?;
        // It holds the supervisor's end: the supervisor's death must close the last one.
        drop(command);
        let plan = Plan {
            folder: folder.path().to_owned(),
            ..plan.clone()
        };
        plan.write(&ours)?;
        ours.set_nonblocking(true)?;
        let command_time = plan.timeout.saturating_add(plan.kill_after);
        Ok(Self {
            answer_timeout: command_time.saturating_add(ANSWER_MARGIN),
            control: UnixStream::from_std(ours)?,
            child: Mutex::new(child),
            lost: AtomicBool::new(false),
            // From now on the supervisor removes it.
            folder: folder.keep(),
        })
    }

    /// Hands a command over: its stdin, stdout, stderr and leash.
    pub(crate) async fn send(
        &self,
        descriptors: [BorrowedFd<'_>; descriptors::COUNT],
    ) -> io::Result<()> {
        let send = || Ok(descriptors::send(&self.control, &descriptors)?);
        let sending = self.control.async_io(Interest::WRITABLE, send);
        match tokio::time::timeout(self.answer_timeout, sending).await {
            Ok(sent) => sent,
            Err(_) => {
                self.kill();
                Err(io::Error::other(UNANSWERED))
            }
        }
    }

    /// The path of a command's file.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        Path::new(&self.folder).join(name)
    }

    /// Its sockets are closed, or its folder is gone. The next command needs another supervisor with
    /// another folder.
    pub(crate) fn replace(&self) {
        self.lost.store(true, Ordering::Relaxed);
    }

    /// Kills it, because it does not answer. Its commands are orphans then.
    pub(crate) fn kill(&self) {
        // It fails if the supervisor has ended.
        let _ = self.child().kill();
        self.replace();
    }

    pub(crate) fn is_alive(&self) -> bool {
        !self.lost.load(Ordering::Relaxed) && !self.is_gone()
    }

    fn is_gone(&self) -> bool {
        !matches!(self.child().try_wait(), Ok(None))
    }

    fn child(&self) -> MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self) {
        let began = Instant::now();
        while !self.is_gone() && began.elapsed() < END_TIMEOUT {
            thread::sleep(END_POLL);
        }
    }
}

/// Makes a folder of effects for this user alone.
fn folder_in(parent: &Path) -> io::Result<TempDir> {
    let made = tempfile::Builder::new()
        .prefix("baton-exec-")
        .permissions(Permissions::from_mode(0o700))
        .tempdir_in(parent);
    made.map_err(|error| {
        // Not the whole error: it has a random name, and one reason must read the same every time.
        let (parent, kind) = (parent.display(), error.kind());
        io::Error::other(format!(
            "TMPDIR is {parent}, which takes no folder of effects: {kind}"
        ))
    })
}

impl Drop for SupervisorProcess {
    fn drop(&mut self) {
        // The supervisor kills what still runs, removes its folder and exits.
        let _ = rustix::net::shutdown(&self.control, Shutdown::Both);
        self.wait();
        if !self.is_gone() {
            self.kill();
            self.wait();
            for mark in [variables::EFFECTS, variables::RUN] {
                orphans::kill(mark, &self.folder);
            }
        }
        // Only a supervisor that was killed has left it.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_users_cannot_enter_the_folder_of_effects() {
        let parent = tempfile::tempdir().unwrap();
        let folder = folder_in(parent.path()).unwrap();
        let mode = folder.path().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }

    #[test]
    fn the_reason_names_tmpdir_if_it_is_not_there() {
        let reason = folder_in(Path::new("/no/such")).unwrap_err().to_string();
        assert_eq!(
            reason,
            "TMPDIR is /no/such, which takes no folder of effects: entity not found"
        );
    }
}
