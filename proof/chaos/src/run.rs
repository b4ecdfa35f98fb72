//! One run: a fleet at work, fault after fault, and what became of every message.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use baton::inspect::{NodeRole, Snapshot};

use crate::books::Books;
use crate::faults::{self, Fault, Note};
use crate::history::{self, History};
use crate::outcome;
use crate::plan::{Kind, Plan, Planned, Step};
use crate::show::Show;
use crate::stage::{Settings, Stage};
use crate::stop::Stop;
use crate::verdict::Judgement;

/// Messages that may wait, or be in hand, in a fleet that has caught up.
const BACKLOG: u64 = 40;

/// How long a run goes on.
#[derive(Debug, Clone, Copy)]
pub enum Length {
    /// Until this time has passed.
    Time(Duration),
    /// Until so many faults have been.
    Faults(usize),
}

struct Run<'a> {
    stage: Stage,
    books: Books,
    faults: Vec<history::Fault>,
    began: Instant,
    show: &'a mut Show,
}

/// Runs a plan to its end and judges. All logs are kept in a folder, if there is one.
pub fn run(
    plan: Plan,
    length: Length,
    settings: Settings,
    stop: Stop,
    logs: Option<&Path>,
    show: &mut Show,
) -> Result<History> {
    let mut run = Run {
        stage: Stage::new(settings, stop)?,
        books: Books::default(),
        faults: Vec::new(),
        began: Instant::now(),
        show,
    };
    if let Err(error) = run.settle() {
        run.stage.stop.check()?;
        let finding = format!("the fleet does not come to life: {error:#}");
        run.stage.findings.push(finding);
    }
    for step in plan {
        let over = match length {
            Length::Time(time) => run.began.elapsed() >= time,
            Length::Faults(most) => run.faults.len() >= most,
        };
        // A fleet that is broken once would only be found broken again.
        if over || run.stage.stop.asked() || !run.stage.findings.is_empty() {
            break;
        }
        run.step(&step)?;
    }
    let finished = run.finish();
    if let Some(folder) = logs {
        outcome::keep_logs(&run.stage, folder)?;
    }
    let status = finished?;
    let asides = |judgement: &Judgement| run.show.asides(judgement);
    outcome::record(&run.stage, run.faults, run.began, &status, asides)
}

