//! Snapshots of a fleet for code that is not async.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use baton::inspect::Snapshot;
use baton::{FleetName, Inspector, Target};

/// Reads a snapshot of a fleet.
pub fn status(url: &str, fleet: &str) -> Result<Snapshot> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let (target, fleet) = (Target::parse(url)?, FleetName::new(fleet)?);
        let inspector = Inspector::connect(&target, &fleet).await?;
        Ok(inspector.snapshot().await?)
    })
}

/// Reads snapshots until one fits.
pub fn wait_status(
    url: &str,
    fleet: &str,
    timeout: Duration,
    what: &str,
    fits: impl Fn(&Snapshot) -> bool,
) -> Result<Snapshot> {
    let deadline = Instant::now() + timeout;
    loop {
        let last = status(url, fleet);
        match &last {
            Ok(status) if fits(status) => return last,
            _ if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(20)),
            _ => bail!("waited {timeout:?} for {what}; the last status: {last:?}"),
        }
    }
}
