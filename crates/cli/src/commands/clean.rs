//! `baton clean`: puts back at once what dead nodes held, frees their lease, and forgets them.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::process::ExitCode;

use baton_protocol::Store;
use baton_protocol::text::Escaped;

use crate::args::ConnectionArgs;
use crate::{client, runtime, stdout, target};

/// What a clean has put back, and for which nodes.
#[derive(Default)]
struct PutBack {
    messages: u64,
    failed: u64,
    nodes: BTreeSet<String>,
}

/// Cleans the fleet and prints what it cleaned.
pub(crate) fn run(connection: &ConnectionArgs) -> anyhow::Result<ExitCode> {
    let target = target::for_command(connection)?;
    let report = runtime::block_on(async {
        let store = client::store(&target, &connection.fleet).await?;
        store.preflight(true).await?;
        let put_back = put_back(&store).await?;
        let freed = store.free().await?;
        let forgotten = store.forget().await?.into_iter().collect();
        Ok(report(&put_back, freed.as_deref(), &forgotten))
    })?;
    stdout::print(report.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Puts back everything that dead nodes held. One call of the script puts back a bounded number.
async fn put_back(store: &Store) -> anyhow::Result<PutBack> {
    let mut all = PutBack::default();
    loop {
        let back = store.reclaim_absent().await?;
        if back.nodes.is_empty() {
            return Ok(all);
        }
        all.messages += back.messages;
        all.failed += back.records;
        all.nodes.extend(back.nodes);
    }
}

fn report(put_back: &PutBack, freed: Option<&str>, forgotten: &BTreeSet<String>) -> String {
    let mut report = match put_back.nodes.is_empty() {
        true => "nothing to put back: no dead node held a message\n".to_owned(),
        false => format!(
            "put back {} messages and {} failed messages that {} held\n",
            put_back.messages,
            put_back.failed,
            list(&put_back.nodes)
        ),
    };
    // Writing to a string cannot fail.
    if let Some(holder) = freed {
        let holder = Escaped(holder.as_bytes());
        let _ = writeln!(report, "freed the lease that {holder} had");
    }
    let _ = match forgotten.is_empty() {
        true => writeln!(report, "no dead node to forget"),
        false => writeln!(report, "forgot {}", list(forgotten)),
    };
    report
}

fn list(names: &BTreeSet<String>) -> String {
    let names: Vec<String> = names
        .iter()
        .map(|name| Escaped(name.as_bytes()).to_string())
        .collect();
    names.join(", ")
}
