//! One run: a fleet at work, fault after fault, and what became of every message.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use baton::inspect::{NodeRole, Snapshot};

use crate::arena::{Arena, Settings};
use crate::faults::{self, Fault, Note};
use crate::handlers::HandlerKind;
use crate::history::{self, History};
use crate::ledger_check::LedgerCheck;
use crate::outcome;
use crate::plan::{Kind, Plan, Planned, Step};
use crate::process_scan::{self, Found, scan};
use crate::progress::Progress;
use crate::sources::SourceKind;
use crate::stop::Stop;
use crate::verdict::Judgement;

/// A fleet with at most this many pending and claimed messages has caught up.
const BACKLOG: u64 = 40;
/// No process of a command lives longer, dead and not reaped included. A command has 1.3 s; a
/// paused node lets its supervisor wait.
const OLDEST_COMMAND: Duration = Duration::from_secs(10);
/// How long after the last message, and after the last node, processes may still end.
const LAST_PROCESSES: Duration = Duration::from_secs(5);

/// How long a run goes on.
#[derive(Debug, Clone, Copy)]
pub enum Length {
    /// Until this time has passed.
    Time(Duration),
    /// Until there were so many faults.
    Faults(usize),
}

struct Run<'a> {
    arena: Arena,
    /// One of each partition.
    ledger_checks: Vec<LedgerCheck>,
    faults: Vec<history::Fault>,
    began: Instant,
    progress: &'a mut Progress,
}

/// Runs a plan to its end and judges the fleet. Keeps all logs in the folder `logs`, if any.
pub fn run(
    plan: Plan,
    length: Length,
    settings: Settings,
    stop: Stop,
    logs: Option<&Path>,
    progress: &mut Progress,
) -> Result<History> {
    let partitions = settings.partitions as usize;
    let mut run = Run {
        arena: Arena::new(settings, stop)?,
        ledger_checks: vec![LedgerCheck::default(); partitions],
        faults: Vec::new(),
        began: Instant::now(),
        progress,
    };
    if let Err(error) = run.recover() {
        run.arena.stop.check()?;
        let finding = format!("the fleet does not come to life: {error:#}");
        run.arena.findings.push(finding);
    }
    let finished = run.steps(plan, length).and_then(|()| run.finish());
    if let Some(folder) = logs {
        outcome::keep_logs(&run.arena, folder)?;
    }
    let server = match finished {
        Err(error) if !run.arena.findings.is_empty() && !run.arena.stop.asked() => {
            let findings = std::mem::take(&mut run.arena.findings);
            return Err(error.context(Unfinished { findings }));
        }
        finished => finished?,
    };
    let asides = |judgement: &Judgement| run.progress.asides(judgement);
    outcome::history(&run.arena, run.faults, run.began, server, asides)
}

/// The run found something and then could not be finished, so it has no verdict.
#[derive(Debug)]
pub struct Unfinished {
    /// What it found.
    pub findings: Vec<String>,
}

impl std::fmt::Display for Unfinished {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the run could not be finished")
    }
}

