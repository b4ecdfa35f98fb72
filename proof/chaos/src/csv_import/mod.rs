//! The import of a CSV file under fire: a fleet of real processes whose source is `tail`, and kill -9 of
//! generators, sources, workers and Redis. In the end each line must be there once: in the audit, and in
//! what the effects wrote.

mod order_service;
mod orders;
mod victims;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use baton::inspect::Snapshot;
use baton_processes::{Fleet, Own};
use baton_server::{Fsync, PrivateServer};

use self::order_service::OrderService;
pub use self::victims::Victim;
use crate::observer::Observer;
use crate::process_scan::{self, Kind, Process, scan};
use crate::rng::Rng;
use crate::stop::Stop;

const FLEET: &str = "orders";
const FILE: &str = "orders.csv";
/// `tail` counts lines as Baton counts messages.
const SOURCE: &str = "exec tail -n +\"$BATON_NEXT\" orders.csv";
const BEHAVIOUR: &[(&str, &str)] = &[
    ("BATON_FLEET", FLEET),
    ("BATON_SOURCE", SOURCE),
    ("BATON_AUDIT", "1"),
    ("BATON_CONCURRENCY", "16"),
    // The file does not fit: a source runs until most messages have ended, so that it can be killed.
    ("BATON_MAX_PENDING", "2000"),
];
/// Longest time without a message that ends.
const STALL: Duration = Duration::from_secs(30);

/// The settings of an import.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The program, built with the feature `chaos`.
    pub program: PathBuf,
    /// The server program.
    pub server_program: PathBuf,
    /// How many lines the file has.
    pub lines: u64,
    /// How many processes of each kind are killed.
    pub kills: u64,
    /// How many nodes there are at a time.
    pub nodes: usize,
    /// Decides which workers die.
    pub seed: u64,
}

/// What an import did.
#[derive(Debug, Default)]
pub struct Import {
    /// The server's version.
    pub server: String,
    /// From the first node to the last line.
    pub seconds: f64,
    /// The victims, in order.
    pub killed: Vec<Victim>,
    /// How many lines the service was given, those of killed nodes included.
    pub handled: u64,
    /// Lines that the effects wrote.
    pub imported: usize,
    /// Everything that is wrong; empty if each line was imported once.
    pub findings: Vec<String>,
}

/// Everything that takes part. Dropping it kills every process and removes every file.
struct Arena {
    fleet: Fleet,
    service: OrderService,
    server: PrivateServer,
    observer: Observer,
    settings: Settings,
    folder: tempfile::TempDir,
    stop: Stop,
    rng: Rng,
}

/// Imports a file. `say` gets a line for each kill.
pub fn run(settings: Settings, stop: Stop, mut say: impl FnMut(&str)) -> Result<Import> {
    let mut arena = Arena::new(settings, stop)?;
    let began = Instant::now();
    let mut killed = Vec::new();
    for _ in 0..arena.settings.nodes {
        arena.start_node()?;
    }
    let deaths = arena.settings.kills * Victim::ALL.len() as u64;
    for (number, victim) in (0..arena.settings.kills)
        .flat_map(|_| Victim::ALL)
        .enumerate()
    {
        // Up to four fifths of the file: later, its rest may lie in the pipe, and no source runs.
        let done = arena.settings.lines * (number as u64 + 1) * 4 / (deaths * 5);
        let status = arena.wait_for(|status| status.done >= done)?;
        arena.kill(victim)?;
        killed.push(victim);
        let at = began.elapsed().as_secs_f64();
        say(&format!(
            "{at:6.1} s  {:>9} lines  kill -9 {victim}",
            status.done
        ));
    }
    let lines = arena.settings.lines;
    let ended = arena.wait_for(|status| status.published >= lines && have_ended(status));
    let seconds = began.elapsed().as_secs_f64();
    arena.stop_all()?;
    let mut import = arena.check()?;
    if let Err(error) = ended {
        import.findings.insert(0, format!("{error:#}"));
    }
    Ok(Import {
        server: arena.observer.snapshot()?.server.version,
        seconds,
        killed,
        handled: arena.service.handled(),
        ..import
    })
}

