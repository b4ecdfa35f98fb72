//! The watch of a command that reads a fleet every second until the user ends it.

use std::time::Duration;

use baton::inspect::{Limits, Watch};
use baton::{FleetName, Target};

use crate::client;

/// How often the fleet is read.
pub(crate) const EVERY: Duration = Duration::from_secs(1);

/// Starts to read the fleet. Fails if the server will never let this program in.
pub(crate) async fn start(target: Target, fleet: &FleetName) -> anyhow::Result<Watch> {
    client::check_access(&target, fleet).await?;
    Ok(Watch::start(
        target,
        fleet.clone(),
        EVERY,
        Limits::default(),
    ))
}

/// The same, for a view that can also take failed messages.
pub(crate) async fn start_to_act(target: Target, fleet: &FleetName) -> anyhow::Result<Watch> {
    client::check_access(&target, fleet).await?;
    Ok(Watch::start_to_act(
        target,
        fleet.clone(),
        EVERY,
        Limits::default(),
    ))
}
