//! How fast one generator publishes over one, two and three masters, and at how many masters it is the
//! ceiling of its fleet.
//!
//! A master is busy with a message from its publish to its commit, the generator with its publish alone.
//! So the quotient of both processor times is the number of masters that one generator keeps busy, if
//! each has a core of its own.

use std::path::Path;

use anyhow::{Context, Result};
use baton_print::thousands;
use baton_report::stats::Spread;

use super::bench_fleet::{BenchFleet, Used};
use super::server_group::ServerGroup;
use super::{MASTERS, NODES, PARTITIONS, TEXT_BYTES, in_words};
use crate::Rounds;
use crate::choice::Choice;
use crate::report::Report;

/// The rows of each server.
pub(crate) fn of_one_generator(
    program: &Path,
    rounds: Rounds,
    choice: &Choice,
    report: &mut Report,
) -> Result<()> {
    let messages = choice.messages.unwrap_or(rounds.partition_messages);
    let runs = choice.runs.unwrap_or(rounds.size_runs);
    for server in choice.servers()? {
        for masters in 1..=MASTERS {
            let mut group = ServerGroup::cluster(&server, masters)?;
            if masters == 1 {
                let head = format!(
                    "{}, {} × {TEXT_BYTES} B, P = {PARTITIONS}, {runs} runs",
                    group.version()?,
                    thousands(messages),
                );
                report.tell(&head, "");
            }
            let fleet = |workers| BenchFleet {
                program,
                partitions: PARTITIONS,
                messages,
                workers,
            };
            let (mut alone, mut whole) = (Vec::new(), Vec::new());
            for _ in 0..runs {
                alone.push(fleet(0).run(&mut group)?);
                whole.push(fleet(NODES - 1).run(&mut group)?);
            }
            let masters = match masters {
                1 => "1 master".to_owned(),
                masters => format!("{masters} masters"),
            };
            tell(&masters, &alone, &whole, report)?;
        }
    }
    Ok(())
}

fn tell(masters: &str, alone: &[Used], whole: &[Used], report: &mut Report) -> Result<()> {
    let spread =
        |runs: &[Used], part: fn(&Used) -> f64| Spread::of(runs.iter().map(part)).context("no run");
    let row = |runs: &[Used]| {
        anyhow::Ok(format!(
            "{:.0} /s, generator {} µs, masters {} µs",
            spread(runs, |used| used.per_second)?.median,
            in_words(&spread(runs, |used| used.generator_us)?),
            in_words(&spread(runs, |used| used.redis_us)?),
        ))
    };
    report.tell(
        &format!("  {masters}: one generator publishes, no worker"),
        &row(alone)?,
    );
    report.tell(
        &format!("  {masters}: the same with {} workers", NODES - 1),
        &row(whole)?,
    );
    let busy = spread(whole, |used| used.redis_us / used.generator_us)?;
    let most = 1.0 / spread(whole, |used| used.generator_us)?.median;
    report.tell(
        "    one core of a generator: at most, which keeps busy",
        &format!("{most:.1} million/s, {} masters", in_words(&busy)),
    );
    Ok(())
}
