//! The narrated demo: it kills and pauses nodes, and prints what happens.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use baton::inspect::NodeRole;
use baton_log::LogEvent;
use baton_print::outln;
use baton_processes::{Fleet, History, Told, command, status};
use baton_protocol::text::Excerpt;
use baton_server::PrivateServer;

use super::{COPIES, INTERVAL, MESSAGES};

/// Max wait for anything that should happen at once.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Acts on the fleet and prints each step. Dropping it kills every process and removes every file.
pub(super) struct Narrator {
    program: PathBuf,
    // Before the server, so that no copy outlives it.
    fleet: Fleet,
    server: PrivateServer,
    began: Instant,
}

impl Narrator {
    /// A narrator for this fleet, which has no nodes yet.
    pub(super) fn new(program: PathBuf, server: PrivateServer, fleet: Fleet) -> Self {
        Self {
            program,
            fleet,
            server,
            began: Instant::now(),
        }
    }

    /// Runs the demo to its end. Fails if a message is lost or processed twice.
    pub(super) fn run(mut self) -> Result<()> {
        outln!("Baton: one generator, any number of workers, every message exactly once.\n");
        self.start()?;
        self.print_messages(Duration::from_millis(1500))?;
        self.kill_generator()?;
        self.print_messages(Duration::from_millis(5500))?;
        self.kill_worker()?;
        self.print_messages(Duration::from_millis(3000))?;
        self.pause_generator()?;
        self.print_messages(Duration::from_millis(3000))?;
        self.wait_for_the_end()?;
        let taken = self.get_errors()?;
        self.sum_up(taken)
    }

    fn start(&mut self) -> Result<()> {
        let server = self
            .server
            .program()
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        self.say(&format!("a private {server}, gone at the end"));
        self.fleet.start_many(COPIES, TIMEOUT)?;
        let generator = self.fleet.wait_generator(TIMEOUT)?;
        let workers: Vec<String> = self
            .fleet
            .alive()
            .into_iter()
            .filter(|copy| *copy != generator)
            .map(|copy| self.name(copy))
            .collect();
        self.say(&format!(
            "{COPIES} copies of one program: {} generates, {} work",
            self.name(generator),
            workers.join(", ")
        ));
        self.say(&format!(
            "a message of random text every {INTERVAL:?} (500ms is the default), {MESSAGES} in all"
        ));
        Ok(())
    }

    fn kill_generator(&mut self) -> Result<()> {
        let generator = self.fleet.generator().context("no node generates")?;
        let mark = self.fleet.mark();
        let killed = Instant::now();
        self.fleet.kill9(generator)?;
        self.say(&format!("KILL -9 the generator {}", self.name(generator)));
        let next = self.fleet.wait_for(mark, TIMEOUT, "a successor", |told| {
            matches!(told.event(), LogEvent::Generator { .. })
        })?;
        self.say(&format!(
            "  {} generates now, epoch {}: {} ms after the kill",
            next.node(),
            next.event().epoch().unwrap_or_default(),
            (next.at - killed).as_millis()
        ));
        self.fleet.start_many(1, TIMEOUT)?;
        self.say("  one more copy started, a worker");
        Ok(())
    }

    fn kill_worker(&mut self) -> Result<()> {
        let victim = self.wait_holder()?;
        let mark = self.fleet.mark();
        let killed = Instant::now();
        self.fleet.kill9(victim)?;
        self.say(&format!(
            "KILL -9 the worker {} in the middle of a message",
            self.name(victim)
        ));
        let back = self
            .fleet
            .wait_for(mark, TIMEOUT, "its message to come back", |told| {
                matches!(told.event(), LogEvent::Reclaimed { .. })
            })?;
        if let LogEvent::Reclaimed { count, .. } = back.event() {
            self.say(&format!(
                "  {count} message back in the queue {} ms after the kill",
                (back.at - killed).as_millis()
            ));
        }
        let again = self.fleet.wait_for(
            mark,
            TIMEOUT,
            "its message to end",
            |told| matches!(told.event(), LogEvent::Processed { attempt, .. } if *attempt > 1),
        )?;
        if let LogEvent::Processed { first, attempt, .. } = again.event() {
            let node = again.node();
            self.say(&format!(
                "  #{first} processed by {node}, attempt {attempt}"
            ));
        }
        Ok(())
    }

