//! From the making of a message to the start of its handler, beside the PING round trip, and beside a
//! bare RPUSH that ends a BLPOP: no queue on the same server is faster.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use baton::{Effects, FleetName, Handler, HandlerError, Message, Node, Target, interval};
use baton_bench::ServerProbe;
use baton_figures::runtime;
use baton_server::PrivateServer;
use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;

use crate::Rounds;
use crate::choice::Choice;
use crate::report::{Report, ms, percentile};

/// The list of the bare queue.
const QUEUE: &str = "bare";
/// Between two calls, so that the server sleeps before each.
const PAUSE: Duration = Duration::from_millis(7);

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

/// Runs a generator and an idle worker, each on a thread of its own, and measures PING and a bare queue
/// with the same client between the messages.
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
    let bare = measure_bare(&server.url(), || watch.lock().took.len() < rounds.messages)?;
    stop.send_replace(true);
    for node in nodes {
        node.join()
            .map_err(|_| anyhow::anyhow!("a node panicked"))??;
    }
    let took = watch.lock().took.clone();
    let (ping, p50, p99) = (
        percentile(&bare.pings, 50),
        percentile(&took, 50),
        percentile(&took, 99),
    );
    let ratio = ms(p50) / ms(ping);
    let queue = percentile(&bare.queue, 50);
    let measured = format!(
        "p50 {:.3} ms = {ratio:.1} × PING {:.3} ms = {:.1} × RPUSH to BLPOP {:.3} ms",
        ms(p50),
        ms(ping),
        ms(p50) / ms(queue),
        ms(queue)
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

/// What the server and the client need at least.
struct Bare {
    pings: Vec<Duration>,
    /// From an RPUSH to the end of the BLPOP that waits for it.
    queue: Vec<Duration>,
}

fn measure_bare(url: &str, go_on: impl Fn() -> bool) -> Result<Bare> {
    let (popped, mut pops) = tokio::sync::mpsc::unbounded_channel();
    let consumer_url = url.to_owned();
    // It ends with its last answer: the server lets no BLPOP wait for longer.
    let consumer = std::thread::spawn(move || -> Result<()> {
        runtime()?.block_on(async {
            let mut connection = connect(&consumer_url).await?;
            loop {
                let mut pop = redis::cmd("BLPOP");
                let popped_one: Option<(String, String)> =
                    pop.arg(QUEUE).arg(1).query_async(&mut connection).await?;
                if popped.send(popped_one.map(|_| Instant::now())).is_err() {
                    return Ok(());
                }
            }
        })
    });
    let bare = runtime()?.block_on(async {
        let mut connection = connect(url).await?;
        let mut bare = Bare {
            pings: Vec::new(),
            queue: Vec::new(),
        };
        while go_on() {
            let sent = Instant::now();
            let _: String = redis::cmd("PING").query_async(&mut connection).await?;
            bare.pings.push(sent.elapsed());
            tokio::time::sleep(PAUSE).await;
            let sent = Instant::now();
            let mut push = redis::cmd("RPUSH");
            let _: u64 = (push.arg(QUEUE).arg(&[b'x'; 64][..]))
                .query_async(&mut connection)
                .await?;
            // A BLPOP that ended before says nothing.
            while let Some(at) = pops.recv().await {
                if let Some(at) = at.filter(|at| *at > sent) {
                    bare.queue.push(at - sent);
                    break;
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
        anyhow::Ok(bare)
    })?;
    drop(pops);
    consumer
        .join()
        .map_err(|_| anyhow::anyhow!("the consumer panicked"))??;
    Ok(bare)
}

/// Opens a connection on which a call may block.
async fn connect(url: &str) -> Result<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new().set_response_timeout(None);
    let client = redis::Client::open(url)?;
    Ok(client
        .get_multiplexed_async_connection_with_config(&config)
        .await?)
}
