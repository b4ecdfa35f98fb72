//! A fleet at one moment: who generates, who is here, where every message is, how the lease
//! changed hands, what failed last.

use serde::{Deserialize, Serialize};

use crate::node::meter::Histogram;
use crate::{Error, FleetName};
use baton_protocol::bounds::MAX_TTL_MS;
use baton_protocol::{Census, FleetState, Roster, Store};
use baton_protocol::{FailedGlance, How, ServerInfo, Takeover};

/// How long a dead node that holds nothing is still shown.
const DEAD_SHOWN_MS: u64 = 60_000;

/// A fleet at one moment: all but the server's settings is read in one atomic step.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct Snapshot {
    /// Name of the fleet.
    pub fleet: String,
    /// Who generates.
    pub generator: GeneratorStatus,
    /// Every node, the generator included, in the order of their names; dead ones for a minute,
    /// or as long as they hold messages.
    pub nodes: Vec<NodeStatus>,
    /// Messages accepted so far.
    pub published: u64,
    /// Failed messages that somebody gave to the workers again.
    pub retried: u64,
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
    /// Whether published + retried = done + failed + pending + claimed.
    pub balanced: bool,
    /// Whether `pending` was counted one by one; a very long queue is believed from counters.
    pub counted: bool,
    /// Redis's clock, in ms.
    pub now_ms: u64,
    /// How the lease changed hands, newest first.
    pub takeovers: Vec<Takeover>,
    /// The failed messages that came last, newest first.
    pub newest: Vec<FailedGlance>,
    /// The server's version and settings.
    pub server: ServerInfo,
    /// What of the settings can lose messages.
    pub warnings: Vec<String>,
}

impl Snapshot {
    /// Whether the lease ends at a time that only a clock that was ahead can have written.
    pub fn lease_is_ahead(&self) -> bool {
        self.generator.until_ms > self.now_ms.saturating_add(MAX_TTL_MS)
    }
}

/// Who generates.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct GeneratorStatus {
    /// The node, if the lease has a live holder.
    pub node: Option<String>,
    /// Who has the lease, alive or not.
    pub holder: Option<String>,
    /// Fencing number of the lease.
    pub epoch: u64,
    /// Since when, in ms on Redis's clock.
    pub since_ms: Option<u64>,
    /// Until when the lease holds if it is not renewed, in ms on Redis's clock; in the past if
    /// it was not, 0 if nobody has it.
    pub until_ms: u64,
}

/// What a node does, as others see it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum NodeRole {
    /// It makes messages.
    Generator,
    /// It handles messages.
    #[default]
    Worker,
    /// Its process is gone.
    Dead,
}

impl NodeRole {
    /// The role in one word: `generator`, `worker` or `dead`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Generator => "generator",
            Self::Worker => "worker",
            Self::Dead => "dead",
        }
    }
}

impl std::fmt::Display for NodeRole {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// A node as others see it.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct NodeStatus {
    /// Its name.
    pub node: String,
    /// What it does.
    pub role: NodeRole,
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
    /// Those of them that failed.
    pub failed: u64,
    /// Messages in its hands.
    pub claimed: u64,
    /// From publish to commit, of all messages that it has processed.
    pub latency: Histogram,
    /// When it joined the line of standbys, in ms on Redis's clock; 0 if it is in none.
    pub joined_ms: u64,
    /// Its last sign of life, in ms on Redis's clock.
    pub seen_ms: u64,
}

/// What a node says about itself with every beat.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct About {
    pub(crate) host: String,
    pub(crate) pid: u64,
    pub(crate) version: String,
    pub(crate) published: u64,
    pub(crate) processed: u64,
    pub(crate) failed: u64,
    pub(crate) latency: Histogram,
}

impl Snapshot {
    /// Reads it.
    pub(crate) async fn read(store: &Store) -> Result<Self, Error> {
        let (state, server) = tokio::try_join!(store.fleet_state(), store.server())?;
        Ok(Self::of(store.fleet(), state, server))
    }