impl Run<'_> {
    fn steps(&mut self, plan: Plan, length: Length) -> Result<()> {
        for step in plan {
            let over = match length {
                Length::Time(time) => self.began.elapsed() >= time,
                Length::Faults(max) => self.faults.len() >= max,
            };
            // A broken fleet would only be found broken again.
            if over || self.arena.stop.asked() || !self.arena.findings.is_empty() {
                break;
            }
            self.step(&step)?;
        }
        Ok(())
    }

    fn seconds(&self, at: Instant) -> f64 {
        at.saturating_duration_since(self.began).as_secs_f64()
    }

    /// Injects one fault, or two at once, lifts each in its time, and waits until the fleet has
    /// recovered.
    fn step(&mut self, step: &Step) -> Result<()> {
        let possible =
            |planned: &&Planned| faults::why_not(planned.kind, &self.arena.settings).is_none();
        let planned: Vec<&Planned> = step.faults.iter().filter(possible).collect();
        if planned.is_empty() {
            return Ok(());
        }
        self.progress.calm(self.began.elapsed().as_secs_f64());
        self.arena.stop.wait(step.calm);
        if self.arena.stop.asked() {
            return Ok(());
        }
        self.arena.crowded = planned.len() > 1;
        let first = self.faults.len();
        let mut faults: Vec<(Box<dyn Fault>, Note)> = planned
            .iter()
            .map(|planned| (faults::of(planned), Note::default()))
            .collect();
        let mut acts: Vec<(Duration, usize, bool)> = Vec::new();
        for (number, planned) in planned.iter().enumerate() {
            acts.push((planned.after, number, true));
            acts.push((planned.after + planned.lasts, number, false));
            self.faults.push(fault(planned.kind));
        }
        // A fault that lasts no time is injected before it is lifted: the sort is stable.
        acts.sort_by_key(|(at, ..)| *at);
        let began = Instant::now();
        for (at, number, inject) in acts {
            let left = at.saturating_sub(began.elapsed());
            self.arena.stop.wait(left);
            self.arena.stop.check()?;
            let (fault, note) = &mut faults[number];
            let now = self.seconds(Instant::now());
            if inject {
                self.progress.doing(now, planned[number].kind);
                self.faults[first + number].from_s = now;
                if let Err(error) = fault.inject(&mut self.arena, note) {
                    note.text = format!("not done: {error:#}");
                }
            } else {
                fault.lift(&mut self.arena, note)?;
                self.faults[first + number].to_s = self.seconds(Instant::now());
            }
        }
        for (fault, note) in &mut faults {
            fault.finish(&mut self.arena, note)?;
        }
        for (number, (_, note)) in faults.into_iter().enumerate() {
            self.faults[first + number].targets = note.targets;
            self.faults[first + number].note = note.text;
            if let Some(over) = note.over {
                self.faults[first + number].to_s = self.seconds(over);
            }
        }
        let recovered = self.recover().map(|()| self.seconds(Instant::now()));
        if let Err(error) = &recovered {
            self.arena.stop.check()?;
            self.arena.findings.push(format!("{error:#}"));
        }
        for fault in &mut self.faults[first..] {
            fault.recovered_ms = recovered.as_ref().ok().map(|at| (at - fault.to_s) * 1000.0);
            self.progress.done(fault);
        }
        self.check_handlers()?;
        self.check_source()?;
        self.read_ledger()
    }

    /// Replaces dead nodes and waits until the fleet is well: all nodes are present, one generates,
    /// the backlog is gone, and every message is in one place.
    fn recover(&mut self) -> Result<()> {
        self.arena.count_heads()?;
        self.arena.fill()?;
        self.arena.wait_until_whole()?;
        let timeout = self.arena.settings.timeout;
        let deadline = Instant::now() + timeout;
        let mut before = None;
        loop {
            self.arena.count_heads()?;
            if let Some(ended) = self.arena.servers.ended() {
                bail!("{ended}");
            }
            let seen = self.arena.observer.snapshot();
            let trouble = match &seen {
                // The snapshot is atomic, so the books must balance at every moment.
                Ok(status) if !status.balanced => {
                    bail!("the books do not balance: {}", words(status));
                }
                Ok(status) => {
                    self.progress
                        .messages(status.published, status.done, status.failed);
                    let before = before.get_or_insert_with(|| published(status));
                    self.trouble(status, before)
                }
                Err(error) => Some(format!("{error:#}")),
            };
            let Some(trouble) = trouble else {
                return self.arena.end_failovers();
            };
            if Instant::now() > deadline {
                let status = seen.map_or_else(|error| format!("{error:#}"), |seen| words(&seen));
                bail!(
                    "did not settle within {timeout:?}: {trouble}; the last status: {status}; {}",
                    machine()
                );
            }
            self.arena.stop.pause_poll()?;
        }
    }

    /// The first thing that is not well yet.
    fn trouble(&mut self, status: &Snapshot, before: &[u64]) -> Option<String> {
        if let Some(trouble) = status.partition_troubles().into_iter().next() {
            return Some(trouble);
        }
        self.arena.hear();
        for node in self.arena.fleet.alive() {
            let node = &self.arena.nodes[node];
            let mut listed = status.nodes.iter();
            if !listed.any(|listed| listed.node == node.name && listed.role != NodeRole::Dead) {
                return Some(format!("{} is not here", node.label));
            }
        }
        let generator = status.generator.node.as_deref();
        if generator.and_then(|name| self.arena.named(name)).is_none() {
            return Some("no node generates".to_owned());
        }
        for (partition, (now, before)) in published(status).iter().zip(before).enumerate() {
            if now <= before {
                return Some(format!("nothing is published in partition {partition}"));
            }
        }
        let late = status.pending + status.claimed;
        (late > BACKLOG).then(|| format!("{late} messages have not ended"))
    }

    /// Checks the new entries of the ledger.
    fn read_ledger(&mut self) -> Result<()> {
        // A server that died may have forgotten the last entries, and so may a group.
        let forgets = !self.arena.server_deaths.is_empty() && !self.arena.settings.always;
        if forgets || !self.arena.failovers.is_empty() {
            self.ledger_checks.fill(LedgerCheck::default());
        }
        let read: Vec<usize> = self.ledger_checks.iter().map(|check| check.read).collect();
        let ledgers = self.arena.observer.ledgers_since(&read)?;
        let several = ledgers.len() > 1;
        for (partition, (check, entries)) in self.ledger_checks.iter_mut().zip(&ledgers).enumerate()
        {
            let named = check.check(entries).into_iter().map(|text| match several {
                true => format!("partition {partition}: {text}"),
                false => text,
            });
            self.arena.findings.extend(named);
        }
        Ok(())
    }

    /// Checks the effects and the processes of the handlers.
    fn check_handlers(&mut self) -> Result<()> {
        if self.arena.settings.handler == HandlerKind::Pretended {
            return Ok(());
        }
        let (counted, done) = self.arena.observer.effects()?;
        if counted != done {
            let finding = format!("{done} messages are done, their effects counted {counted}");
            self.arena.findings.push(finding);
        }
        // The zombie of a node is a supervisor that was killed. The node reaps it when it needs
        // another.
        let is_old = |of: &Found| match of.kind {
            process_scan::Kind::Node | process_scan::Kind::Source => false,
            process_scan::Kind::Zombie if self.arena.with_pid(of.parent).is_some() => false,
            process_scan::Kind::Zombie | process_scan::Kind::Command => of.age() > OLDEST_COMMAND,
        };
        let mut old = scan(&self.arena.mark());
        old.retain(is_old);
        let text = |old: Found| format!("{old} started more than {OLDEST_COMMAND:?} ago");
        self.arena.findings.extend(old.into_iter().map(text));
        Ok(())
    }

    /// Checks the stored cursor, and that no source of an earlier generator runs on.
    fn check_source(&mut self) -> Result<()> {
        if self.arena.settings.source == SourceKind::Random {
            return Ok(());
        }
        let stored = self.arena.observer.stored()?;
        self.arena.findings.extend(stored.check());
        let is_source = |of: &Found| of.kind == process_scan::Kind::Source;
        self.wait_until_few("beside the generator's source", 1, is_source)
    }

    /// Waits until the run has at most so many of these processes.
    fn wait_until_few(
        &mut self,
        when: &str,
        allowed: usize,
        counts: impl Fn(&Found) -> bool,
    ) -> Result<()> {
        let deadline = Instant::now() + LAST_PROCESSES;
        loop {
            let mut left = scan(&self.arena.mark());
            left.retain(&counts);
            if left.len() <= allowed {
                return Ok(());
            }
            if Instant::now() > deadline {
                let (first, more) = (left[0], left.len() - 1 - allowed);
                let text = format!("{first} is left {when}, and {more} more");
                self.arena.findings.push(text);
                return Ok(());
            }
            self.arena.stop.pause_poll()?;
        }
    }

    /// Lets every published message end, on nodes that publish nothing more, then drains the
    /// errors store. Returns the server's version.
    fn finish(&mut self) -> Result<String> {
        self.progress
            .say("stopping the generator, finishing what is left");
        self.stop_all()?;
        let made = self.made()?;
        for _ in 0..self.arena.settings.nodes {
            self.arena
                .start_node(&[("BATON_MESSAGES", made.to_string())])?;
        }
        let timeout = self.arena.settings.timeout;
        let deadline = Instant::now() + timeout;
        loop {
            self.arena.count_heads()?;
            let seen = self.arena.observer.snapshot();
            let is_at_rest = |status: &Snapshot| {
                let under_way = status.pending + status.claimed + status.delayed;
                under_way == 0 && status.partition_troubles().is_empty()
            };
            if seen.as_ref().is_ok_and(is_at_rest) {
                break;
            }
            if Instant::now() > deadline {
                let status = seen.map_or_else(|error| format!("{error:#}"), |seen| words(&seen));
                self.arena.findings.push(format!(
                    "not all ended within {timeout:?}; the last status: {status}"
                ));
                break;
            }
            self.arena.stop.pause_poll()?;
        }
        let is_command = |of: &Found| {
            !matches!(
                of.kind,
                process_scan::Kind::Node | process_scan::Kind::Source
            )
        };
        self.wait_until_few("after the last message", 0, is_command)?;
        self.stop_all()?;
        self.wait_until_few("after the last node", 0, |_| true)?;
        scan(&self.arena.mark()).iter().for_each(|left| {
            left.process.kill9();
        });
        let drain = self.arena.start_drain(&[])?;
        if !self.arena.wait_drain(drain)? {
            self.arena
                .findings
                .push("the last getErrors failed".to_owned());
        }
        Ok(self.arena.observer.snapshot()?.server.version)
    }

    /// How many messages the fleet has made. In a fleet of several partitions, the last numbers count void
    /// ones, too.
    fn made(&self) -> Result<u64> {
        match self.arena.settings.partitions {
            1 => Ok(self.arena.observer.snapshot()?.published),
            _ => Ok(self.arena.observer.stored()?.made),
        }
    }

    /// Asks all nodes to stop, and waits. A node that has not logged a line yet may not listen to
    /// signals yet, so it is waited for first.
    fn stop_all(&mut self) -> Result<()> {
        let nodes = self.arena.fleet.alive();
        for node in &nodes {
            self.arena.wait_joined(*node)?;
            self.arena.terminate(*node)?;
        }
        nodes
            .into_iter()
            .try_for_each(|node| self.arena.wait_stopped(node))
    }
}

