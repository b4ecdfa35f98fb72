//! A fleet at one moment: its generator, its nodes, where every message is, how the lease
//! changed hands, which messages failed last.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::node::meter::Histogram;
use crate::observe::durability::{DurabilityStatus, level_of};
use crate::observe::health;
use crate::observe::partitions::{self, Messages, PartitionSnapshot};
use crate::{Error, FleetName};
use baton_protocol::bounds::MAX_TTL_MS;
use baton_protocol::{Census, FleetState, Partitions, Roster};
use baton_protocol::{FailedPreview, Paused, ServerInfo, Takeover, TakeoverCause};

/// Max reasons in the list of handlers that cannot work, and max nodes that a reason names.
const MAX_TROUBLES: usize = 5;
const MAX_NAMED_NODES: usize = 3;
/// Max characters of a node's name in that list.
const MAX_NAME_CHARS: usize = 64;
/// Max characters of a reason why a handler cannot work.
const MAX_REASON_CHARS: usize = 200;

/// How long a snapshot lists a dead node that has claimed nothing.
const DEAD_LISTED_MS: u64 = 60_000;

/// A fleet at one moment. Redis reads all of it in one atomic step, so its numbers fit together;
/// only `server`, and what `durability` and `warnings` say of it, is read apart.
///
/// Of a fleet of several partitions, Redis reads each partition in one atomic step, and the nodes and the
/// lease in another one. The numbers of one partition fit together. Those of the fleet are sums of what
/// was read at nearly the same time. A partition that cannot be read is missing from the sums, and its
/// entry in `partitions` says why.
///
/// ```no_run
/// # async fn print(inspector: &baton::Inspector) -> Result<(), baton::Error> {
/// let snapshot = inspector.snapshot().await?;
/// let generator = snapshot.generator.node.as_deref().unwrap_or("no node");
/// println!("{generator} generates; {} messages wait", snapshot.pending);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct Snapshot {
    /// Name of the fleet.
    pub fleet: String,
    /// The generator and its lease.
    pub generator: GeneratorStatus,
    /// Every node, the generator included, sorted by name. A dead node stays for a minute, or as
    /// long as it has claimed messages.
    pub nodes: Vec<NodeStatus>,
    /// Messages that the generators have published so far.
    pub published: u64,
    /// How many times an operator has given a failed message to the workers again.
    pub retried: u64,
    /// Messages that ended well.
    pub done: u64,
    /// Messages that ended as failed.
    pub failed: u64,
    /// Messages that wait for a worker.
    pub pending: u64,
    /// Messages that workers have claimed.
    pub claimed: u64,
    /// Messages that wait for their next attempt.
    pub delayed: u64,
    /// Messages that Redis acknowledged and that are lost: a failover or a restart forgot them, and no
    /// node could send them again. `published` still counts them.
    pub void: u64,
    /// When the first delayed message is due, in ms on Redis's clock.
    pub next_due_ms: Option<u64>,
    /// Failed messages in the errors store, those included that a drain or take has claimed.
    pub errors: u64,
    /// Entries of the queue that were no messages of this fleet; they are in the errors store.
    pub foreign: u64,
    /// Failed messages that were dropped: because of their age
    /// ([`NodeBuilder::keep_errors`](crate::NodeBuilder::keep_errors)), or by hand. `failed` still
    /// counts them.
    pub dropped: u64,
    /// What an operator has paused, in any partition, since the earliest time.
    pub paused: Paused,
    /// Whether published + retried = done + failed + pending + claimed + delayed + void, in every
    /// partition that could be read.
    pub balanced: bool,
    /// Whether `pending` was counted message by message. It comes from counters if the queue is
    /// very long.
    pub counted: bool,
    /// Redis's clock, in ms.
    pub now_ms: u64,
    /// The latest changes of the lease's holder, newest first.
    pub takeovers: Vec<Takeover>,
    /// The beginnings of the newest failed messages, newest first.
    pub newest: Vec<FailedPreview>,
    /// The server's version and settings.
    pub server: ServerInfo,
    /// What the nodes wait for before they call a write confirmed.
    pub durability: DurabilityStatus,
    /// What can lose messages at that durability on this server, one sentence each.
    pub warnings: Vec<String>,
    /// Why handlers of living nodes cannot work, one sentence for each reason.
    pub handler_troubles: Vec<String>,
    /// Why sources of living nodes cannot go on, one sentence for each reason. These nodes generate no
    /// more.
    pub source_troubles: Vec<String>,
    /// Why the server takes no messages of the generator, such as that its memory is full.
    pub publish_troubles: Vec<String>,
    /// Why writes of living nodes are not confirmed, one sentence for each reason.
    pub durability_troubles: Vec<String>,
    /// Each partition, in order; empty if the fleet has one only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub partitions: Vec<PartitionSnapshot>,
}

