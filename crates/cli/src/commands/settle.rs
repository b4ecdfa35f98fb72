//! `baton retry` and `baton drop`: settle failed messages by hand.
//!
//! The command walks through the store and remembers the id of each message that matches, 24 bytes
//! each. After the question it settles exactly those, batch by batch: not a message that failed
//! later, even if a server that lost its data gave it the number of another.

mod matches;
mod question;

use std::io::{IsTerminal, stderr};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use baton::Inspector;
use baton::inspect::{FailedId, Settlement};
use baton_print::{errln, thousands};
use serde::Serialize;

use super::get_errors::report_claimed;
use crate::args::{ConnectionArgs, FormatArgs, SettleArgs};
use crate::client::Away;
use crate::failed_filter::FailedFilter;
use crate::shutdown::Shutdown;
use crate::usage_error::UsageError;
use crate::{client, json, runtime, stdout, target};
use matches::Matches;

/// How many messages one batch has. An interrupt takes effect between two batches.
const BATCH: usize = 500;
/// How often a terminal gets a line about the progress.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// What to do with the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Give them to the workers again.
    Retry,
    /// Remove them for good.
    Drop,
}

impl Action {
    fn verb(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Drop => "drop",
        }
    }

    fn past(self) -> &'static str {
        match self {
            Self::Retry => "retried",
            Self::Drop => "dropped",
        }
    }
}

/// What became of the messages, as `--json` prints it.
#[derive(Debug, Default, Serialize)]
struct Outcome {
    /// Messages that matched.
    matched: u64,
    /// Messages that wait for a worker again.
    retried: u64,
    /// Messages that were removed for good.
    dropped: u64,
    /// Messages that another client settled, took or claimed in between.
    missing: u64,
    /// Records that cannot be retried; they are still in the store.
    unfit: u64,
    /// Messages that were not searched, because a drain holds them.
    held: u64,
}

/// Settles the failed messages that match.
pub(crate) fn run(
    connection: &ConnectionArgs,
    args: &SettleArgs,
    action: Action,
) -> anyhow::Result<ExitCode> {
    check(args, action)?;
    let target = target::for_command(connection)?;
    let shutdown = Shutdown::on_signals()?;
    runtime::block_on(async {
        let inspector = client::inspector(&target, &connection.fleet).await?;
        let (inspector, away) = Away::split(&inspector).await;
        inspector.preflight_to_act().await?;
        // Frees what dead drains had claimed.
        inspector.reclaim().await?;
        let inspector = inspector.require(args.durability.durability).await;
        // A server that cannot give it now would not give it in the end.
        inspector.confirm().await.with_context(|| {
            format!(
                "nothing was {}: the server cannot confirm it",
                action.past()
            )
        })?;
        let chosen = tokio::select! {
            chosen = choose(&inspector, args, action) => chosen?,
            cause = shutdown.requested() => {
                errln!("baton: interrupted: nothing was {}", action.past());
                return Ok(cause.exit_code());
            }
        };
        let (matches, held) = match chosen {
            Chosen::Messages(matches, held) => (matches, held),
            Chosen::Declined => {
                errln!("baton: nothing was {}", action.past());
                return Ok(ExitCode::FAILURE);
            }
        };
        let outcome = Outcome {
            matched: matches.ids.len() as u64,
            held,
            ..Outcome::default()
        };
        let mut settling = Settling {
            inspector: &inspector,
            action,
            shutdown,
            outcome,
        };
        let ended = settling.settle(&matches.ids).await;
        settling.report(&args.format)?;
        let code = ended.with_context(|| format!("stopped early, {}", settling.so_far()))?;
        if settling.has_settled() {
            inspector
                .confirm()
                .await
                .with_context(|| format!("{}, but a failover may undo it", settling.so_far()))?;
        }
        report_claimed(held);
        Ok(away.end(code))
    })
}

