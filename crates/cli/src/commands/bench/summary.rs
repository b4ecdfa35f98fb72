//! What all runs of a bench come to.

use std::fmt;

use baton::inspect::Finding;
use baton_bench::{Run, Timeline, Usage};
use baton_print::thousands;
use baton_report::stats::Spread;
use serde_json::{Value, json};

use super::{BenchArgs, ERROR_RATE};

/// Slices of the timeline of a run.
const SLICES: f64 = 60.0;
/// How far the count of failures may lie from the expected one, in standard deviations.
const SIGMAS: f64 = 6.0;

/// One run of ours with what its ledger tells.
pub(super) struct Measured {
    pub(super) run: Run,
    pub(super) timeline: Timeline,
}

/// The servers that have the keys of a fleet.
pub(super) struct Servers {
    pub(super) version: String,
    pub(super) count: usize,
}

/// All runs.
pub(super) struct Summary {
    pub(super) messages: u64,
    pub(super) workers: u16,
    pub(super) size: u32,
    servers: Servers,
    /// What the handlers could do at most, if they take time.
    ideal_rate: Option<f64>,
    batch: Option<u64>,
    bytes_per_pending: f64,
    pub(super) runs: Vec<Measured>,
    /// Seconds and use of the floor, run by run.
    floors: Vec<(f64, Usage)>,
}

/// Something that makes a run a failure.
pub(super) enum Trouble {
    Found(Finding),
    /// So many failed where so many were to be expected.
    Share {
        failed: u64,
        expected: f64,
        band: f64,
    },
}

