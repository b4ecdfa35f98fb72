//! `baton bench`: times and audits many messages, beside an unsafe queue.

pub(crate) mod floor;
pub(crate) mod node;
mod progress;
mod report;
mod start_signal;
mod summary;

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use baton::Target;
use baton_bench::floor::best_batch_size;
use baton_bench::{Plan, Usage};
use baton_print::errln;
use baton_server::{Fsync, PrivateServer};
use clap::ValueEnum;

use crate::args::ConnectionArgs;
use crate::shutdown::Shutdown;
use crate::usage_error::UsageError;
use crate::{stdout, target};
use progress::Bar;
use summary::{Servers, Summary};

/// Share of messages that workers find faulty.
const ERROR_RATE: f64 = 0.05;
/// Max findings to print: one mistake can make a million of them.
const MAX_FINDINGS: usize = 20;

/// What to measure, and on what.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Bench")]
pub(crate) struct BenchArgs {
    /// How many messages
    #[arg(long, value_name = "N", env = "BATON_MESSAGES", default_value = "1000000",
          value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub(crate) messages: u64,
    /// How many copies work, beside the one that generates
    #[arg(long, value_name = "N", env = "BATON_WORKERS", default_value = "2",
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) workers: u16,
    /// Bytes of each text
    #[arg(long, value_name = "BYTES", env = "BATON_SIZE", default_value = "64",
          value_parser = clap::value_parser!(u32).range(1..=(8 << 20)))]
    pub(crate) size: u32,
    /// What the private server writes to disk
    #[arg(
        long,
        value_name = "WHAT",
        env = "BATON_PERSISTENCE",
        default_value = "none"
    )]
    pub(crate) persistence: Persistence,
    /// Kill the generator and workers by turns with -9, so often in every run; each is replaced
    #[arg(long, value_name = "N", env = "BATON_KILL", default_value = "0",
          value_parser = clap::value_parser!(u16).range(0..=10_000))]
    pub(crate) kill: u16,
    /// How many runs; the summary has their medians
    #[arg(long, value_name = "N", env = "BATON_RUNS", default_value = "1",
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) runs: u16,
    /// Pretended handling time of every message; without a floor then
    #[arg(long, value_name = "TIME", env = "BATON_WORK", default_value = "0ms",
          value_parser = crate::args::work)]
    pub(crate) work: Duration,
    /// How many messages a worker handles at the same time
    #[arg(long, value_name = "N", env = "BATON_CONCURRENCY", default_value = "1",
          value_parser = crate::args::concurrency)]
    pub(crate) concurrency: usize,
    /// Write a report with plots: one HTML file
    #[arg(long, value_name = "FILE", env = "BATON_REPORT")]
    pub(crate) report: Option<PathBuf>,
    /// Print the medians as one JSON object, on the last line
    #[arg(long, env = "BATON_JSON")]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Persistence {
    /// Nothing
    None,
    /// An append-only file, forced to disk every second
    Everysec,
    /// An append-only file, forced to disk before every answer
    Always,
}

/// Runs the bench. It leaves no process and no file behind, also on Ctrl-C.
pub(crate) fn run(connection: &ConnectionArgs, args: &BenchArgs) -> anyhow::Result<ExitCode> {
    let named = target::named(connection)?;
    if named.is_some() && args.persistence != Persistence::None {
        return Err(UsageError(
            "--persistence is for the private server; the server that was named has its own \
             settings"
                .to_owned(),
        )
        .into());
    }
    if let Some(file) = &args.report {
        // A file that cannot be written is better found now than after the last run. What is in it
        // stays until there is a new report.
        let opened = OpenOptions::new().append(true).create(true).open(file);
        opened.with_context(|| format!("cannot write {}", file.display()))?;
    }
    let shutdown = Shutdown::on_signals()?;
    let (server, target, env) = match named {
        Some(target) => (None, target, target::environment(connection)?),
        None => {
            let server = private_server(args.persistence)?;
            let url = server.url_with_password();
            let target = Target::parse(&url)?;
            // Other users can read a command line, but not the environment.
            let env = vec![("REDIS_URL".to_owned(), url)];
            (Some(server), target, env)
        }
    };
    let bench = Bench {
        plan: plan(args, target, env)?,
        args,
        shutdown: shutdown.clone(),
    };
    let measured = bench.measure();
    drop(server);
    let summary = match (measured, shutdown.cause()) {
        (Err(_), Some(cause)) => return Ok(cause.exit_code()),
        (measured, _) => measured?,
    };
    if let Some(file) = &args.report {
        write(file, &report::page(&summary))?;
    }
    if args.json {
        stdout::print(format!("{}\n", summary.json()).as_bytes())?;
    } else {
        stdout::print(summary.to_string().as_bytes())?;
    }
    Ok(verdict(&summary))
}