    /// Puts together what was read.
    pub(crate) fn of(fleet: &FleetName, state: FleetState, server: ServerInfo) -> Self {
        let FleetState {
            roster,
            census,
            takeovers,
            newest,
        } = state;
        let (generator, nodes) = people(roster, &census);
        let takeovers = with_resigned(takeovers);
        Self {
            fleet: fleet.to_string(),
            generator,
            nodes,
            published: census.published,
            retried: census.retried,
            done: census.done,
            failed: census.failed,
            pending: census.pending,
            claimed: census.claimed,
            errors: census.errors,
            foreign: census.foreign,
            balanced: census.balanced(),
            counted: census.counted,
            now_ms: census.now_ms,
            takeovers,
            newest,
            warnings: server.warnings(),
            server,
        }
    }
}

/// Who resigned is no longer in the lease when it is taken: it is the holder before.
fn with_resigned(mut takeovers: Vec<Takeover>) -> Vec<Takeover> {
    for newer in 0..takeovers.len().saturating_sub(1) {
        if takeovers[newer].how == How::Resigned {
            takeovers[newer].from = Some(takeovers[newer + 1].node.clone());
        }
    }
    takeovers
}

/// The lease and the nodes.
fn people(roster: Roster, census: &Census) -> (GeneratorStatus, Vec<NodeStatus>) {
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
    let holder = lease.node;
    let generator = holder
        .clone()
        .filter(|node| lease.until_ms > now_ms && live(node));
    let mut nodes: Vec<NodeStatus> = nodes
        .into_iter()
        .map(|listed| {
            // Text that is no such object leaves the fields empty.
            let about: About = serde_json::from_str(&listed.about).unwrap_or_default();
            let role = match (listed.present, generator.as_ref() == Some(&listed.node)) {
                (false, _) => NodeRole::Dead,
                (true, true) => NodeRole::Generator,
                (true, false) => NodeRole::Worker,
            };
            let claimed = census.claimed_by.get(&listed.node);
            NodeStatus {
                claimed: claimed.copied().unwrap_or_default(),
                node: listed.node,
                role,
                host: about.host,
                pid: about.pid,
                version: about.version,
                published: about.published,
                processed: about.processed,
                failed: about.failed,
                latency: about.latency,
                joined_ms: listed.joined_ms,
                seen_ms: listed.seen_ms,
            }
        })
        .collect();
    nodes.retain(|node| {
        let silent_ms = now_ms.saturating_sub(node.seen_ms);
        node.role != NodeRole::Dead || node.claimed > 0 || silent_ms < DEAD_SHOWN_MS
    });
    nodes.sort_by(|a, b| a.node.cmp(&b.node));
    let generator = GeneratorStatus {
        since_ms: generator.as_ref().map(|_| lease.since_ms),
        node: generator,
        holder,
        epoch: lease.epoch,
        until_ms: lease.until_ms,
    };
    (generator, nodes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_protocol::{Lease, RosterEntry};

    #[test]
    fn a_dead_node_is_shown_for_a_minute_or_as_long_as_it_holds_messages() {
        let listed = |node: &str, seen_ms, present| RosterEntry {
            node: node.to_owned(),
            about: String::new(),
            joined_ms: 0,
            seen_ms,
            present,
        };
        let roster = Roster {
            now_ms: 100_000,
            lease: Lease {
                node: None,
                epoch: 0,
                since_ms: 0,
                until_ms: 0,
            },
            nodes: vec![
                listed("alive", 1, true),
                listed("dead", 40_001, false),
                listed("gone", 40_000, false),
                listed("holds", 1, false),
            ],
        };
        let census = Census {
            claimed_by: [("holds".to_owned(), 1)].into(),
            ..Census::default()
        };
        let (_, nodes) = people(roster, &census);
        let names: Vec<&str> = nodes.iter().map(|node| node.node.as_str()).collect();
        assert_eq!(names, ["alive", "dead", "holds"]);
    }
}
