//! `baton errors`: prints failed messages, or groups of them, and leaves them in the store.

mod reasons;

use std::process::ExitCode;

use baton::Inspector;
use baton_print::errln;

use super::get_errors::report_claimed;
use crate::args::{ConnectionArgs, ErrorsArgs, FormatArgs, GroupBy};
use crate::client::Away;
use crate::failed_filter::FailedFilter;
use crate::failed_walk::FailedWalk;
use crate::stdout::{Reader, Stdout};
use crate::{client, failed_message, runtime, target};
use reasons::Reasons;

/// Prints the failed messages that match, or their groups.
pub(crate) fn run(connection: &ConnectionArgs, args: &ErrorsArgs) -> anyhow::Result<ExitCode> {
    let target = target::for_command(connection)?;
    runtime::block_on(async {
        let inspector = client::reader(&target, &connection.fleet).await?;
        let (inspector, away) = Away::split(&inspector).await;
        let filter = FailedFilter::new(&args.filter, &inspector).await?;
        let all = inspector.failed_count().await? + inspector.claimed_count().await?;
        let is_empty = all <= inspector.held_count().await?;
        let matching = match args.by {
            None => print(&inspector, &filter, &args.format).await?,
            Some(GroupBy::Reason) => print_groups(&inspector, &filter, &args.format).await?,
        };
        match (is_empty, matching) {
            (true, _) => errln!("baton: no failed messages"),
            (false, 0) => errln!("baton: no failed message matches"),
            _ => {}
        }
        report_claimed(inspector.held_count().await?);
        Ok(away.end(ExitCode::SUCCESS))
    })
}

/// Prints the messages that match. Returns how many it printed.
async fn print(
    inspector: &Inspector,
    filter: &FailedFilter,
    format: &FormatArgs,
) -> anyhow::Result<u64> {
    let stdout = Stdout::new();
    let mut walk = FailedWalk::start(inspector).await?;
    let mut printed = 0;
    while let Some(page) = walk.next_page().await? {
        let mut lines = Vec::new();
        for failed in page.iter().filter(|failed| filter.matches(&failed.message)) {
            lines.extend(failed_message::line(&failed.message, format)?);
            printed += 1;
        }
        if stdout.write(&lines)? == Reader::Gone {
            break;
        }
    }
    Ok(printed)
}

/// Prints one line for each group of reasons. Returns how many messages match.
async fn print_groups(
    inspector: &Inspector,
    filter: &FailedFilter,
    format: &FormatArgs,
) -> anyhow::Result<u64> {
    let mut walk = FailedWalk::start(inspector).await?;
    let (mut reasons, mut matching) = (Reasons::default(), 0);
    while let Some(page) = walk.next_page().await? {
        for failed in page.iter().filter(|failed| filter.matches(&failed.message)) {
            reasons.add(&failed.message);
            matching += 1;
        }
    }
    let _ = Stdout::new().write(&reasons.lines(format)?)?;
    Ok(matching)
}
