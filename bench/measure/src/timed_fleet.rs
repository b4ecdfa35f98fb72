//! A fleet whose run is timed: its copies wait for a word to start, and the time and resources
//! that they use are measured.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use baton_processes::{Fleet, peak_rss_mb, process_cpu_us};

use crate::fleet_probe::FleetProbe;

/// Longest wait for copies to be ready, and for any progress.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Shortest and longest pause between two probes of a run.
const PAUSE: (Duration, Duration) = (Duration::from_micros(500), Duration::from_millis(20));

/// How far a run has come.
#[derive(Debug, Clone, Copy, Default)]
pub struct Progress {
    /// All messages there will be.
    pub messages: u64,
    /// Messages published so far.
    pub published: u64,
    /// Messages that ended so far.
    pub ended: u64,
}

/// What a run used.
#[derive(Debug, Clone, Copy, Default)]
pub struct Usage {
    /// Processor time of the main threads of all servers, in µs.
    pub redis_cpu_us: f64,
    /// Processor time of all copies, in µs. `None` if the system does not measure it.
    pub client_cpu_us: Option<f64>,
    /// The peak memory of the largest copy, in MB. `None` if the system does not measure it.
    pub node_rss_mb: Option<f64>,
    /// The peak memory of the largest worker, in MB.
    pub worker_rss_mb: Option<f64>,
}

/// A fleet under way.
pub(super) struct TimedFleet<'a> {
    pub(super) fleet: Fleet,
    pub(super) probe: &'a mut FleetProbe,
    began: Instant,
    redis_cpu_us: f64,
    /// Processor time that each copy had used before the run.
    before: Vec<f64>,
    /// What the killed copies had used.
    gone: Usage,
}

impl<'a> TimedFleet<'a> {
    /// Starts copies, waits until all of them are ready, and gives each its word.
    pub(super) fn start(
        mut fleet: Fleet,
        copies: usize,
        word: impl Fn(usize) -> &'static str,
        probe: &'a mut FleetProbe,
    ) -> Result<Self> {
        fleet.start_many(copies, TIMEOUT)?;
        let cpu = |copy| process_cpu_us(fleet.pid(copy)).unwrap_or_default();
        let before = (0..copies).map(cpu).collect();
        let redis_cpu_us = probe.cpu_us()?;
        let began = Instant::now();
        for copy in 0..copies {
            fleet.say(copy, word(copy))?;
        }
        Ok(Self {
            fleet,
            probe,
            began,
            redis_cpu_us,
            before,
            gone: Usage::default(),
        })
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Kills a copy with -9 and starts another one.
    pub(super) fn replace(&mut self, copy: usize, word: &str) -> Result<()> {
        self.gone = self.add(self.gone, copy);
        self.fleet.kill9(copy)?;
        let next = self.fleet.start()?;
        self.before.push(0.0);
        self.fleet.say(next, word)
    }

    /// Waits until all messages have ended. `progress` reads how far the run has come, and
    /// `react` may act on it.
    pub(super) fn watch(
        &mut self,
        mut progress: impl FnMut(&mut FleetProbe) -> Result<Progress>,
        mut react: impl FnMut(&mut Self, Progress) -> Result<()>,
    ) -> Result<()> {
        let mut moved = (Instant::now(), 0);
        loop {
            let now = progress(self.probe)?;
            react(self, now)?;
            if now.ended >= now.messages {
                return Ok(());
            }
            let sum = now.published + now.ended;
            if sum != moved.1 {
                moved = (Instant::now(), sum);
            }
            if moved.0.elapsed() > TIMEOUT {
                bail!(
                    "nothing has moved for {TIMEOUT:?}: {} published, {} of {} ended",
                    now.published,
                    now.ended,
                    now.messages
                );
            }
            // Half of the expected rest: the end is noticed at once, and the probes do not slow
            // down the run.
            let rate = now.ended as f64 / self.elapsed().as_secs_f64();
            let left = match now.ended {
                0 => 0.0,
                ended => (now.messages - ended) as f64 / rate,
            };
            let pause = Duration::from_secs_f64(left.min(1.0) / 2.0);
            std::thread::sleep(pause.clamp(PAUSE.0, PAUSE.1));
        }
    }

    /// What was used since the start.
    pub(super) fn usage(&mut self) -> Result<Usage> {
        let mut usage = self.gone;
        for copy in self.fleet.alive() {
            usage = self.add(usage, copy);
        }
        usage.redis_cpu_us = self.probe.cpu_us()? - self.redis_cpu_us;
        Ok(usage)
    }

    fn add(&self, usage: Usage, copy: usize) -> Usage {
        let pid = self.fleet.pid(copy);
        let before = self.before.get(copy).copied().unwrap_or_default();
        let cpu = process_cpu_us(pid).map(|cpu| cpu - before);
        let sum = |a: Option<f64>, b: Option<f64>| Some(a.unwrap_or_default() + b?);
        let rss = peak_rss_mb(pid);
        let max = |a: Option<f64>, b: Option<f64>| [a, b].into_iter().flatten().reduce(f64::max);
        let works = self.fleet.generator() != Some(copy);
        Usage {
            client_cpu_us: sum(usage.client_cpu_us, cpu).or(usage.client_cpu_us),
            node_rss_mb: max(usage.node_rss_mb, rss),
            worker_rss_mb: max(usage.worker_rss_mb, rss.filter(|_| works)),
            ..usage
        }
    }
}