/// Whether all published messages have ended.
fn have_ended(status: &Snapshot) -> bool {
    status.pending + status.claimed + status.delayed == 0
}

impl Arena {
    fn new(settings: Settings, stop: Stop) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("baton-csv-").tempdir()?;
        orders::write(&folder.path().join(FILE), settings.lines)?;
        // Nothing that Redis has confirmed may be gone after a kill.
        let server = PrivateServer::builder()
            .appendonly(Fsync::Always)
            .program(&settings.server_program)
            .start()?;
        let service = OrderService::start()?;
        let url = server.url();
        let own = [
            ("BATON_PUSH", service.url()),
            (process_scan::RUN, folder.path().display().to_string()),
        ];
        let all = BEHAVIOUR
            .iter()
            .map(|(name, value)| (*name, (*value).to_owned()));
        let env: Vec<(String, String)> = all
            .chain(own)
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        Ok(Self {
            fleet: Fleet::new(&settings.program, &["--redis", &url]).with_env(&env),
            service,
            observer: Observer::new(url, FLEET, 1)?,
            server,
            rng: Rng::new(settings.seed),
            settings,
            folder,
            stop,
        })
    }

    fn start_node(&mut self) -> Result<usize> {
        // Its folder is the one with the file.
        let enter = ["sh", "-c", "cd \"$0\" && exec \"$@\""].map(str::to_owned);
        let folder = self.folder.path().display().to_string();
        self.fleet.start_with(Own {
            prefix: enter.into_iter().chain([folder]).collect(),
            group: true,
            ..Own::default()
        })
    }

    /// Waits for a status. Fails if no message ends for long, or if a node ends by itself.
    fn wait_for(&mut self, fits: impl Fn(&Snapshot) -> bool) -> Result<Snapshot> {
        let (mut done, mut since) = (None, Instant::now());
        loop {
            match self.observer.snapshot() {
                Ok(status) if fits(&status) => return Ok(status),
                Ok(status) if done != Some(status.done) => {
                    (done, since) = (Some(status.done), Instant::now());
                }
                // While Redis is away there is no status.
                Ok(_) | Err(_) => {}
            }
            ensure!(since.elapsed() < STALL, "no message ended for {STALL:?}");
            for node in self.fleet.alive() {
                let ended = self.fleet.ended(node)?;
                ensure!(ended.is_none(), "node {node} ended by itself: {ended:?}");
            }
            ensure!(!self.stop.asked(), "interrupted");
            self.stop.wait(Duration::from_millis(20));
        }
    }

    /// The source that runs.
    fn source(&self) -> Option<Process> {
        let found = scan(&self.folder.path().display().to_string());
        let mut sources = found.iter().filter(|of| of.kind == Kind::Source);
        sources.next().map(|of| of.process)
    }

    fn stop_all(&mut self) -> Result<()> {
        for node in self.fleet.alive() {
            self.fleet.terminate(node)?;
            let code = self.fleet.wait(node)?;
            ensure!(code == Some(0), "node {node} ended with {code:?}");
        }
        Ok(())
    }

    /// Compares the audit and the written lines with the file.
    fn check(&self) -> Result<Import> {
        let (lines, mut findings) = (self.settings.lines, Vec::new());
        let audit = self.observer.audit()?;
        findings.extend(audit.findings.iter().map(ToString::to_string));
        let ends = (audit.published, audit.done, audit.failed);
        if ends != (lines, lines, 0) {
            findings.push(format!(
                "the file has {lines} lines; the audit: {} published, {} done, {} failed",
                ends.0, ends.1, ends.2
            ));
        }
        let path = |name: &str| -> PathBuf { self.folder.path().join(name) };
        let imported = orders::export(&self.observer, &path("imported.csv"))?;
        findings.extend(orders::difference(&path(FILE), &path("imported.csv"))?);
        Ok(Import {
            imported,
            findings,
            ..Import::default()
        })
    }
}
