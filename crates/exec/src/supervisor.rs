//! The supervisor: a process that starts a node's commands, ends them in time, and reaps them.
//!
//! It ends when its node does, and kills the commands that still run. The signals of a terminal or a
//! service manager do not end it: its node decides what becomes of the commands.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process_group};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::task::JoinSet;

use crate::descriptors;
use crate::exit_watch::ExitWatch;
use crate::leash::{Ended, Leash, Report, Request, is_exhausted};
use crate::plan::Plan;

/// How often and at which pace the supervisor tries to remove its folder: a dying process may still
/// create a file in it.
const REMOVALS: (u32, Duration) = (100, Duration::from_millis(10));
/// Pause after a failure to take a command, such as too many open files.
const PAUSE: Duration = Duration::from_millis(10);

/// Runs the supervisor in this process, from start to end. Its stdin is the socket of its node.
pub fn supervise() -> io::Result<()> {
    // Else `ps` and `top` have the name of the link to this program, `exe`.
    #[cfg(target_os = "linux")]
    rustix::thread::set_name(c"baton-exec")?;
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        // Not ignored but caught, because commands would inherit that they are ignored.
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    let control = io::stdin().as_fd().try_clone_to_owned()?;
    let control = std::os::unix::net::UnixStream::from(control);
    let plan = match Plan::read(&control) {
        // The node died before it could say what to do.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
        plan => Arc::new(plan?),
    };
    // A file system without locks has no cleaner that respects them either.
    let _locked = lock(&plan.folder).ok();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let served = runtime.block_on(serve(control, &plan));
    // It drops what still runs, and each kills its group.
    runtime.shutdown_background();
    remove(&plan.folder);
    served
}

/// Takes commands until the node is gone.
async fn serve(control: std::os::unix::net::UnixStream, plan: &Arc<Plan>) -> io::Result<()> {
    control.set_nonblocking(true)?;
    let control = UnixStream::from_std(control)?;
    let mut commands = JoinSet::new();
    loop {
        let receive = || Ok(descriptors::receive(&control)?);
        match control.async_io(Interest::READABLE, receive).await {
            Ok(Some(descriptors)) => {
                commands.spawn(attend(Arc::clone(plan), descriptors));
            }
            Ok(None) => return Ok(()),
            // Its leash closed with the descriptors that did not arrive, so its node knows.
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
        while commands.try_join_next().is_some() {}
    }
}

/// Locks the folder as long as the file lives. Programs that remove old files, such as
/// systemd-tmpfiles, leave a locked folder alone.
fn lock(folder: &Path) -> io::Result<File> {
    let folder = File::open(folder)?;
    flock(&folder, FlockOperation::NonBlockingLockShared)?;
    Ok(folder)
}

fn remove(folder: &Path) {
    for _ in 0..REMOVALS.0 {
        match std::fs::remove_dir_all(folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => thread::sleep(REMOVALS.1),
            _ => return,
        }
    }
}

/// Runs one command, from its request until nothing of it is left.
async fn attend(plan: Arc<Plan>, [stdin, stdout, stderr, leash]: [OwnedFd; descriptors::COUNT]) {
    let Ok(mut leash) = Leash::new(leash.into()) else {
        return;
    };
    let Ok(Some(request)) = leash.next::<Request>().await else {
        return;
    };
    let file = plan.folder.join(&request.file);
    run(&plan, &request, &file, [stdin, stdout, stderr], leash).await;
    // It may be gone with its folder, and a source has none.
    let _ = std::fs::remove_file(file);
}

/// Starts the command, and ends it when its time is over or its node lets go of it.
async fn run(plan: &Plan, request: &Request, file: &Path, descriptors: [OwnedFd; 3], leash: Leash) {
    if leash.is_gone() {
        // The node died while its request waited here.
        return;
    }
    let mut group = match Group::start(plan, request, file, descriptors) {
        Ok(group) => group,
        Err(error) => {
            return leash.tell(&Report::Failed {
                reason: error.to_string(),
                is_exhausted: is_exhausted(&error),
            });
        }
    };
    tokio::select! {
        ended = group.end_in_time(plan, &leash) => {
            if let Ok(ended) = ended {
                leash.tell(&Report::Ended(ended));
                // The node reads the rest of the output, and the effects.
                leash.gone().await;
            }
        }
        () = leash.gone() => {}
    }
    group.end().await;
}

/// The process group of a command. Dropping it kills all its processes.
struct Group {
    pid: Pid,
    watch: ExitWatch,
    /// The first process. It is not reaped before the group's end, so the group keeps its number.
    child: Child,
    reaped: bool,
}

impl Group {
    fn start(
        plan: &Plan,
        request: &Request,
        file: &Path,
        [stdin, stdout, stderr]: [OwnedFd; 3],
    ) -> io::Result<Self> {
        let (program, arguments) = plan.words.split_first().ok_or(io::ErrorKind::NotFound)?;
        let child = Command::new(program)
            .args(arguments)
            .envs(request.variables.iter().map(|(name, value)| (name, value)))
            .env(&request.mark, file)
            .stdin(stdin)
            .stdout(stdout)
            .stderr(stderr)
            .process_group(0)
            .spawn()?;
        let pid = Pid::from_child(&child);
        let watch = ExitWatch::new(pid);
        Ok(Self {
            pid,
            watch,
            child,
            reaped: false,
        })
    }

    /// Waits for the exit of the first process. After the timeout the group gets SIGTERM and, if that
    /// does not help, SIGKILL.
    async fn end_in_time(&self, plan: &Plan, leash: &Leash) -> io::Result<Ended> {
        let exited = |timed_out| async move {
            let cause = self.watch.exited().await?;
            Ok(Ended { cause, timed_out })
        };
        tokio::select! {
            ended = exited(false) => return ended,
            () = tokio::time::sleep(plan.timeout) => self.signal(Signal::TERM),
        }
        tokio::select! {
            ended = exited(true) => return ended,
            () = tokio::time::sleep(plan.kill_after) => self.signal(Signal::KILL),
        }
        leash.tell(&Report::Killed);
        exited(true).await
    }

    /// Kills what is left of the group, and reaps the first process.
    async fn end(&mut self) {
        self.signal(Signal::KILL);
        let _ = self.watch.exited().await;
        self.reaped = self.child.wait().is_ok();
    }

    fn signal(&self, signal: Signal) {
        // It fails if all processes of the group have ended.
        let _ = kill_process_group(self.pid, signal);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.reaped {
            self.signal(Signal::KILL);
        }
    }
}
