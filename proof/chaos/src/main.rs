//! The program `chaos`: runs a fleet through a plan of faults and judges every message.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use baton_chaos::arena::{Settings, clock};
use baton_chaos::handlers::{self, HandlerKind};
use baton_chaos::history::History;
use baton_chaos::plan::{KINDS, Kind, Plan, Setup};
use baton_chaos::progress::Progress;
use baton_chaos::run::{self, Length, Unfinished};
use baton_chaos::sources::{self, SourceKind};
use baton_chaos::stop::Stop;
use baton_chaos::topology::{Level, Topology};
use baton_chaos::{chaos_program, faults, namespace, rng::Rng};
use baton_print::{errln as eprintln, outln as println};
use baton_report::stats::{quantile, sorted};
use clap::Parser;

/// Exit code of a run that was interrupted before anything was found.
const INTERRUPTED: u8 = 130;

/// Hurts a real fleet in every way we know, and tells what became of every message.
///
/// The seed decides which faults come, in which order, for how long and at whom. Processes and
/// networks have a will of their own, so the same seed is the same plan, not the same run.
#[derive(Parser, Debug)]
#[command(name = "chaos", version, max_term_width = 100)]
struct Args {
    /// Seed of the plan [default: a random one]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Which servers there are; a group brings faults of its own
    #[arg(long, value_name = "WHAT", value_enum, default_value_t)]
    topology: Topology,
    /// How many partitions the fleet has [default: 1, and in a cluster 12]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    partitions: Option<u32>,
    /// What nodes of a group wait for before they log, see `baton run --durability`: none, or all
    /// replicas of a master: replicas:2 beside Sentinels, replicas:1 in a cluster
    #[arg(long, value_name = "WHAT", default_value_t)]
    level: Level,
    /// Servers and Sentinels speak TLS; Debian's redis-server can do that
    #[arg(long)]
    tls: bool,
    /// Only failovers of a group that forget messages, so many
    #[arg(long, value_name = "N", conflicts_with_all = ["seconds", "faults", "only"])]
    lossy: Option<usize>,
    /// What handles the messages; a handler of one's own brings faults of its own
    #[arg(long, value_name = "WHAT", value_enum, default_value_t)]
    handler: HandlerKind,
    /// What makes the messages; a source of one's own brings faults of its own
    #[arg(long, value_name = "WHAT", value_enum, default_value_t)]
    source: SourceKind,
    /// Begin no new fault after so many seconds
    #[arg(
        long,
        value_name = "S",
        default_value_t = 30,
        conflicts_with = "faults"
    )]
    seconds: u64,
    /// End after so many faults instead
    #[arg(long, value_name = "N")]
    faults: Option<usize>,
    /// How many nodes there are at a time
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(2..=50))]
    nodes: u16,
    /// The program, built with the feature `chaos` [default: baton beside this program]
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
    /// The server program [default: as `baton` finds it]
    #[arg(long, value_name = "PATH")]
    server_program: Option<PathBuf>,
    /// When the server forces its writes to the disk [default: the seed decides]
    #[arg(long, value_name = "HOW", value_parser = ["always", "everysec"])]
    durability: Option<String>,
    /// Only this kind of fault, see --list; may be repeated
    #[arg(long, value_name = "NAME", value_parser = kind)]
    only: Vec<Kind>,
    /// How long the fleet may take to recover from a fault, in seconds
    #[arg(long, value_name = "S", default_value_t = 30)]
    patience: u64,
    /// Write the report, a page of HTML
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write the record of the run, for other programs
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Keep what every process logged, in this folder
    #[arg(long, value_name = "FOLDER")]
    logs: Option<PathBuf>,
    /// List the kinds of faults and end
    #[arg(long)]
    list: bool,
}

