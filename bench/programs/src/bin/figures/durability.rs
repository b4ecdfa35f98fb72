//! What a confirmation costs: a fleet at full speed on a master with two replicas, which asks for nothing
//! and for both replicas by turns.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use baton::Target;
use baton_bench::{Plan, ServerProbe, run};
use baton_figures::ServerProgram;
use baton_report::stats::Spread;
use baton_server::PrivateServer;

use crate::Rounds;
use crate::choice::Choice;
use crate::report::Report;

const REPLICAS: usize = 2;
/// How long the replicas may take until they follow.
const TIMEOUT: Duration = Duration::from_secs(20);
const LEVELS: [&str; 2] = ["none", "replicas:2"];
/// The least share of the rate without confirmations.
const GOAL: f64 = 0.85;
const MESSAGES: u64 = 1_000_000;
const QUICK_MESSAGES: u64 = 20_000;

pub(crate) fn at_full_speed(
    program: &Path,
    rounds: Rounds,
    choice: &Choice,
    report: &mut Report,
) -> Result<()> {
    for server in choice.servers()? {
        let master = server.start()?;
        let _replicas = follow(&server, &master)?;
        let target = Target::parse(&master.url())?;
        let version = ServerProbe::open(&target)?.version()?;
        let plan = |level: &str| Plan {
            program: program.to_owned(),
            target: target.clone(),
            env: vec![("REDIS_URL".to_owned(), master.url())],
            messages: match rounds.whole_sizes {
                true => MESSAGES,
                false => QUICK_MESSAGES,
            },
            size: 64,
            workers: 2,
            kills: 0,
            error_rate: 0.05,
            flags: vec!["--durability".to_owned(), level.to_owned()],
        };
        let mut rates = [Vec::new(), Vec::new()];
        for _ in 0..choice.runs.unwrap_or(rounds.size_runs) {
            for (level, rates) in LEVELS.iter().zip(&mut rates) {
                let run = run(&plan(level), |_| Ok(()))?;
                let findings = &run.audit.findings;
                ensure!(findings.is_empty(), "{level}: {findings:?}");
                rates.push(run.audit.published as f64 / run.seconds);
            }
        }
        let [none, confirmed] = &rates;
        let ratios = confirmed.iter().zip(none).map(|(a, b)| a / b);
        let (Some(ratio), Some(rate)) = (Spread::of(ratios), Spread::of(none.iter().copied()))
        else {
            continue;
        };
        let measured = format!(
            "{:.2} ({:.2}–{:.2}) of {:.0} /s",
            ratio.median, ratio.min, ratio.max, rate.median
        );
        let what = format!("{version}, 2 replicas: replicas:2 ÷ none, 64 B");
        report.add(&what, &measured, "≥ 0.85", ratio.median >= GOAL);
    }
    Ok(())
}

/// Starts replicas, and waits until they follow.
fn follow(server: &ServerProgram, master: &PrivateServer) -> Result<Vec<PrivateServer>> {
    let port = master.port().context("the master has no port")?;
    let replica = |_| server.start_replica(port);
    let replicas = (0..REPLICAS).map(replica).collect::<Result<_>>()?;
    let mut probe = ServerProbe::open(&Target::parse(&master.url())?)?;
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let info: String = redis::cmd("INFO").arg("replication").query(probe.redis())?;
        if info.matches("state=online").count() == REPLICAS {
            return Ok(replicas);
        }
        ensure!(Instant::now() < deadline, "the replicas do not follow");
        std::thread::sleep(Duration::from_millis(20));
    }
}