impl Run<'_> {
    fn seconds(&self, at: Instant) -> f64 {
        at.saturating_duration_since(self.began).as_secs_f64()
    }

    /// Faults one by one, or two at once, each lifted in its time; then the fleet recovers.
    fn step(&mut self, step: &Step) -> Result<()> {
        let possible =
            |planned: &&Planned| faults::why_not(planned.kind, &self.stage.settings).is_none();
        let planned: Vec<&Planned> = step.faults.iter().filter(possible).collect();
        if planned.is_empty() {
            return Ok(());
        }
        self.show.calm(self.began.elapsed().as_secs_f64());
        self.stage.stop.wait(step.calm);
        if self.stage.stop.asked() {
            return Ok(());
        }
        self.stage.crowded = planned.len() > 1;
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
        // Lifting what lasts no time comes after hurting: the sort keeps the order.
        acts.sort_by_key(|(at, ..)| *at);
        let began = Instant::now();
        for (at, number, inject) in acts {
            let left = at.saturating_sub(began.elapsed());
            self.stage.stop.wait(left);
            self.stage.stop.check()?;
            let (fault, note) = &mut faults[number];
            let now = self.seconds(Instant::now());
            if inject {
                self.show.doing(now, planned[number].kind);
                self.faults[first + number].from_s = now;
                if let Err(error) = fault.inject(&mut self.stage, note) {
                    note.text = format!("not done: {error:#}");
                }
            } else {
                fault.lift(&mut self.stage, note)?;
                self.faults[first + number].to_s = self.seconds(Instant::now());
            }
        }
        for (fault, note) in &mut faults {
            fault.finish(&mut self.stage, note)?;
        }
        for (number, (_, note)) in faults.into_iter().enumerate() {
            self.faults[first + number].targets = note.targets;
            self.faults[first + number].note = note.text;
            if let Some(over) = note.over {
                self.faults[first + number].to_s = self.seconds(over);
            }
        }
        let settled = self.settle().map(|()| self.seconds(Instant::now()));
        if let Err(error) = &settled {
            self.stage.stop.check()?;
            self.stage.findings.push(format!("{error:#}"));
        }
        for fault in &mut self.faults[first..] {
            fault.settled_ms = settled.as_ref().ok().map(|at| (at - fault.to_s) * 1000.0);
            self.show.done(fault);
        }
        self.read_ledger()
    }

    /// Replaces the dead and waits until the fleet is well: all are here, one generates, what
    /// was late is caught up with, every message is in one place.
    fn settle(&mut self) -> Result<()> {
        self.stage.count_heads()?;
        self.stage.fill()?;
        let patience = self.stage.settings.patience;
        let deadline = Instant::now() + patience;
        let mut before = None;
        loop {
            self.stage.count_heads()?;
            if !self.stage.server.is_running() {
                bail!(
                    "the server ended by itself; its log: {}",
                    self.stage.server.log()
                );
            }
            let seen = self.stage.eye.status();
            let trouble = match &seen {
                // Counted in one step: not even for a moment may that be.
                Ok(status) if !status.balanced => {
                    bail!("the books do not balance: {}", words(status));
                }
                Ok(status) => {
                    self.show
                        .messages(status.published, status.done, status.failed);
                    let before = *before.get_or_insert(status.published);
                    self.trouble(status, before)
                }
                Err(error) => Some(format!("{error:#}")),
            };
            let Some(trouble) = trouble else {
                return Ok(());
            };
            if Instant::now() > deadline {
                let status = seen.map_or_else(|error| format!("{error:#}"), |seen| words(&seen));
                bail!(
                    "did not settle within {patience:?}: {trouble}; the last status: {status}; {}",
                    machine()
                );
            }
            self.stage.stop.look_again()?;
        }
    }

    /// What is not well yet.
    fn trouble(&mut self, status: &Snapshot, before: u64) -> Option<String> {
        self.stage.hear();
        for node in self.stage.fleet.alive() {
            let node = &self.stage.nodes[node];
            let mut listed = status.nodes.iter();
            if !listed.any(|listed| listed.node == node.name && listed.role != NodeRole::Dead) {
                return Some(format!("{} is not here", node.label));
            }
        }
        let generator = status.generator.node.as_deref();
        if generator.and_then(|name| self.stage.named(name)).is_none() {
            return Some("nobody generates".to_owned());
        }
        if status.published <= before {
            return Some("nothing is published".to_owned());
        }
        let late = status.pending + status.claimed;
        (late > BACKLOG).then(|| format!("{late} messages have not ended"))
    }

    /// Looks for what is wrong already.
    fn read_ledger(&mut self) -> Result<()> {
        // A server that died may have forgotten the last entries.
        if !self.stage.server_deaths.is_empty() && !self.stage.settings.always {
            self.books = Books::default();
        }
        let entries = self.stage.eye.ledger_since(self.books.read)?;
        let findings = self.books.take(&entries);
        self.stage.findings.extend(findings);
        Ok(())
    }

    /// Lets all that was published come to its end: nodes that generate nothing more, then a
    /// last drain.
    fn finish(&mut self) -> Result<Snapshot> {
        self.show
            .say("stopping the generator, finishing what is left");
        self.stop_all()?;
        let published = self.stage.eye.status()?.published;
        for _ in 0..self.stage.settings.nodes {
            self.stage
                .start_node(&[("BATON_MESSAGES", published.to_string())])?;
        }
        let patience = self.stage.settings.patience;
        let deadline = Instant::now() + patience;
        loop {
            self.stage.count_heads()?;
            let seen = self.stage.eye.status();
            if seen
                .as_ref()
                .is_ok_and(|status| status.pending + status.claimed == 0)
            {
                break;
            }
            if Instant::now() > deadline {
                let status = seen.map_or_else(|error| format!("{error:#}"), |seen| words(&seen));
                self.stage.findings.push(format!(
                    "not all ended within {patience:?}; the last status: {status}"
                ));
                break;
            }
            self.stage.stop.look_again()?;
        }
        self.stop_all()?;
        let drain = self.stage.start_drain(&[])?;
        if !self.stage.wait_drain(drain)? {
            self.stage
                .findings
                .push("the last getErrors failed".to_owned());
        }
        self.stage.eye.status()
    }

    /// Asks all nodes to stop, and waits. One that has not said a word yet may not have come
    /// to listen to signals.
    fn stop_all(&mut self) -> Result<()> {
        let nodes = self.stage.fleet.alive();
        for node in &nodes {
            self.stage.wait_joined(*node)?;
            self.stage.terminate(*node)?;
        }
        nodes
            .into_iter()
            .try_for_each(|node| self.stage.wait_stopped(node))
    }
}

/// How busy this machine is: what does not settle may be its fault.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    match load.split_whitespace().next() {
        Some(load) => format!("the machine has a load of {load} on {cores} cores, see --patience"),
        None => format!("the machine has {cores} cores, see --patience"),
    }
}

/// A status in a line.
fn words(status: &Snapshot) -> String {
    let nodes: Vec<String> = status
        .nodes
        .iter()
        .filter(|node| node.role != NodeRole::Dead || node.claimed > 0)
        .map(|node| format!("{} {} holds {}", node.role, node.node, node.claimed))
        .collect();
    format!(
        "{} published, {} done, {} failed, {} pending, {} claimed, {} errors, generator {:?} of \
         epoch {}; {}",
        status.published,
        status.done,
        status.failed,
        status.pending,
        status.claimed,
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
        settled_ms: None,
        note: String::new(),
    }
}
