//! A node that hears what the server says to it.

use baton_protocol::{Ring, Slot};
use tokio::sync::mpsc::UnboundedReceiver;

use super::{Fleet, Lane};

/// A node with one lane, and its rings.
pub(crate) struct Listener {
    pub(crate) lane: Lane,
    rings: UnboundedReceiver<Ring>,
}

impl Listener {
    pub(super) fn new(lane: Lane, rings: UnboundedReceiver<Ring>) -> Self {
        Self { lane, rings }
    }

    /// The name under which the node is idle.
    pub(crate) fn sleeper(&self) -> String {
        let store = &self.lane.store;
        format!("{}@{}", store.node(), store.run_id())
    }

    /// The slot in which the node gets messages in the step that publishes them, as a lane.
    pub(crate) fn handed_lane(&self) -> Lane {
        let store = self.lane.store.clone();
        let slot = Slot::handed(store.node());
        Lane { store, slot }
    }

    /// All that the server has said to the node since the last call of this function.
    pub(crate) async fn heard(&mut self, fleet: &Fleet) -> Vec<Ring> {
        // The server says this behind all that it has said before. No claim has the number 0.
        let end = format!("{}\n0\n1 1 1 1 0\n\n", fleet.keys.queue);
        let channel = format!("{}{}", fleet.keys.presence, self.sleeper());
        let receivers: u64 = fleet.raw(&["PUBLISH", &channel, &end]).await;
        assert!(receivers > 0, "{channel}");
        let mut heard = Vec::new();
        loop {
            let ring = super::next_ring(&mut self.rings).await;
            match &ring.handed {
                Some(handed) if handed.number == 0 => return heard,
                _ => heard.push(ring),
            }
        }
    }
}