/// The load of this machine, which may be why a fleet does not recover.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    match load.split_whitespace().next() {
        Some(load) => format!("the machine has a load of {load} on {cores} cores, see --patience"),
        None => format!("the machine has {cores} cores, see --patience"),
    }
}

/// How many messages each partition has published.
fn published(status: &Snapshot) -> Vec<u64> {
    match status.partitions.as_slice() {
        [] => vec![status.published],
        several => several.iter().map(|of| of.published).collect(),
    }
}

/// A snapshot on one line.
fn words(status: &Snapshot) -> String {
    let nodes: Vec<String> = status
        .nodes
        .iter()
        .filter(|node| node.role != NodeRole::Dead || node.claimed > 0)
        .map(|node| format!("{} {} holds {}", node.role, node.node, node.claimed))
        .collect();
    format!(
        "{} published, {} done, {} failed, {} pending, {} claimed, {} delayed, {} errors, \
         generator {:?} of epoch {}; {}",
        status.published,
        status.done,
        status.failed,
        status.pending,
        status.claimed,
        status.delayed,
        status.errors,
        status.generator.node,
        status.generator.epoch,
        nodes.join(", ")
    )
}

fn fault(kind: Kind) -> history::Fault {
    history::Fault {
        name: kind.facts().words.to_owned(),
        targets: Vec::new(),
        from_s: 0.0,
        to_s: 0.0,
        recovered_ms: None,
        note: String::new(),
    }
}
