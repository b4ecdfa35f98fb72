//! What a message costs in a fleet of 16 partitions over three masters, and what it costs in a fleet of
//! one partition on one server, by turns. The fleet of 16 partitions on one server says which part of the
//! difference the partitions are, and which part the cluster is.

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

/// Most of the cost of one partition on one server.
const MAX_REDIS: f64 = 1.15;
const MAX_CLIENT: f64 = 1.25;
/// The fleets that are compared: on one server or a cluster, and the number of partitions.
const FLEETS: [(Place, u32); 3] = [
    (Place::One, 1),
    (Place::Cluster, PARTITIONS),
    (Place::One, PARTITIONS),
];

#[derive(Clone, Copy)]
enum Place {
    One,
    Cluster,
}

impl Place {
    fn words(self) -> String {
        match self {
            Self::One => "one server".to_owned(),
            Self::Cluster => format!("{MASTERS} masters"),
        }
    }
}

/// The rows of each server.
pub(crate) fn per_message(
    program: &Path,
    rounds: Rounds,
    choice: &Choice,
    report: &mut Report,
) -> Result<()> {
    let messages = choice.messages.unwrap_or(rounds.partition_messages);
    for server in choice.servers()? {
        let mut one = ServerGroup::one(&server)?;
        let mut cluster = ServerGroup::cluster(&server, MASTERS)?;
        let mut used = FLEETS.map(|_| Vec::new());
        for round in 0..choice.runs.unwrap_or(rounds.size_runs) {
            // By turns, so that none always has the warmer machine.
            for step in 0..FLEETS.len() {
                let at = (round + step) % FLEETS.len();
                let (place, partitions) = FLEETS[at];
                let fleet = BenchFleet {
                    program,
                    partitions,
                    messages,
                    workers: NODES - 1,
                };
                let group = match place {
                    Place::One => &mut one,
                    Place::Cluster => &mut cluster,
                };
                used[at].push(fleet.run(group)?);
            }
        }
        let head = format!(
            "{}, {} × {TEXT_BYTES} B, {NODES} nodes, {} runs",
            one.version()?,
            thousands(messages),
            used[0].len()
        );
        report.tell(&head, "");
        add_rows(&used, report)?;
    }
    Ok(())
}

fn add_rows(used: &[Vec<Used>; 3], report: &mut Report) -> Result<()> {
    let spread = |fleet: &[Used], part: fn(&Used) -> f64| {
        Spread::of(fleet.iter().map(part)).context("no run")
    };
    for (fleet, (place, partitions)) in used.iter().zip(FLEETS) {
        let measured = format!(
            "Redis {} µs, nodes {} µs, {} thousand/s",
            in_words(&spread(fleet, |used| used.redis_us)?),
            in_words(&spread(fleet, |used| used.client_us)?),
            in_words(&spread(fleet, |used| used.per_second / 1e3)?)
        );
        let what = format!("  {}, P = {partitions}, per message", place.words());
        report.tell(&what, &measured);
    }
    let [base, cluster, one] = used;
    let ratio = |fleet: &[Used], part: fn(&Used) -> f64| {
        let pairs = fleet.iter().zip(base);
        let ratios = pairs.map(|(fleet, base)| part(fleet) / part(base));
        Spread::of(ratios).context("no run")
    };
    let redis = ratio(cluster, |used| used.redis_us)?;
    report.add(
        &format!("  {MASTERS} masters, P = {PARTITIONS} ÷ one server, P = 1: Redis CPU"),
        &in_words(&redis),
        "≤ 1.15",
        redis.median <= MAX_REDIS,
    );
    let client = ratio(cluster, |used| used.client_us)?;
    report.add(
        "  the same: CPU of all nodes",
        &in_words(&client),
        "≤ 1.25",
        client.median <= MAX_CLIENT,
    );
    let measured = format!(
        "Redis {}, nodes {}",
        in_words(&ratio(one, |used| used.redis_us)?),
        in_words(&ratio(one, |used| used.client_us)?)
    );
    let what = format!("  one server, P = {PARTITIONS} ÷ one server, P = 1");
    report.tell(&what, &measured);
    Ok(())
}
