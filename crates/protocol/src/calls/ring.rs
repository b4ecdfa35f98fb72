//! Waiting in a fleet of several partitions: a server rings by publishing on the node's ring channel.
//!
//! A node with an idle lane is in `idle` of every partition. Messages that come take the node out of that
//! partition's `idle`, and the server publishes the prefix of the partition's bells on the ring channel of
//! the node. A node has one such channel for each server process, on its presence connection there. So a
//! node needs no connection that blocks, however many partitions there are.
//!
//! A small message that comes alone goes along: the step that publishes it claims it for the node, so that
//! no round trip lies between a publish and the worker. What was said on a connection that broke is lost,
//! and such a claim with it; with new connections, a node gives back what it was never told of.

use super::{Slot, Store, decode};
use crate::{Error, scripts};

impl Store {
    /// Rings for another node, if messages wait: this one was rung and is busy.
    pub async fn ring_on(&self) -> Result<(), Error> {
        let keys = &self.keys;
        let answer = self
            .eval(
                &scripts::RING,
                &[&keys.queue, &keys.idle, &keys.bell],
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
