//! Messages that arrive all at once at idle processes: how long they take from the first publish to
//! the last commit. The server's own clock says it, so no poll of ours is part of the time.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use baton_processes::Info;
use baton_protocol::{Entry, Ledger};

use crate::run::{Cleared, audit, fleet};
use crate::{FleetProbe, Plan, ServerProbe, floor};

/// Longest wait for copies to be ready, and for a burst to end.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Pause between two probes. Few of them fall into a burst.
const PAUSE: Duration = Duration::from_millis(5);

/// A burst of the plan's messages at an idle fleet that has handled none before.
pub fn burst(plan: &Plan) -> Result<Duration> {
    let name = crate::fresh_fleet()?;
    let mut probe = FleetProbe::open(&plan.target)?;
    let _cleared = Cleared { plan, name: &name };
    let mut fleet = fleet(plan, &name, plan.messages);
    fleet.start_many(plan.workers + 1, TIMEOUT)?;
    let generator = fleet.wait_generator(TIMEOUT)?;
    let shards = probe.shards(&name)?;
    wait("idle workers", || probe.are_idle(&shards, plan.workers))?;
    fleet.say(generator, "go")?;
    wait("the burst to end", || {
        let (_, ended) = probe.sums(&shards)?;
        Ok(ended == plan.messages)
    })?;
    let (ledgers, audit) = audit(plan, &name)?;
    if let Some(finding) = audit.findings.first() {
        bail!("a burst of {}: {finding}", plan.messages);
    }
    duration(&ledgers)
}

/// The same burst through the unsafe queue.
pub fn floor_burst(plan: &Plan, batch: u64) -> Result<Duration> {
    let mut probe = ServerProbe::open(&plan.target)?;
    let (queue, mut fleet) = floor::fleet(plan, plan.messages, batch, true);
    fleet.start_many(plan.workers + 1, TIMEOUT)?;
    for consumer in 1..=plan.workers {
        fleet.say(consumer, "consume")?;
    }
    wait("idle consumers", || {
        let clients = Info::read(probe.redis(), "clients")?;
        Ok(clients.number("blocked_clients")? as usize >= plan.workers)
    })?;
    fleet.say(0, "produce")?;
    let mut times = Vec::new();
    wait("the unsafe queue's times", || {
        times = queue.times(&mut probe)?;
        let ended: u64 = times.iter().map(|time| time.ended).sum();
        Ok(ended == plan.messages && times.iter().any(|time| time.ended == 0))
    })?;
    // A consumer that lives on may write to a queue that was removed.
    drop(fleet);
    queue.remove(&mut probe)?;
    let began = times
        .iter()
        .filter(|time| time.ended == 0)
        .map(|time| time.at_us);
    let ended = times
        .iter()
        .filter(|time| time.ended > 0)
        .map(|time| time.at_us);
    between(began.min(), ended.max())
}

fn wait(what: &str, mut done: impl FnMut() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + TIMEOUT;
    while !done()? {
        ensure!(
            Instant::now() < deadline,
            "no sign of {what} within {TIMEOUT:?}"
        );
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// From the first publish of all ledgers to their last commit.
fn duration(ledgers: &[Ledger]) -> Result<Duration> {
    let is_publish = |entry: &&Entry| matches!(entry, Entry::Published { .. });
    let is_end = |entry: &&Entry| matches!(entry, Entry::Ended { .. });
    let entries = || ledgers.iter().flat_map(|ledger| &ledger.entries);
    let began = entries().filter(is_publish).map(Entry::at_us);
    let ended = entries().filter(is_end).map(Entry::at_us);
    between(began.min(), ended.max())
}

fn between(began_us: Option<u64>, ended_us: Option<u64>) -> Result<Duration> {
    let began = began_us.context("no message was published")?;
    let ended = ended_us.context("no message ended")?;
    Ok(Duration::from_micros(ended.saturating_sub(began)))
}
