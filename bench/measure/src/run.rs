//! One run of a fleet: generate, handle, audit.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use baton::FleetName;
use baton::inspect::Audit;
use baton_protocol::Store;
use baton_protocol::{Keys, Ledger};

use crate::race::{Progress, Race, Usage};
use crate::{Gauge, Plan};
use baton_processes::Fleet;

/// How long all may rest before messages that have not ended count as lost.
const REST: Duration = Duration::from_secs(2);
/// Messages that are published to see how much memory they take.
const PENDING: u64 = 100_000;

/// A copy was killed with -9 and replaced.
#[derive(Debug, Clone)]
pub struct Kill {
    /// When, in seconds since the start.
    pub at: f64,
    /// Whether it was the generator.
    pub generator: bool,
}

/// What one run was like.
#[derive(Debug)]
pub struct Run {
    /// From the word *go* until the audit was through.
    pub seconds: f64,
    /// How long the audit took, of that.
    pub audit_seconds: f64,
    /// When it began, in µs on the server's clock.
    pub began_us: u64,
    /// What was used.
    pub usage: Usage,
    /// The most memory that the server had allocated, in MB.
    pub server_mb: f64,
    /// Who was killed when.
    pub kills: Vec<Kill>,
    /// What was published and what ended.
    pub ledger: Ledger,
    /// Whether all is right.
    pub audit: Audit,
}

/// A fleet's keys; removed when this is dropped.
struct Cleared<'a> {
    plan: &'a Plan,
    keys: Keys,
}

impl Drop for Cleared<'_> {
    fn drop(&mut self) {
        // A server that is gone has nothing to clear.
        if let Ok(mut gauge) = Gauge::open(&self.plan.target) {
            let _ = gauge.remove(&self.keys);
        }
    }
}

/// Runs it once. `show` hears how far it has come and may end it with an error.
pub fn run(plan: &Plan, mut show: impl FnMut(Progress) -> Result<()>) -> Result<Run> {
    let name = crate::fresh_fleet()?;
    let mut gauge = Gauge::open(&plan.target)?;
    let cleared = Cleared {
        plan,
        keys: Keys::new(&name),
    };
    let keys = &cleared.keys;
    let fleet = fleet(plan, &name, plan.messages);
    let mut race = Race::start(fleet, plan.workers + 1, |_| "go", &mut gauge)?;
    let mut kills = Vec::new();
    let mut resting = None;
    let lost = race.watch(
        |gauge| {
            let (published, ended) = gauge.counts(keys)?;
            let messages = plan.messages;
            Ok(Progress {
                messages,
                published,
                ended,
            })
        },
        |race, now| {
            show(now)?;
            kill_if_due(plan, race, now, &mut kills)?;
            // Nothing waits and nobody works, but not all has ended: say so soon.
            let rests = now.published == plan.messages && race.gauge.at_rest(keys)?;
            let since = rests.then(|| resting.unwrap_or(race.elapsed()));
            resting = since;
            match since {
                Some(since) if race.elapsed() - since > REST => bail!(AtRest),
                _ => Ok(()),
            }
        },
    );
    match lost {
        Err(error) if !error.is::<AtRest>() => return Err(error),
        _ => {}
    }
    let ended = race.elapsed().as_secs_f64();
    let (ledger, audit) = audit(plan, &name)?;
    let seconds = race.elapsed().as_secs_f64();
    Ok(Run {
        seconds,
        audit_seconds: seconds - ended,
        began_us: race.began_us,
        usage: race.usage()?,
        server_mb: race.gauge.memory()?.peak as f64 / 1e6,
        kills,
        ledger,
        audit,
    })
}

/// All rests, but not all has ended.
#[derive(Debug, thiserror::Error)]
#[error("messages are lost")]
struct AtRest;

fn fleet(plan: &Plan, name: &FleetName, messages: u64) -> Fleet {
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
fn kill_if_due(plan: &Plan, race: &mut Race, now: Progress, kills: &mut Vec<Kill>) -> Result<()> {
    let due = now.ended * (plan.kills as u64 + 2) / plan.messages.max(1);
    while (kills.len() as u64) < due.min(plan.kills as u64) {
        let alive = race.fleet.alive();
        // A successor that has not told yet is not known yet; then it is a worker's turn.
        let generating = race.fleet.generator().filter(|copy| alive.contains(copy));
        let generator = kills.len().is_multiple_of(2) && generating.is_some();
        let copy = match generator {
            true => generating,
            false => alive.into_iter().find(|copy| Some(*copy) != generating),
        };
        let Some(copy) = copy else { break };
        kills.push(Kill {
            at: race.elapsed().as_secs_f64(),
            generator,
        });
        race.replace(copy, "go")?;
    }
    Ok(())
}

fn audit(plan: &Plan, name: &FleetName) -> Result<(Ledger, Audit)> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let store = Store::open(&plan.target, name, &baton_protocol::new_name(), |_| {}).await?;
        let ledger = Ledger::read(&store).await?;
        let audit = baton_protocol::audit::audit(&store, &ledger).await?;
        Ok((ledger, audit))
    })
}

/// How many bytes of the server's memory a message takes while it waits.
pub fn bytes_per_pending(plan: &Plan) -> Result<f64> {
    let name = crate::fresh_fleet()?;
    let mut gauge = Gauge::open(&plan.target)?;
    let cleared = Cleared {
        plan,
        keys: Keys::new(&name),
    };
    let messages = plan.messages.min(PENDING);
    let before = gauge.memory()?.used;
    // Alone it generates, and nobody works.
    let mut race = Race::start(fleet(plan, &name, messages), 1, |_| "go", &mut gauge)?;
    race.watch(
        |gauge| {
            let (published, _) = gauge.counts(&cleared.keys)?;
            Ok(Progress {
                messages,
                published,
                ended: published,
            })
        },
        |_, _| Ok(()),
    )
    .context("cannot measure the memory of pending messages")?;
    let after = race.gauge.memory()?.used;
    Ok(after.saturating_sub(before) as f64 / messages as f64)
}
