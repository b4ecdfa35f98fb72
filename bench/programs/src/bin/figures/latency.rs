//! From the making of a message to the start of its handler, beside the PING round trip.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use baton::{Effects, FleetName, Handler, HandlerError, Message, Node, Target, interval};
use baton_bench::ServerProbe;
use baton_figures::runtime;
use baton_server::PrivateServer;

use crate::Rounds;
use crate::choice::Choice;
use crate::report::{Report, ms, percentile};

/// When each message was made, and how long it took to its handler.
#[derive(Default)]
struct Times {
    made: HashMap<u64, Instant>,
    took: Vec<Duration>,
}

#[derive(Clone, Default)]
struct Stopwatch(Arc<Mutex<Times>>);

impl Stopwatch {
    fn lock(&self) -> std::sync::MutexGuard<'_, Times> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Handler for Stopwatch {
    async fn handle(&self, message: Message<'_>, _: &mut Effects) -> Result<(), HandlerError> {
        let now = Instant::now();
        let mut times = self.lock();
        if let Some(made) = times.made.remove(&message.seq) {
            times.took.push(now - made);
        }
        Ok(())
    }
}

/// One row for each server.
pub(crate) fn publish_to_handler(
    _: &Path,
    rounds: Rounds,
    choice: &Choice,
    report: &mut Report,
) -> Result<()> {
    for server in choice.servers()? {
        measure(&server.start()?, rounds, report)?;
    }
    Ok(())
}

/// Runs a generator and an idle worker, each on a thread of its own, and measures PING with
/// the same client between the messages.
fn measure(server: &PrivateServer, rounds: Rounds, report: &mut Report) -> Result<()> {
    let version = ServerProbe::open(&Target::parse(&server.url())?)?.version()?;
    let watch = Stopwatch::default();
    let (stop, _) = tokio::sync::watch::channel(false);
    let nodes: Vec<_> = (0..2)
        .map(|_| {
            let (url, watch, mut stop) = (server.url(), watch.clone(), stop.subscribe());
            std::thread::spawn(move || -> Result<()> {
                let made = watch.clone();
                let source = interval(Duration::from_millis(5), move |seq, text| {
                    text.extend_from_slice(&[b'x'; 64]);
                    made.lock().made.insert(seq, Instant::now());
                });
                let node = Node::builder(FleetName::new("latency")?);
                let node = node.build(Target::parse(&url)?, source, watch)?;
                runtime()?.block_on(node.run(async move {
                    let _ = stop.wait_for(|stop| *stop).await;
                }))?;
                Ok(())
            })
        })
        .collect();
    let pings = ping_while(&server.url(), || watch.lock().took.len() < rounds.messages)?;
    stop.send_replace(true);
    for node in nodes {
        node.join()
            .map_err(|_| anyhow::anyhow!("a node panicked"))??;
    }
    let took = watch.lock().took.clone();
    let (ping, p50, p99) = (
        percentile(&pings, 50),
        percentile(&took, 50),
        percentile(&took, 99),
    );
    let ratio = ms(p50) / ms(ping);
    let measured = format!(
        "p50 {:.2} ms = {ratio:.1} × PING {:.3} ms",
        ms(p50),
        ms(ping)
    );
    report.add(
        &format!("{version}: message made → handler starts, idle worker"),
        &measured,
        "p50 ≤ 3 × PING",
        ratio <= 3.0,
    );
    let measured = format!("p99 {:.2} ms of {}", ms(p99), took.len());
    report.add("", &measured, "p99 < 5 ms", p99 < Duration::from_millis(5));
    Ok(())
}

fn ping_while(url: &str, go_on: impl Fn() -> bool) -> Result<Vec<Duration>> {
    runtime()?.block_on(async {
        let client = redis::Client::open(url)?;
        let mut connection = client.get_multiplexed_async_connection().await?;
        let mut pings = Vec::new();
        while go_on() {
            let sent = Instant::now();
            let _: String = redis::cmd("PING").query_async(&mut connection).await?;
            pings.push(sent.elapsed());
            tokio::time::sleep(Duration::from_millis(7)).await;
        }
        Ok(pings)
    })
}
