//! `baton getErrors` takes failed messages, `baton errors` prints them and removes none.
//!
//! Taking goes in batches: claim, print, commit what was printed. While a slow reader reads, the
//! command extends its claim. If the print ends early, the commit names exactly the lines that are
//! certainly printed, and the rest returns to the store.

use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use baton::FailedMessage;
use baton::Inspector;
use baton::inspect::Drain;
use baton_print::errln;
use baton_protocol::crash;
use baton_protocol::{ErrorsCommit, Extend, Store};
use tokio::time::{MissedTickBehavior, interval_at, sleep};

use crate::args::{ConnectionArgs, FormatArgs};
use crate::output::{Output, Progress};
use crate::stop::{Cause, Stop, exit_code};
use crate::{connect, output, record, runtime};

/// How long the claim of this command lives without an extension.
const TTL: Duration = Duration::from_secs(15);
/// How long an interrupted print may take to end: a write may block for ever.
const GRACE: Duration = Duration::from_millis(500);
/// Max records that `baton errors` reads at a time.
const PAGE_RECORDS: u64 = 500;

/// Why taking ended.
enum End {
    /// Everything is printed and removed.
    All,
    /// The output takes no more.
    Unwritable(io::Error),
    /// A signal, or a closed output, asked to stop.
    Asked(Cause),
    /// The claim on this many printed messages expired: they are in the store again.
    Lost(u64),
}

/// Prints all failed messages and removes what was printed.
pub(crate) fn take(connection: &ConnectionArgs, format: &FormatArgs) -> anyhow::Result<ExitCode> {
    let target = connect::for_command(connection)?;
    let output = Arc::new(Output::stdout());
    if output.is_closed() {
        bail!(
            "stdout is closed, so no message was taken; to throw failed messages away, use \
             `> /dev/null`"
        );
    }
    let stop = Stop::on_signals().context("cannot listen for signals")?;
    runtime::block_on(async {
        let store = connect::open(connection, &target).await?;
        // A script that lacks a permission halfway could lose what it holds.
        store.preflight(true).await?;
        let mut drain = Inspector::over(store.clone()).drain(TTL).await?;
        let mut taken = 0;
        let end = drain_all(&mut drain, format, &output, &stop, &mut taken).await;
        let end = end
            .with_context(|| format!("stopped after {} were printed and removed", count(taken)))?;
        report(&store, end, taken).await
    })
}

async fn drain_all(
    drain: &mut Drain,
    format: &FormatArgs,
    output: &Arc<Output>,
    stop: &Stop,
    taken: &mut u64,
) -> anyhow::Result<End> {
    loop {
        let batch = tokio::select! {
            biased;
            cause = stop.asked() => return Ok(End::Asked(cause)),
            batch = drain.next() => batch?,
        };
        if batch.is_empty() {
            return Ok(End::All);
        }
        let (printed, end) = print(drain, &batch, format, output, stop).await?;
        crash::point("drain-after-print");
        let committed = drain.commit(printed).await.with_context(|| {
            format!(
                "{} more were printed, but may not be removed",
                count(printed)
            )
        })?;
        match committed {
            ErrorsCommit::Done | ErrorsCommit::Already => *taken += printed,
            ErrorsCommit::Lost => return Ok(End::Lost(printed)),
        }
        if let Some(end) = end {
            return Ok(end);
        }
    }
}

/// Prints a batch and keeps it claimed meanwhile. Returns how many are certainly printed, and why
/// no batch follows, if none does.
async fn print(
    drain: &Drain,
    batch: &[FailedMessage],
    format: &FormatArgs,
    output: &Arc<Output>,
    stop: &Stop,
) -> anyhow::Result<(u64, Option<End>)> {
    let lines = batch
        .iter()
        .map(|failed| record::line(failed, format))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let progress = Arc::new(Progress::default());
    let (on, shown) = (Arc::clone(output), Arc::clone(&progress));
    let mut printing = tokio::task::spawn_blocking(move || on.print(&lines, &shown));

    let mut keep = interval_at(tokio::time::Instant::now() + TTL / 3, TTL / 3);
    keep.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut end = None;
    loop {
        tokio::select! {
            printed = &mut printing => {
                if let Err(error) = printed? {
                    end = Some(End::Unwritable(error));
                }
                break;
            }
            cause = stop.asked(), if end.is_none() => {
                progress.halt();
                end = Some(End::Asked(cause));
            }
            () = sleep(GRACE), if end.is_some() => break,
            _ = keep.tick() => match drain.extend().await {
                Ok(Extend::Held) => {}
                // The commit will say the same.
                Ok(Extend::Lost) => progress.halt(),
                Err(error) if error.is_transient() => {}
                Err(error) => return Err(error.into()),
            },
        }
    }
    Ok((progress.printed() as u64, end))
}

async fn report(store: &Store, end: End, taken: u64) -> anyhow::Result<ExitCode> {
    let removed = count(taken);
    if let End::All = end {
        match taken {
            0 => errln!("baton: no failed messages"),
            _ => errln!("baton: {removed} printed and removed"),
        }
        tell_held(store).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let left = match store.errors_len().await {
        Ok(left) => left.to_string(),
        Err(_) => "the others".to_owned(),
    };
    match end {
        End::All => Ok(ExitCode::SUCCESS),
        End::Unwritable(error) => bail!(
            "cannot write to stdout ({}): {removed} printed and removed, {left} remain",
            output::plain(&error)
        ),
        End::Lost(printed) => bail!(
            "{} more printed, but the claim on them expired: the next getErrors prints them again; \
             {removed} printed and removed, {left} remain",
            count(printed)
        ),
        End::Asked(cause) => {
            errln!("baton: interrupted: {removed} printed and removed, {left} remain");
            Ok(match cause {
                Cause::Signal(signal) => ExitCode::from(exit_code(signal)),
                Cause::OutputClosed => ExitCode::FAILURE,
            })
        }
    }
}

fn count(messages: u64) -> String {
    match messages {
        1 => "1 failed message".to_owned(),
        _ => format!("{messages} failed messages"),
    }
}

/// Prints all failed messages and removes none.
pub(crate) fn look(connection: &ConnectionArgs, format: &FormatArgs) -> anyhow::Result<ExitCode> {
    let target = connect::for_command(connection)?;
    let output = Output::stdout();
    runtime::block_on(async {
        let store = connect::view(connection, &target).await?;
        // Messages that fail later are left out, or there might be no end.
        let last = store.errors_last().await?;
        if store.errors_len().await? == 0 {
            errln!("baton: no failed messages");
        }
        let mut after = Some(0);
        while let Some(id) = after.filter(|id| *id < last) {
            let page = store.errors_after(id, PAGE_RECORDS).await?;
            let mut lines = Vec::new();
            for failure in page.failures.iter().filter(|failure| failure.id <= last) {
                lines.extend(record::line(
                    &baton_protocol::record::decode(&failure.record),
                    format,
                )?);
            }
            match output.write(&lines) {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => break,
                written => written.context("cannot write to stdout")?,
            }
            after = page.next;
        }
        tell_held(&store).await?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Says how many failed messages another drain holds.
async fn tell_held(store: &Store) -> anyhow::Result<()> {
    match store.errors_held().await? {
        0 => {}
        held => errln!(
            "baton: left out {}, held by another `baton getErrors` or by a visitor of the page",
            count(held)
        ),
    }
    Ok(())
}
