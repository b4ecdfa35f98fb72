//! Real processes and what they tell.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::log::{LogReader, Place};

/// One line that a copy logged.
#[derive(Debug, Clone)]
pub struct Told {
    /// Which copy, counted from 0 in the order they were started.
    pub copy: usize,
    /// When it was read here.
    pub at: Instant,
    /// The line.
    pub line: Value,
}

impl Told {
    /// The name of the event.
    pub fn event(&self) -> &str {
        self.line["event"].as_str().unwrap_or_default()
    }

    /// A number in it; 0 if it has none by that name.
    pub fn number(&self, name: &str) -> u64 {
        self.line[name].as_u64().unwrap_or_default()
    }

    /// The node that told it.
    pub fn node(&self) -> &str {
        self.line["node"].as_str().unwrap_or_default()
    }

    /// Whether messages `first..=last` of this event include one.
    pub fn covers(&self, seq: u64) -> bool {
        self.number("first") <= seq && seq <= self.number("last")
    }
}

#[derive(Default)]
struct Heard {
    told: Mutex<Vec<Told>>,
    more: Condvar,
    interrupted: AtomicBool,
}

/// Ends the waits of a [`Fleet`] from another thread, so that its owner can clean up.
#[derive(Clone)]
pub struct Interrupt(Arc<Heard>);

impl Interrupt {
    /// From now on every wait of the fleet fails at once.
    pub fn interrupt(&self) {
        // Under the lock, so that no wait can miss it.
        let _told = self.0.lock();
        self.0.interrupted.store(true, Ordering::Relaxed);
        self.0.more.notify_all();
    }
}

impl Heard {
    fn lock(&self) -> MutexGuard<'_, Vec<Told>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Copy {
    child: Child,
    stdin: Option<ChildStdin>,
    reader: LogReader,
    gone: bool,
}

/// What one copy gets beyond what all copies get.
#[derive(Default)]
pub struct Own {
    /// Words in front of its command line, such as a program that runs it elsewhere. The
    /// process must keep its id.
    pub prefix: Vec<String>,
    /// More arguments.
    pub args: Vec<String>,
    /// More variables; they come before those that all have.
    pub env: Vec<(String, String)>,
    /// Where its complaints go instead of our stderr.
    pub stderr: Option<File>,
    /// Whether it leads a process group of its own, so that Ctrl-C does not reach it.
    pub group: bool,
    /// The file it logs to instead of a pipe.
    pub log: Option<PathBuf>,
}

/// Copies of the program on one Redis. All are killed when this is dropped.
pub struct Fleet {
    program: PathBuf,
    args: Vec<String>,
    env: Vec<(String, String)>,
    copies: Vec<Copy>,
    heard: Arc<Heard>,
}

impl Fleet {
    /// A fleet without copies. `args` go to every copy after `run --log json`.
    pub fn new(program: impl AsRef<Path>, args: &[&str]) -> Self {
        let args = ["run", "--log", "json"].iter().chain(args);
        Self::of(program, args.map(|arg| (*arg).to_owned()).collect())
    }

    /// A fleet without copies of any program that logs JSON lines on stdout.
    pub fn of(program: impl AsRef<Path>, args: Vec<String>) -> Self {
        Self {
            program: program.as_ref().to_owned(),
            args,
            env: Vec::new(),
            copies: Vec::new(),
            heard: Arc::default(),
        }
    }

    /// Sets variables for copies that are started from now on.
    pub fn with_env(mut self, env: &[(String, String)]) -> Self {
        self.env.extend_from_slice(env);
        self
    }

    /// A way to end this fleet's waits.
    pub fn interrupt(&self) -> Interrupt {
        Interrupt(Arc::clone(&self.heard))
    }

    /// Starts one more copy and returns its number.
    pub fn start(&mut self) -> Result<usize> {
        self.start_with(Own::default())
    }

    /// The same, for a copy that differs from the others.
    pub fn start_with(&mut self, own: Own) -> Result<usize> {
        let mut command = match own.prefix.split_first() {
            Some((program, rest)) => {
                let mut command = command(Path::new(program));
                command.args(rest).arg(&self.program);
                command
            }
            None => command(&self.program),
        };
        if own.group {
            command.process_group(0);
        }
        if let Some(stderr) = own.stderr {
            command.stderr(stderr);
        }
        let place = own.log.map_or(Place::Pipe, Place::File);
        let env = self.env.iter().chain(&own.env);
        let mut child = command
            .args(&self.args)
            .args(&own.args)
            .envs(env.map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(place.stdio()?)
            .spawn()
            .with_context(|| format!("cannot start {}", self.program.display()))?;
        let stdin = child.stdin.take();
        let copy = self.copies.len();
        let heard = Arc::clone(&self.heard);
        let reader = LogReader::start(&place, child.stdout.take(), move |line| {
            let Ok(line) = serde_json::from_str(line) else {
                return;
            };
            heard.lock().push(Told {
                copy,
                at: Instant::now(),
                line,
            });
            heard.more.notify_all();
        })?;
        self.copies.push(Copy {
            child,
            stdin,
            reader,
            gone: false,
        });
        Ok(copy)
    }

    /// The process id of a copy.
    pub fn pid(&self, copy: usize) -> u32 {
        self.copies[copy].child.id()
    }

    /// The copies that were not killed or stopped here.
    pub fn alive(&self) -> Vec<usize> {
        (0..self.copies.len())
            .filter(|copy| !self.copies[*copy].gone)
            .collect()
    }

    fn signal(&self, copy: usize, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.pid(copy)).ok().and_then(Pid::from_raw);
        Ok(kill_process(
            pid.ok_or_else(|| anyhow!("no such process"))?,
            signal,
        )?)
    }

