//! One run of a fleet: generate, handle, audit.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use baton::FleetName;
use baton::inspect::Audit;
use baton_processes::Fleet;
use baton_protocol::{Ledger, Partitions};

use crate::timed_fleet::{Progress, TimedFleet, Usage};
use crate::{FleetProbe, Plan};

/// How long the fleet may rest before messages that have not ended count as lost.
const REST: Duration = Duration::from_secs(2);
/// Messages that are published to measure their memory.
const PENDING: u64 = 100_000;

/// A copy was killed with -9 and replaced.
#[derive(Debug, Clone)]
pub struct Kill {
    /// When, in seconds since the start.
    pub at: f64,
    /// Whether it was the generator.
    pub generator: bool,
}

/// The result of one run.
#[derive(Debug)]
pub struct Run {
    /// From the word *go* to the end of the audit.
    pub seconds: f64,
    /// The time of the audit, which is part of it.
    pub audit_seconds: f64,
    /// When it began, in µs on the clock of the server that has the fleet's control keys.
    pub began_us: u64,
    /// What the run used, audit included.
    pub usage: Usage,
    /// Processor time of the servers' main threads for the audit, which is part of it, in µs.
    pub audit_cpu_us: f64,
    /// The peak memory of all servers, in MB.
    pub server_mb: f64,
    /// The copies that were killed.
    pub kills: Vec<Kill>,
    /// What was published and what ended, in each partition.
    pub ledgers: Vec<Ledger>,
    /// What the audit of the ledgers found.
    pub audit: Audit,
}

/// The keys of a fleet. Dropping this removes them from all servers.
pub(crate) struct Cleared<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) name: &'a FleetName,
}

impl Drop for Cleared<'_> {
    fn drop(&mut self) {
        // If a server is gone, so are the keys.
        if let Ok(mut probe) = FleetProbe::open(&self.plan.target) {
            let _ = probe.remove(self.name, self.plan.kills > 0);
        }
    }
}

/// Runs a fleet once. `report` hears how far the run has come, and may end it with an error.
pub fn run(plan: &Plan, mut report: impl FnMut(Progress) -> Result<()>) -> Result<Run> {
    let name = crate::fresh_fleet()?;
    let mut probe = FleetProbe::open(&plan.target)?;
    let _cleared = Cleared { plan, name: &name };
    let fleet = fleet(plan, &name, plan.messages);
    let mut timed = TimedFleet::start(fleet, plan.workers + 1, |_| "go", &mut probe)?;
    let now_us = timed.probe.now_us(&name)?;
    let began_us = now_us.saturating_sub(timed.elapsed().as_micros() as u64);
    let shards = &timed.probe.shards(&name)?;
    let mut kills = Vec::new();
    let mut resting = None;
    let lost = timed.watch(
        |probe| {
            let (published, ended) = probe.sums(shards)?;
            let messages = plan.messages;
            Ok(Progress {
                messages,
                published,
                ended,
            })
        },
        |timed, now| {
            report(now)?;
            kill_if_due(plan, timed, now, &mut kills)?;
            // A fleet at rest with messages that have not ended has lost them.
            let rests = now.published == plan.messages && timed.probe.at_rest(shards)?;
            let since = rests.then(|| resting.unwrap_or(timed.elapsed()));
            resting = since;
            match since {
                Some(since) if timed.elapsed() - since > REST => bail!(AtRest),
                _ => Ok(()),
            }
        },
    );
    match lost {
        Err(error) if !error.is::<AtRest>() => return Err(error),
        _ => {}
    }
    let ended = timed.elapsed().as_secs_f64();
    let cpu_us = timed.probe.cpu_us()?;
    let (ledgers, audit) = audit(plan, &name)?;
    let seconds = timed.elapsed().as_secs_f64();
    let audit_cpu_us = timed.probe.cpu_us()? - cpu_us;
    Ok(Run {
        seconds,
        audit_seconds: seconds - ended,
        began_us,
        usage: timed.usage()?,
        audit_cpu_us,
        server_mb: timed.probe.memory()?.peak as f64 / 1e6,
        kills,
        ledgers,
        audit,
    })
}

/// The fleet is at rest, but not all messages have ended.
#[derive(Debug, thiserror::Error)]
#[error("messages are lost")]
struct AtRest;

pub(crate) fn fleet(plan: &Plan, name: &FleetName, messages: u64) -> Fleet {
    let mut args: Vec<String> = ["bench-node", "--fleet", &name.to_string()]
        .map(str::to_owned)
        .to_vec();
    for (flag, value) in [
        ("--interval", "0".to_owned()),
        ("--log", "json".to_owned()),
        ("--messages", messages.to_string()),
        ("--size", plan.size.to_string()),
        ("--error-rate", plan.error_rate.to_string()),
    ] {
        args.extend([flag.to_owned(), value]);
    }
    args.extend_from_slice(&plan.flags);
    Fleet::of(&plan.program, args).with_env(&plan.env)
}

/// Kills the generator and workers by turns, evenly over the run.
fn kill_if_due(
    plan: &Plan,
    timed: &mut TimedFleet,
    now: Progress,
    kills: &mut Vec<Kill>,
) -> Result<()> {
    let due = now.ended * (plan.kills as u64 + 2) / plan.messages.max(1);
    while (kills.len() as u64) < due.min(plan.kills as u64) {
        let alive = timed.fleet.alive();
        // A successor that has not logged its role is not known. A worker is killed instead.
        let generating = timed.fleet.generator().filter(|copy| alive.contains(copy));
        let generator = kills.len().is_multiple_of(2) && generating.is_some();
        let copy = match generator {
            true => generating,
            false => alive.into_iter().find(|copy| Some(*copy) != generating),
        };
        let Some(copy) = copy else { break };
        kills.push(Kill {
            at: timed.elapsed().as_secs_f64(),
            generator,
        });
        timed.replace(copy, "go")?;
    }
    Ok(())
}

pub(crate) fn audit(plan: &Plan, name: &FleetName) -> Result<(Vec<Ledger>, Audit)> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let node = baton_protocol::new_name();
        let (partitions, _) = Partitions::open(&plan.target, name, &node, None, |_| {}).await?;
        let ledgers = Ledger::read_all(&partitions).await?;
        let audit = baton_protocol::audit::audit_all(&partitions, &ledgers).await?;
        Ok((ledgers, audit))
    })
}

/// How many bytes of the servers' memory a message takes while it waits.
pub fn bytes_per_pending(plan: &Plan) -> Result<f64> {
    let name = crate::fresh_fleet()?;
    let mut probe = FleetProbe::open(&plan.target)?;
    let _cleared = Cleared { plan, name: &name };
    let messages = plan.messages.min(PENDING);
    let before = probe.memory()?.used;
    // A copy alone is the generator, so no message ends.
    let mut timed = TimedFleet::start(fleet(plan, &name, messages), 1, |_| "go", &mut probe)?;
    let shards = &timed.probe.shards(&name)?;
    timed
        .watch(
            |probe| {
                let (published, _) = probe.sums(shards)?;
                Ok(Progress {
                    messages,
                    published,
                    ended: published,
                })
            },
            |_, _| Ok(()),
        )
        .context("cannot measure the memory of pending messages")?;
    let after = timed.probe.memory()?.used;
    Ok(after.saturating_sub(before) as f64 / messages as f64)
}
