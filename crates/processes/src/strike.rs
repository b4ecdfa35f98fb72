//! Hurting a worker that has a message in hand.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use baton::FleetName;
use baton_protocol::Keys;
use redis::Commands;

use crate::Fleet;

/// Longest wait for a worker with a message, and for its message processed by another.
const PATIENCE: Duration = Duration::from_secs(20);

/// Strikes a worker that holds a message and waits until another has processed it. Returns the
/// time until the other began, which is the time beyond `work`, the handling itself.
pub fn strike_worker(
    fleet: &mut Fleet,
    url: &str,
    work: Duration,
    strike: impl Fn(&mut Fleet, usize) -> Result<()>,
) -> Result<Duration> {
    let victim = busy_worker(fleet, url)?;
    let struck = Instant::now();
    let mark = fleet.mark();
    strike(fleet, victim)?;
    let again = fleet.wait_for(mark, PATIENCE, "its message processed by another", |told| {
        told.event() == "processed" && told.number("attempt") == 2 && told.copy != victim
    })?;
    Ok((again.at - struck).saturating_sub(work))
}

/// A copy of the fleet `default` that holds a message.
fn busy_worker(fleet: &Fleet, url: &str) -> Result<usize> {
    let keys = Keys::new(&FleetName::new("default")?);
    let mut redis = redis::Client::open(url)?.get_connection()?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        ensure!(Instant::now() < deadline, "no worker holds a message");
        let slots: Vec<String> = redis.hkeys(&keys.claims)?;
        let Some(slot) = slots.first() else { continue };
        let node = slot.split(':').next().unwrap_or_default();
        let told = fleet.told();
        if let Some(told) = told.iter().find(|told| told.node() == node) {
            return Ok(told.copy);
        }
    }
}
