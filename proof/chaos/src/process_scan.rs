//! Looks for the processes of a run in /proc: its nodes, their supervisors and commands.

use std::collections::HashSet;
use std::fmt;
use std::fs;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// The environment variable that every process of a run has: the path of the run's folder.
pub const RUN: &str = "CHAOS_RUN";

/// One process. The kernel gives its number to another one some day, but not with the same start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Process {
    /// Its number.
    pub pid: i32,
    /// When it started, in clock ticks since the machine did.
    pub started: u64,
}

impl Process {
    /// This very process.
    pub fn own() -> Option<Self> {
        let pid = i32::try_from(std::process::id()).ok()?;
        Stat::of(pid).map(|stat| stat.process)
    }

    /// Whether it runs; a zombie does not.
    pub fn is_alive(&self) -> bool {
        Stat::of(self.pid).is_some_and(|stat| stat.process == *self && !stat.is_dead)
    }

    /// Kills it with -9. False if it has ended.
    pub fn kill9(&self) -> bool {
        self.send(Signal::KILL)
    }

    /// Pauses it with SIGSTOP. False if it has ended.
    pub fn pause(&self) -> bool {
        self.send(Signal::STOP)
    }

    /// Resumes it. False if it has ended.
    pub fn resume(&self) -> bool {
        self.send(Signal::CONT)
    }

    fn send(&self, signal: Signal) -> bool {
        let pid = Pid::from_raw(self.pid);
        let opened = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        // From here on the descriptor means one process, so check which.
        opened.is_some_and(|opened| self.is_alive() && pidfd_send_signal(opened, signal).is_ok())
    }

    fn age(&self) -> Duration {
        let uptime = fs::read_to_string("/proc/uptime").unwrap_or_default();
        let uptime = uptime.split(' ').next().and_then(|s| s.parse().ok());
        let started = self.started as f64 / rustix::param::clock_ticks_per_second() as f64;
        Duration::try_from_secs_f64(uptime.unwrap_or(0.0) - started).unwrap_or_default()
    }
}

/// What the kernel says about a process.
struct Stat {
    process: Process,
    parent: i32,
    /// Whether it has ended and is only not reaped yet.
    is_dead: bool,
}

impl Stat {
    fn of(pid: i32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// The name of the program is in parentheses and may have spaces and parentheses.
    fn parse(text: &str) -> Option<Self> {
        let (pid, rest) = text.split_once(" (")?;
        let (_, rest) = rest.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split(' ').collect();
        Some(Self {
            process: Process {
                pid: pid.parse().ok()?,
                started: fields.get(19)?.parse().ok()?,
            },
            parent: fields.get(1)?.parse().ok()?,
            is_dead: matches!(*fields.first()?, "Z" | "X"),
        })
    }
}

/// What a process of a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A node, or a node's supervisor.
    Node,
    /// A command that handles a message, or what it started.
    Command,
    /// A command that makes messages, or what it started.
    Source,
    /// One that has ended and that no process reaps.
    Zombie,
}

/// A process of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Which.
    pub process: Process,
    /// The process that started it.
    pub parent: i32,
    /// What it is.
    pub kind: Kind,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            Kind::Node => "a node or supervisor",
            Kind::Command => "a command",
            Kind::Source => "a source",
            Kind::Zombie => "a zombie",
        };
        let (pid, parent) = (self.process.pid, self.parent);
        write!(f, "{what} (process {pid}, started by {parent})")
    }
}

impl Found {
    /// How long ago it started.
    pub fn age(&self) -> Duration {
        self.process.age()
    }
}

/// All processes of the run with this folder. Elsewhere than on Linux there is nothing to find.
pub fn scan(run: &str) -> Vec<Found> {
    let mark = format!("{RUN}={run}");
    let (mut found, mut dead) = (Vec::new(), Vec::new());
    for pid in pids() {
        let Some(stat) = Stat::of(pid) else { continue };
        if stat.is_dead {
            dead.push(stat);
        } else if let Some(kind) = kind(pid, mark.as_bytes()) {
            found.push(Found {
                process: stat.process,
                parent: stat.parent,
                kind,
            });
        }
    }
    // A zombie has no environment, but a parent.
    let ours: HashSet<i32> = found.iter().map(|found| found.process.pid).collect();
    let dead = dead.into_iter().filter(|stat| ours.contains(&stat.parent));
    found.extend(dead.map(|stat| Found {
        process: stat.process,
        parent: stat.parent,
        kind: Kind::Zombie,
    }));
    found
}