fn kind(name: &str) -> Result<Kind, String> {
    Kind::named(name).ok_or_else(|| "no such kind; --list shows them all".to_owned())
}

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let ran = match words.as_slice() {
        [word, folder] if word == handlers::COMMAND => {
            handlers::command::handle(folder.as_ref()).map(ExitCode::from)
        }
        [word, folder, addr] if word == handlers::PUSH_SERVICE => {
            serve(folder.as_ref(), addr).map(|()| ExitCode::SUCCESS)
        }
        [word] if word == sources::COMMAND => {
            sources::command::print_rows().map(|()| ExitCode::SUCCESS)
        }
        _ => chaos(&Args::parse()),
    };
    match ran {
        Ok(code) => code,
        Err(error) => {
            eprintln!("chaos: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn serve(folder: &Path, addr: &OsStr) -> Result<()> {
    let addr = addr.to_str().context("not an address")?.parse()?;
    handlers::push_service::serve(folder, addr)
}

impl Args {
    fn setup(&self) -> Setup {
        // Only a group can have lossy failovers.
        let topology = match (self.lossy, self.topology) {
            (Some(_), Topology::Single) => Topology::Sentinel,
            (_, topology) => topology,
        };
        let partitions = self.partitions;
        Setup {
            topology,
            partitions: partitions.unwrap_or_else(|| topology.default_partitions()),
            handler: self.handler,
            source: self.source,
        }
    }

    /// The only kinds of faults; all, if there are none.
    fn only(&self) -> &[Kind] {
        match self.lossy {
            Some(_) => &[Kind::Lossy],
            None => &self.only,
        }
    }

    fn length(&self) -> Length {
        match self.lossy.or(self.faults) {
            Some(faults) => Length::Faults(faults),
            None => Length::Time(Duration::from_secs(self.seconds)),
        }
    }
}

fn chaos(args: &Args) -> Result<ExitCode> {
    if args.list {
        for facts in KINDS {
            println!("{:16}  {}", facts.name, facts.words);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let seed = args
        .seed
        .unwrap_or_else(|| u64::from(rand::random::<u32>()));
    let again = again(args, seed);
    println!("seed {seed}; again: {again}");
    let stop = Stop::on_signals()?;
    let (setup, only) = (args.setup(), args.only());
    check_setup(setup)?;
    let levels = setup.topology.levels();
    ensure!(
        levels.contains(&args.level),
        "--topology {} has no --level {}",
        setup.topology.name(),
        args.level
    );
    ensure!(
        setup.topology == Topology::Sentinel || !args.tls,
        "--tls is for --topology sentinel"
    );
    let settings = settings(args, seed)?;
    let wanted = |kind| only.is_empty() || only.contains(&kind);
    for facts in KINDS {
        // Only a user who asks for it misses a fault of other servers, handlers or sources.
        let missed = match only.is_empty() {
            true => facts.misses(setup).is_none(),
            false => wanted(facts.kind),
        };
        match faults::why_not(facts.kind, &settings) {
            Some(why) if missed => println!("left out: {} ({why})", facts.name),
            _ => {}
        }
    }
    let possible = |kind| wanted(kind) && faults::why_not(kind, &settings).is_none();
    ensure!(
        KINDS.iter().any(|facts| possible(facts.kind)),
        "none of these faults can happen here"
    );
    let plan = Plan::new(seed, setup, only);
    let ran = run::run(
        plan,
        args.length(),
        settings,
        stop.clone(),
        args.logs.as_deref(),
        &mut Progress::new(),
    );
    let run = match ran {
        Err(_) if stop.asked() => return Ok(ExitCode::from(INTERRUPTED)),
        Err(error) => match error.downcast_ref::<Unfinished>() {
            Some(unfinished) => {
                print_findings(seed, &unfinished.findings);
                println!("- {error:#}");
                return Ok(ExitCode::FAILURE);
            }
            None => return Err(error),
        },
        Ok(ran) => History {
            seed,
            command: again,
            ..ran
        },
    };
    print(&run);
    if let Some(path) = &args.json {
        write(path, &serde_json::to_string(&run)?)?;
    }
    if let Some(path) = &args.out {
        write(path, &baton_chaos::report::page(&run))?;
    }
    Ok(match (run.verdict.is_clean(), stop.asked()) {
        (false, _) => ExitCode::FAILURE,
        (true, false) => ExitCode::SUCCESS,
        (true, true) => ExitCode::from(INTERRUPTED),
    })
}

/// Refuses what the run could not judge.
fn check_setup(setup: Setup) -> Result<()> {
    let (is_single, is_spread) = (setup.topology == Topology::Single, setup.partitions > 1);
    ensure!(
        is_single || setup.handler == HandlerKind::Pretended,
        "a group of servers has no other handlers yet"
    );
    // In a fleet of one partition a row has the number of its message, until a failover makes numbers void.
    ensure!(
        is_single || is_spread || setup.source == SourceKind::Random,
        "a group of servers has rows only with several partitions"
    );
    ensure!(
        setup.topology != Topology::Sentinel || !is_spread,
        "a fleet behind Sentinels has one partition"
    );
    Ok(())
}

/// The command that makes the same plan.
fn again(args: &Args, seed: u64) -> String {
    let mut words = vec!["chaos".to_owned(), format!("--seed {seed}")];
    words.push(match (args.lossy, args.faults) {
        (Some(lossy), _) => format!("--lossy {lossy}"),
        (None, Some(faults)) => format!("--faults {faults}"),
        (None, None) => format!("--seconds {}", args.seconds),
    });
    words.push(format!("--nodes {}", args.nodes));
    if args.topology != Topology::Single {
        words.push(format!("--topology {}", args.topology.name()));
    }
    let partitions = args.partitions.iter();
    words.extend(partitions.map(|count| format!("--partitions {count}")));
    if args.level != Level::None {
        words.push(format!("--level {}", args.level));
    }
    if args.tls {
        words.push("--tls".to_owned());
    }
    if args.handler != HandlerKind::Pretended {
        words.push(format!("--handler {}", args.handler.name()));
    }
    if args.source != SourceKind::Random {
        words.push(format!("--source {}", args.source.name()));
    }
    let durability = args.durability.iter();
    words.extend(durability.map(|how| format!("--durability {how}")));
    let only = args.only.iter();
    words.extend(only.map(|kind| format!("--only {}", kind.facts().name)));
    words.join(" ")
}

fn settings(args: &Args, seed: u64) -> Result<Settings> {
    let exe = std::env::current_exe().context("cannot find this program")?;
    let program = chaos_program::find(args.program.as_deref())?;
    let always = match args.durability.as_deref() {
        Some(how) => how == "always",
        // Another generator than the plan's: the plan is the same either way.
        None => Rng::new(!seed).chance(50),
    };
    let server_program = match &args.server_program {
        Some(program) => program.clone(),
        None => baton_server::find_program()?,
    };
    let faketime = faketime(&exe);
    let runs = |library: &PathBuf| clock::runs_with(&server_program, library);
    Ok(Settings {
        program,
        topology: args.setup().topology,
        partitions: args.setup().partitions,
        level: args.level,
        tls: args.tls,
        handler: args.handler,
        source: args.source,
        own_program: exe,
        server_faketime: faketime.as_ref().is_some_and(runs),
        server_program,
        nodes: usize::from(args.nodes),
        always,
        faketime,
        namespaces: namespace::why_not().is_none(),
        timeout: Duration::from_secs(args.patience),
    })
}

/// The library where `scripts/setup-chaos` puts it, in a folder above this program.
fn faketime(exe: &Path) -> Option<PathBuf> {
    let tools = exe.ancestors().skip(1);
    let mut files = tools.map(|folder| folder.join("tools/libfaketime.so.1"));
    files.find(|file| file.is_file())
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn print(run: &History) {
    let verdict = &run.verdict;
    println!(
        "\n{} faults in {:.0} s on {}, {}",
        run.faults.len(),
        run.seconds,
        run.server,
        run.durability
    );
    let idle = |note: &str| note.starts_with("not done") || note.ends_with("not reached");
    let idle = run.faults.iter().filter(|fault| idle(&fault.note));
    match idle.count() {
        0 => {}
        idle => println!("  {idle} of them could not be done or found nothing to hit"),
    }
    for (name, count) in [
        ("published", verdict.published),
        ("done", verdict.done),
        ("failed", verdict.failed),
        ("drained", verdict.drained),
        ("lost", verdict.lost),
        ("duplicated", verdict.duplicated),
        ("phantom", verdict.phantom),
    ] {
        println!("  {name:10} {count:>8}");
    }
    if let Some(counted) = verdict.counted {
        println!("  {:10} {counted:>8}", "counted");
    }
    if let Some(losses) = &verdict.losses {
        println!("  {losses}");
    }
    times("takeover of a killed generator", &run.takeovers_ms);
    times("messages of a killed worker back", &run.recoveries_ms);
    if verdict.is_clean() {
        println!("\nEvery message ended exactly once.");
        return;
    }
    print_findings(run.seed, &verdict.findings);
}

fn print_findings(seed: u64, findings: &[String]) {
    println!("\nNOT WELL, seed {seed}:");
    for finding in findings {
        println!("- {finding}");
    }
}

fn times(name: &str, ms: &[f64]) {
    let sorted = sorted(ms.iter().copied());
    let quantiles = [0.5, 0.99, 1.0].map(|share| quantile(&sorted, share));
    if let [Some(p50), Some(p99), Some(max)] = quantiles {
        let times = sorted.len();
        println!("  {name}: p50 {p50:.0} ms, p99 {p99:.0} ms, max {max:.0} ms, {times} times");
    }
}
