//! `baton errors`: prints failed messages and leaves them in the store.

use std::process::ExitCode;

use baton_print::errln;
use baton_protocol::{Store, record};

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
        let store = client::store_reader(&target, &connection.fleet).await?;
        if store.errors_len().await? == 0 {
            errln!("baton: no failed messages");
        }
        print(&store, format).await?;
        report_claimed(store.errors_held().await?);
        Ok(ExitCode::SUCCESS)
    })
}

async fn print(store: &Store, format: &FormatArgs) -> anyhow::Result<()> {
    let stdout = Stdout::new();
    // Messages that fail from now on are left out: with them, the print might never end.
    let last = store.errors_last().await?;
    let mut after = Some(0);
    while let Some(id) = after.filter(|id| *id < last) {
        let page = store.errors_after(id, PAGE_RECORDS).await?;
        let mut lines = Vec::new();
        for failure in page.failures.iter().filter(|failure| failure.id <= last) {
            let failed = record::decode(&failure.record);
            lines.extend(failed_message::line(&failed, format)?);
        }
        if stdout.write(&lines)? == Reader::Gone {
            break;
        }
        after = page.next;
    }
    Ok(())
}