impl Snapshot {
    /// What was lost, in a sentence; none if nothing was.
    pub fn loss(&self) -> Option<String> {
        match self.void {
            0 => None,
            1 => Some(
                "1 message that Redis acknowledged is lost: a failover, restart or flush forgot it"
                    .to_owned(),
            ),
            void => Some(format!(
                "{void} messages that Redis acknowledged are lost: a failover, restart or flush forgot \
                 them"
            )),
        }
    }

    /// Why partitions could not be read, one sentence for each reason.
    pub fn partition_troubles(&self) -> Vec<String> {
        partitions::troubles(&self.partitions)
    }

    /// Why the fleet cannot go on at this moment, as far as its nodes say, one sentence each: the server
    /// refuses the generator's messages, no worker's handler can work, or writes are not confirmed. The
    /// same if partitions cannot be read. A watch calls a fleet unhealthy for which that lasts.
    pub fn obstacles(&self) -> Vec<String> {
        let is_paused = self.paused.workers_since_ms.is_some();
        [
            (health::messages_are_refused(self), &self.publish_troubles),
            (
                health::no_handler_can_work(self) && !is_paused,
                &self.handler_troubles,
            ),
            (
                health::writes_are_not_confirmed(self),
                &self.durability_troubles,
            ),
        ]
        .into_iter()
        .filter(|(stands, _)| *stands)
        .flat_map(|(_, troubles)| troubles.iter().cloned())
        .chain(self.partition_troubles())
        .collect()
    }

    /// Whether the lease ends so late that the server's clock must have been ahead when it was
    /// written. The scripts treat such a lease as expired.
    pub fn lease_is_ahead(&self) -> bool {
        self.generator.until_ms > self.now_ms.saturating_add(MAX_TTL_MS)
    }
}

/// The generator and its lease.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct GeneratorStatus {
    /// The generator: the lease's holder, if it is alive and the lease has not expired.
    pub node: Option<String>,
    /// The node that the lease names, alive or not.
    pub holder: Option<String>,
    /// Fencing number of the lease.
    pub epoch: u64,
    /// Since when it generates, in ms on Redis's clock.
    pub since_ms: Option<u64>,
    /// When the lease expires unless it is renewed, in ms on Redis's clock; 0 if no node has it.
    pub until_ms: u64,
}

/// What a node does.
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

/// A node, as Redis and its own last beat describe it.
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
    /// How many of the processed ones failed.
    pub failed: u64,
    /// Attempts that failed and left their message waiting for the next one.
    pub delayed: u64,
    /// Why its handler cannot work, whatever the message; none if it can.
    pub handler_trouble: Option<String>,
    /// Why its source cannot go on; none if it can, as far as the node knows.
    pub source_trouble: Option<String>,
    /// Why the server takes no messages of it, such as `OOM command not allowed when used memory >
    /// 'maxmemory'.`; none if it does, or if the node does not generate.
    pub publish_trouble: Option<String>,
    /// What it waits for before it calls a write confirmed: `none`, `fsync`, or `replicas:2` for two
    /// replicas; none if it does not say.
    pub durability: Option<String>,
    /// Why its writes are not confirmed, such as `1 of 2 replicas have the writes`; none if they are.
    pub durability_trouble: Option<String>,
    /// Messages that it has claimed and not yet ended.
    pub claimed: u64,
    /// The time from publish to commit of all messages that it has processed.
    pub latency: Histogram,
    /// When it joined the line of standbys, in ms on Redis's clock; 0 if it is not in line.
    pub joined_ms: u64,
    /// When it last beat, in ms on Redis's clock.
    pub seen_ms: u64,
}

