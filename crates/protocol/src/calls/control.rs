//! Which nodes are present and which one generates: beat, leave, free, forget.

use std::time::Duration;

use super::{PROTOCOL, Store, decode};
use crate::{Error, scripts};

/// How often the first standbys beat: within this time they notice a killed generator.
const FIRST_STANDBY_BEAT: Duration = Duration::from_millis(50);

/// Max nodes that one call checks: Redis does nothing else meanwhile.
const MAX_FORGET_NODES: usize = 500;

/// The answer to a beat.
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Beat {
    /// This node holds the lease.
    Generator {
        /// The fencing number of the lease.
        epoch: u64,
        /// When to beat again.
        next: Duration,
        /// Redis's clock in ms.
        now_ms: u64,
        /// How many of the two first standbys there are; 0 if no other node is present.
        standbys: u64,
        /// The fleet's last sequence number.
        last: u64,
    },
    /// Another node holds the lease.
    Worker {
        /// The node that holds it; empty if none does.
        generator: String,
        /// The fencing number of its lease.
        epoch: u64,
        /// When to beat again.
        next: Duration,
        /// Redis's clock in ms.
        now_ms: u64,
        /// 1 or 2 for the first standbys, which beat often; 0 for all others.
        place: u64,
        /// The fleet's last sequence number.
        last: u64,
    },
}

impl Beat {
    /// Redis's clock in ms.
    pub fn now_ms(&self) -> u64 {
        match self {
            Self::Generator { now_ms, .. } | Self::Worker { now_ms, .. } => *now_ms,
        }
    }

    /// The fleet's last sequence number.
    pub fn last(&self) -> u64 {
        match self {
            Self::Generator { last, .. } | Self::Worker { last, .. } => *last,
        }
    }
}

/// What a node says with a beat.
#[derive(Debug, Clone, Copy)]
pub struct BeatCall<'a> {
    /// Time to live of the lease.
    pub lease_ttl: Duration,
    /// A JSON object that `baton status` prints.
    pub about: &'a str,
    /// An epoch that the lease must exceed.
    pub above: u64,
    /// Whether the node may generate.
    pub is_candidate: bool,
    /// The highest number that Redis acknowledged to this node; 0 for none.
    pub known: u64,
}

impl Store {
    /// Announces this node, and renews the lease, takes it or gives it up.
    pub async fn beat(&self, call: BeatCall<'_>) -> Result<Beat, Error> {
        let keys = &self.keys;
        let answer = self
            .eval_on_presence(
                &scripts::BEAT,
                &[
                    &keys.generator,
                    &keys.nodes,
                    &keys.joined,
                    &keys.seen,
                    &keys.meta,
                    &keys.takeovers,
                    &keys.fence,
                ],
                &[
                    self.node.as_bytes(),
                    self.link.run_id().as_bytes(),
                    call.lease_ttl.as_millis().to_string().as_bytes(),
                    PROTOCOL.as_bytes(),
                    keys.presence.as_bytes(),
                    keys.calls.as_bytes(),
                    call.about.as_bytes(),
                    call.above.to_string().as_bytes(),
                    FIRST_STANDBY_BEAT.as_millis().to_string().as_bytes(),
                    if call.is_candidate { b"1" } else { b"0" },
                    call.known.to_string().as_bytes(),
                    self.place.count.to_string().as_bytes(),
                ],
            )
            .await?;
        decode::beat(&self.fleet, self.place.count, &answer)
    }

    /// Removes this node from the fleet. A node that holds the lease resigns; returns whether it
    /// did.
    pub async fn leave(&self) -> Result<bool, Error> {
        let keys = &self.keys;
        let answer = self
            .eval_on_presence(
                &scripts::LEAVE,
                &[&keys.generator, &keys.nodes, &keys.joined, &keys.seen],
                &[self.node.as_bytes(), keys.calls.as_bytes()],
            )
            .await?;
        decode::leave(&answer)
    }

    /// Frees the lease if the process of its holder is not connected. Returns the holder's name.
    pub async fn free(&self) -> Result<Option<String>, Error> {
        let keys = &self.keys;
        let answer = self
            .eval(
                &scripts::FREE,
                &[&keys.generator],
                &[keys.presence.as_bytes()],
            )
            .await?;
        decode::free(&answer)
    }

    /// Removes every node whose process is not connected. Returns their names.
    pub async fn forget(&self) -> Result<Vec<String>, Error> {
        let keys = &self.keys;
        let (mut forgotten, mut cursor) = (Vec::new(), 0);
        loop {
            let mut scan = redis::cmd("HSCAN");
            scan.arg(&keys.nodes).arg(cursor);
            scan.arg("COUNT").arg(MAX_FORGET_NODES);
            let answer = self.transaction(&[scan]).await?;
            let (next, names) = match answer.first() {
                Some(answer) => decode::scanned(answer)?,
                None => return Ok(forgotten),
            };
            // Redis returns a small hash whole, whatever COUNT says.
            for names in names.chunks(MAX_FORGET_NODES) {
                let prefix = [keys.presence.as_bytes()].into_iter();
                let args: Vec<&[u8]> = prefix.chain(names.iter().map(String::as_bytes)).collect();
                let names = [&keys.nodes, &keys.joined, &keys.seen];
                let answer = self.eval(&scripts::FORGET, &names, &args).await?;
                forgotten.extend(decode::forget(&answer)?);
            }
            if next == 0 {
                return Ok(forgotten);
            }
            cursor = next;
        }
    }
}
