//! Every crash point, one by one: a copy dies exactly there, and its fleet finishes all the same.
//!
//! A chaos run meets crash points by chance. Here a copy reaches each one on purpose, in a fleet of
//! three on its own server. So a point that the program no longer passes is noticed.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use baton::{FailedMessage, FleetName, Target};
use baton_processes::{Fleet, Own, Told, command, status, wait_status};
use baton_protocol::Store;
use baton_protocol::crash::POINTS;
use baton_protocol::{Ledger, new_name};
use baton_server::PrivateServer;

/// Longest wait for anything.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Pause between two polls.
const POLL: Duration = Duration::from_millis(5);
const VARIABLE: &str = "BATON_CRASH_AT";
const FLEET: &str = "default";

/// Lets a copy of `program` die at every point in turn, and reports each point that passed.
///
/// The program must have been built with the feature `chaos`.
pub fn all(program: &Path, mut tell: impl FnMut(&str, Duration)) -> Result<()> {
    a_typo_is_refused(program)?;
    for point in POINTS {
        let began = Instant::now();
        one(program, point).with_context(|| format!("crash point {point}"))?;
        tell(point, began.elapsed());
    }
    Ok(())
}

/// Lets a copy of `program` die at one point, and waits until the others have finished.
pub fn one(program: &Path, point: &str) -> Result<()> {
    let mut scene = Scene::new(program, point)?;
    match Place::of(point) {
        Place::Throne => {
            let victim = scene.start_victim()?;
            scene.wait_killed(victim)?;
            scene.start(2)?;
        }
        Place::Generator => {
            let victim = scene.start_victim()?;
            scene.fleet.wait_generator(TIMEOUT)?;
            scene.start(2)?;
            scene.wait_killed(victim)?;
        }
        Place::Worker => {
            scene.start(2)?;
            let victim = scene.start_victim()?;
            scene.wait_killed(victim)?;
        }
        Place::Leaver => {
            scene.start(2)?;
            scene.kill_a_leaver()?;
        }
        Place::Reclaimer => {
            let victim = scene.start_victim()?;
            scene.fleet.wait_generator(TIMEOUT)?;
            scene.start(2)?;
            scene.orphan_messages(victim)?;
            scene.wait_killed(victim)?;
            scene.start(2)?;
        }
        Place::Drain => scene.start(3)?,
    }
    scene.finish()?;
    if Place::of(point) == Place::Drain {
        scene.drain_twice()?;
    }
    Ok(())
}

/// The role in which a copy passes a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// On its way to generating.
    Throne,
    /// While it generates.
    Generator,
    /// While it works.
    Worker,
    /// When it is asked to stop while it holds messages.
    Leaver,
    /// When it reclaims the messages of dead workers.
    Reclaimer,
    /// While it takes failed messages.
    Drain,
}

impl Place {
    fn of(point: &str) -> Self {
        match point {
            "after-beat-took-lease" | "before-seal" | "after-seal" => Self::Throne,
            "before-publish" | "after-publish" => Self::Generator,
            "before-give-back" | "after-give-back" | "before-leave" => Self::Leaver,
            "after-reclaim" => Self::Reclaimer,
            _ if point.starts_with("drain-") => Self::Drain,
            _ => Self::Worker,
        }
    }

    /// How many messages there are in all, and further flags.
    fn flags(point: &str) -> (u64, &'static str) {
        match Self::of(point) {
            // A reign with many publishes.
            Self::Throne | Self::Generator => (500, "--interval 2ms"),
            // Handlers slower than a sixth of their claim.
            Self::Worker if point.contains("extend") => {
                (8, "--interval 0 --work 400ms --claim-ttl 1s")
            }
            // Slow ones, so that one worker does not hold them all.
            Self::Leaver => (600, "--interval 0 --work 20ms"),
            // Everything waits from the start, so claims are of several messages.
            _ => (600, "--interval 0 --work 3ms"),
        }
    }
}

struct Scene {
    server: PrivateServer,
    fleet: Fleet,
    program: std::path::PathBuf,
    point: String,
    messages: u64,
}

impl Scene {
    fn new(program: &Path, point: &str) -> Result<Self> {
        let server = PrivateServer::builder().start()?;
        let (messages, flags) = Place::flags(point);
        let (url, count) = (server.url(), messages.to_string());
        let mut args = vec!["--redis", &url, "--messages", &count, "--error-rate", "0.2"];
        args.extend(flags.split_whitespace());
        let audit = ("BATON_AUDIT".to_owned(), "1".to_owned());
        let fleet = Fleet::new(program, &args).with_env(&[audit]);
        Ok(Self {
            program: program.to_owned(),
            point: point.to_owned(),
            server,
            fleet,
            messages,
        })
    }

    fn start(&mut self, copies: usize) -> Result<()> {
        self.fleet.start_many(copies, TIMEOUT)
    }

    fn start_victim(&mut self) -> Result<usize> {
        let time = match Place::of(&self.point) {
            // In the middle, not at its beginning.
            Place::Generator => 20,
            Place::Worker if !self.point.contains("extend") => 3,
            _ => 1,
        };
        self.fleet.start_with(Own {
            env: vec![(VARIABLE.to_owned(), format!("{}:{time}", self.point))],
            ..Own::default()
        })
    }

