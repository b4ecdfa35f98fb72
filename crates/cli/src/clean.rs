//! `baton clean`: puts back at once what dead nodes held, the lease too, and forgets dead nodes.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::process::ExitCode;

use crate::args::ConnectionArgs;
use crate::output::Output;
use crate::{connect, runtime};
use baton_protocol::text::Escaped;

/// Cleans the fleet and reports what it did.
pub(crate) fn run(connection: &ConnectionArgs) -> anyhow::Result<ExitCode> {
    let target = connect::for_command(connection)?;
    let report = runtime::block_on(async {
        let store = connect::open(connection, &target).await?;
        store.preflight(true).await?;
        let (mut messages, mut records, mut holders) = (0, 0, BTreeSet::new());
        loop {
            let back = store.reclaim_absent().await?;
            if back.nodes.is_empty() {
                break;
            }
            messages += back.messages;
            records += back.records;
            holders.extend(back.nodes);
        }
        let freed = store.free().await?;
        let forgotten = store.forget().await?.into_iter().collect();

        let mut report = String::new();
        if !holders.is_empty() {
            let holders = list(&holders);
            let _ = writeln!(
                report,
                "put back {messages} messages and {records} failed messages that {holders} held"
            );
        }
        if report.is_empty() {
            report.push_str("nothing to put back: no dead node held a message\n");
        }
        if let Some(holder) = freed {
            let holder = Escaped(holder.as_bytes());
            let _ = writeln!(report, "freed the lease that {holder} had");
        }
        let _ = match list(&forgotten).as_str() {
            "" => writeln!(report, "no dead node to forget"),
            names => writeln!(report, "forgot {names}"),
        };
        Ok(report)
    })?;
    crate::print(&Output::stdout(), report.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn list(names: &BTreeSet<String>) -> String {
    let names: Vec<String> = names
        .iter()
        .map(|name| Escaped(name.as_bytes()).to_string())
        .collect();
    names.join(", ")
}
