//! How long a message waits when its worker fails.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use baton::FleetName;
use baton_log::LogEvent;
use baton_protocol::Keys;
use redis::Commands;

use crate::Fleet;

/// Longest wait for a worker that holds a message, and for the second attempt at the message.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Lets `hurt` kill or pause a worker that holds a message, and waits until another worker has
/// processed the message. Returns the time until that worker began: `work`, the time that the
/// handler takes, is subtracted.
pub fn recovery_time(
    fleet: &mut Fleet,
    url: &str,
    work: Duration,
    hurt: impl Fn(&mut Fleet, usize) -> Result<()>,
) -> Result<Duration> {
    let victim = busy_worker(fleet, url)?;
    let began = Instant::now();
    let mark = fleet.mark();
    hurt(fleet, victim)?;
    let again = fleet.wait_for(mark, TIMEOUT, "its message processed by another", |told| {
        matches!(told.event(), LogEvent::Processed { attempt: 2, .. }) && told.copy != victim
    })?;
    Ok((again.at - began).saturating_sub(work))
}

/// A copy of the fleet `default` that holds a message.
fn busy_worker(fleet: &Fleet, url: &str) -> Result<usize> {
    let keys = Keys::new(&FleetName::new("default")?);
    let mut redis = redis::Client::open(url)?.get_connection()?;
    let deadline = Instant::now() + TIMEOUT;
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
