//! `baton drain`: pauses the generator, and waits until every message has ended.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use baton::inspect::{NodeRole, NodeStatus, Snapshot};
use baton::{Inspector, Part};
use baton_print::{errln, thousands};
use indicatif::{ProgressBar, ProgressStyle};

use super::pause::{self, Action};
use super::status::duration;
use crate::args::{ConnectionArgs, DrainArgs};
use crate::shutdown::Shutdown;
use crate::{client, runtime, stdout, target, terminal};

/// How often the command looks at the fleet.
const EVERY: Duration = Duration::from_millis(200);
/// How often it prints a line about the progress, if it draws no bar.
const LINE_EVERY: Duration = Duration::from_secs(5);
/// How long messages may wait without a worker before it says so.
const NO_WORKER_AFTER: Duration = Duration::from_secs(3);

/// Pauses the generator; with `--wait`, returns when every message has ended.
pub(crate) fn run(connection: &ConnectionArgs, args: &DrainArgs) -> anyhow::Result<ExitCode> {
    let target = target::for_command(connection)?;
    let shutdown = Shutdown::on_signals()?;
    runtime::block_on(async {
        let inspector = client::inspector(&target, &connection.fleet).await?;
        let parts = [Part::Generator];
        let before = inspector.pause(&parts).await?;
        let snapshot = inspector.snapshot().await?;
        let report = pause::report(&parts, Action::Pause, &before, snapshot.now_ms);
        stdout::print(report.as_bytes())?;
        pause::note_missing_nodes(&snapshot);
        if !args.wait {
            stdout::print(format!("{}\n", describe(&snapshot)).as_bytes())?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut wait = Wait::new(snapshot);
        let ended = tokio::select! {
            drained = wait.until_drained(&inspector) => drained.map(|()| None),
            cause = shutdown.requested() => Ok(Some(cause)),
        };
        wait.bar.finish_and_clear();
        match ended? {
            None => {
                stdout::print(b"drained: every message has ended\n")?;
                Ok(ExitCode::SUCCESS)
            }
            Some(cause) => {
                errln!(
                    "baton: interrupted: {}; the generator stays paused until `baton resume \
                     generator`",
                    describe(&wait.snapshot)
                );
                Ok(cause.exit_code())
            }
        }
    })
}

/// Where the messages are that have not ended, in words.
fn describe(snapshot: &Snapshot) -> String {
    let Snapshot {
        pending,
        claimed,
        delayed,
        ..
    } = snapshot;
    let subject = match open(snapshot) {
        0 if !is_whole(snapshot) => return snapshot.partition_troubles().join("; "),
        0 => return "every message has ended".to_owned(),
        1 => "1 message has not ended".to_owned(),
        open => format!("{} messages have not ended", thousands(open)),
    };
    let due_ms = snapshot.next_due_ms.unwrap_or_default();
    let due = match due_ms.saturating_sub(snapshot.now_ms) {
        0 => String::new(),
        left_ms => format!(", the first due in {}", duration(left_ms)),
    };
    let [pending, claimed, delayed] = [pending, claimed, delayed].map(|count| thousands(*count));
    format!("{subject}: {pending} pending, {claimed} claimed, {delayed} delayed{due}")
}

/// Whether all partitions could be read. Messages of another one may not have ended.
fn is_whole(snapshot: &Snapshot) -> bool {
    snapshot.partition_troubles().is_empty()
}

/// How many messages have not ended.
fn open(snapshot: &Snapshot) -> u64 {
    let places = [snapshot.pending, snapshot.claimed, snapshot.delayed];
    places.into_iter().fold(0, u64::saturating_add)
}

/// The wait for the last message.
struct Wait {
    /// The latest reading.
    snapshot: Snapshot,
    /// How many messages had not ended when the wait began.
    at_first: u64,
    /// It draws nothing if stderr is no terminal.
    bar: ProgressBar,
    /// When the last line about the progress was printed.
    told_at: Option<Instant>,
    /// Since when messages wait, and no worker is there.
    without_worker: Option<Instant>,
    /// What was said already: each thing once.
    said: Vec<&'static str>,
}

impl Wait {
    fn new(snapshot: Snapshot) -> Self {
        let at_first = open(&snapshot);
        let bar = match terminal::is_dumb() {
            true => ProgressBar::hidden(),
            false => ProgressBar::new(at_first),
        };
        // The form is a constant; if it were wrong, the default would do.
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}") {
            bar.set_style(style.progress_chars("━━╌"));
        }
        Self {
            snapshot,
            at_first,
            bar,
            told_at: None,
            without_worker: None,
            said: Vec::new(),
        }
    }

    /// Waits until every message has ended.
    async fn until_drained(&mut self, inspector: &Inspector) -> anyhow::Result<()> {
        loop {
            if self.snapshot.paused.generator_since_ms.is_none() {
                bail!(
                    "the generator is not paused any more, so messages come again: another client has \
                     resumed it, or Redis lost its data"
                );
            }
            if open(&self.snapshot) == 0 && is_whole(&self.snapshot) {
                return Ok(());
            }
            self.tell();
            self.say_what_hinders(Instant::now());
            tokio::time::sleep(EVERY).await;
            match inspector.snapshot().await {
                Ok(snapshot) => self.snapshot = snapshot,
                // The connection comes back by itself.
                Err(error) if error.is_transient() => {
                    self.say("Redis does not answer; waiting for it");
                }
                Err(error) => {
                    return Err(error).context("stopped waiting; the generator stays paused");
                }
            }
        }
    }

    /// Shows how far it is.
    fn tell(&mut self) {
        let words = describe(&self.snapshot);
        if !self.bar.is_hidden() {
            self.bar.set_message(words);
            let ended = self.at_first.saturating_sub(open(&self.snapshot));
            self.bar.set_position(ended);
        } else if self.told_at.is_none_or(|at| at.elapsed() >= LINE_EVERY) {
            self.told_at = Some(Instant::now());
            errln!("baton: {words}");
        }
    }

    /// Says why the wait may never end.
    fn say_what_hinders(&mut self, now: Instant) {
        if !is_whole(&self.snapshot) {
            self.say("not all partitions can be read; waiting for them");
        }
        let snapshot = &self.snapshot;
        if snapshot.paused.workers_since_ms.is_some() {
            self.say("the workers are paused: no message ends until `baton resume workers`");
            return;
        }
        // A generator may handle messages, too.
        let works = |node: &NodeStatus| match node.role {
            NodeRole::Worker => true,
            NodeRole::Dead => false,
            _ => node.claimed > 0,
        };
        let waits = snapshot.pending > 0 || snapshot.claimed > 0;
        if !waits || snapshot.nodes.iter().any(works) {
            self.without_worker = None;
            return;
        }
        let since = *self.without_worker.get_or_insert(now);
        if now.duration_since(since) >= NO_WORKER_AFTER {
            self.say("no worker is alive: messages wait until one starts");
        }
    }

    /// Says something once.
    fn say(&mut self, words: &'static str) {
        if !self.said.contains(&words) {
            self.said.push(words);
            self.bar.suspend(|| errln!("baton: {words}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use baton::inspect::PartitionSnapshot;

    use super::*;

    #[test]
    fn messages_of_a_partition_that_cannot_be_read_may_not_have_ended() {
        let mut snapshot = Snapshot::default();
        snapshot.partitions = vec![PartitionSnapshot::default(); 2];
        assert!(is_whole(&snapshot));
        assert_eq!(describe(&snapshot), "every message has ended");
        snapshot.partitions[1].partition = 1;
        snapshot.partitions[1].trouble = Some("no answer".to_owned());
        assert!(!is_whole(&snapshot));
        assert_eq!(describe(&snapshot), "partition 1 cannot be read: no answer");
    }
}