impl Summary {
    pub(super) fn new(
        args: &BenchArgs,
        servers: Servers,
        bytes_per_pending: f64,
        batch: Option<u64>,
    ) -> Self {
        let lanes = f64::from(args.workers) * args.concurrency as f64;
        Self {
            messages: args.messages,
            workers: args.workers,
            size: args.size,
            servers,
            ideal_rate: (!args.work.is_zero()).then(|| lanes / args.work.as_secs_f64()),
            batch,
            bytes_per_pending,
            runs: Vec::new(),
            floors: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, run: Run) {
        let timeline = Timeline::new(&run.ledgers, run.began_us, run.seconds / SLICES);
        self.runs.push(Measured { run, timeline });
    }

    pub(super) fn add_floor(&mut self, floor: Option<(f64, Usage)>) {
        self.floors.extend(floor);
    }

    /// All that is wrong with any run.
    pub(super) fn findings(&self) -> impl Iterator<Item = Trouble> {
        self.runs.iter().flat_map(|measured| {
            let audit = &measured.run.audit;
            let found = audit.findings.iter().cloned().map(Trouble::Found);
            found.chain(share(self.messages, audit.failed))
        })
    }

    pub(super) fn seconds(&self) -> Spread {
        self.each(|measured| measured.run.seconds)
    }

    fn audit_seconds(&self) -> Spread {
        self.each(|measured| measured.run.audit_seconds)
    }

    pub(super) fn rate(&self) -> Spread {
        self.each(|measured| self.messages as f64 / measured.run.seconds)
    }

    pub(super) fn floor_rate(&self) -> Option<Spread> {
        let rates = self.floors.iter();
        Spread::of(rates.map(|(seconds, _)| self.messages as f64 / seconds))
    }

    /// Ours divided by the floor, run by run.
    pub(super) fn ratio(&self) -> Option<Spread> {
        let pairs = self.runs.iter().zip(&self.floors);
        Spread::of(pairs.map(|(ours, (floor, _))| floor / ours.run.seconds))
    }

    pub(super) fn quantile_ms(&self, share: f64) -> Spread {
        self.each(|measured| measured.timeline.latency.quantile_ms(share))
    }

    fn redis_cpu_us(&self) -> Spread {
        self.each(|measured| measured.run.usage.redis_cpu_us / self.messages as f64)
    }

    fn floor_redis_cpu_us(&self) -> Option<Spread> {
        let usages = self.floors.iter().map(|(_, usage)| usage.redis_cpu_us);
        Spread::of(usages.map(|us| us / self.messages as f64))
    }

    fn client_cpu_us(&self) -> Option<Spread> {
        let usages = self.runs.iter();
        let cpu = usages.filter_map(|measured| measured.run.usage.client_cpu_us);
        Spread::of(cpu.map(|us| us / self.messages as f64))
    }

    fn floor_client_cpu_us(&self) -> Option<Spread> {
        let usages = self.floors.iter();
        let cpu = usages.filter_map(|(_, usage)| usage.client_cpu_us);
        Spread::of(cpu.map(|us| us / self.messages as f64))
    }

    fn node_rss_mb(&self) -> Option<Spread> {
        let runs = self.runs.iter();
        Spread::of(runs.filter_map(|measured| measured.run.usage.node_rss_mb))
    }

    fn worker_rss_mb(&self) -> Option<Spread> {
        let runs = self.runs.iter();
        Spread::of(runs.filter_map(|measured| measured.run.usage.worker_rss_mb))
    }

    fn server_mb(&self) -> Spread {
        self.each(|measured| measured.run.server_mb)
    }

    fn sum(&self, count: impl Fn(&Run) -> u64) -> u64 {
        self.runs.iter().map(|measured| count(&measured.run)).sum()
    }

    fn each(&self, figure: impl Fn(&Measured) -> f64) -> Spread {
        Spread::of(self.runs.iter().map(figure)).unwrap_or_default()
    }

    /// The run whose time is the median, or nearest to it.
    pub(super) fn middle_run(&self) -> Option<&Measured> {
        let median = self.seconds().median;
        let distance = |measured: &&Measured| (measured.run.seconds - median).abs();
        self.runs
            .iter()
            .min_by(|a, b| distance(a).total_cmp(&distance(b)))
    }

    /// Which servers, and how many partitions are on them if there are several.
    pub(super) fn server(&self) -> String {
        let Servers { version, count } = &self.servers;
        match (count, self.partitions()) {
            (1, 0 | 1) => version.clone(),
            (1, partitions) => format!("{version}, {partitions} partitions"),
            (masters, partitions) => {
                format!("{version}, {masters} masters, partitions: {partitions}")
            }
        }
    }

    fn partitions(&self) -> usize {
        let run = self.runs.first();
        run.map_or(0, |measured| measured.run.ledgers.len())
    }

    pub(super) fn kills(&self) -> u64 {
        self.sum(|run| run.kills.len() as u64)
    }

    /// The medians, for programs.
    pub(super) fn json(&self) -> Value {
        let median = |spread: Option<Spread>, digits| spread.map(|s| rounded(s.median, digits));
        json!({
            "messages": self.messages,
            "servers": self.servers.count,
            "partitions": self.partitions(),
            "seconds": rounded(self.seconds().median, 4),
            "audit_seconds": rounded(self.audit_seconds().median, 4),
            "rate": rounded(self.rate().median, 0),
            "floor_rate": median(self.floor_rate(), 0),
            "ratio": median(self.ratio(), 3),
            "lost": self.sum(|run| run.audit.lost),
            "duplicated": self.sum(|run| run.audit.duplicated),
            "p50_ms": rounded(self.quantile_ms(0.5).median, 3),
            "p99_ms": rounded(self.quantile_ms(0.99).median, 3),
            "p999_ms": rounded(self.quantile_ms(0.999).median, 3),
            "redis_cpu_us": rounded(self.redis_cpu_us().median, 3),
            "client_cpu_us": median(self.client_cpu_us(), 3),
            "bytes_per_pending": rounded(self.bytes_per_pending, 1),
            "node_rss_mb": median(self.node_rss_mb(), 1),
            "worker_rss_mb": median(self.worker_rss_mb(), 1),
            "server_mb": rounded(self.server_mb().median, 1),
            "kills": rounded(self.each(|measured| measured.run.kills.len() as f64).median, 0),
            "clean": self.findings().next().is_none(),
        })
    }

    /// The lines of the summary: what, and how much.
    pub(super) fn lines(&self) -> Vec<(&'static str, String)> {
        let mut lines = vec![
            ("server", self.server()),
            ("seconds, audit included", range(self.seconds(), 3)),
            ("the audit, of that", range(self.audit_seconds(), 3)),
            ("messages/s", range(self.rate(), 0)),
        ];
        if let Some(ideal) = self.ideal_rate {
            let share = 100.0 * self.rate().median / ideal;
            let words = format!("{share:.1} % of {}/s", whole(ideal));
            lines.push(("of what the handlers could do", words));
        }
        if let (Some(floor), Some(ratio)) = (self.floor_rate(), self.ratio()) {
            let batch = self.batch.unwrap_or_default();
            let words = format!("{}, in batches of {batch}", range(floor, 0));
            lines.push(("an unsafe queue's messages/s", words));
            lines.push(("ours ÷ the unsafe queue", range(ratio, 2)));
        } else if self.servers.count > 1 {
            let words = "not measured: its one list would be on one of the masters";
            lines.push(("an unsafe queue's messages/s", words.to_owned()));
        }
        let quantiles = [0.5, 0.99, 0.999].map(|share| self.quantile_ms(share).median);
        let [p50, p99, p999] = quantiles.map(|ms| format!("{ms:.1}"));
        let words = format!("p50 {p50}, p99 {p99}, p99.9 {p999}");
        lines.push(("publish → commit, ms", words));
        let beside = |ours: String, floor: Option<Spread>| match floor {
            Some(floor) => format!("{ours} (unsafe queue {:.2})", floor.median),
            None => ours,
        };
        let words = beside(range(self.redis_cpu_us(), 2), self.floor_redis_cpu_us());
        lines.push(("Redis CPU, µs per message", words));
        if let Some(cpu) = self.client_cpu_us() {
            let words = beside(range(cpu, 2), self.floor_client_cpu_us());
            lines.push(("client CPU, µs per message", words));
        }
        let words = format!("{:.1} bytes of memory", self.bytes_per_pending);
        lines.push(("a pending message in Redis", words));
        if let (Some(node), Some(worker)) = (self.node_rss_mb(), self.worker_rss_mb()) {
            let words = format!(
                "generator {:.1} MB, worker {:.1} MB, {} {:.0} MB",
                node.median,
                worker.median,
                match self.servers.count {
                    1 => "server",
                    _ => "all masters",
                },
                self.server_mb().median
            );
            lines.push(("peak memory", words));
        }
        if self.kills() > 0 {
            lines.push(("killed with -9, and replaced", self.kills().to_string()));
        }
        lines.push(("audit", self.verdict()));
        lines
    }

    /// What the audit came to, in words.
    pub(super) fn verdict(&self) -> String {
        let findings = self.findings().count();
        if findings > 0 {
            let (lost, twice) = (
                self.sum(|run| run.audit.lost),
                self.sum(|run| run.audit.duplicated),
            );
            return format!("FAILED: {lost} lost, {twice} committed twice, {findings} findings");
        }
        let (done, failed) = (
            self.sum(|run| run.audit.done),
            self.sum(|run| run.audit.failed),
        );
        format!(
            "clean: {} done + {} failed, each exactly once",
            thousands(done),
            thousands(failed)
        )
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            messages,
            workers,
            size,
            ..
        } = self;
        let messages = thousands(*messages);
        writeln!(
            f,
            "{messages} messages of {size} bytes, one generator, workers: {workers}"
        )?;
        for (what, words) in self.lines() {
            writeln!(f, "  {what:<30} {words}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Found(finding) => write!(f, "{finding}"),
            Self::Share {
                failed,
                expected,
                band,
            } => write!(
                f,
                "{failed} failed; by chance it would be {expected:.0} ± {band:.0}"
            ),
        }
    }
}

/// Whether the share of failures is one that chance could give.
fn share(messages: u64, failed: u64) -> Option<Trouble> {
    let expected = messages as f64 * ERROR_RATE;
    let band = SIGMAS * (expected * (1.0 - ERROR_RATE)).sqrt();
    ((failed as f64 - expected).abs() > band).then_some(Trouble::Share {
        failed,
        expected,
        band,
    })
}

/// A figure over several runs, in words.
fn range(spread: Spread, digits: usize) -> String {
    let words = |figure: f64| match digits {
        0 => whole(figure),
        _ => format!("{figure:.digits$}"),
    };
    match spread.count {
        0 | 1 => words(spread.median),
        runs => format!(
            "{} (median of {runs}; {} to {})",
            words(spread.median),
            words(spread.min),
            words(spread.max)
        ),
    }
}

/// A figure without its decimals.
pub(super) fn whole(figure: f64) -> String {
    thousands(figure.round() as u64)
}

fn rounded(figure: f64, digits: i32) -> Value {
    let scale = 10f64.powi(digits);
    let rounded = (figure * scale).round() / scale;
    match digits {
        0 => json!(rounded as i64),
        _ => json!(rounded),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_failures_beyond_chance_is_trouble() {
        // 5 % of a million is 50,000; six standard deviations are 1,308.
        assert!(share(1_000_000, 50_000).is_none());
        assert!(share(1_000_000, 51_300).is_none());
        assert!(share(1_000_000, 51_400).is_some());
        assert!(share(1_000_000, 48_600).is_some());
    }

    #[test]
    fn a_figure_over_several_runs_has_its_median_and_its_ends() {
        let spread = |figures: &[f64]| Spread::of(figures.iter().copied()).unwrap();
        assert_eq!(
            range(spread(&[3.0, 1.0, 2.0]), 1),
            "2.0 (median of 3; 1.0 to 3.0)"
        );
        assert_eq!(range(spread(&[1234.0]), 0), "1,234");
    }
}
