//! The end of a run: collects all evidence, judges it, and puts the result into a history.

use std::collections::BTreeMap;
use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use baton_processes::Told;
use baton_protocol::{Census, Ledger};
use serde::Serialize;

use crate::arena::{Arena, Failover, Settings};
use crate::failover_check;
use crate::handlers::{Entry, HandlerKind};
use crate::history::{Fault, History};
use crate::lives;
use crate::message_trace::MessageTrace;
use crate::sources::SourceKind;
use crate::topology::{Level, Topology};
use crate::verdict::{
    Evidence, FleetEvidence, Judgement, Print, Violation, forgetful_death, judge_fleet,
};

/// Max findings in words; the others are only counted.
const NAMED: usize = 20;

/// Judges a fleet that is at rest and drained. `server` is the server's version; `asides` gets the
/// judgement, for what is allowed but unusual.
pub fn history(
    arena: &Arena,
    faults: Vec<Fault>,
    began: Instant,
    server: String,
    asides: impl FnOnce(&Judgement),
) -> Result<History> {
    let ledgers = arena.observer.ledgers_since(&[])?.into_iter();
    let ledgers: Vec<Ledger> = ledgers.map(|entries| Ledger { entries }).collect();
    let told = arena.fleet.told();
    let prints = arena.drains.told().into_iter().map(|told| Print {
        drain: told.copy,
        at: told.at,
        failed: told.line,
    });
    let prints: Vec<Print> = prints.collect();
    let drains: Vec<bool> = arena.drained.iter().map(|drain| drain.well).collect();
    let gone: Vec<_> = arena.nodes.iter().map(|node| node.gone).collect();
    let gone: Vec<_> = gone.iter().map(|gone| gone.map(|(at, _)| at)).collect();
    let known: Vec<Known> = Known::of_each(arena, &told, &prints)?;
    let counted = match arena.settings.handler {
        HandlerKind::Pretended => None,
        HandlerKind::Exec | HandlerKind::Push => Some(arena.observer.effects()?.0),
    };
    let besides = arena.shared.journal().into_iter();
    let besides = besides.filter_map(|entry| match entry {
        Entry::Beside(beside) => Some(beside),
        Entry::Hit => None,
    });
    let stored = match arena.settings.source {
        SourceKind::Random => None,
        SourceKind::Rows => Some(arena.observer.stored()?),
    };
    let partitions = known.iter().zip(&ledgers).map(|(known, ledger)| Evidence {
        partition: known.partition,
        ledger,
        census: &known.census,
        told: &known.told,
        prints: &known.prints,
        drains: &drains,
        forgetful: &known.forgetful,
        failovers: match arena.settings.topology {
            Topology::Single => None,
            Topology::Sentinel | Topology::Cluster => Some(failover_check::Evidence {
                level: arena.settings.level,
                ledger,
                told: &known.told,
                texts_are_exact: arena.settings.source == SourceKind::Random,
                gone: &gone,
                failovers: &known.failovers,
            }),
        },
    });
    let mut judgement = judge_fleet(&FleetEvidence {
        partitions: &partitions.collect::<Vec<_>>(),
        counted,
        besides: &besides.collect::<Vec<_>>(),
        stored,
        may_lose_rows: arena.settings.topology != Topology::Single
            && arena.settings.level == Level::None,
    });
    judgement.findings.extend(unplaced(arena, &told));
    asides(&judgement);
    let labels: Vec<String> = arena.nodes.iter().map(|node| node.label.clone()).collect();
    let trace = MessageTrace {
        began,
        labels: &labels,
        told: &told,
        prints: &prints,
        ledgers: &ledgers,
        faults: &faults,
    };
    let mut verdict = judgement.verdict.clone();
    // The judgement repeats findings of the ledger check, with more detail.
    let again = |text: &&String| judgement.findings.iter().any(|of| of.text == **text);
    let on_the_way = arena.findings.iter().filter(|found| !again(found));
    verdict.findings = on_the_way.cloned().collect();
    verdict.findings.extend(words(&judgement.findings, &trace));
    Ok(History {
        server,
        durability: durability(&arena.settings),
        seconds: began.elapsed().as_secs_f64(),
        lives: lives::lives(arena, &told, began),
        verdict,
        takeovers_ms: lives::takeovers_ms(arena, &told),
        recoveries_ms: lives::recoveries_ms(arena, &told),
        faults,
        ..History::default()
    })
}

