//! Messages that arrive all at once at an idle fleet of three nodes, beside the unsafe queue: from
//! the first publish to the last commit, on the server's clock.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use baton::Target;
use baton_bench::floor::batch_sizes;
use baton_bench::{Plan, ServerProbe, burst, floor_burst};

use crate::Rounds;
use crate::choice::Choice;
use crate::report::{Report, ms, percentile};

/// Messages of a burst.
const BURSTS: [u64; 5] = [1, 10, 100, 1000, 10_000];
const QUICK_BURSTS: [u64; 2] = [1, 1000];
/// From so many messages on there is a goal.
const JUDGED: u64 = 100;
const MAX_RATIO: f64 = 1.2;
/// Rounds of each batch size of the unsafe queue, to find the fastest.
const TRIES: usize = 5;

pub(crate) fn at_an_idle_fleet(
    program: &Path,
    rounds: Rounds,
    choice: &Choice,
    report: &mut Report,
) -> Result<()> {
    let bursts = if rounds.whole_sizes {
        &BURSTS[..]
    } else {
        &QUICK_BURSTS
    };
    for server in choice.servers()? {
        let server = server.start()?;
        let target = Target::parse(&server.url())?;
        let version = ServerProbe::open(&target)?.version()?;
        for &messages in bursts {
            let plan = Plan {
                program: program.to_owned(),
                target: target.clone(),
                env: vec![("REDIS_URL".to_owned(), server.url())],
                messages,
                size: choice
                    .text
                    .as_ref()
                    .and_then(|text| text.first().copied())
                    .unwrap_or(64),
                workers: 2,
                kills: 0,
                error_rate: 0.05,
                flags: Vec::new(),
            };
            let rounds = choice.runs.unwrap_or(rounds.bursts);
            measure(&plan, rounds, &version, report)?;
        }
    }
    Ok(())
}

fn measure(plan: &Plan, rounds: usize, version: &str, report: &mut Report) -> Result<()> {
    let batch = fastest_batch(plan, rounds)?;
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        ours.push(burst(plan)?);
        floor.push(floor_burst(plan, batch)?);
    }
    let [p50, floor_p50] = [&ours, &floor].map(|times| ms(percentile(times, 50)));
    let [p95, floor_p95] = [&ours, &floor].map(|times| ms(percentile(times, 95)));
    let ratio = p50 / floor_p50;
    let what = format!(
        "{version}: {} messages at once, p50 (p95) of {rounds}",
        plan.messages
    );
    let measured = format!("{p50:.2} ({p95:.2}) ms = {ratio:.2} × {floor_p50:.2} ({floor_p95:.2})");
    match plan.messages >= JUDGED {
        true => report.add(&what, &measured, "≤ 1.2 × unsafe queue", ratio <= MAX_RATIO),
        false => report.tell(&what, &measured),
    }
    Ok(())
}

/// The batch size at which the unsafe queue ends such a burst first.
fn fastest_batch(plan: &Plan, rounds: usize) -> Result<u64> {
    let mut sizes = batch_sizes(plan.size);
    let smallest = sizes.first().copied().unwrap_or(1);
    sizes.retain(|size| *size <= plan.messages);
    if sizes.len() < 2 {
        return Ok(smallest);
    }
    let mut best = (Duration::MAX, smallest);
    for batch in sizes {
        let times = (0..TRIES.min(rounds)).map(|_| floor_burst(plan, batch));
        let times: Vec<Duration> = times.collect::<Result<_>>()?;
        best = best.min((percentile(&times, 50), batch));
    }
    Ok(best.1)
}
