//! The watch of a command that reads a fleet every second until the user ends it.

use std::time::Duration;

use baton::{Config, FleetName, Limits, Target, Watch};

use crate::store;

/// How often the fleet is read.
pub(crate) const EVERY: Duration = Duration::from_secs(1);

/// Starts to read the fleet. Fails if the server will never let this program in.
pub(crate) async fn start(target: Target, fleet: &FleetName) -> anyhow::Result<Watch> {
    store::check_access(&target, fleet).await?;
    Ok(Watch::start(target, fleet.clone(), EVERY, limits(fleet)))
}

/// The same, for a view that can also take failed messages.
pub(crate) async fn start_present(target: Target, fleet: &FleetName) -> anyhow::Result<Watch> {
    store::check_access(&target, fleet).await?;
    Ok(Watch::start_present(
        target,
        fleet.clone(),
        EVERY,
        limits(fleet),
    ))
}

/// The limits of a fleet whose nodes have the default settings.
pub(crate) fn limits(fleet: &FleetName) -> Limits {
    Limits::from(&Config::new(fleet.clone()))
}
