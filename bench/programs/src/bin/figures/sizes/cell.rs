//! One cell: one server, one way of persistence, one number of workers, one size of texts.

use std::path::Path;
use std::str::FromStr;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use baton::Target;
use baton_bench::floor::{self, batch_sizes, best_batch_size, set_and_get};
use baton_bench::{Plan, ServerProbe, Usage};
use baton_figures::{ServerProgram, TIMEOUT};
use baton_processes::Info;
use baton_report::stats::Spread;
use serde::{Deserialize, Serialize};

/// Share of messages that handlers reject.
const ERROR_RATE: f64 = 0.05;
/// Bytes of all texts of a run, and max messages: a run takes one to three seconds.
const RUN_BYTES: u64 = 512 << 20;
const MAX_MESSAGES: u64 = 2_000_000;
/// A quick run has this part of the messages.
const QUICK_PART: u64 = 40;
/// Pause while the server rewrites its file.
const PAUSE: Duration = Duration::from_millis(10);

/// What the server writes to disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Persistence {
    None,
    Everysec,
}

impl Persistence {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Everysec => "everysec",
        }
    }
}

impl FromStr for Persistence {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let all = [Self::None, Self::Everysec];
        match all.into_iter().find(|way| way.name() == text) {
            Some(way) => Ok(way),
            None => bail!("{text:?} is neither none nor everysec"),
        }
    }
}

/// What to measure.
pub(crate) struct Conditions {
    pub(crate) server: ServerProgram,
    pub(crate) persistence: Persistence,
    pub(crate) workers: usize,
    pub(crate) text_bytes: usize,
    pub(crate) runs: usize,
    /// Whether runs are long enough to compare, and the batch size is searched for.
    pub(crate) whole: bool,
}

/// All parameters and results of a cell.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Cell {
    /// The server's name and version.
    pub(crate) server: String,
    pub(crate) persistence: Persistence,
    pub(crate) workers: usize,
    pub(crate) text_bytes: usize,
    pub(crate) messages: u64,
    pub(crate) error_rate: f64,
    /// Messages of one call of the unsafe queue.
    pub(crate) floor_batch: u64,
    pub(crate) cores: usize,
    /// Seconds since 1970.
    pub(crate) measured_at: u64,
    pub(crate) runs: Vec<Pair>,
}

/// One run of each, by turns.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Pair {
    pub(crate) ours: Measured,
    pub(crate) floor: Measured,
    /// µs of the server's main thread per message of a bare SET and GET.
    pub(crate) set_and_get_us: f64,
}

/// The results of one run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Measured {
    /// Of the whole run: ours with its audit.
    pub(crate) seconds: f64,
    /// Of the audit, which is part of it. The unsafe queue has none.
    pub(crate) audit_seconds: f64,
    /// µs of the server's main thread per message, without the audit.
    pub(crate) redis_us: f64,
    /// µs of all copies per message.
    pub(crate) client_us: Option<f64>,
    /// Bytes of the append-only file per message.
    pub(crate) aof_bytes: Option<f64>,
}

impl Measured {
    /// Of the messages alone: from the word *go* to the end of the last one.
    fn queue_seconds(&self) -> f64 {
        self.seconds - self.audit_seconds
    }
}

impl Cell {
    /// Measures on a fresh server. Fails if an audit finds anything.
    pub(crate) fn measure(program: &Path, conditions: &Conditions) -> Result<Self> {
        let server = match conditions.persistence {
            Persistence::None => conditions.server.start()?,
            Persistence::Everysec => conditions.server.start_everysec()?,
        };
        let plan = plan(program, conditions, &server.url())?;
        let mut probe = ServerProbe::open(&plan.target)?;
        let floor_batch = match conditions.whole {
            true => best_batch_size(&plan, |_| Ok(()))?,
            false => batch_sizes(plan.size).first().copied().unwrap_or(1),
        };
        let mut runs = Vec::new();
        for run in 0..conditions.runs {
            let ours_first = run % 2 == 0;
            let first = ours_first.then(|| ours(&plan, &mut probe)).transpose()?;
            let floor = unsafe_queue(&plan, floor_batch, &mut probe)?;
            let ours = first.map_or_else(|| ours(&plan, &mut probe), Ok)?;
            runs.push(Pair {
                ours,
                floor,
                set_and_get_us: set_and_get(&plan)?,
            });
        }
        Ok(Self {
            server: probe.version()?,
            persistence: conditions.persistence,
            workers: plan.workers,
            text_bytes: plan.size,
            messages: plan.messages,
            error_rate: plan.error_rate,
            floor_batch,
            cores: std::thread::available_parallelism()?.get(),
            measured_at: SystemTime::UNIX_EPOCH.elapsed()?.as_secs(),
            runs,
        })
    }

    /// Ours divided by the unsafe queue, run by run, each up to the end of the last message.
    pub(crate) fn ratio(&self) -> Spread {
        self.each(|run| Some(run.floor.queue_seconds() / run.ours.queue_seconds()))
            .unwrap_or_default()
    }

