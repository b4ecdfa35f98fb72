//! What every timed run shares: copies that wait for a word to start, a clock, and what the
//! copies and the server use.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::gauge::Gauge;
use baton_processes::Fleet;
use baton_processes::{peak_rss_mb, process_cpu_us};

/// Longest wait for copies to be ready, and for any progress.
const PATIENCE: Duration = Duration::from_secs(30);
/// Shortest and longest pause between two looks at a run.
const LOOK: (Duration, Duration) = (Duration::from_micros(500), Duration::from_millis(20));

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

/// What a run used up.
#[derive(Debug, Clone, Copy, Default)]
pub struct Usage {
    /// Processor time of the server's main thread, in µs.
    pub redis_cpu_us: f64,
    /// Processor time of all copies, in µs; none where the system does not tell.
    pub client_cpu_us: Option<f64>,
    /// The most memory that one copy had, in MB; none where the system does not tell.
    pub node_rss_mb: Option<f64>,
    /// The most memory that one of those had that do not generate.
    pub worker_rss_mb: Option<f64>,
}

/// Copies under way.
pub(super) struct Race<'a> {
    pub(super) fleet: Fleet,
    pub(super) gauge: &'a mut Gauge,
    began: Instant,
    /// When it began, on the server's clock.
    pub(super) began_us: u64,
    redis_cpu_us: f64,
    /// Processor time that each copy had used before.
    before: Vec<f64>,
    /// What copies that are gone had used.
    gone: Usage,
}

impl<'a> Race<'a> {
    /// Starts copies, waits until every one of them is ready, and tells each its word.
    pub(super) fn start(
        mut fleet: Fleet,
        copies: usize,
        word: impl Fn(usize) -> &'static str,
        gauge: &'a mut Gauge,
    ) -> Result<Self> {
        fleet.start_many(copies, PATIENCE)?;
        let cpu = |copy| process_cpu_us(fleet.pid(copy)).unwrap_or_default();
        let before = (0..copies).map(cpu).collect();
        let redis_cpu_us = gauge.cpu_us()?;
        let began_us = gauge.now_us()?;
        let began = Instant::now();
        for copy in 0..copies {
            fleet.say(copy, word(copy))?;
        }
        Ok(Self {
            fleet,
            gauge,
            began,
            began_us,
            redis_cpu_us,
            before,
            gone: Usage::default(),
        })
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Kills a copy with -9 and starts another.
    pub(super) fn replace(&mut self, copy: usize, word: &str) -> Result<()> {
        self.gone = self.add(self.gone, copy);
        self.fleet.kill9(copy)?;
        let next = self.fleet.start()?;
        self.before.push(0.0);
        self.fleet.say(next, word)
    }

    /// Looks again and again until all messages have ended. `look` reads how far the run has
    /// come; `show` hears it and may do something about it.
    pub(super) fn watch(
        &mut self,
        mut look: impl FnMut(&mut Gauge) -> Result<Progress>,
        mut show: impl FnMut(&mut Self, Progress) -> Result<()>,
    ) -> Result<()> {
        let mut moved = (Instant::now(), 0);
        loop {
            let now = look(self.gauge)?;
            show(self, now)?;
            if now.ended >= now.messages {
                return Ok(());
            }
            let sum = now.published + now.ended;
            if sum != moved.1 {
                moved = (Instant::now(), sum);
            }
            if moved.0.elapsed() > PATIENCE {
                bail!(
                    "nothing has moved for {PATIENCE:?}: {} published, {} of {} ended",
                    now.published,
                    now.ended,
                    now.messages
                );
            }
            // Half of the time that is left, so that the end is seen when it comes and the
            // looks do not slow down the run.
            let rate = now.ended as f64 / self.elapsed().as_secs_f64();
            let left = match now.ended {
                0 => 0.0,
                ended => (now.messages - ended) as f64 / rate,
            };
            let pause = Duration::from_secs_f64(left.min(1.0) / 2.0);
            std::thread::sleep(pause.clamp(LOOK.0, LOOK.1));
        }
    }

    /// What was used since the start.
    pub(super) fn usage(&mut self) -> Result<Usage> {
        let mut usage = self.gone;
        for copy in self.fleet.alive() {
            usage = self.add(usage, copy);
        }
        usage.redis_cpu_us = self.gauge.cpu_us()? - self.redis_cpu_us;
        Ok(usage)
    }

    fn add(&self, usage: Usage, copy: usize) -> Usage {
        let pid = self.fleet.pid(copy);
        let before = self.before.get(copy).copied().unwrap_or_default();
        let cpu = process_cpu_us(pid).map(|cpu| cpu - before);
        let sum = |a: Option<f64>, b: Option<f64>| Some(a.unwrap_or_default() + b?);
        let rss = peak_rss_mb(pid);
        let most = |a: Option<f64>, b: Option<f64>| [a, b].into_iter().flatten().reduce(f64::max);
        let works = self.fleet.generator() != Some(copy);
        Usage {
            client_cpu_us: sum(usage.client_cpu_us, cpu).or(usage.client_cpu_us),
            node_rss_mb: most(usage.node_rss_mb, rss),
            worker_rss_mb: most(usage.worker_rss_mb, rss.filter(|_| works)),
            ..usage
        }
    }
}
