//! A connection for a command that ends by itself.

use std::time::Duration;

use anyhow::{Context, bail};
use baton::{FleetName, Target};
use baton_print::errln;
use baton_protocol::{Store, new_name};

/// How long a command waits for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(4500);
/// How long a command waits for a connection before it tells the user that it waits.
const NOTICE_AFTER: Duration = Duration::from_millis(1500);
/// How long a command that runs until the user ends it waits for a refusal.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(1);

/// Opens a connection with a node name of its own: other nodes see whether it is connected.
pub(crate) async fn open(target: &Target, fleet: &FleetName) -> anyhow::Result<Store> {
    let name = new_name();
    in_time(target, Store::open(target, fleet, &name, |_| {})).await
}

/// Opens a connection that only reads.
pub(crate) async fn view(target: &Target, fleet: &FleetName) -> anyhow::Result<Store> {
    in_time(target, Store::view(target, fleet)).await
}

async fn in_time(
    target: &Target,
    store: impl Future<Output = Result<Store, baton::Error>>,
) -> anyhow::Result<Store> {
    let mut store = std::pin::pin!(tokio::time::timeout(CONNECT_TIMEOUT, store));
    let store = tokio::select! {
        store = &mut store => store,
        () = tokio::time::sleep(NOTICE_AFTER) => {
            errln!("baton: no answer from {target} yet; waiting for it");
            store.await
        }
    };
    match store {
        Ok(store) => store.with_context(|| format!("cannot use {target}")),
        Err(_) => bail!("cannot use {target}: no answer within {CONNECT_TIMEOUT:?}"),
    }
}

/// Fails if the server will never let this program in, for instance because it is in cluster mode
/// or wants another password. A server that does not answer may come back, so that is no failure.
pub(crate) async fn check_access(target: &Target, fleet: &FleetName) -> anyhow::Result<()> {
    let view = Store::view(target, fleet);
    match tokio::time::timeout(REFUSAL_TIMEOUT, view).await {
        Ok(Err(error)) if !error.is_passing() => {
            Err(error).with_context(|| format!("cannot use {target}"))
        }
        _ => Ok(()),
    }
}
