//! The end of a run: all evidence is collected, judged, and kept in a record.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use baton::inspect::Snapshot;
use baton_processes::Told;
use baton_protocol::Census;
use baton_protocol::Ledger;
use serde::Serialize;

use crate::history::{Fault, History};
use crate::lanes;
use crate::stage::Stage;
use crate::story::Story;
use crate::verdict::{Evidence, Judgement, Print, judge};

/// Findings that are told in words; the others are counted.
const NAMED: usize = 20;

/// Judges a fleet that is at rest, with all failed messages taken. `asides` hears what is
/// allowed and still worth a word.
pub fn record(
    stage: &Stage,
    faults: Vec<Fault>,
    began: Instant,
    status: &Snapshot,
    asides: impl FnOnce(&Judgement),
) -> Result<History> {
    let ledger = Ledger {
        entries: stage.eye.ledger_since(0)?,
    };
    let told = stage.fleet.told();
    let prints = stage.drains.told().into_iter().map(|told| Print {
        drain: told.copy,
        at: told.at,
        failed: told.line,
    });
    let prints: Vec<Print> = prints.collect();
    let drains: Vec<bool> = stage.drained.iter().map(|drain| drain.well).collect();
    let forgetful_deaths = match stage.settings.always {
        true => &[][..],
        false => &stage.server_deaths,
    };
    let judgement = judge(&Evidence {
        ledger: &ledger,
        census: &census(status),
        told: &told,
        prints: &prints,
        drains: &drains,
        forgetful_deaths,
    });
    asides(&judgement);
    let labels: Vec<String> = stage.nodes.iter().map(|node| node.label.clone()).collect();
    let story = Story {
        began,
        labels: &labels,
        told: &told,
        prints: &prints,
        ledger: &ledger,
        faults: &faults,
    };
    let mut verdict = judgement.verdict.clone();
    // What was seen on the way is seen again, and better, at the end.
    let again = |found: &&String| judgement.findings.iter().any(|(_, text)| text == *found);
    let on_the_way = stage.findings.iter().filter(|found| !again(found));
    verdict.findings = on_the_way.cloned().collect();
    verdict.findings.extend(words(&judgement.findings, &story));
    Ok(History {
        server: status.server.version.clone(),
        durability: match stage.settings.always {
            true => "appendfsync always".to_owned(),
            false => "appendfsync everysec".to_owned(),
        },
        seconds: began.elapsed().as_secs_f64(),
        lives: lanes::lanes(stage, &told, began),
        verdict,
        takeovers_ms: lanes::takeovers_ms(stage, &told),
        recoveries_ms: lanes::recoveries_ms(stage, &told),
        faults,
        ..History::default()
    })
}

/// Keeps what everybody logged, a file each: `server.log`, `node-3.log`, `getErrors-1.log`.
pub fn keep_logs(stage: &Stage, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join("server.log"), stage.server.log())?;
    write_logs(folder, "node", &stage.fleet.told())?;
    write_logs(folder, "getErrors", &stage.drains.told())
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

/// The first finding with its message's story, the next by name, the others by number.
fn words(findings: &[(u64, String)], story: &Story<'_>) -> Vec<String> {
    let mut words: Vec<String> = findings
        .iter()
        .take(NAMED)
        .map(|(_, text)| text.clone())
        .collect();
    if let Some((seq, text)) = findings.first()
        && *seq > 0
    {
        words[0] = format!("{text}\n{}", story.of(*seq));
    }
    if findings.len() > NAMED {
        words.push(format!("and {} more", findings.len() - NAMED));
    }
    words
}

fn census(status: &Snapshot) -> Census {
    Census {
        published: status.published,
        done: status.done,
        failed: status.failed,
        pending: status.pending,
        claimed: status.claimed,
        errors: status.errors,
        foreign: status.foreign,
        retried: status.retried,
        counted: status.counted,
        now_ms: status.now_ms,
        ..Census::default()
    }
}
