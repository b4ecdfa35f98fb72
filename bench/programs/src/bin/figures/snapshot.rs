//! What looking at a large fleet costs the server: `baton top`, `baton web` and `/metrics` all
//! live on one snapshot per second.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use baton::{FleetName, Inspector, Target};
use baton_figures::{runtime, server};
use baton_processes::redis_cpu_us;
use baton_protocol::{Keys, Store, new_name};

use crate::Rounds;
use crate::report::{Report, ms, percentile, quartiles};

/// Snapshots between two looks at the clock.
const GROUP: usize = 5;
/// A script keeps everybody waiting for so long.
const GOAL_US: f64 = 5000.0;

pub(crate) fn cost(_: &Path, rounds: Rounds, report: &mut Report) -> Result<()> {
    runtime()?.block_on(measure(rounds, report))
}

async fn measure(rounds: Rounds, report: &mut Report) -> Result<()> {
    let server = server()?;
    let mut redis = redis::Client::open(server.url())?.get_connection()?;
    let (target, fleet) = (Target::parse(&server.url())?, FleetName::new("crowd")?);
    let crowd = rounds.crowd;
    seed(&mut redis, &Keys::new(&fleet), crowd)?;
    let store = Store::open(&target, &fleet, &new_name(), |_| {}).await?;
    // The first one sends the scripts.
    let snapshot = Inspector::over(store.clone()).snapshot().await?;
    let (nodes, claimed) = (snapshot.nodes.len(), snapshot.claimed);
    ensure!(
        (nodes, claimed) == (crowd, crowd as u64) && snapshot.balanced,
        "{nodes} nodes, {claimed} claimed"
    );
    let told = snapshot.nodes.iter().all(|node| node.latency.count() > 0);
    ensure!(told, "some nodes could not be read");

    let (mut costs, mut waits, mut pings) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds.messages / 10 {
        let began = redis_cpu_us(&mut redis)?;
        for _ in 0..GROUP {
            waits.push(
                timed(async || Inspector::over(store.clone()).snapshot().await.map(drop)).await?,
            );
        }
        costs.push((redis_cpu_us(&mut redis)? - began) / GROUP as f64);
        let began = Instant::now();
        redis::cmd("PING").exec(&mut redis)?;
        pings.push(began.elapsed());
    }
    let [low, median, high] = quartiles(&costs);
    report.add(
        &format!("a snapshot of {crowd} nodes with a claim each: Redis CPU"),
        &format!(
            "{:.2} ms ({:.2}–{:.2})",
            median / 1e3,
            low / 1e3,
            high / 1e3
        ),
        &format!("< {:.0} ms", GOAL_US / 1e3),
        median < GOAL_US,
    );
    let (wait, ping) = (percentile(&waits, 50), percentile(&pings, 50));
    let ratio = wait.as_secs_f64() / ping.as_secs_f64();
    report.tell(
        "  until it is read and put together",
        &format!("{:.1} ms, {ratio:.0} × a PING", ms(wait)),
    );
    Ok(())
}

async fn timed<E>(work: impl AsyncFnOnce() -> Result<(), E>) -> Result<Duration, E> {
    let began = Instant::now();
    work().await?;
    Ok(began.elapsed())
}

/// A fleet as its nodes would have written it: each one has beaten, and holds a message.
fn seed(redis: &mut redis::Connection, keys: &Keys, crowd: usize) -> Result<()> {
    const RUN: &str = "0123abcd";
    let mut seeds = redis::pipe();
    for n in 1..=crowd {
        let node = format!("n{n:09}");
        let about = format!(
            r#"{RUN} {{"host":"worker-{n}.example","pid":{n},"version":"0.1.0","published":0,"processed":{n}000,"failed":{n},"latency":{{"counts":[12345,23456,3456,4567,567,678,78,89,9,1],"sum_s":1234.567}}}}"#
        );
        let now_ms = 1_700_000_000_000 + n as u64;
        seeds.hset(&keys.nodes, &node, about).ignore();
        seeds.zadd(&keys.joined, &node, now_ms).ignore();
        seeds.zadd(&keys.seen, &node, now_ms).ignore();
        let (slot, claim) = (format!("{node}:0"), format!("m 1 {RUN} {n} 1 {n} {n} 0"));
        seeds.hset(&keys.claims, slot, claim).ignore();
    }
    seeds.hset(&keys.fence, "last", crowd).ignore();
    seeds.exec(redis)?;
    Ok(())
}