    /// Kills a copy with -9. All it told before is heard when this returns.
    pub fn kill9(&mut self, copy: usize) -> Result<()> {
        self.signal(copy, Signal::KILL)?;
        self.wait(copy).map(|_| ())
    }

    /// Writes a line to a copy's stdin.
    pub fn say(&mut self, copy: usize, line: &str) -> Result<()> {
        let stdin = self.copies[copy].stdin.as_mut();
        let stdin = stdin.ok_or_else(|| anyhow!("no stdin"))?;
        Ok(writeln!(stdin, "{line}")?)
    }

    /// Stops a copy in its tracks.
    pub fn pause(&self, copy: usize) -> Result<()> {
        self.signal(copy, Signal::STOP)
    }

    /// Lets a paused copy go on.
    pub fn resume(&self, copy: usize) -> Result<()> {
        self.signal(copy, Signal::CONT)
    }

    /// Reads nothing of what a copy logs, or goes on with it.
    pub fn stall_log(&self, copy: usize, stalled: bool) {
        self.copies[copy].reader.stall(stalled);
    }

    /// Asks a copy to stop in good order; does not wait.
    pub fn terminate(&self, copy: usize) -> Result<()> {
        self.signal(copy, Signal::TERM)
    }

    /// What Ctrl-C sends; does not wait.
    pub fn interrupt_copy(&self, copy: usize) -> Result<()> {
        self.signal(copy, Signal::INT)
    }

    /// Waits until a copy has ended and returns its exit code, if it has one.
    pub fn wait(&mut self, copy: usize) -> Result<Option<i32>> {
        let copy = &mut self.copies[copy];
        let status = copy.child.wait()?;
        copy.gone = true;
        copy.reader.finish();
        Ok(status.code())
    }

    /// How a copy has ended, if it has. All it told is heard then.
    pub fn ended(&mut self, copy: usize) -> Result<Option<ExitStatus>> {
        let status = self.copies[copy].child.try_wait()?;
        if status.is_some() {
            self.wait(copy)?;
        }
        Ok(status)
    }

    /// What was told since a [`Fleet::mark`].
    pub fn told_since(&self, mark: usize) -> Vec<Told> {
        self.heard.lock().get(mark..).unwrap_or_default().to_vec()
    }

    /// All that was told so far.
    pub fn told(&self) -> Vec<Told> {
        self.heard.lock().clone()
    }

    /// How much was told so far: a mark for [`Fleet::wait_for`].
    pub fn mark(&self) -> usize {
        self.heard.lock().len()
    }

    /// Waits for the first line after `mark` that fits.
    pub fn wait_for(
        &self,
        mark: usize,
        longest: Duration,
        what: &str,
        fits: impl Fn(&Told) -> bool,
    ) -> Result<Told> {
        let deadline = Instant::now() + longest;
        let mut told = self.heard.lock();
        let mut next = mark;
        loop {
            while let Some(line) = told.get(next) {
                if fits(line) {
                    return Ok(line.clone());
                }
                next += 1;
            }
            if self.heard.interrupted.load(Ordering::Relaxed) {
                return Err(anyhow!("interrupted"));
            }
            let Some(left) = deadline.checked_duration_since(Instant::now()) else {
                let last: Vec<String> = told
                    .iter()
                    .rev()
                    .take(10)
                    .map(|told| format!("  {} {}", told.copy, told.line))
                    .collect();
                return Err(anyhow!(
                    "waited {longest:?} for {what}; heard last:\n{}",
                    last.join("\n")
                ));
            };
            told = self
                .heard
                .more
                .wait_timeout(told, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// Lets the copies go on for a while.
    pub fn watch_for(&self, time: Duration) -> Result<()> {
        match self.wait_for(self.mark(), time, "nothing", |_| false) {
            Err(_) if !self.heard.interrupted.load(Ordering::Relaxed) => Ok(()),
            Err(error) => Err(error),
            Ok(_) => Ok(()),
        }
    }

    /// Waits until a copy has told that it generates; returns the newest such.
    pub fn wait_generator(&self, longest: Duration) -> Result<usize> {
        self.wait_for(0, longest, "a generator", |told| {
            told.event() == "generator"
        })?;
        self.generator().ok_or_else(|| anyhow!("nobody generates"))
    }

    /// The copy that generates, as far as told.
    pub fn generator(&self) -> Option<usize> {
        let told = self.heard.lock();
        told.iter()
            .rev()
            .find(|told| told.event() == "generator")
            .map(|told| told.copy)
    }

    /// Starts `count` copies and waits until every one of them knows its role.
    pub fn start_many(&mut self, count: usize, longest: Duration) -> Result<()> {
        let mark = self.mark();
        let first = self.copies.len();
        for _ in 0..count {
            self.start()?;
        }
        for copy in first..first + count {
            self.wait_for(
                mark,
                longest,
                &format!("copy {copy} to know its role"),
                |told| told.copy == copy && matches!(told.event(), "generator" | "worker"),
            )?;
        }
        Ok(())
    }
}

/// A command that does not depend on what the caller's shell has set for the program.
pub fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        let ours = text.starts_with("BATON_") || text.starts_with("REDIS_");
        if ours && text != "BATON_SERVER_PROGRAM" {
            command.env_remove(&name);
        }
    }
    command
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for copy in self.alive() {
            // It may have ended by itself.
            let _ = self.kill9(copy);
        }
    }
}
