//! `baton clean`: puts back at once what dead nodes held, frees their lease, and forgets them.

use std::fmt::Write as _;
use std::process::ExitCode;

use baton_protocol::text::Escaped;
use baton_protocol::{Reclaimed, Store};

use crate::args::ConnectionArgs;
use crate::client::Away;
use crate::{client, runtime, stdout, target};

/// Cleans the fleet and prints what it cleaned.
pub(crate) fn run(connection: &ConnectionArgs) -> anyhow::Result<ExitCode> {
    let target = target::for_command(connection)?;
    let (report, away) = runtime::block_on(async {
        let partitions = client::partitions(&target, &connection.fleet).await?;
        let (partitions, away) = Away::split_partitions(&partitions).await;
        partitions.preflight(true).await?;
        let mut reclaimed = Reclaimed::default();
        for store in partitions.all() {
            reclaim(store, &mut reclaimed).await?;
        }
        let freed = partitions.control().free().await?;
        let forgotten = partitions.control().forget().await?;
        Ok((report(reclaimed, freed.as_deref(), forgotten), away))
    })?;
    stdout::print(report.as_bytes())?;
    Ok(away.end(ExitCode::SUCCESS))
}

/// Returns everything that dead nodes held in a partition. Claims of living nodes move while a call walks
/// through them, so it calls again until there is nothing left.
async fn reclaim(store: &Store, all: &mut Reclaimed) -> anyhow::Result<()> {
    loop {
        let some = store.reclaim_absent().await?;
        if some.nodes.is_empty() {
            return Ok(());
        }
        all.add(some);
    }
}

fn report(reclaimed: Reclaimed, freed: Option<&str>, forgotten: Vec<String>) -> String {
    let mut report = match reclaimed.nodes.is_empty() {
        true => "nothing to put back: no dead node held a message\n".to_owned(),
        false => format!(
            "put back {} messages and {} failed messages that {} held\n",
            reclaimed.messages,
            reclaimed.records,
            list(reclaimed.nodes)
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

/// The names in alphabetical order, each once.
fn list(mut names: Vec<String>) -> String {
    names.sort_unstable();
    names.dedup();
    let names = names
        .iter()
        .map(|name| Escaped(name.as_bytes()).to_string());
    names.collect::<Vec<_>>().join(", ")
}