/// The JSON object that a node sends about itself with every beat.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct About {
    pub(crate) host: String,
    pub(crate) pid: u64,
    pub(crate) version: String,
    pub(crate) published: u64,
    pub(crate) processed: u64,
    pub(crate) failed: u64,
    pub(crate) delayed: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) handler_trouble: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) source_trouble: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) publish_trouble: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) durability: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) durability_trouble: Option<String>,
    pub(crate) latency: Histogram,
}

impl Snapshot {
    /// Reads a snapshot. Without the nodes and the lease there is none; without some partitions there is.
    pub(crate) async fn read(partitions: &Partitions) -> Result<Self, Error> {
        let control = partitions.control();
        let state = async { tokio::try_join!(control.fleet_state(), control.server()) };
        let (state, messages) = tokio::join!(state, Messages::read(partitions));
        let (state, server) = state?;
        Ok(Self::of(control.fleet(), state, messages, server))
    }

    /// The snapshot of these answers; `messages` is none in a fleet of one partition, whose state has them.
    pub(crate) fn of(
        fleet: &FleetName,
        state: FleetState,
        messages: Option<Messages>,
        server: ServerInfo,
    ) -> Self {
        let FleetState {
            roster,
            census,
            takeovers,
            newest,
        } = state;
        let (now_ms, balanced) = (census.now_ms, census.balanced());
        let (census, newest, partitions, balanced) = match messages {
            None => (census, newest, Vec::new(), balanced),
            Some(messages) => {
                let Messages {
                    partitions,
                    census,
                    newest,
                } = messages;
                let is_bad = |one: &PartitionSnapshot| one.trouble.is_none() && !one.balanced;
                let balanced = !partitions.iter().any(is_bad);
                (census, newest, partitions, balanced)
            }
        };
        let (generator, nodes) = generator_and_nodes(roster, &census);
        let handler_troubles = troubles(&nodes, ("handler", "handlers"), "cannot work", |node| {
            node.handler_trouble.as_deref()
        });
        let source_troubles = troubles(&nodes, ("source", "sources"), "cannot go on", |node| {
            node.source_trouble.as_deref()
        });
        let publish_troubles = troubles(
            &nodes,
            ("messages", "messages"),
            "are not accepted",
            |node| node.publish_trouble.as_deref(),
        );
        let durability_troubles =
            troubles(&nodes, ("writes", "writes"), "are not confirmed", |node| {
                node.durability_trouble.as_deref()
            });
        let (durability, warnings) = DurabilityStatus::of(&nodes, &server);
        let takeovers = with_resigned_holders(takeovers);
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
            delayed: census.delayed,
            void: census.void,
            next_due_ms: census.next_due_ms,
            errors: census.errors,
            foreign: census.foreign,
            dropped: census.dropped,
            paused: census.paused,
            balanced,
            counted: census.counted,
            now_ms,
            takeovers,
            newest,
            durability,
            warnings,
            handler_troubles,
            source_troubles,
            publish_troubles,
            durability_troubles,
            partitions,
            server,
        }
    }
}

/// Names the holder that resigned. It had left the lease before the takeover, so it is the node
/// of the takeover before.
fn with_resigned_holders(mut takeovers: Vec<Takeover>) -> Vec<Takeover> {
    for newer in 0..takeovers.len().saturating_sub(1) {
        if takeovers[newer].how == TakeoverCause::Resigned {
            takeovers[newer].from = Some(takeovers[newer + 1].node.clone());
        }
    }
    takeovers
}

/// Why a part of living nodes is in trouble, in words. The part is named twice: as that of nodes with
/// one reason, and in the plural.
fn troubles(
    nodes: &[NodeStatus],
    (what, whats): (&str, &str),
    trouble: &str,
    reason: impl Fn(&NodeStatus) -> Option<&str>,
) -> Vec<String> {
    let mut by_reason = BTreeMap::<&str, Vec<&str>>::new();
    for node in nodes.iter().filter(|node| node.role != NodeRole::Dead) {
        if let Some(reason) = reason(node) {
            by_reason.entry(reason).or_default().push(&node.node);
        }
    }
    let mut reasons = by_reason.into_iter();
    let mut troubles: Vec<String> = reasons
        .by_ref()
        .take(MAX_TROUBLES)
        .map(|(reason, nodes)| {
            let named = nodes.iter().take(MAX_NAMED_NODES);
            let named: Vec<String> = named.map(|node| shortened(node, MAX_NAME_CHARS)).collect();
            let others = match nodes.len() - named.len() {
                0 => String::new(),
                others => format!(" and {others} more"),
            };
            let named = named.join(", ");
            format!("the {what} of {named}{others} {trouble}: {reason}")
        })
        .collect();
    let others: usize = reasons.map(|(_, nodes)| nodes.len()).sum();
    if others > 0 {
        troubles.push(format!("the {whats} of {others} more nodes {trouble}"));
    }
    troubles
}

