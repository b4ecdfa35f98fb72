//! `baton errors`: prints failed messages and leaves them in the store.

use std::process::ExitCode;

use baton::Inspector;
use baton::inspect::FailedCursor;
use baton_print::errln;

use super::get_errors::report_claimed;
use crate::args::{ConnectionArgs, FormatArgs};
use crate::stdout::{Reader, Stdout};
use crate::{client, failed_message, runtime, target};

/// Max failed messages in one page.
const PAGE_RECORDS: u64 = 500;

/// Prints all failed messages.
pub(crate) fn run(connection: &ConnectionArgs, format: &FormatArgs) -> anyhow::Result<ExitCode> {
    let target = target::for_command(connection)?;
    runtime::block_on(async {
        let inspector = client::reader(&target, &connection.fleet).await?;
        if inspector.failed_count().await? == 0 {
            errln!("baton: no failed messages");
        }
        print(&inspector, format).await?;
        report_claimed(inspector.claimed_count().await?);
        Ok(ExitCode::SUCCESS)
    })
}

async fn print(inspector: &Inspector, format: &FormatArgs) -> anyhow::Result<()> {
    let stdout = Stdout::new();
    let newest = inspector.failed_messages(FailedCursor::NEWEST, 1).await?;
    let last = newest.messages.first().map(|failed| failed.id.number());
    let mut next = last.map(|_| FailedCursor::OLDEST);
    while let Some(cursor) = next {
        let page = inspector.failed_messages(cursor, PAGE_RECORDS).await?;
        let mut lines = Vec::new();
        // Messages that fail from now on are left out: with them, the print might never end.
        let known = |number| last.is_some_and(|last| number <= last);
        let all_known = page.messages.iter().all(|failed| known(failed.id.number()));
        for failed in page
            .messages
            .iter()
            .filter(|failed| known(failed.id.number()))
        {
            lines.extend(failed_message::line(&failed.message, format)?);
        }
        if stdout.write(&lines)? == Reader::Gone {
            break;
        }
        next = page.next.filter(|_| all_known);
    }
    Ok(())
}
