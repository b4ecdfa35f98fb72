//! What a server says about itself, for a checkup before a fleet lives there. Plain reads only.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime};

use super::answer::string;
use super::{Store, decode};
use crate::link::{Link, SentinelReport};
use crate::{Error, Target};

/// One round trip to the server and back.
#[derive(Debug, Clone, Copy)]
pub struct RoundTrip {
    /// How long it took.
    pub took: Duration,
    /// How far the server's clock is ahead of this machine's, in ms. Half of the round trip is the
    /// error.
    pub ahead_ms: i64,
}

impl Store {
    /// The fields of `INFO`.
    pub async fn info_fields(&self) -> Result<HashMap<String, String>, Error> {
        fields("INFO", self.link.call(&redis::cmd("INFO")).await?)
    }

    /// The fields of `CLUSTER INFO`.
    pub async fn cluster_fields(&self) -> Result<HashMap<String, String>, Error> {
        let mut command = redis::cmd("CLUSTER");
        command.arg("INFO");
        fields("CLUSTER INFO", self.link.call(&command).await?)
    }

    /// The slot of the fleet in a cluster.
    pub async fn slot(&self) -> Result<u64, Error> {
        let mut command = redis::cmd("CLUSTER");
        command.arg("KEYSLOT").arg(&self.keys.fence);
        decode::length(&self.link.call(&command).await?)
    }

    /// A setting of the server; none if it has no such setting, or does not let this user read it.
    pub async fn setting(&self, name: &str) -> Option<String> {
        let mut command = redis::cmd("CONFIG");
        command.arg("GET").arg(name);
        let answer = self.link.call(&command).await.ok()?;
        decode::setting(&answer)
    }

    /// Where the server is; empty while there is no connection.
    pub fn place(&self) -> String {
        self.link.place()
    }

    /// When the server's certificate expires; none without TLS.
    pub async fn certificate_expiry(&self) -> Option<SystemTime> {
        self.link.certificate_expiry().await
    }

    /// Makes round trips one after the other: so many, or as many as fit into this time, but one.
    pub async fn round_trips(&self, max: usize, time: Duration) -> Result<Vec<RoundTrip>, Error> {
        let (start, mut trips) = (Instant::now(), Vec::new());
        while trips.is_empty() || (trips.len() < max && start.elapsed() < time) {
            let (sent_at, sent) = (SystemTime::now(), Instant::now());
            let server_ms = self.now_ms().await?;
            let took = sent.elapsed();
            let here = (sent_at + took / 2).duration_since(SystemTime::UNIX_EPOCH);
            let here_ms = here.unwrap_or_default().as_millis();
            let [server_ms, here_ms] = [u128::from(server_ms), here_ms].map(i64::try_from);
            trips.push(RoundTrip {
                took,
                ahead_ms: server_ms.unwrap_or(i64::MAX) - here_ms.unwrap_or_default(),
            });
        }
        Ok(trips)
    }
}

/// Asks each Sentinel of a target; none if it has no Sentinels.
pub async fn ask_sentinels(target: &Target) -> Vec<SentinelReport> {
    Link::sentinels(target).await
}

/// Reads lines of `name:value`.
fn fields(call: &'static str, answer: redis::Value) -> Result<HashMap<String, String>, Error> {
    let text = string(call, &answer)?;
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    Ok(lines
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect())
}
