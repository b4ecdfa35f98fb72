//! The end of a run: collects all evidence, judges it, and puts the result into a history.

use std::collections::BTreeMap;
use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use baton_processes::Told;
use baton_protocol::Ledger;
use serde::Serialize;

use crate::arena::{Arena, Failover, Settings};
use crate::failover_check;
use crate::handlers::{Entry, HandlerKind};
use crate::history::{Fault, History};
use crate::lives;
use crate::message_trace::MessageTrace;
use crate::sources::SourceKind;
use crate::topology::Topology;
use crate::verdict::{Evidence, Judgement, Print, forgetful_death, judge};

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
    let ledger = Ledger {
        entries: arena.observer.ledger_since(0)?,
    };
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
    let failovers = failover_check::Evidence {
        level: arena.settings.level,
        ledger: &ledger,
        told: &told,
        gone: &gone,
        failovers: &arena.failovers,
    };
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
    let judgement = judge(&Evidence {
        ledger: &ledger,
        census: &arena.observer.census()?,
        told: &told,
        prints: &prints,
        drains: &drains,
        forgetful: &forgetful(arena),
        failovers: match arena.settings.topology {
            Topology::Single => None,
            Topology::Sentinel => Some(failovers),
        },
        counted,
        besides: &besides.collect::<Vec<_>>(),
        stored,
    });
    asides(&judgement);
    let labels: Vec<String> = arena.nodes.iter().map(|node| node.label.clone()).collect();
    let trace = MessageTrace {
        began,
        labels: &labels,
        told: &told,
        prints: &prints,
        ledger: &ledger,
        faults: &faults,
    };
    let mut verdict = judgement.verdict.clone();
    // The judgement repeats findings of the ledger check, with more detail.
    let again = |found: &&String| judgement.findings.iter().any(|(_, text)| text == *found);
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

/// When servers may have forgotten what they had acknowledged.
fn forgetful(arena: &Arena) -> Vec<RangeInclusive<Instant>> {
    let deaths: &[Instant] = match arena.settings.always {
        true => &[],
        false => &arena.server_deaths,
    };
    let deaths = deaths.iter().copied().map(forgetful_death);
    deaths
        .chain(arena.failovers.iter().map(Failover::time))
        .collect()
}

fn durability(settings: &Settings) -> String {
    let fsync = match settings.always {
        true => "appendfsync always",
        false => "appendfsync everysec",
    };
    match settings.topology {
        Topology::Single => fsync.to_owned(),
        Topology::Sentinel => format!(
            "1 master, 2 replicas, 3 Sentinels, {fsync}, durability {}",
            settings.level
        ),
    }
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
fn words(findings: &[(u64, String)], trace: &MessageTrace<'_>) -> Vec<String> {
    let mut words: Vec<String> = findings
        .iter()
        .take(NAMED)
        .map(|(_, text)| text.clone())
        .collect();
    if let Some((seq, text)) = findings.first()
        && *seq > 0
    {
        words[0] = format!("{text}\n{}", trace.of(*seq));
    }
    if findings.len() > NAMED {
        words.push(format!("and {} more", findings.len() - NAMED));
    }
    words
}
