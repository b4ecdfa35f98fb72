//! Messages that fail and wait for their next attempt: how punctually they come back, and whether a
//! storm of them delays the beats on which takeovers depend.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use baton::{
    Backoff, Effects, Event, FleetName, Handler, HandlerError, Message, Node, Target, interval,
};
use baton_bench::ServerProbe;
use baton_figures::runtime;
use baton_server::PrivateServer;

use crate::Rounds;
use crate::choice::Choice;
use crate::report::{Report, ms, percentile};

const FLEET: &str = "retries";
/// The usual waits: those of the first attempt differ by a fifth of a second.
const USUAL: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(600));
/// All messages wait equally long.
const EQUAL: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(1));
/// How late a message may be.
const PUNCTUAL: Duration = Duration::from_millis(50);
/// The longest gap between two beats of the first standby that leaves takeovers as they are: it beats
/// every 50 ms, and a lease lives 1.5 s.
const MAX_GAP: Duration = Duration::from_millis(250);
/// How often the beats are read.
const PROBE_PAUSE: Duration = Duration::from_millis(5);
/// Longest time of a storm.
const TIMEOUT: Duration = Duration::from_secs(120);

/// When the second attempts are due, how late they began, and how many messages have ended.
#[derive(Default)]
struct Times {
    due: HashMap<u64, Instant>,
    late: Vec<Duration>,
}

#[derive(Clone, Default)]
struct Stopwatch(Arc<Mutex<Times>>);

impl Stopwatch {
    fn lock(&self) -> MutexGuard<'_, Times> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn on_event(&self, event: &Event) {
        if let Event::Delayed { seq, delay, .. } = event {
            self.lock().due.insert(*seq, Instant::now() + *delay);
        }
    }
}

impl Handler for Stopwatch {
    async fn handle(&self, message: Message<'_>, _: &mut Effects) -> Result<(), HandlerError> {
        if message.attempt == 1 {
            return Err("not now".into());
        }
        let now = Instant::now();
        let mut times = self.lock();
        if let Some(due) = times.due.remove(&message.seq) {
            times.late.push(now.saturating_duration_since(due));
        }
        Ok(())
    }
}

/// Three rows for each server.
pub(crate) fn of_many_messages(
    _: &Path,
    rounds: Rounds,
    choice: &Choice,
    report: &mut Report,
) -> Result<()> {
    for server in choice.servers()? {
        let server = server.start()?;
        let version = ServerProbe::open(&Target::parse(&server.url())?)?.version()?;
        let measured = |late: &[Duration]| {
            let (p50, p99) = (percentile(late, 50), percentile(late, 99));
            format!("late by p50 {:.1} ms, p99 {:.1} ms", ms(p50), ms(p99))
        };
        let (late, _) = fail_once(&server, rounds.messages as u64, USUAL)?;
        report.add(
            &format!("{version}: next attempt of {} waiting messages", late.len()),
            &measured(&late),
            "p99 ≤ 50 ms",
            percentile(&late, 99) <= PUNCTUAL,
        );
        let (late, _) = fail_once(&server, rounds.messages as u64, EQUAL)?;
        report.add(
            &format!("{version}: the same, all due at the same moment"),
            &measured(&late),
            "none",
            true,
        );
        let storm = rounds.storm;
        let (late, gap) = fail_once(&server, storm, EQUAL)?;
        ensure!(late.len() as u64 == storm, "{} of {storm}", late.len());
        report.add(
            &format!("{version}: {storm} messages fail at once, longest gap of beats"),
            &format!(
                "{:.0} ms; the last is late by {:.0} ms",
                ms(gap),
                ms(percentile(&late, 100))
            ),
            "≤ 250 ms",
            gap <= MAX_GAP,
        );
    }
    Ok(())
}

/// Runs a generator and two workers, each on a thread of its own, whose first attempts all fail.
/// Returns how late the second attempts were, and the longest gap between two beats of a standby.
fn fail_once(
    server: &PrivateServer,
    messages: u64,
    (shortest, longest): (Duration, Duration),
) -> Result<(Vec<Duration>, Duration)> {
    let watch = Stopwatch::default();
    let (stop, _) = tokio::sync::watch::channel(false);
    let nodes: Vec<_> = (0..3)
        .map(|_| {
            let (url, watch, mut stop) = (server.url(), watch.clone(), stop.subscribe());
            std::thread::spawn(move || -> Result<()> {
                let events = watch.clone();
                let source = interval(Duration::ZERO, |_, text| {
                    text.extend_from_slice(&[b'x'; 64]);
                });
                let node = Node::builder(FleetName::new(FLEET)?)
                    .messages(messages)
                    .backoff(Backoff::new(shortest, longest))
                    .on_event(move |event| events.on_event(event))
                    .build(Target::parse(&url)?, source, watch)?;
                runtime()?.block_on(node.run(async move {
                    let _ = stop.wait_for(|stop| *stop).await;
                }))?;
                Ok(())
            })
        })
        .collect();
    let gap = watch_beats(server, || (watch.lock().late.len() as u64) < messages);
    stop.send_replace(true);
    for node in nodes {
        node.join()
            .map_err(|_| anyhow::anyhow!("a node panicked"))??;
    }
    let mut redis = redis::Client::open(server.url())?.get_connection()?;
    redis::cmd("FLUSHALL").exec(&mut redis)?;
    let late = std::mem::take(&mut watch.lock().late);
    Ok((late, gap?))
}

/// The longest gap between two beats of the node that beats most often, a standby.
fn watch_beats(server: &PrivateServer, go_on: impl Fn() -> bool) -> Result<Duration> {
    let mut redis = redis::Client::open(server.url())?.get_connection()?;
    let key = format!("baton:{{{FLEET}:0}}:seen");
    let mut beats: HashMap<String, Vec<u64>> = HashMap::new();
    let deadline = Instant::now() + TIMEOUT;
    while go_on() {
        ensure!(Instant::now() < deadline, "not all messages ended in time");
        let mut read = redis::cmd("ZRANGE");
        read.arg(&key).arg(0).arg(-1).arg("WITHSCORES");
        let seen: Vec<(String, u64)> = read.query(&mut redis)?;
        for (node, at_ms) in seen {
            let times = beats.entry(node).or_default();
            if times.last() != Some(&at_ms) {
                times.push(at_ms);
            }
        }
        std::thread::sleep(PROBE_PAUSE);
    }
    let often = beats.values().max_by_key(|times| times.len());
    let gaps = often.into_iter().flat_map(|times| times.windows(2));
    let longest = gaps.map(|pair| pair[1].saturating_sub(pair[0])).max();
    Ok(Duration::from_millis(longest.unwrap_or_default()))
}