/// What is known about one partition beside its ledger.
struct Known {
    /// `None` if the fleet has one partition only.
    partition: Option<u32>,
    census: Census,
    told: Vec<Told>,
    prints: Vec<Print>,
    failovers: Vec<Failover>,
    forgetful: Vec<RangeInclusive<Instant>>,
}

impl Known {
    fn of_each(arena: &Arena, told: &[Told], prints: &[Print]) -> Result<Vec<Self>> {
        let censuses = (0..).zip(arena.observer.census()?);
        let known = censuses.map(|(index, census)| {
            let partition = (arena.settings.partitions > 1).then_some(index);
            let told = told.iter().filter(|told| told.line.partition == partition);
            let prints = prints.iter();
            let prints = prints.filter(|print| print.failed.partition == partition);
            let failovers = arena.failovers.iter();
            let failovers = failovers.filter(|of| of.partitions.contains(&index));
            let failovers: Vec<Failover> = failovers.cloned().collect();
            Self {
                partition,
                census,
                told: told.cloned().collect(),
                prints: prints.cloned().collect(),
                forgetful: forgetful(arena, &failovers),
                failovers,
            }
        });
        Ok(known.collect())
    }
}

/// When servers may have forgotten what they had acknowledged.
fn forgetful(arena: &Arena, failovers: &[Failover]) -> Vec<RangeInclusive<Instant>> {
    let deaths: &[Instant] = match arena.settings.always {
        true => &[],
        false => &arena.server_deaths,
    };
    let deaths = deaths.iter().copied().map(forgetful_death);
    deaths.chain(failovers.iter().map(Failover::time)).collect()
}

/// The lines about messages that name no partition of the fleet.
fn unplaced(arena: &Arena, told: &[Told]) -> Vec<Violation> {
    let count = arena.settings.partitions;
    let is_placed = |told: &&Told| match told.line.partition {
        Some(partition) => count > 1 && partition < count,
        None => count == 1,
    };
    let about_messages = told.iter().filter(|told| told.event().messages().is_some());
    let wrong = about_messages.filter(|told| !is_placed(told));
    let violation = |told: &Told| Violation {
        partition: None,
        seq: 0,
        text: format!(
            "{} told of messages of partition {:?}; the fleet has {count}",
            arena.nodes[told.copy].label, told.line.partition
        ),
    };
    wrong.map(violation).collect()
}

fn durability(settings: &Settings) -> String {
    let fsync = match settings.always {
        true => "appendfsync always",
        false => "appendfsync everysec",
    };
    let mut words = match settings.topology.words() {
        None => fsync.to_owned(),
        Some(servers) => format!("{servers}, {fsync}, durability {}", settings.level),
    };
    if settings.partitions > 1 {
        words.push_str(&format!(", {} partitions", settings.partitions));
    }
    words
}

/// Writes the log of every process into a file: `server.log`, `node-3.log`, `getErrors-1.log`.
pub fn keep_logs(arena: &Arena, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    for (name, log) in arena.servers.logs() {
        fs::write(folder.join(format!("{name}.log")), log)?;
    }
    write_logs(folder, "node", &arena.fleet.told())?;
    write_logs(folder, "getErrors", &arena.drains.told())
}

/// Writes one file per copy.
fn write_logs<L: Serialize>(folder: &Path, who: &str, told: &[Told<L>]) -> Result<()> {
    let mut logs: BTreeMap<usize, String> = BTreeMap::new();
    for told in told {
        let log = logs.entry(told.copy).or_default();
        log.push_str(&serde_json::to_string(&told.line)?);
        log.push('\n');
    }
    for (copy, log) in logs {
        fs::write(folder.join(format!("{who}-{}.log", copy + 1)), log)?;
    }
    Ok(())
}

/// The first finding with the trace of its message, some more in words, the rest as a number.
fn words(findings: &[Violation], trace: &MessageTrace<'_>) -> Vec<String> {
    let mut words: Vec<String> = findings
        .iter()
        .take(NAMED)
        .map(|found| found.text.clone())
        .collect();
    if let Some(found) = findings.first()
        && found.seq > 0
    {
        let trace = trace.of(found.partition, found.seq);
        words[0] = format!("{}\n{trace}", found.text);
    }
    if findings.len() > NAMED {
        words.push(format!("and {} more", findings.len() - NAMED));
    }
    words
}