/// A reason why a handler or a source is in trouble, as long as a beat may carry it.
pub(crate) fn shortened_reason(reason: &str) -> String {
    shortened(reason, MAX_REASON_CHARS)
}

fn shortened(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The generator, and the nodes to list.
fn generator_and_nodes(roster: Roster, census: &Census) -> (GeneratorStatus, Vec<NodeStatus>) {
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
            // A text that is no such object leaves the fields empty.
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
                delayed: about.delayed,
                handler_trouble: about.handler_trouble.as_deref().map(shortened_reason),
                source_trouble: about.source_trouble.as_deref().map(shortened_reason),
                publish_trouble: about.publish_trouble.as_deref().map(shortened_reason),
                durability: about.durability.map(|level| level_of(&level).to_string()),
                durability_trouble: about.durability_trouble.as_deref().map(shortened_reason),
                latency: about.latency,
                joined_ms: listed.joined_ms,
                seen_ms: listed.seen_ms,
            }
        })
        .collect();
    nodes.retain(|node| {
        let silent_ms = now_ms.saturating_sub(node.seen_ms);
        node.role != NodeRole::Dead || node.claimed > 0 || silent_ms < DEAD_LISTED_MS
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
    fn a_dead_node_is_listed_for_a_minute_or_as_long_as_it_has_claimed_messages() {
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
                listed("busy", 1, false),
            ],
        };
        let census = Census {
            claimed_by: [("busy".to_owned(), 1)].into(),
            ..Census::default()
        };
        let (_, nodes) = generator_and_nodes(roster, &census);
        let names: Vec<&str> = nodes.iter().map(|node| node.node.as_str()).collect();
        assert_eq!(names, ["alive", "busy", "dead"]);
    }

    #[test]
    fn a_reason_why_handlers_cannot_work_names_the_living_nodes_that_have_it() {
        let node = |name: &str, role, trouble: Option<&str>| NodeStatus {
            node: name.to_owned(),
            role,
            handler_trouble: trouble.map(str::to_owned),
            ..NodeStatus::default()
        };
        let handler_troubles = |nodes: &[NodeStatus]| {
            troubles(nodes, ("handler", "handlers"), "cannot work", |node| {
                node.handler_trouble.as_deref()
            })
        };
        let mut nodes = vec![
            node("a", NodeRole::Worker, Some("no jq")),
            node("b", NodeRole::Worker, None),
            node("c", NodeRole::Dead, Some("no jq")),
            node("d", NodeRole::Generator, Some("no jq")),
            node("e", NodeRole::Worker, Some("no curl")),
        ];
        assert_eq!(
            handler_troubles(&nodes),
            [
                "the handler of e cannot work: no curl",
                "the handler of a, d cannot work: no jq",
            ]
        );
        // However many nodes and reasons there are, the list is short.
        for n in 0..10 {
            nodes.push(node("f", NodeRole::Worker, Some("no jq")));
            nodes.push(node("g", NodeRole::Worker, Some(&format!("other {n}"))));
        }
        let troubles = handler_troubles(&nodes);
        assert_eq!(troubles.len(), 6);
        assert_eq!(
            (troubles[1].as_str(), troubles[5].as_str()),
            (
                "the handler of a, d, f and 9 more cannot work: no jq",
                "the handlers of 7 more nodes cannot work",
            )
        );
    }

    #[test]
    fn a_reason_of_any_length_is_cut() {
        assert_eq!(shortened_reason("grün"), "grün");
        let long = shortened_reason(&"ü".repeat(5000));
        assert_eq!(long, "ü".repeat(MAX_REASON_CHARS) + "…");
        assert_eq!(
            shortened_reason(&long).chars().count(),
            MAX_REASON_CHARS + 1
        );
    }
}
