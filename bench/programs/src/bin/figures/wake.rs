//! What it costs the server to wake one of many idle nodes.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use baton::{Effects, FleetName, Target};
use baton_figures::{TIMEOUT, runtime, server_programs};
use baton_processes::redis_cpu_us;
use baton_protocol::{
    Claim, ClaimCall, Commit, CommitCall, PackBuilder, Partitions, PublishCall, Ring, Seal, Slot,
    Store, new_name,
};
use baton_server::PrivateServer;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::Rounds;
use crate::report::{Report, quartiles};

const EPOCH: u64 = 1;
/// Messages between two readings of the server's clock.
const GROUP: usize = 25;
/// Idle nodes are watched for so many times this long.
const IDLE_SLICES: usize = 50;
const IDLE_SLICE: Duration = Duration::from_millis(100);
const GOAL_US: f64 = 100.0;

/// Wakes one of 1, 100, 400 and 1,000 idle nodes, on every server that this machine has.
pub(crate) fn cost(_: &Path, rounds: Rounds, report: &mut Report) -> Result<()> {
    for program in server_programs()? {
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        for nodes in [1, rounds.crowd / 10, rounds.crowd * 2 / 5, rounds.crowd] {
            let server = PrivateServer::builder().program(&program).start()?;
            let cost = runtime()?.block_on(measure(&server, nodes, rounds.messages / 50))?;
            let what = format!("{name}: waking one of {nodes} idle nodes, Redis CPU");
            let measured = format!("{cost:.0} µs");
            match nodes == rounds.crowd {
                true => report.add(&what, &measured, "≤ 100 µs", cost <= GOAL_US),
                false => report.tell(&what, &measured),
            }
        }
    }
    Ok(())
}

/// The server's processor time to wake a node, in µs: what a message costs whose node sleeps, less
/// what it costs if a lane claims it by itself, and less what nodes cost that only sleep.
async fn measure(server: &PrivateServer, nodes: usize, groups: usize) -> Result<f64> {
    let mut redis = redis::Client::open(server.url())?.get_connection()?;
    let (target, fleet) = (Target::parse(&server.url())?, FleetName::new("wake")?);
    let generator = Store::open(&target, &fleet, &new_name(), |_| {}).await?;
    let sealed = generator.seal(EPOCH).await?;
    ensure!(matches!(sealed, Seal::Sealed { .. }), "{sealed:?}");

    let store = Store::open(&target, &fleet, &new_name(), |_| {}).await?;
    let (slot, mut seq) = (Slot::new(store.node(), 0), 1);
    // The first message brings the scripts to the server.
    handle_next(&generator, &store, &slot, seq).await?;
    let awake = median_us(&mut redis, groups, async || {
        for _ in 0..GROUP {
            seq += 1;
            handle_next(&generator, &store, &slot, seq).await?;
        }
        Ok(())
    });
    let (awake, _) = awake.await?;

    let (sender, mut ends) = mpsc::unbounded_channel();
    let mut sleepers = JoinSet::new();
    for _ in 0..nodes {
        let node = new_name();
        let opened = Partitions::open(&target, &fleet, &node, Some(1), |_| {});
        let (partitions, rings) = opened.await?;
        let (ring, rung) = mpsc::unbounded_channel();
        rings.listen(move |heard| drop(ring.send(heard)));
        sleepers.spawn(work(partitions.control().clone(), rung, sender.clone()));
    }
    wait_until_asleep(&mut redis, &generator.keys().idle, nodes).await?;
    let asleep = median_us(&mut redis, IDLE_SLICES, async || {
        tokio::time::sleep(IDLE_SLICE).await;
        Ok(())
    });
    let (asleep, slice) = asleep.await?;

    let woken = median_us(&mut redis, groups, async || {
        for _ in 0..GROUP {
            seq += 1;
            publish(&generator, seq).await?;
            tokio::select! {
                ended = ends.recv() => ensure!(ended == Some(seq), "{ended:?} ended, not {seq}"),
                stopped = sleepers.join_next() => bail!("a sleeper stopped: {stopped:?}"),
                () = tokio::time::sleep(TIMEOUT) => bail!("no node woke up"),
            }
        }
        Ok(())
    });
    let (woken, took) = woken.await?;
    let asleep = asleep * took.as_secs_f64() / slice.as_secs_f64();
    Ok((woken - asleep - awake) / GROUP as f64)
}