    /// Waits for the end of a copy; true if it was killed.
    fn wait_ended(&mut self, copy: usize) -> Result<bool> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            if let Some(status) = self.fleet.ended(copy)? {
                return Ok(status.signal() == Some(9));
            }
            ensure!(Instant::now() < deadline, "not reached in {TIMEOUT:?}");
            std::thread::sleep(POLL);
        }
    }

    fn wait_killed(&mut self, copy: usize) -> Result<()> {
        let killed = self.wait_ended(copy)?;
        ensure!(killed, "the copy ended by itself");
        Ok(())
    }

    /// Asks copies to stop until one dies at the point.
    fn kill_a_leaver(&mut self) -> Result<()> {
        for _ in 0..10 {
            let mark = self.fleet.mark();
            let victim = self.start_victim()?;
            // It may die with its first claim: it gives back what is behind a slow message.
            let deadline = Instant::now() + TIMEOUT;
            let has_worked = |told: &Told| told.copy == victim && told.is_processed();
            while !self.fleet.told_since(mark).iter().any(has_worked) {
                if self.fleet.ended(victim)?.is_some() {
                    return self.wait_killed(victim);
                }
                ensure!(Instant::now() < deadline, "no message in {TIMEOUT:?}");
                std::thread::sleep(POLL);
            }
            self.fleet.terminate(victim)?;
            if self.wait_ended(victim)? {
                return Ok(());
            }
        }
        bail!("ten copies have stopped in good order")
    }

    /// Kills all but one while they hold messages.
    fn orphan_messages(&mut self, but: usize) -> Result<()> {
        let workers: Vec<usize> = self.fleet.alive();
        let workers = workers.into_iter().filter(|copy| *copy != but);
        let workers: Vec<usize> = workers.collect();
        let deadline = Instant::now() + TIMEOUT;
        loop {
            for worker in &workers {
                self.fleet.pause(*worker)?;
            }
            if status(&self.server.url(), FLEET)?.claimed > 0 {
                break;
            }
            ensure!(Instant::now() < deadline, "no worker holds a message");
            for worker in &workers {
                self.fleet.resume(*worker)?;
            }
            std::thread::sleep(POLL);
        }
        for worker in &workers {
            self.fleet.kill9(*worker)?;
        }
        Ok(())
    }

    /// Waits until every message has ended, and audits the ledger.
    fn finish(&self) -> Result<()> {
        let url = self.server.url();
        wait_status(&url, FLEET, TIMEOUT, "every message's end", |status| {
            status.balanced && status.done + status.failed == self.messages
        })?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let audit = runtime.block_on(async {
            let (target, fleet) = (Target::parse(&url)?, FleetName::new(FLEET)?);
            let store = Store::open(&target, &fleet, &new_name(), |_| {}).await?;
            baton_protocol::audit::audit(&store, &Ledger::read(&store).await?).await
        })?;
        ensure!(audit.findings.is_empty(), "{:?}", audit.findings);
        ensure!(audit.published == self.messages, "{audit:?}");
        Ok(())
    }

    /// Takes the failed messages: a drain dies on the way, another takes the rest. Each message
    /// is printed, and twice only if the first died between printing and committing.
    fn drain_twice(&self) -> Result<()> {
        let failed = status(&self.server.url(), FLEET)?.errors;
        let died = self.get_errors(Some(&self.point))?;
        ensure!(
            died.status.signal() == Some(9),
            "the drain ended by itself: {}",
            String::from_utf8_lossy(&died.stderr).trim()
        );
        let rest = self.get_errors(None)?;
        ensure!(rest.status.success(), "the second drain failed: {rest:?}");
        let (first, second) = (numbers(&died)?, numbers(&rest)?);
        let all: BTreeSet<u64> = first.iter().chain(&second).copied().collect();
        ensure!(
            all.len() as u64 == failed,
            "of {failed} failed messages {} were printed",
            all.len()
        );
        let twice = first.len() + second.len() - all.len();
        let expected = match self.point.as_str() {
            "drain-after-print" => first.len(),
            _ => 0,
        };
        ensure!(
            twice == expected,
            "{twice} were printed twice, not {expected}"
        );
        ensure!(
            first.is_empty() == (self.point == "drain-after-claim"),
            "the first drain has printed {}",
            first.len()
        );
        Ok(())
    }

    fn get_errors(&self, die_at: Option<&str>) -> Result<Output> {
        let mut command: Command = command(&self.program);
        command.args(["getErrors", "--json", "--redis", &self.server.url()]);
        if let Some(point) = die_at {
            command.env(VARIABLE, point);
        }
        command.output().context("cannot run getErrors")
    }
}

/// The sequence numbers that a drain has printed.
fn numbers(printed: &Output) -> Result<Vec<u64>> {
    let lines = String::from_utf8_lossy(&printed.stdout);
    lines
        .lines()
        .map(|line| {
            let failed: FailedMessage = serde_json::from_str(line)?;
            Ok(failed.seq)
        })
        .collect()
}

/// The program refuses the name of a point that does not exist: it would test nothing.
fn a_typo_is_refused(program: &Path) -> Result<()> {
    let ran = command(program)
        .args(["status", "--redis", "redis://127.0.0.1:1"])
        .env(VARIABLE, "after-clam")
        .output()
        .with_context(|| format!("cannot run {}", program.display()))?;
    let said = String::from_utf8_lossy(&ran.stderr);
    ensure!(
        ran.status.code() == Some(2) && said.contains("after-clam"),
        "a crash point that does not exist was accepted by {}: built without the feature \
         `chaos`? It said: {}",
        program.display(),
        said.trim()
    );
    Ok(())
}