/// Refuses a command line that says neither which messages nor `--all`, or cannot be confirmed.
fn check(args: &SettleArgs, action: Action) -> Result<(), UsageError> {
    let verb = action.verb();
    if args.filter.is_empty() && !args.all {
        return Err(UsageError(format!(
            "which failed messages? `baton {verb}` needs --seq, --reason, --node or --since, or \
             --all for all of them"
        )));
    }
    if !args.yes && !question::can_ask() {
        return Err(UsageError(format!(
            "`baton {verb}` asks before it acts, and there is no terminal to ask on: add --yes; \
             `baton errors` with the same flags prints what it would {verb}"
        )));
    }
    Ok(())
}

/// What the user decided.
enum Chosen {
    /// To settle these; a drain holds so many others.
    Messages(Matches, u64),
    /// To settle none.
    Declined,
}

/// Finds the messages, lists some, and asks.
async fn choose(
    inspector: &Inspector,
    args: &SettleArgs,
    action: Action,
) -> anyhow::Result<Chosen> {
    let filter = FailedFilter::new(&args.filter, inspector).await?;
    let matches = Matches::find(inspector, &filter).await?;
    let held = inspector.claimed_count().await?;
    errln!("{}", matches.describe());
    let agreed = args.yes || matches.ids.is_empty() || question::ask(action, &matches).await?;
    Ok(match agreed {
        true => Chosen::Messages(matches, held),
        false => Chosen::Declined,
    })
}

/// Settles messages batch by batch.
struct Settling<'a> {
    inspector: &'a Inspector,
    action: Action,
    shutdown: Shutdown,
    outcome: Outcome,
}

impl Settling<'_> {
    async fn settle(&mut self, ids: &[FailedId]) -> anyhow::Result<ExitCode> {
        let shows_progress = stderr().is_terminal();
        let mut told = Instant::now();
        for batch in ids.chunks(BATCH) {
            if let Some(cause) = self.shutdown.cause() {
                errln!("baton: interrupted, {}", self.so_far());
                return Ok(cause.exit_code());
            }
            let settlement = match self.action {
                Action::Retry => self.inspector.retry(batch).await,
                Action::Drop => self.inspector.drop(batch).await,
            };
            self.add(&settlement);
            if let Some(error) = settlement.error {
                return Err(error.into());
            }
            if shows_progress && told.elapsed() >= PROGRESS_EVERY {
                told = Instant::now();
                errln!("baton: {}", self.so_far());
            }
        }
        Ok(match self.outcome.unfit {
            0 => ExitCode::SUCCESS,
            _ => ExitCode::FAILURE,
        })
    }

    fn has_settled(&self) -> bool {
        self.outcome.retried + self.outcome.dropped > 0
    }

    fn add(&mut self, settlement: &Settlement) {
        let outcome = &mut self.outcome;
        outcome.retried += settlement.retried;
        outcome.dropped += settlement.dropped;
        outcome.missing += settlement.missing;
        outcome.unfit += settlement.unfit;
    }

    /// How many messages it has settled.
    fn settled(&self) -> u64 {
        match self.action {
            Action::Retry => self.outcome.retried,
            Action::Drop => self.outcome.dropped,
        }
    }

    fn so_far(&self) -> String {
        let (settled, matched) = (thousands(self.settled()), thousands(self.outcome.matched));
        format!("{settled} of {matched} {} so far", self.action.past())
    }

    /// Prints what became of the messages.
    fn report(&self, format: &FormatArgs) -> anyhow::Result<()> {
        let mut lines = Vec::new();
        if format.json {
            json::write_line(&mut lines, &self.outcome)?;
            return stdout::print(&lines);
        }
        let mut say = |count: u64, words: &str| {
            lines.extend(format!("{} {words}\n", thousands(count)).into_bytes());
        };
        let Outcome { missing, unfit, .. } = self.outcome;
        say(self.settled(), self.action.past());
        if missing > 0 {
            say(
                missing,
                "missing: another client settled, took or claimed them in between",
            );
        }
        if unfit > 0 {
            say(
                unfit,
                "unfit: they are no messages of this fleet that have ended, or are longer than 512 \
                 KiB; they stay in the store",
            );
        }
        stdout::print(&lines)
    }
}