/// Runs something a few times. Returns the median of the server's processor time, in µs, and how
/// long one run took on average.
async fn median_us(
    redis: &mut redis::Connection,
    runs: usize,
    mut run: impl AsyncFnMut() -> Result<()>,
) -> Result<(f64, Duration)> {
    let (mut costs, began) = (Vec::new(), Instant::now());
    for _ in 0..runs {
        let before = redis_cpu_us(redis)?;
        run().await?;
        costs.push(redis_cpu_us(redis)? - before);
    }
    let [_, median, _] = quartiles(&costs);
    Ok((median, began.elapsed() / u32::try_from(runs)?))
}

/// Publishes message `number`, claims it under the same number and commits it.
async fn handle_next(generator: &Store, store: &Store, slot: &Slot, number: u64) -> Result<()> {
    publish(generator, number).await?;
    let claim = store.claim(call(slot, number)).await?;
    ensure!(matches!(claim, Claim::Claimed { .. }), "{claim:?}");
    let effects = Effects::default();
    let answer = store.commit(slot, number, ended(number, &effects)).await?;
    ensure!(answer == Commit::Done, "{answer:?}");
    Ok(())
}

/// Waits until every node is idle.
async fn wait_until_asleep(redis: &mut redis::Connection, idle: &str, nodes: usize) -> Result<()> {
    let deadline = Instant::now() + TIMEOUT;
    while redis::cmd("ZCARD").arg(idle).query::<usize>(redis)? < nodes {
        ensure!(Instant::now() < deadline, "not all nodes fell asleep");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

async fn publish(generator: &Store, seq: u64) -> Result<()> {
    let mut pack = PackBuilder::default();
    pack.push(&[b'x'; 64]);
    let call = PublishCall {
        epoch: EPOCH,
        first: seq,
        count: 1,
        cursor: b"",
        made: None,
        max_pending: u64::MAX,
        digest: None,
        pack: &pack.finish(0, "0123456789", 1),
        stage: generator.new_stage(),
        is_staged: false,
        claim_ttl: Duration::from_secs(5),
    };
    let answer = generator.publish(call).await?;
    ensure!(answer.is_written(), "{answer:?}");
    Ok(())
}

/// A worker with one lane: it sleeps until the server rings or hands a message over, and commits it.
async fn work(
    store: Store,
    mut rings: mpsc::UnboundedReceiver<Ring>,
    ends: mpsc::UnboundedSender<u64>,
) -> Result<()> {
    let (own, effects) = (Slot::new(store.node(), 0), Effects::default());
    let handed_slot = Slot::handed(store.node());
    let mut number = 1;
    let mut claim = store.claim(call(&own, number)).await?;
    loop {
        let (slot, held_number, range) = match claim {
            Claim::Empty | Claim::Paused => {
                match rings.recv().await.context("no connection is left")?.handed {
                    Some(handed) => (&handed_slot, handed.number, handed.range),
                    None => {
                        claim = store.claim_awake(call(&own, number), 0).await?;
                        continue;
                    }
                }
            }
            Claim::Claimed { range, .. } => {
                number += 1;
                (&own, number - 1, range)
            }
            // A server that learns its scripts may have run the claim before the commit.
            Claim::Held { .. } => {
                claim = store.claim(call(&own, number)).await?;
                continue;
            }
            Claim::Stale => bail!("claim {number} is stale"),
        };
        let outcomes = ended(range.first, &effects);
        let next = call(&own, number);
        let answers = store
            .commit_and_claim(slot, held_number, outcomes, next)
            .await?;
        ensure!(matches!(answers.0, Ok(Commit::Done)), "{answers:?}");
        ends.send(range.first).context("the measuring has ended")?;
        claim = answers.1?;
    }
}

/// The commit of one message.
fn ended(seq: u64, effects: &Effects) -> CommitCall<'_> {
    CommitCall {
        delayed: &[],
        first: seq,
        last: seq,
        failed: &[],
        effects,
        max_errors: 0,
        digest: None,
    }
}

fn call(slot: &Slot, number: u64) -> ClaimCall<'_> {
    ClaimCall {
        slot,
        number,
        want: 1,
        ttl: TIMEOUT,
        alone: true,
    }
}