fn pids() -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pid = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    entries.filter_map(pid).collect()
}

/// What a process with this mark in its environment is; `None` without the mark.
fn kind(pid: i32, mark: &[u8]) -> Option<Kind> {
    // The processes of other users cannot be read.
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let has = |test: &dyn Fn(&[u8]) -> bool| environment.split(|byte| *byte == 0).any(test);
    has(&|variable| variable == mark).then(|| {
        let sets = |name: &[u8]| has(&|variable| variable.starts_with(name));
        match (sets(b"BATON_EFFECTS="), sets(b"BATON_RUN=")) {
            (true, _) => Kind::Command,
            (false, true) => Kind::Source,
            (false, false) => Kind::Node,
        }
    })
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};
    use std::time::Instant;

    use super::*;

    fn sleeper(run: &str, effects: bool) -> Child {
        let mut command = Command::new("sleep");
        command.arg("60").env(RUN, run);
        if effects {
            command.env("BATON_EFFECTS", "/x");
        }
        command.spawn().unwrap()
    }

    fn pid(child: &Child) -> i32 {
        i32::try_from(child.id()).unwrap()
    }

    fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while !is_so() {
            assert!(Instant::now() < deadline, "{what}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn nodes_and_commands_of_a_run_are_found_and_those_of_another_are_not() {
        let run = format!("/mixed-{}", std::process::id());
        let mut children = [
            sleeper(&run, false),
            sleeper(&run, true),
            sleeper("/other", true),
        ];
        let found = || {
            let mut found: Vec<(i32, Kind)> = scan(&run)
                .iter()
                .map(|found| (found.process.pid, found.kind))
                .collect();
            found.sort_unstable_by_key(|(pid, _)| *pid);
            found
        };
        let mut wanted = vec![
            (pid(&children[0]), Kind::Node),
            (pid(&children[1]), Kind::Command),
        ];
        wanted.sort_unstable_by_key(|(pid, _)| *pid);
        // Between fork and exec a process has the environment of its parent.
        wait_until("both are found", || found() == wanted);
        assert!(
            scan(&run)
                .iter()
                .all(|of| of.age() < Duration::from_secs(60))
        );
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert_eq!(found(), []);
    }

    #[test]
    fn a_zombie_is_found_by_its_parent_until_it_is_reaped() {
        let run = format!("/zombie-{}", std::process::id());
        // The shell becomes a program that never reaps what it has started.
        let script = "sleep 0 & exec sleep 60";
        let mut parent = Command::new("sh")
            .args(["-c", script])
            .env(RUN, &run)
            .spawn()
            .unwrap();
        let kinds = || {
            let found = scan(&run);
            let zombies = found.iter().filter(|found| found.kind == Kind::Zombie);
            zombies.map(|zombie| zombie.parent).collect::<Vec<_>>()
        };
        wait_until("the zombie is found", || kinds() == [pid(&parent)]);
        parent.kill().unwrap();
        parent.wait().unwrap();
        assert!(kinds().is_empty());
    }

    #[test]
    fn a_process_is_killed_and_one_with_the_same_number_is_not() {
        let mut child = sleeper("/kill", false);
        let process = Stat::of(pid(&child)).unwrap().process;
        let earlier = Process {
            started: process.started - 1,
            ..process
        };
        assert!(!earlier.is_alive() && !earlier.kill9());
        assert!(process.is_alive() && process.kill9());
        child.wait().unwrap();
        assert!(!process.is_alive() && !process.kill9());
    }

    #[test]
    fn a_program_may_have_any_name() {
        let text = "7 (a) R (b) S 3 7 7 0 -1 4 1 2 3 4 5 6 7 8 20 0 1 0 4711 9";
        let stat = Stat::parse(text).unwrap();
        let process = Process {
            pid: 7,
            started: 4711,
        };
        assert_eq!(
            (stat.process, stat.parent, stat.is_dead),
            (process, 3, false)
        );
    }
}
