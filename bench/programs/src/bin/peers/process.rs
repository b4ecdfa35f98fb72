//! Adapters as processes: what they say, what they use, and that none of them stays.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::Sender;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use baton_processes::peak_rss_mb;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Every process that was started here and not yet ended.
static LIVE: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

fn live() -> MutexGuard<'static, BTreeSet<u32>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on SIGINT and SIGTERM end this process and all it has started.
pub(crate) fn end_with_signals() -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            // The lock is kept, so that nothing more is started. Private servers notice the
            // end by themselves.
            let live = live();
            live.iter().for_each(|pid| kill_tree(*pid));
            std::process::exit(128 + signal);
        }
    });
    Ok(())
}

/// Lets a process that somebody else started end with this one's signals, too.
pub(crate) fn adopt(pid: u32) {
    live().insert(pid);
}

/// The opposite of [`adopt`], once the process has ended.
pub(crate) fn release(pid: u32) {
    live().remove(&pid);
}

/// A line that a process has printed.
pub(crate) struct Heard {
    /// Which process: the number it was started with.
    pub(crate) who: usize,
    /// When it was read here.
    pub(crate) at: Instant,
    /// The line; none when there will be no more.
    pub(crate) line: Option<String>,
}

/// A process in a group of its own. It and all its children are killed when this is dropped.
pub(crate) struct Program(Child);

impl Program {
    /// Starts a process whose lines are sent to `ear`, and whose complaints are kept in `log`.
    pub(crate) fn start(
        command: &mut Command,
        log: &Path,
        who: usize,
        ear: &Sender<Heard>,
    ) -> Result<Self> {
        fs::create_dir_all(log.parent().unwrap_or(log))?;
        let log = File::options().create(true).append(true).open(log)?;
        command
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log);
        let mut live = live();
        let mut child = command
            .spawn()
            .with_context(|| format!("cannot start {}", command.get_program().display()))?;
        live.insert(child.id());
        drop(live);
        let stdout = child.stdout.take().ok_or_else(|| anyhow!("no stdout"))?;
        let ear = ear.clone();
        std::thread::spawn(move || {
            let lines = BufReader::new(stdout).lines().map_while(Result::ok);
            for line in lines.map(Some).chain([None]) {
                let at = Instant::now();
                if ear.send(Heard { who, at, line }).is_err() {
                    break;
                }
            }
        });
        Ok(Self(child))
    }

    /// Waits for the end.
    pub(crate) fn wait(&mut self) -> Result<ExitStatus> {
        let status = self.0.wait()?;
        release(self.0.id());
        Ok(status)
    }

    /// Kills it and all its children with -9.
    pub(crate) fn kill9(&mut self) {
        // Once it was waited for, the number may be another's.
        if live().contains(&self.0.id()) {
            kill_tree(self.0.id());
        }
        let _ = self.wait();
    }

    /// The most memory that it and its children ever had, in MB; none where the system does not
    /// tell.
    pub(crate) fn peak_rss_mb(&self) -> Option<f64> {
        tree(self.0.id())
            .into_iter()
            .filter_map(peak_rss_mb)
            .reduce(|a, b| a + b)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill9();
    }
}

/// Some peers put their children into groups of their own, so killing the group is not enough.
fn kill_tree(root: u32) {
    let pid = |pid: u32| i32::try_from(pid).ok().and_then(Pid::from_raw);
    let tree = tree(root);
    // Errors mean that they are gone already.
    if let Some(root) = pid(root) {
        let _ = kill_process_group(root, Signal::KILL);
    }
    for pid in tree.into_iter().filter_map(pid) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// A process and all that descend from it.
fn tree(root: u32) -> Vec<u32> {
    let processes: Vec<(u32, u32)> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, parent(pid)?)))
        .collect();
    let mut tree = vec![root];
    let mut next = 0;
    while let Some(parent) = tree.get(next).copied() {
        let children = processes.iter().filter(|(_, of)| *of == parent);
        tree.extend(children.map(|(pid, _)| *pid));
        next += 1;
    }
    tree
}

fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses and may hold anything; the state and the parent follow it.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok()
}
