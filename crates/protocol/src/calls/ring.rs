//! Waiting without polling: a server rings by publishing on the node's ring channel.
//!
//! A claim that finds no message puts its node into `idle` of the partition, in the same step. Messages
//! that come take the node that is idle longest out of `idle`, and the server publishes the key of the
//! partition's queue on the node's ring channel. A node has one such channel for each server process, on
//! its presence connection there. So a node needs no connection that blocks, however many partitions there
//! are.
//!
//! If no message waits, the step that publishes a pack claims as many of its messages as the node's lane
//! wants, so that no round trip lies between a publish and the worker. What was said on a connection that
//! broke is lost, and such a claim with it; with new connections, a node gives back what it was never told
//! of. Nothing depends on a ring: every reclaim rings again, and a node looks now and then without one.

use super::{Slot, Store, decode};
use crate::{Error, scripts};

impl Store {
    /// Rings for another node, if messages wait: this one was rung and is busy.
    pub async fn ring_on(&self) -> Result<(), Error> {
        let keys = &self.keys;
        let answer = self
            .eval(
                &scripts::RING,
                &[&keys.queue, &keys.idle],
                &[keys.presence.as_bytes()],
            )
            .await?;
        decode::ring(&answer)
    }

    /// The number of the claim in the slot [`Slot::handed`] of this node; none if it holds none.
    pub async fn handed_number(&self) -> Result<Option<u64>, Error> {
        let mut command = redis::cmd("HGET");
        let slot = Slot::handed(&self.node);
        command.arg(&self.keys.claims).arg(slot.name());
        decode::claim_number(&self.link.call(&command).await?)
    }

    /// Tells the partition the highest number that this node knows there: its server process may have
    /// forgotten messages. Returns the partition's last number.
    pub async fn tell_known(&self, known: u64) -> Result<u64, Error> {
        let keys = [&self.keys.fence];
        let known = known.to_string();
        let answer = self
            .eval(&scripts::TELL, &keys, &[known.as_bytes()])
            .await?;
        decode::tell(&answer)
    }
}
