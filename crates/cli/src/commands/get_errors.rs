//! `baton getErrors`: prints failed messages and removes them.
//!
//! It works in batches: claim, print, commit. It extends the claim while a slow reader reads.
//! Whatever ends the print early, the commit names exactly the lines that are certainly printed,
//! and the other messages return to the store.

use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use baton::inspect::Drain;
use baton::{FailedMessage, Inspector};
use baton_print::errln;
use baton_protocol::{ErrorsCommit, Extend, crash};
use tokio::time::{MissedTickBehavior, interval_at, sleep};

use crate::args::{ConnectionArgs, FormatArgs, GetErrorsArgs};
use crate::client::Away;
use crate::shutdown::{Cause, Shutdown};
use crate::stdout::{self, Progress, Stdout};
use crate::{client, failed_message, runtime, target};

/// How long a claim of this command lasts if the command does not extend it.
const CLAIM_TTL: Duration = Duration::from_secs(15);
/// How long this command waits for the end of an interrupted print: its write may block for ever.
const HALT_TIMEOUT: Duration = Duration::from_millis(500);

/// Why the command ends.
enum End {
    /// It has printed and removed all failed messages.
    All,
    /// It cannot write to stdout.
    Unwritable(io::Error),
    /// A shutdown was requested.
    Shutdown(Cause),
    /// The claim on this many printed messages expired: they are in the store again.
    Lost(u64),
}

/// Prints all failed messages and removes those that are printed.
pub(crate) fn run(connection: &ConnectionArgs, args: &GetErrorsArgs) -> anyhow::Result<ExitCode> {
    let target = target::for_command(connection)?;
    let stdout = Arc::new(Stdout::new());
    if stdout.is_closed() {
        bail!(
            "stdout is closed, so no message was taken; to throw failed messages away, use \
             `> /dev/null`"
        );
    }
    let shutdown = Shutdown::on_signals()?;
    runtime::block_on(async {
        let inspector = client::inspector(&target, &connection.fleet).await?;
        let (inspector, away) = Away::split(&inspector).await;
        let inspector = inspector.require(args.durability.durability).await;
        // A server that cannot give it now would not give it in the end.
        inspector
            .confirm()
            .await
            .context("no message was taken: the server cannot confirm that it is gone")?;
        let mut printer = Printer {
            drain: inspector.drain(CLAIM_TTL).await?,
            format: &args.format,
            stdout,
            shutdown,
            taken: 0,
        };
        let end = printer.drain_all().await;
        let taken = printer.taken;
        let end = end
            .with_context(|| format!("stopped after {} were printed and removed", count(taken)))?;
        if taken > 0 {
            inspector.confirm().await.with_context(|| {
                format!(
                    "{} printed and removed, but they may come back after a failover",
                    count(taken)
                )
            })?;
        }
        let reported = report(&inspector, end, taken).await;
        match reported {
            Ok(code) => Ok(away.end(code)),
            Err(error) => {
                away.tell();
                Err(error)
            }
        }
    })
}

/// Prints failed messages batch by batch.
struct Printer<'a> {
    drain: Drain,
    format: &'a FormatArgs,
    stdout: Arc<Stdout>,
    shutdown: Shutdown,
    /// How many messages are printed and removed.
    taken: u64,
}

impl Printer<'_> {
    async fn drain_all(&mut self) -> anyhow::Result<End> {
        loop {
            let batch = tokio::select! {
                biased;
                cause = self.shutdown.requested() => return Ok(End::Shutdown(cause)),
                batch = self.drain.next() => batch?,
            };
            if batch.is_empty() {
                return Ok(End::All);
            }
            let (printed, end) = self.print(&batch).await?;
            crash::point("drain-after-print");
            let committed = self.drain.commit(printed as usize).await.with_context(|| {
                format!(
                    "{} more were printed, but may not be removed",
                    count(printed)
                )
            })?;
            match committed {
                ErrorsCommit::Done | ErrorsCommit::Already => self.taken += printed,
                ErrorsCommit::Lost => return Ok(End::Lost(printed)),
            }
            if let Some(end) = end {
                return Ok(end);
            }
        }
    }

    /// Prints a batch and extends its claim meanwhile. Returns how many messages are certainly
    /// printed, and why no batch may follow.
    async fn print(&self, batch: &[FailedMessage]) -> anyhow::Result<(u64, Option<End>)> {
        let lines = batch
            .iter()
            .map(|failed| failed_message::line(failed, self.format))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let progress = Arc::new(Progress::default());
        let (stdout, counted) = (Arc::clone(&self.stdout), Arc::clone(&progress));
        let mut printing = tokio::task::spawn_blocking(move || stdout.print(&lines, &counted));

        let mut extend = interval_at(tokio::time::Instant::now() + CLAIM_TTL / 3, CLAIM_TTL / 3);
        extend.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut end = None;
        loop {
            tokio::select! {
                printed = &mut printing => {
                    if let Err(error) = printed? {
                        end = Some(End::Unwritable(error));
                    }
                    break;
                }
                cause = self.shutdown.requested(), if end.is_none() => {
                    progress.halt();
                    end = Some(End::Shutdown(cause));
                }
                () = sleep(HALT_TIMEOUT), if end.is_some() => break,
                _ = extend.tick() => match self.drain.extend().await {
                    Ok(Extend::Held) => {}
                    // The commit will find that the claim is lost.
                    Ok(Extend::Lost) => progress.halt(),
                    Err(error) if error.is_transient() => {}
                    Err(error) => return Err(error.into()),
                },
            }
        }
        Ok((progress.printed() as u64, end))
    }
}

/// Tells the user how many messages are printed and removed, and chooses the exit code.
async fn report(inspector: &Inspector, end: End, taken: u64) -> anyhow::Result<ExitCode> {
    let removed = count(taken);
    let remain = || async {
        match inspector.failed_count().await {
            Ok(left) => format!("{left} remain"),
            Err(_) => "the others remain".to_owned(),
        }
    };
    match end {
        End::All => {
            match taken {
                0 => errln!("baton: no failed messages"),
                _ => errln!("baton: {removed} printed and removed"),
            }
            report_claimed(inspector.claimed_count().await?);
            Ok(ExitCode::SUCCESS)
        }
        End::Unwritable(error) => bail!(
            "cannot write to stdout ({}): {removed} printed and removed, {}",
            stdout::plain(&error),
            remain().await
        ),
        End::Lost(printed) => bail!(
            "{} more printed, but the claim on them expired: the next getErrors prints them again; \
             {removed} printed and removed, {}",
            count(printed),
            remain().await
        ),
        End::Shutdown(cause) => {
            errln!(
                "baton: interrupted: {removed} printed and removed, {}",
                remain().await
            );
            Ok(cause.exit_code())
        }
    }
}

/// Tells the user how many failed messages another client has claimed. They are not printed.
pub(super) fn report_claimed(claimed: u64) {
    if claimed > 0 {
        errln!(
            "baton: left out {}, held by another `baton getErrors` or by a visitor of the page",
            count(claimed)
        );
    }
}

/// A number of failed messages in words.
fn count(messages: u64) -> String {
    match messages {
        1 => "1 failed message".to_owned(),
        _ => format!("{messages} failed messages"),
    }
}
