//! One reading of a fleet: who generates, who is here, where every message is, how the lease
//! changed hands, what failed last.

use serde::Serialize;

use crate::meter::Histogram;
use crate::protocol::{Census, Reading, Roster, Store};
use crate::{Error, FleetName, ServerInfo};

/// How long a dead node that holds nothing is still shown.
const DEAD_SHOWN_MS: u64 = 60_000;

/// A fleet at one moment: all but the server's settings is read in one atomic step.
#[derive(Debug, Clone, Default, Serialize)]
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

/// The longest time to live of a lease. One that ends later was written under a clock that was
/// ahead: the scripts take it for over.
const LONGEST_LEASE_MS: u64 = 3_600_000;

impl Snapshot {
    /// Whether the lease ends at a time that only a clock that was ahead can have written.
    pub fn lease_is_ahead(&self) -> bool {
        self.generator.until_ms > self.now_ms.saturating_add(LONGEST_LEASE_MS)
    }
}

/// Who generates.
#[derive(Debug, Clone, Default, Serialize)]
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

/// A node as others see it.
#[derive(Debug, Clone, Default, Serialize)]
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

/// The lease got a new epoch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Takeover {
    /// The new epoch.
    pub epoch: u64,
    /// Who has the lease since then.
    pub node: String,
    /// When, in ms on Redis's clock.
    pub at_ms: u64,
    /// How long the lease may have been without a living holder before, in ms.
    pub gap_ms: u64,
    /// Why it changed hands.
    pub how: How,
    /// Who had it before.
    pub from: Option<String>,
}

/// Why the lease got a new epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// Nobody ever had it.
    First,
    /// Its holder gave it up in good order.
    Resigned,
    /// Its holder's process was gone.
    Gone,
    /// Its holder was silent for too long.
    Expired,
    /// The holder itself needed a higher epoch.
    Raised,
}

/// A failed message, its text perhaps cut short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FailedGlance {
    /// Its sequence number; 0 for bytes that were never a message of this fleet.
    pub seq: u64,
    /// When it failed, in ms on Redis's clock.
    pub at_ms: u64,
    /// The node whose handler rejected it.
    pub node: String,
    /// Why, in the handler's words.
    pub reason: String,
    /// Which attempt it was.
    pub attempt: u64,
    /// The beginning of its text; bytes that are no text are replaced.
    pub text: String,
    /// Whether there is more of it.
    pub cut: bool,
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
    pub(crate) failed: u64,
    pub(crate) latency: Histogram,
}

impl Takeover {
    /// Reads a line of `takeovers`.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        use crate::protocol::answer::exact;
        let [epoch, node, at, gap, how, from] = line.splitn(6, ' ').collect::<Vec<_>>()[..] else {
            return None;
        };
        Some(Self {
            epoch: exact(epoch)?,
            node: node.to_owned(),
            at_ms: exact(at)?,
            gap_ms: exact(gap)?,
            how: match how {
                "first" => How::First,
                "resigned" => How::Resigned,
                "gone" => How::Gone,
                "expired" => How::Expired,
                "raised" => How::Raised,
                _ => return None,
            },
            from: Some(from.to_owned()).filter(|from| !from.is_empty()),
        })
    }
}

impl Snapshot {
    /// Reads it.
    pub async fn read(store: &Store) -> Result<Self, Error> {
        let (reading, server) = tokio::try_join!(store.reading(), store.server())?;
        Ok(Self::of(store.fleet(), reading, server))
    }

    /// Puts together what was read.
    pub(crate) fn of(fleet: &FleetName, reading: Reading, server: ServerInfo) -> Self {
        let Reading {
            roster,
            census,
            takeovers,
            newest,
        } = reading;
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
                (false, _) => "dead",
                (true, true) => "generator",
                (true, false) => "worker",
            };
            let claimed = census.in_hand.get(&listed.node);
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
        node.role != "dead" || node.claimed > 0 || silent_ms < DEAD_SHOWN_MS
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
    use crate::protocol::{Lease, Listed};

    #[test]
    fn a_dead_node_is_shown_for_a_minute_or_as_long_as_it_holds_messages() {
        let listed = |node: &str, seen_ms, present| Listed {
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
            in_hand: [("holds".to_owned(), 1)].into(),
            ..Census::default()
        };
        let (_, nodes) = people(roster, &census);
        let names: Vec<&str> = nodes.iter().map(|node| node.node.as_str()).collect();
        assert_eq!(names, ["alive", "dead", "holds"]);
    }

    #[test]
    fn a_takeover_reads_back_and_nonsense_does_not() {
        assert_eq!(
            Takeover::parse("7 n1 1700 31 gone n0"),
            Some(Takeover {
                epoch: 7,
                node: "n1".to_owned(),
                at_ms: 1700,
                gap_ms: 31,
                how: How::Gone,
                from: Some("n0".to_owned()),
            })
        );
        let first = Takeover::parse("1 n1 1700 0 first ").map(|takeover| takeover.from);
        assert_eq!(first, Some(None));
        for bad in [
            "",
            "7 n1 1700 31 gone",
            "x n1 1 1 gone n0",
            "7 n1 1 1 flown n0",
        ] {
            assert_eq!(Takeover::parse(bad), None, "{bad}");
        }
    }
}
