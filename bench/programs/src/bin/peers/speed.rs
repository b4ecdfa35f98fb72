//! One producer, two workers, one fresh server: how fast, and at what cost.

use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use baton::Target;
use baton_bench::ServerProbe;
use baton_figures::{TIMEOUT, server};

use crate::peer::{Peer, Place};
use crate::process::{Heard, Program};

/// Bytes of every message's text.
pub(crate) const SIZE: &str = "64";
/// How long to listen for messages that are handled once more.
const ENCORE: Duration = Duration::from_millis(300);
const WORKERS: usize = 2;
/// The number of the producer; workers count from 0.
const PRODUCER: usize = WORKERS;

/// What one run has shown.
pub(crate) struct Speed {
    /// Messages a second.
    pub(crate) rate: f64,
    /// Processor time of the server's main thread for each message, in µs.
    pub(crate) redis_us: f64,
    /// The most memory that one worker had, in MB.
    pub(crate) rss_mb: Option<f64>,
    /// How often the handler ran beyond once for each message.
    pub(crate) extra: u64,
}

/// Waits for the next line that `fits`. Fails if a worker that has to live ends meanwhile.
pub(crate) fn wait_for(
    ear: &Receiver<Heard>,
    alive: &[usize],
    deadline: Instant,
    fits: impl Fn(&Heard) -> bool,
) -> Result<Option<Heard>> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match ear.recv_timeout(left) {
            Ok(heard) if fits(&heard) => return Ok(Some(heard)),
            Ok(heard) if heard.line.is_none() && alive.contains(&heard.who) => {
                bail!("a worker ended by itself")
            }
            Ok(_) => {}
            Err(RecvTimeoutError::Timeout) => return Ok(None),
            Err(RecvTimeoutError::Disconnected) => bail!("all have ended"),
        }
    }
}

/// Waits until worker `who` says a word.
pub(crate) fn wait_word(ear: &Receiver<Heard>, who: usize, word: &str) -> Result<()> {
    let said = |heard: &Heard| heard.who == who && heard.line.as_deref() == Some(word);
    wait_for(ear, &[who], Instant::now() + TIMEOUT, said)?
        .map(drop)
        .with_context(|| format!("no `{word}` within {TIMEOUT:?}"))
}

/// Times a peer.
pub(crate) fn of_peer(peer: &Peer, place: &Place, messages: u64) -> Result<Speed> {
    let server = server()?;
    let (url, log) = (server.url(), place.log(peer));
    let mut probe = ServerProbe::open(&Target::parse(&url)?)?;
    let (sender, ear) = channel();
    let mut workers = Vec::new();
    for who in 0..WORKERS {
        let mut command = peer.command(place);
        command.args(["work", &url, "count"]);
        workers.push(Program::start(&mut command, &log, who, &sender)?);
        wait_word(&ear, who, "ready").with_context(|| last_line(&log))?;
    }
    let cpu_us = probe.cpu_us()?;
    let began = Instant::now();
    let mut command = peer.command(place);
    command.args(["enqueue", &url, &messages.to_string(), SIZE]);
    let mut producer = Program::start(&mut command, &log, PRODUCER, &sender)?;
    let mut counts = Counts::default();
    let ended = counts
        .wait(&ear, &mut producer, messages)
        .with_context(|| last_line(&log))?;
    let cpu_us = probe.cpu_us()? - cpu_us;
    let rss = workers.iter().filter_map(Program::peak_rss_mb);
    let rss_mb = rss.reduce(f64::max);
    ensure!(producer.wait()?.success(), "the producer failed");
    counts.listen(&ear, ENCORE);
    Ok(Speed {
        rate: messages as f64 / (ended - began).as_secs_f64(),
        redis_us: cpu_us / messages as f64,
        rss_mb,
        extra: counts.sum() - messages,
    })
}

/// What the workers have counted.
#[derive(Default)]
struct Counts([u64; WORKERS]);

impl Counts {
    fn sum(&self) -> u64 {
        self.0.iter().sum()
    }

    fn take(&mut self, heard: &Heard) {
        let line = heard.line.as_deref().unwrap_or_default();
        let number = line
            .strip_prefix("done ")
            .and_then(|text| text.parse().ok());
        if let (Some(number), Some(count)) = (number, self.0.get_mut(heard.who)) {
            *count = number;
        }
    }

    /// Waits until all are counted, and returns when the last was.
    fn wait(
        &mut self,
        ear: &Receiver<Heard>,
        producer: &mut Program,
        messages: u64,
    ) -> Result<Instant> {
        let news = |heard: &Heard| {
            let line = heard.line.as_deref();
            line.map_or(heard.who == PRODUCER, |line| line.starts_with("done "))
        };
        loop {
            let Some(heard) = wait_for(ear, &[0, 1], Instant::now() + TIMEOUT, news)? else {
                bail!(
                    "{} of {messages} handled, and then nothing for {TIMEOUT:?}",
                    self.sum()
                );
            };
            if heard.who == PRODUCER {
                ensure!(producer.wait()?.success(), "the producer failed");
            }
            self.take(&heard);
            if self.sum() >= messages {
                return Ok(heard.at);
            }
        }
    }

    fn listen(&mut self, ear: &Receiver<Heard>, time: Duration) {
        let deadline = Instant::now() + time;
        while let Ok(heard) = ear.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            self.take(&heard);
        }
    }
}

/// What a process complained of last.
fn last_line(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let line = text.lines().rfind(|line| !line.trim().is_empty());
    line.unwrap_or("nothing on stderr").trim().to_owned()
}

/// Times ours, in the same way: the program brings its producer and its workers.
pub(crate) fn of_ours(program: &Path, messages: u64) -> Result<Speed> {
    let server = server()?;
    let (sender, ear) = channel();
    let mut command = baton_processes::command(program);
    let messages = messages.to_string();
    command.args(["bench", "--messages", &messages, "--size", SIZE]);
    command.args(["--runs", "1", "--json", "--redis", &server.url()]);
    let log = server.folder().join("bench.log");
    let mut bench = Program::start(&mut command, &log, 0, &sender)?;
    drop(sender);
    let last = ear.iter().filter_map(|heard| heard.line).last();
    if !bench.wait()?.success() {
        bail!("`baton bench` failed: {}", last_line(&log));
    }
    let told = last.context("`baton bench` said nothing")?;
    let figures: Figures = serde_json::from_str(&told).context("`baton bench --json`")?;
    Ok(Speed {
        rate: figures.rate,
        redis_us: figures.redis_cpu_us,
        rss_mb: figures.worker_rss_mb,
        extra: 0,
    })
}

/// The figures of `baton bench --json` that are compared.
#[derive(serde::Deserialize)]
struct Figures {
    rate: f64,
    redis_cpu_us: f64,
    worker_rss_mb: Option<f64>,
}
