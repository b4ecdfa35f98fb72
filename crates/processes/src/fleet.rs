//! Copies of the program as real processes.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use baton_log::{Line, LogEvent};
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::log_reader::{LogReader, Place};
use crate::told::{Heard, Interrupt, Told};

struct Copy {
    child: Child,
    stdin: Option<ChildStdin>,
    reader: LogReader,
    gone: bool,
}

/// What one copy gets beside what all copies get.
#[derive(Default)]
pub struct Own {
    /// Words in front of its command line, such as a program that runs it elsewhere. The
    /// process must keep its id.
    pub prefix: Vec<String>,
    /// More arguments.
    pub args: Vec<String>,
    /// More environment variables. They override those of all copies.
    pub env: Vec<(String, String)>,
    /// Its stderr, instead of ours.
    pub stderr: Option<File>,
    /// Whether it leads a process group of its own, so that Ctrl-C does not reach it.
    pub group: bool,
    /// The file that it logs to, instead of a pipe.
    pub log: Option<PathBuf>,
}

/// Copies of one program that log lines of the type `L`. Dropping the fleet kills all of them.
pub struct Fleet<L = Line<'static>> {
    program: PathBuf,
    args: Vec<String>,
    env: Vec<(String, String)>,
    copies: Vec<Copy>,
    heard: Arc<Heard<L>>,
}

/// Nodes of one fleet.
impl Fleet {
    /// A fleet without copies. `args` go to every copy after `run --log json`.
    pub fn new(program: impl AsRef<Path>, args: &[&str]) -> Self {
        let args = ["run", "--log", "json"].iter().chain(args);
        Self::of(program, args.map(|arg| (*arg).to_owned()).collect())
    }

    /// Lets another thread end this fleet's waits.
    pub fn interrupt(&self) -> Interrupt {
        Interrupt(Arc::clone(&self.heard))
    }

    /// Waits until a copy has logged that it generates. Returns the last copy that did.
    pub fn wait_generator(&self, timeout: Duration) -> Result<usize> {
        self.wait_for(0, timeout, "a generator", |told| is_generator(told.event()))?;
        self.generator().ok_or_else(|| anyhow!("no generator"))
    }

    /// The copy that was the last to log that it generates.
    pub fn generator(&self) -> Option<usize> {
        let told = self.heard.lock();
        let last = told.iter().rev().find(|told| is_generator(told.event()));
        last.map(|told| told.copy)
    }

    /// Starts `count` copies and waits until every one of them has logged its role.
    pub fn start_many(&mut self, count: usize, timeout: Duration) -> Result<()> {
        let mark = self.mark();
        let first = self.copies.len();
        for _ in 0..count {
            self.start()?;
        }
        for copy in first..first + count {
            let what = format!("copy {copy} to know its role");
            self.wait_for(mark, timeout, &what, |told| {
                let is_worker = matches!(told.event(), LogEvent::Worker { .. });
                told.copy == copy && (is_worker || is_generator(told.event()))
            })?;
        }
        Ok(())
    }
}

fn is_generator(event: &LogEvent<'_>) -> bool {
    matches!(event, LogEvent::Generator { .. })
}

/// Copies of any program that logs JSON lines on stdout.
impl<L: Clone + Serialize + DeserializeOwned + Send + 'static> Fleet<L> {
    /// A fleet without copies. `args` go to every copy.
    pub fn of(program: impl AsRef<Path>, args: Vec<String>) -> Self {
        Self {
            program: program.as_ref().to_owned(),
            args,
            env: Vec::new(),
            copies: Vec::new(),
            heard: Arc::new(Heard::new()),
        }
    }

    /// Sets environment variables of copies that are started from now on.
    pub fn with_env(mut self, env: &[(String, String)]) -> Self {
        self.env.extend_from_slice(env);
        self
    }

    /// Starts one more copy and returns its number.
    pub fn start(&mut self) -> Result<usize> {
        self.start_with(Own::default())
    }

    /// Starts a copy that differs from the others.
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
            // A copy that was killed may have written half of its last line.
            if let Ok(line) = serde_json::from_str(line) {
                let at = Instant::now();
                heard.push(Told { copy, at, line });
            }
        })?;
        self.copies.push(Copy {
            child,
            stdin,
            reader,
            gone: false,
        });
        Ok(copy)
    }

    /// All lines since a [`Fleet::mark`].
    pub fn told_since(&self, mark: usize) -> Vec<Told<L>> {
        self.heard.lock().get(mark..).unwrap_or_default().to_vec()
    }

    /// All lines so far.
    pub fn told(&self) -> Vec<Told<L>> {
        self.heard.lock().clone()
    }

    /// How many lines there are so far: a mark for [`Fleet::wait_for`].
    pub fn mark(&self) -> usize {
        self.heard.lock().len()
    }

    /// Waits for the first line after `mark` that fits.
    pub fn wait_for(
        &self,
        mark: usize,
        timeout: Duration,
        what: &str,
        fits: impl Fn(&Told<L>) -> bool,
    ) -> Result<Told<L>> {
        self.heard.wait_for(mark, timeout, what, fits)
    }

    /// Lets the copies work for a while. Fails if the fleet is interrupted meanwhile.
    pub fn watch_for(&self, time: Duration) -> Result<()> {
        match self.wait_for(self.mark(), time, "nothing", |_| false) {
            Err(error) if self.heard.is_interrupted() => Err(error),
            _ => Ok(()),
        }
    }
}

/// Control over the processes.
impl<L> Fleet<L> {
    /// The process id of a copy.
    pub fn pid(&self, copy: usize) -> u32 {
        self.copies[copy].child.id()
    }

    /// The copies that did not end, as far as this fleet knows.
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

    /// Kills a copy with -9, and reads what it had logged.
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

    /// Pauses a copy with SIGSTOP.
    pub fn pause(&self, copy: usize) -> Result<()> {
        self.signal(copy, Signal::STOP)
    }

    /// Resumes a paused copy.
    pub fn resume(&self, copy: usize) -> Result<()> {
        self.signal(copy, Signal::CONT)
    }

    /// Stops reading a copy's log, or resumes it.
    pub fn stall_log(&self, copy: usize, stalled: bool) {
        self.copies[copy].reader.stall(stalled);
    }

    /// Asks a copy to stop in good order, and does not wait.
    pub fn terminate(&self, copy: usize) -> Result<()> {
        self.signal(copy, Signal::TERM)
    }

    /// Sends a copy what Ctrl-C sends, and does not wait.
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

    /// How a copy has ended, if it has. Its whole log is read then.
    pub fn ended(&mut self, copy: usize) -> Result<Option<ExitStatus>> {
        let status = self.copies[copy].child.try_wait()?;
        if status.is_some() {
            self.wait(copy)?;
        }
        Ok(status)
    }
}

/// A command without the variables that the caller's shell has set for `baton`.
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

impl<L> Drop for Fleet<L> {
    fn drop(&mut self) {
        for copy in self.alive() {
            // It may have ended by itself.
            let _ = self.kill9(copy);
        }
    }
}
