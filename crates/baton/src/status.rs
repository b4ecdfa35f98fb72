//! One reading of a fleet: who generates, who is here, where every message is.

use serde::Serialize;

use crate::protocol::{Census, Roster, Store};
use crate::{Error, FleetName, ServerInfo};

/// A fleet at one moment. The counts are read in one atomic step, the nodes in another.
#[derive(Debug, Clone, Serialize)]
pub struct Status {
    /// Name of the fleet.
    pub fleet: String,
    /// Who generates.
    pub generator: GeneratorStatus,
    /// Every node, the generator included, in the order of their names.
    pub nodes: Vec<NodeStatus>,
    /// Messages accepted so far.
    pub published: u64,
    /// Ended well.
    pub done: u64,
    /// Ended as failed.
    pub failed: u64,
    /// Waiting.
    pub pending: u64,
    /// In workers' hands.
    pub claimed: u64,
    /// Failed messages waiting to be taken.
    pub errors: u64,
    /// Entries found in the queue that were not ours; they are in the errors store.
    pub foreign: u64,
    /// Whether published = done + failed + pending + claimed.
    pub balanced: bool,
    /// Whether `pending` was counted one by one; a very long queue is believed from counters.
    pub counted: bool,
    /// Redis's clock, in ms.
    pub now_ms: u64,
    /// The server's version and settings.
    pub server: ServerInfo,
    /// What of the settings can lose messages.
    pub warnings: Vec<String>,
}

/// Who generates.
#[derive(Debug, Clone, Serialize)]
pub struct GeneratorStatus {
    /// The node, if the lease has a live holder.
    pub node: Option<String>,
    /// Fencing number of the lease.
    pub epoch: u64,
    /// Since when, in ms on Redis's clock.
    pub since_ms: Option<u64>,
}

/// A node as others see it.
#[derive(Debug, Clone, Serialize)]
pub struct NodeStatus {
    /// Its name.
    pub node: String,
    /// `generator`, `worker`, or `dead` when its process is gone.
    pub role: &'static str,
    /// The host it runs on.
    pub host: String,
    /// Its process id there.
    pub pid: u64,
    /// Its version of this program.
    pub version: String,
    /// Messages it has published.
    pub published: u64,
    /// Messages it has processed.
    pub processed: u64,
    /// Messages in its hands.
    pub claimed: u64,
    /// Its last sign of life, in ms on Redis's clock.
    pub seen_ms: u64,
}

/// What a node says about itself with every beat.
#[derive(Debug, Clone, Default, PartialEq, Serialize, serde::Deserialize)]
#[serde(default)]
pub(crate) struct About {
    pub(crate) host: String,
    pub(crate) pid: u64,
    pub(crate) version: String,
    pub(crate) published: u64,
    pub(crate) processed: u64,
}

impl Status {
    /// Reads it.
    pub async fn read(store: &Store) -> Result<Self, Error> {
        store.check_protocol().await?;
        let (roster, census, server) =
            tokio::try_join!(store.roster(), store.census(), store.server())?;
        Ok(Self::of(store.fleet(), roster, census, server))
    }

    /// Puts together what was read.
    pub(crate) fn of(
        fleet: &FleetName,
        roster: Roster,
        census: Census,
        server: ServerInfo,
    ) -> Self {
        let Roster {
            now_ms,
            lease,
            nodes,
        } = roster;
        let live = |node: &String| {
            nodes
                .iter()
                .any(|listed| &listed.node == node && listed.present)
        };
        let generator = lease
            .node
            .filter(|node| lease.until_ms > now_ms && live(node));
        let mut nodes: Vec<NodeStatus> = nodes
            .into_iter()
            .map(|listed| {
                // Text that is no such object leaves the fields empty.
                let about: About = serde_json::from_str(&listed.about).unwrap_or_default();
                let role = match (listed.present, generator.as_ref() == Some(&listed.node)) {
                    (false, _) => "dead",
                    (true, true) => "generator",
                    (true, false) => "worker",
                };
                NodeStatus {
                    claimed: census
                        .in_hand
                        .get(&listed.node)
                        .copied()
                        .unwrap_or_default(),
                    node: listed.node,
                    role,
                    host: about.host,
                    pid: about.pid,
                    version: about.version,
                    published: about.published,
                    processed: about.processed,
                    seen_ms: listed.seen_ms,
                }
            })
            .collect();
        nodes.sort_by(|a, b| a.node.cmp(&b.node));
        Self {
            fleet: fleet.to_string(),
            generator: GeneratorStatus {
                since_ms: generator.as_ref().map(|_| lease.since_ms),
                node: generator,
                epoch: lease.epoch,
            },
            nodes,
            published: census.published,
            done: census.done,
            failed: census.failed,
            pending: census.pending,
            claimed: census.claimed,
            errors: census.errors,
            foreign: census.foreign,
            balanced: census.balanced(),
            counted: census.counted,
            now_ms: census.now_ms,
            warnings: server.warnings(),
            server,
        }
    }
}