/// Prints what is wrong, if anything is, and chooses the exit code.
fn verdict(summary: &Summary) -> ExitCode {
    let findings = summary.findings().count();
    if findings == 0 {
        return ExitCode::SUCCESS;
    }
    for finding in summary.findings().take(MAX_FINDINGS) {
        errln!("baton: {finding}");
    }
    if findings > MAX_FINDINGS {
        errln!("baton: and {} findings more", findings - MAX_FINDINGS);
    }
    ExitCode::FAILURE
}

fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

fn private_server(persistence: Persistence) -> anyhow::Result<PrivateServer> {
    // A port as most servers have it, not a socket; so it wants a password.
    let builder = PrivateServer::builder().random_password()?;
    let builder = match persistence {
        Persistence::None => builder,
        Persistence::Everysec => builder.appendonly(Fsync::EverySec),
        Persistence::Always => builder.appendonly(Fsync::Always),
    };
    Ok(builder.start()?)
}

fn plan(args: &BenchArgs, target: Target, env: Vec<(String, String)>) -> anyhow::Result<Plan> {
    let time = humantime::format_duration(args.work).to_string();
    let flags = [
        "--work",
        &time,
        "--concurrency",
        &args.concurrency.to_string(),
    ]
    .map(str::to_owned)
    .to_vec();
    Ok(Plan {
        program: std::env::current_exe().context("cannot find this program")?,
        target,
        env,
        messages: args.messages,
        size: args.size as usize,
        workers: usize::from(args.workers),
        kills: usize::from(args.kill),
        error_rate: ERROR_RATE,
        flags,
    })
}

struct Bench<'a> {
    plan: Plan,
    args: &'a BenchArgs,
    shutdown: Shutdown,
}

impl Bench<'_> {
    fn measure(&self) -> anyhow::Result<Summary> {
        let servers = self.servers()?;
        let bytes_per_pending = baton_bench::bytes_per_pending(&self.plan)?;
        let batch = match self.args.work.is_zero() && servers.count == 1 {
            true => Some(self.best_batch()?),
            false => None,
        };
        let mut summary = Summary::new(self.args, servers, bytes_per_pending, batch);
        for run in 0..self.args.runs {
            // By turns, so that neither always has the warmer machine.
            if run % 2 == 0 {
                summary.add(self.ours(run)?);
                summary.add_floor(self.floor(run, batch)?);
            } else {
                summary.add_floor(self.floor(run, batch)?);
                summary.add(self.ours(run)?);
            }
        }
        Ok(summary)
    }

    fn servers(&self) -> anyhow::Result<Servers> {
        let mut probe = baton_bench::FleetProbe::open(&self.plan.target)?;
        Ok(Servers {
            version: probe.version()?,
            count: probe.servers().len(),
        })
    }

    fn ours(&self, run: u16) -> anyhow::Result<baton_bench::Run> {
        let bar = Bar::new(&self.name("baton", run), self.plan.messages);
        baton_bench::run(&self.plan, |now| {
            bar.update(now);
            self.go_on()
        })
    }

    fn floor(&self, run: u16, batch: Option<u64>) -> anyhow::Result<Option<(f64, Usage)>> {
        let Some(batch) = batch else { return Ok(None) };
        let bar = Bar::new(&self.name("floor", run), self.plan.messages);
        let timed = baton_bench::floor::run(&self.plan, self.plan.messages, batch, |now| {
            bar.update(now);
            self.go_on()
        })?;
        Ok(Some(timed))
    }

    /// The batch size at which the unsafe queue is fastest here.
    fn best_batch(&self) -> anyhow::Result<u64> {
        let bar = Bar::new("floor, which batch size", self.plan.messages / 4);
        best_batch_size(&self.plan, |now| {
            bar.update(now);
            self.go_on()
        })
    }

    fn name(&self, what: &str, run: u16) -> String {
        match self.args.runs {
            1 => what.to_owned(),
            runs => format!("{what} {} of {runs}", run + 1),
        }
    }

    fn go_on(&self) -> anyhow::Result<()> {
        match self.shutdown.cause() {
            Some(_) => bail!("interrupted"),
            None => Ok(()),
        }
    }
}