    /// The same with the time of our audit. The unsafe queue has none.
    pub(crate) fn audited_ratio(&self) -> Spread {
        self.each(|run| Some(run.floor.seconds / run.ours.seconds))
            .unwrap_or_default()
    }

    /// Messages per second: ours, the unsafe queue's.
    pub(crate) fn rates(&self) -> [f64; 2] {
        self.both(|measured| Some(self.messages as f64 / measured.queue_seconds()))
            .map(Option::unwrap_or_default)
    }

    /// µs of the server's main thread per message: ours, the unsafe queue, a bare SET and GET.
    pub(crate) fn redis_us(&self) -> [f64; 3] {
        let [ours, floor] = self.both(|measured| Some(measured.redis_us));
        let bare = self.each(|run| Some(run.set_and_get_us));
        [ours, floor, bare.map(|bare| bare.median)].map(Option::unwrap_or_default)
    }

    /// µs of all copies per message.
    pub(crate) fn client_us(&self) -> [Option<f64>; 2] {
        self.both(|measured| measured.client_us)
    }

    /// Bytes of the append-only file per byte of text.
    pub(crate) fn aof_share(&self) -> [Option<f64>; 2] {
        let text_bytes = self.text_bytes as f64;
        self.both(|measured| Some(measured.aof_bytes? / text_bytes))
    }

    /// The medians of ours and of the unsafe queue.
    fn both(&self, figure: impl Fn(&Measured) -> Option<f64>) -> [Option<f64>; 2] {
        let ours = self.each(|run| figure(&run.ours));
        let floor = self.each(|run| figure(&run.floor));
        [ours, floor].map(|spread| spread.map(|spread| spread.median))
    }

    fn each(&self, figure: impl Fn(&Pair) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.runs.iter().filter_map(figure))
    }

    /// Whether both are the same cell of the table.
    pub(crate) fn same_place(&self, other: &Self) -> bool {
        let place = |cell: &Self| (cell.persistence, cell.workers, cell.text_bytes);
        self.server == other.server && place(self) == place(other)
    }
}

fn plan(program: &Path, conditions: &Conditions, url: &str) -> Result<Plan> {
    let messages = (RUN_BYTES / conditions.text_bytes as u64).clamp(1, MAX_MESSAGES);
    let part = if conditions.whole { 1 } else { QUICK_PART };
    Ok(Plan {
        program: program.to_owned(),
        target: Target::parse(url)?,
        env: vec![("REDIS_URL".to_owned(), url.to_owned())],
        messages: (messages / part).max(1),
        size: conditions.text_bytes,
        workers: conditions.workers,
        kills: 0,
        error_rate: ERROR_RATE,
        flags: Vec::new(),
    })
}

fn ours(plan: &Plan, probe: &mut ServerProbe) -> Result<Measured> {
    let before = probe.aof_bytes()?;
    let run = baton_bench::run(plan, |_| Ok(()))?;
    if let Some(finding) = run.audit.findings.first() {
        let more = run.audit.findings.len() - 1;
        bail!("the audit failed: {finding}, and {more} findings more");
    }
    let redis_cpu_us = run.usage.redis_cpu_us - run.audit_cpu_us;
    let usage = Usage {
        redis_cpu_us,
        ..run.usage
    };
    measured(plan, probe, (run.seconds, run.audit_seconds), usage, before)
}

fn unsafe_queue(plan: &Plan, batch: u64, probe: &mut ServerProbe) -> Result<Measured> {
    let before = probe.aof_bytes()?;
    let (seconds, usage) = floor::run(plan, plan.messages, batch, |_| Ok(()))?;
    measured(plan, probe, (seconds, 0.0), usage, before)
}

fn measured(
    plan: &Plan,
    probe: &mut ServerProbe,
    (seconds, audit_seconds): (f64, f64),
    usage: Usage,
    before: Option<u64>,
) -> Result<Measured> {
    let each = |total: f64| total / plan.messages as f64;
    let grown = |after: u64| Some(each(after.saturating_sub(before?) as f64));
    let aof_bytes = probe.aof_bytes()?.and_then(grown);
    if aof_bytes.is_some() {
        // The keys are gone: the next run begins with a small file.
        rewrite_aof(probe)?;
    }
    Ok(Measured {
        seconds,
        audit_seconds,
        redis_us: each(usage.redis_cpu_us),
        client_us: usage.client_cpu_us.map(each),
        aof_bytes,
    })
}

fn rewrite_aof(probe: &mut ServerProbe) -> Result<()> {
    redis::cmd("BGREWRITEAOF")
        .exec(probe.redis())
        .context("cannot have the append-only file rewritten")?;
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let info = Info::read(probe.redis(), "persistence")?;
        let busy =
            info.number("aof_rewrite_in_progress")? + info.number("aof_rewrite_scheduled")?;
        if busy == 0.0 {
            return Ok(());
        }
        ensure!(
            Instant::now() < deadline,
            "the file is not rewritten within {TIMEOUT:?}"
        );
        std::thread::sleep(PAUSE);
    }
}