    fn pause_generator(&mut self) -> Result<()> {
        let generator = self.fleet.generator().context("no node generates")?;
        let mark = self.fleet.mark();
        let paused = Instant::now();
        self.fleet.pause(generator)?;
        self.say(&format!(
            "PAUSE the generator {} (SIGSTOP: as if its plug were pulled)",
            self.name(generator)
        ));
        let next = self.fleet.wait_for(mark, TIMEOUT, "a successor", |told| {
            matches!(told.event(), LogEvent::Generator { .. }) && told.copy != generator
        })?;
        self.say(&format!(
            "  its lease ran out: {} generates now, epoch {}, after {:.1} s",
            next.node(),
            next.event().epoch().unwrap_or_default(),
            (next.at - paused).as_secs_f64()
        ));
        let mark = self.fleet.mark();
        self.fleet.resume(generator)?;
        self.fleet
            .wait_for(mark, TIMEOUT, "it to be fenced", |told| {
                told.copy == generator && matches!(told.event(), LogEvent::Fenced { .. })
            })?;
        self.say(&format!(
            "  resumed: {} is fenced and works from now on",
            self.name(generator)
        ));
        Ok(())
    }

    /// Prints every third message for a while, as it ends.
    fn print_messages(&self, time: Duration) -> Result<()> {
        let until = Instant::now() + time;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            let mark = self.fleet.mark();
            self.fleet.watch_for(left.min(INTERVAL * 3))?;
            let told = self.fleet.told();
            if let Some(line) = told[mark..].iter().find_map(|ended| line(ended, &told)) {
                outln!("  {line}");
            }
        }
        Ok(())
    }

    fn wait_for_the_end(&self) -> Result<()> {
        self.say("waiting for the last message to end");
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let status = status(&self.server.url(), "default")?;
            if status.done + status.failed == MESSAGES {
                return Ok(());
            }
            ensure!(
                Instant::now() < deadline,
                "not all messages ended: {status:?}"
            );
            self.fleet.watch_for(Duration::from_millis(100))?;
        }
    }

    /// Runs `getErrors` as a user would. Returns how many failed messages it printed.
    fn get_errors(&self) -> Result<u64> {
        self.say("baton getErrors");
        let output = command(&self.program)
            .args(["getErrors", "--redis", &self.server.url()])
            .output()?;
        ensure!(
            output.status.success(),
            "getErrors failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let lines = String::from_utf8_lossy(&output.stdout).into_owned();
        lines.lines().for_each(|line| outln!("  {line}"));
        Ok(lines.lines().count() as u64)
    }

    fn sum_up(&self, taken: u64) -> Result<()> {
        let status = status(&self.server.url(), "default")?;
        let history = History::new(&self.fleet.told());
        let under_way = status.pending + status.claimed + status.delayed;
        let lost = status.published - status.done - status.failed - under_way;
        let duplicated = history.duplicated().len();
        outln!("\n  published  {:>4}", status.published);
        outln!("  done       {:>4}", status.done);
        outln!(
            "  failed     {:>4}  (getErrors printed {taken} and removed them)",
            status.failed
        );
        outln!("  lost       {lost:>4}");
        outln!("  duplicated {duplicated:>4}");
        let clean = lost == 0 && duplicated == 0 && history.phantoms(MESSAGES).is_empty();
        if !(clean && status.balanced && taken == status.failed && status.errors == 0) {
            bail!("the books do not balance: {status:?}");
        }
        outln!("\nTwo processes killed, one paused: every message was processed exactly once.");
        Ok(())
    }

    /// Waits for a worker that holds a message.
    fn wait_holder(&self) -> Result<usize> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let status = status(&self.server.url(), "default")?;
            let holder = status
                .nodes
                .iter()
                .find(|node| node.claimed > 0 && node.role == NodeRole::Worker);
            let told = self.fleet.told();
            let copy = holder.and_then(|node| told.iter().find(|told| told.node() == node.node));
            if let Some(told) = copy {
                return Ok(told.copy);
            }
            ensure!(Instant::now() < deadline, "no worker holds a message");
            self.fleet.watch_for(Duration::from_millis(5))?;
        }
    }

    fn name(&self, copy: usize) -> String {
        let told = self.fleet.told();
        let name = told
            .iter()
            .find(|told| told.copy == copy)
            .map(|told| told.node().to_owned());
        name.unwrap_or_else(|| format!("copy {copy}"))
    }

    fn say(&self, text: &str) {
        outln!("[{:4.1} s] {text}", self.began.elapsed().as_secs_f64());
    }
}

/// The line of a message that ended; none for other events. Its text is in the line of its
/// publish, which is in `told`.
fn line(ended: &Told, told: &[Told]) -> Option<String> {
    let LogEvent::Processed { first, failed, .. } = ended.event() else {
        return None;
    };
    let published = told.iter().rev().find_map(|told| match told.event() {
        LogEvent::Published {
            first: of, text, ..
        } if of == first => Some(text),
        _ => None,
    });
    let text = match published {
        Some(Some(text)) => Excerpt {
            bytes: text.as_bytes(),
            max_chars: 45,
        }
        .to_string(),
        _ => "(published in a pack, to catch up)".to_owned(),
    };
    let outcome = if failed.is_empty() {
        "done  "
    } else {
        "FAILED"
    };
    let node = ended.node();
    Some(format!("#{first:<4} {text:<48} {outcome} by {node}"))
}
