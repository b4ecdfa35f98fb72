//! What many nodes that have nothing to do send to the masters of a cluster, and how many connections they
//! have there.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, anyhow};
use baton_figures::TIMEOUT;
use baton_processes::{Fleet, Told};
use baton_server::PrivateServer;

use super::sent_commands::SentCommands;
use super::server_group::ServerGroup;
use super::{MASTERS, PARTITIONS};
use crate::Rounds;
use crate::choice::Choice;
use crate::report::Report;

/// How many nodes start at a time.
const BATCH: usize = 25;
/// How long the fleet rests before it is watched: each lane looks at partitions that did not ring, too.
const SETTLE: Duration = Duration::from_secs(3);
/// Most commands per second at all masters.
const MAX_COMMANDS: f64 = 400.0;
/// So many of the most frequent commands are named.
const NAMED: usize = 12;

/// Some rows for each server.
pub(crate) fn of_many_nodes(
    program: &Path,
    rounds: Rounds,
    choice: &Choice,
    report: &mut Report,
) -> Result<()> {
    let count = rounds.idle_nodes;
    for server in choice.servers()? {
        let mut group = ServerGroup::cluster(&server, MASTERS)?;
        let head = format!(
            "{}, {MASTERS} masters, P = {PARTITIONS}, {count} idle nodes",
            group.version()?
        );
        report.tell(&head, "");
        let fleet = idle_fleet(program, &group.url(), count)?;
        std::thread::sleep(SETTLE);
        let clients = group.clients()?;
        // A node reads the state of all partitions every ten seconds: a shorter window may miss it.
        let window = Duration::from_secs(rounds.seconds);
        let commands = watch(group.servers(), window)?;
        drop(fleet);
        tell_commands(&commands, window, report);
        let most = 2 * count as u64 + 10;
        let measured: Vec<String> = clients.iter().map(u64::to_string).collect();
        report.add(
            "  connections to each master",
            &measured.join(", "),
            &format!("≤ {most}"),
            clients.iter().all(|clients| *clients <= most),
        );
    }
    Ok(())
}

/// A fleet whose only message of this hour has ended.
fn idle_fleet(program: &Path, url: &str, count: usize) -> Result<Fleet> {
    let partitions = PARTITIONS.to_string();
    let args = [
        "--redis",
        url,
        "--interval",
        "1h",
        "--partitions",
        &partitions,
    ];
    let mut fleet = Fleet::new(program, &args);
    while fleet.alive().len() < count {
        let batch = BATCH.min(count - fleet.alive().len());
        fleet.start_many(batch, TIMEOUT)?;
    }
    fleet.wait_for(0, TIMEOUT, "the only message", Told::is_processed)?;
    Ok(fleet)
}

/// Watches all servers at the same time.
pub(super) fn watch(servers: &[PrivateServer], window: Duration) -> Result<SentCommands> {
    std::thread::scope(|scope| {
        let watch = |server| scope.spawn(move || SentCommands::watch(server, window));
        let threads: Vec<_> = servers.iter().map(watch).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, Result<SentCommands>>| {
            thread.join().map_err(|_| anyhow!("a watch panicked"))?
        };
        let all: Vec<_> = threads.into_iter().map(join).collect::<Result<_>>()?;
        Ok(SentCommands::sum(all))
    })
}

fn tell_commands(commands: &SentCommands, window: Duration, report: &mut Report) {
    let per_second = |count: u64| count as f64 / window.as_secs_f64();
    let rate = per_second(commands.by_clients.values().sum());
    report.add(
        "  commands that nodes send to all masters",
        &format!("{rate:.0} /s"),
        "< 400 /s",
        rate < MAX_COMMANDS,
    );
    let rate = per_second(commands.by_scripts);
    report.tell(
        "  commands that scripts run inside",
        &format!("{rate:.0} /s"),
    );
    for (name, count) in commands.most_frequent(NAMED) {
        let rate = per_second(count);
        report.tell(&format!("    {name}"), &format!("{rate:.1} /s"));
    }
}
