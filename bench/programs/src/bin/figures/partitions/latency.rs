//! From the making of a message to the start of its handler, in a fleet of 16 partitions over three masters
//! and in a fleet of one partition on one server, each beside the PING round trip to its servers.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use baton::{Effects, FleetName, Handler, HandlerError, Message, Node, Target, interval};
use baton_figures::{TIMEOUT, runtime};
use tokio::sync::watch;

use super::server_group::ServerGroup;
use super::{MASTERS, NODES, PARTITIONS, TEXT_BYTES};
use crate::Rounds;
use crate::choice::Choice;
use crate::report::{Report, ms, percentile};

/// Time between two messages.
const INTERVAL: Duration = Duration::from_millis(5);
/// Between two PINGs, so that the server sleeps before each.
const PAUSE: Duration = Duration::from_millis(7);
/// So many messages are not measured: the first ones find lanes that have not looked everywhere yet.
const WARM_UP: usize = 2 * PARTITIONS as usize;
const MAX_RATIO: f64 = 3.0;
const MAX_P99: Duration = Duration::from_millis(60);

/// When each message was made, and how long it took to its handler.
#[derive(Default)]
struct Times {
    made: HashMap<u64, Instant>,
    took: Vec<Duration>,
}

#[derive(Clone, Default)]
struct Stopwatch(Arc<Mutex<Times>>);

impl Stopwatch {
    fn lock(&self) -> MutexGuard<'_, Times> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Handler for Stopwatch {
    async fn handle(&self, message: Message<'_>, _: &mut Effects) -> Result<(), HandlerError> {
        let now = Instant::now();
        // Sequence numbers count in their partition: the text says which message of the source it is.
        let number = message.text.first_chunk().map(|n| u64::from_le_bytes(*n));
        let mut times = self.lock();
        if let Some(made) = number.and_then(|number| times.made.remove(&number)) {
            times.took.push(now - made);
        }
        Ok(())
    }
}

/// Four rows for each server.
pub(crate) fn publish_to_handler(
    _: &Path,
    rounds: Rounds,
    choice: &Choice,
    report: &mut Report,
) -> Result<()> {
    for server in choice.servers()? {
        let mut one = ServerGroup::one(&server)?;
        let head = format!(
            "{}, {NODES} nodes, a message of {TEXT_BYTES} B every {} ms: made → handler",
            one.version()?,
            INTERVAL.as_millis()
        );
        report.tell(&head, "");
        let what = "  one server, P = 1";
        measure(&one, 1, rounds, what, report)?;
        drop(one);
        let cluster = ServerGroup::cluster(&server, MASTERS)?;
        let what = format!("  {MASTERS} masters, P = {PARTITIONS}");
        measure(&cluster, PARTITIONS, rounds, &what, report)?;
    }
    Ok(())
}

/// Runs nodes, each on a thread of its own, and measures PING between the messages.
fn measure(
    group: &ServerGroup,
    partitions: u32,
    rounds: Rounds,
    what: &str,
    report: &mut Report,
) -> Result<()> {
    let stopwatch = Stopwatch::default();
    let (stop, _) = watch::channel(false);
    let nodes: Vec<_> = (0..NODES)
        .map(|_| start(group.url(), partitions, stopwatch.clone(), stop.subscribe()))
        .collect();
    let wanted = WARM_UP + rounds.messages;
    let deadline = Instant::now() + TIMEOUT;
    let pings = measure_pings(group, || {
        stopwatch.lock().took.len() < wanted && Instant::now() < deadline
    });
    stop.send_replace(true);
    for node in nodes {
        node.join().map_err(|_| anyhow!("a node panicked"))??;
    }
    let took = stopwatch.lock().took.clone();
    let took = took.get(WARM_UP..).unwrap_or_default();
    let (ping, p50, p99) = (
        percentile(&pings?, 50),
        percentile(took, 50),
        percentile(took, 99),
    );
    let ratio = ms(p50) / ms(ping);
    report.add(
        what,
        &format!(
            "p50 {:.3} ms = {ratio:.1} × PING {:.3} ms",
            ms(p50),
            ms(ping)
        ),
        "p50 ≤ 3 × PING",
        ratio <= MAX_RATIO && took.len() >= rounds.messages,
    );
    let most = percentile(took, 100);
    report.add(
        "",
        &format!(
            "p99 {:.2}, most {:.2} ms of {}",
            ms(p99),
            ms(most),
            took.len()
        ),
        "p99 ≤ 60 ms",
        p99 <= MAX_P99,
    );
    Ok(())
}

fn start(
    url: String,
    partitions: u32,
    stopwatch: Stopwatch,
    mut stop: watch::Receiver<bool>,
) -> JoinHandle<Result<()>> {
    std::thread::spawn(move || {
        let made = stopwatch.clone();
        let source = interval(INTERVAL, move |number, text| {
            text.extend_from_slice(&number.to_le_bytes());
            text.resize(TEXT_BYTES, b'x');
            made.lock().made.insert(number, Instant::now());
        });
        let node = Node::builder(FleetName::new("latency")?).partitions(partitions);
        let node = node.build(Target::parse(&url)?, source, stopwatch)?;
        runtime()?.block_on(node.run(async move {
            let _ = stop.wait_for(|stop| *stop).await;
        }))?;
        Ok(())
    })
}

/// The PING round trip to the servers, one after the other.
fn measure_pings(group: &ServerGroup, go_on: impl Fn() -> bool) -> Result<Vec<Duration>> {
    runtime()?.block_on(async {
        let mut connections = Vec::new();
        for server in group.servers() {
            let client = redis::Client::open(server.url())?;
            connections.push(client.get_multiplexed_async_connection().await?);
        }
        let mut pings = Vec::new();
        while go_on() {
            for connection in &mut connections {
                let sent = Instant::now();
                let _: String = redis::cmd("PING").query_async(connection).await?;
                pings.push(sent.elapsed());
                tokio::time::sleep(PAUSE).await;
            }
        }
        Ok(pings)
    })
}
