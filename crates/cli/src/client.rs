//! The client of a command: an open connection to a fleet.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use baton::{Error, FleetName, Inspector, Target};
use baton_print::errln;
use baton_protocol::{Partitions, Store, new_name};

/// How long a command waits for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(4500);
/// How long a command waits for a connection before it tells the user that it waits.
const NOTICE_AFTER: Duration = Duration::from_millis(1500);
/// How long a command that runs until the user ends it waits for a refusal.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(1);

/// Connects to read and to act.
pub(crate) async fn inspector(target: &Target, fleet: &FleetName) -> anyhow::Result<Inspector> {
    in_time(target, Inspector::connect(target, fleet)).await
}

/// Connects to read.
pub(crate) async fn reader(target: &Target, fleet: &FleetName) -> anyhow::Result<Inspector> {
    in_time(target, Inspector::connect_read_only(target, fleet)).await
}

/// Connects to read and to act by calls that the [`Inspector`] does not have.
pub(crate) async fn partitions(target: &Target, fleet: &FleetName) -> anyhow::Result<Partitions> {
    let name = new_name();
    let opened = Partitions::open(target, fleet, &name, None, |_| {});
    Ok(in_time(target, opened).await?.0)
}

/// Connects to where the lease of a fleet is, without asking whether there is a fleet.
pub(crate) async fn control(target: &Target, fleet: &FleetName) -> anyhow::Result<Store> {
    let name = new_name();
    in_time(target, Store::open(target, fleet, &name, |_| {})).await
}

/// The same, to read.
pub(crate) async fn control_viewer(target: &Target, fleet: &FleetName) -> anyhow::Result<Store> {
    in_time(target, Store::view(target, fleet)).await
}

/// Partitions that a command leaves out, because their servers are away.
#[must_use]
pub(crate) struct Away(Vec<(u32, Error)>);

impl Away {
    /// Those of a client, and the client of the others.
    pub(crate) async fn split(inspector: &Inspector) -> (Inspector, Self) {
        let (reached, away) = inspector.within_reach().await;
        (reached, Self(away))
    }

    /// The same for the connections of a client.
    pub(crate) async fn split_partitions(partitions: &Partitions) -> (Partitions, Self) {
        let (reached, away) = partitions.within_reach().await;
        (reached, Self(away))
    }

    /// Which they are, and why the first of them does not answer; none if all do.
    pub(crate) fn describe(&self) -> Option<String> {
        let (_, why) = self.0.first()?;
        let indexes: Vec<_> = self.0.iter().map(|(index, _)| index.to_string()).collect();
        let indexes = indexes.join(", ");
        Some(match self.0.len() {
            1 => format!("partition {indexes} is out of reach ({why})"),
            _ => format!("partitions {indexes} are out of reach ({why})"),
        })
    }

    /// Tells the user what was left out.
    pub(crate) fn tell(&self) {
        if let Some(away) = self.describe() {
            errln!("baton: {away} and left out; run this again when all servers are back");
        }
    }

    /// The same. Turns the exit code of a success into that of a failure, if something was left out.
    pub(crate) fn end(&self, code: ExitCode) -> ExitCode {
        self.tell();
        match code == ExitCode::SUCCESS && !self.0.is_empty() {
            true => ExitCode::FAILURE,
            false => code,
        }
    }
}

async fn in_time<T>(
    target: &Target,
    client: impl Future<Output = Result<T, Error>>,
) -> anyhow::Result<T> {
    let mut client = std::pin::pin!(tokio::time::timeout(CONNECT_TIMEOUT, client));
    let client = tokio::select! {
        client = &mut client => client,
        () = tokio::time::sleep(NOTICE_AFTER) => {
            errln!("baton: no answer from {target} yet; waiting for it");
            client.await
        }
    };
    match client {
        Ok(client) => client.with_context(|| format!("cannot use {target}")),
        Err(_) => bail!("cannot use {target}: no answer within {CONNECT_TIMEOUT:?}"),
    }
}

/// Fails if the server will never let this program in, for instance because it is in cluster mode
/// or wants another password. A server that does not answer may come back, so that is no failure.
pub(crate) async fn check_access(target: &Target, fleet: &FleetName) -> anyhow::Result<()> {
    let reader = Inspector::connect_read_only(target, fleet);
    match tokio::time::timeout(REFUSAL_TIMEOUT, reader).await {
        Ok(Err(error)) if !error.is_transient() => {
            Err(error).with_context(|| format!("cannot use {target}"))
        }
        _ => Ok(()),
    }
}
