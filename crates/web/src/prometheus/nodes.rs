//! The metrics of single nodes.

use baton::inspect::{Counters, Histogram, NodeRole, NodeStatus, Snapshot};

use super::exposition::{Exposition, MAX_LABEL_CHARS, labels};
use super::seconds_since;

/// The exposition has at most this many nodes: each is some twenty series in a database.
const MAX_NODES: usize = 1000;

/// The samples of one node.
pub(super) struct NodeSamples {
    pub(super) labels: String,
    published: u64,
    processed: u64,
    failed: u64,
    delayed: u64,
    has_handler_trouble: bool,
    has_publish_trouble: bool,
    latency: Histogram,
    beat: Option<BeatSamples>,
}

/// The samples that only a snapshot has.
struct BeatSamples {
    info: String,
    claimed: u64,
    has_durability_trouble: bool,
    seen_s: f64,
}

impl NodeSamples {
    /// A node of a snapshot.
    fn listed(snapshot: &Snapshot, node: &NodeStatus) -> Self {
        Self {
            labels: labels(&[("fleet", &snapshot.fleet), ("node", &node.node)]),
            published: node.published,
            processed: node.processed,
            failed: node.failed,
            delayed: node.delayed,
            has_handler_trouble: node.handler_trouble.is_some() && node.role != NodeRole::Dead,
            has_publish_trouble: node.publish_trouble.is_some() && node.role != NodeRole::Dead,
            latency: node.latency.clone(),
            beat: Some(BeatSamples::of(snapshot, node)),
        }
    }

    /// The node of this process, from its own counters and, if there is one, a snapshot.
    pub(super) fn own(
        fleet: &str,
        name: &str,
        counters: &Counters,
        snapshot: Option<&Snapshot>,
    ) -> Self {
        let beat = snapshot.and_then(|snapshot| {
            let node = snapshot.nodes.iter().find(|node| node.node == name)?;
            Some(BeatSamples::of(snapshot, node))
        });
        Self {
            labels: labels(&[("fleet", fleet), ("node", name)]),
            published: counters.published,
            processed: counters.processed,
            failed: counters.failed,
            delayed: counters.delayed,
            has_handler_trouble: counters.handler_trouble.is_some(),
            has_publish_trouble: counters.publish_trouble.is_some(),
            latency: counters.latency.clone(),
            beat,
        }
    }
}

impl BeatSamples {
    fn of(snapshot: &Snapshot, node: &NodeStatus) -> Self {
        Self {
            info: labels(&[
                ("fleet", &snapshot.fleet),
                ("node", &node.node),
                ("host", &node.host),
                ("pid", &node.pid.to_string()),
                ("version", &node.version),
            ]),
            claimed: node.claimed,
            has_durability_trouble: node.durability_trouble.is_some()
                && node.role != NodeRole::Dead,
            seen_s: seconds_since(snapshot, node.seen_ms),
        }
    }
}

/// The nodes of a snapshot, the living ones first, as many as the exposition has.
pub(super) fn listed(snapshot: &Snapshot) -> Vec<NodeSamples> {
    let mut nodes: Vec<&NodeStatus> = snapshot
        .nodes
        .iter()
        .filter(|node| node.node.len() <= MAX_LABEL_CHARS)
        .collect();
    // Names are unique, but different bytes that are not UTF-8 may become the same text.
    nodes.dedup_by(|a, b| a.node == b.node);
    nodes.sort_by_key(|node| node.role == NodeRole::Dead);
    let nodes = nodes.into_iter().take(MAX_NODES);
    nodes
        .map(|node| NodeSamples::listed(snapshot, node))
        .collect()
}

type Count = fn(&NodeSamples) -> u64;

/// Writes the metrics of these nodes.
pub(super) fn write(out: &mut Exposition, nodes: &[NodeSamples]) {
    let counters: [(&str, &str, Count); 4] = [
        (
            "baton_node_published_total",
            "Messages that a node has published.",
            |node| node.published,
        ),
        (
            "baton_node_processed_total",
            "Messages that a node has processed.",
            |node| node.processed,
        ),
        (
            "baton_node_failed_total",
            "Messages that a node has processed and that failed.",
            |node| node.failed,
        ),
        (
            "baton_node_delayed_total",
            "Attempts of a node that failed and left their message waiting for the next one.",
            |node| node.delayed,
        ),
    ];
    for (name, help, value) in counters {
        out.counter(
            name,
            help,
            nodes.iter().map(|node| (&node.labels, value(node))),
        );
    }
    out.gauge(
        "baton_node_handler_trouble",
        "1 if the node's handler cannot work, whatever the message: it gives messages back.",
        nodes
            .iter()
            .map(|node| (&node.labels, u8::from(node.has_handler_trouble))),
    );
    out.gauge(
        "baton_node_publish_trouble",
        "1 if the node generates and the server takes no messages of it, such as with full memory.",
        nodes
            .iter()
            .map(|node| (&node.labels, u8::from(node.has_publish_trouble))),
    );
    out.histogram(
        "baton_message_latency_seconds",
        "Time from publish to commit of the messages that a node has processed.",
        nodes
            .iter()
            .map(|node| (node.labels.as_str(), &node.latency)),
    );
    let beats = || {
        nodes
            .iter()
            .filter_map(|node| Some((node, node.beat.as_ref()?)))
    };
    if beats().next().is_none() {
        return;
    }
    out.gauge(
        "baton_node_claimed",
        "Messages that a node has claimed.",
        beats().map(|(node, beat)| (&node.labels, beat.claimed)),
    );
    out.gauge(
        "baton_node_durability_trouble",
        "1 if the node's writes are not confirmed at its durability.",
        beats().map(|(node, beat)| (&node.labels, u8::from(beat.has_durability_trouble))),
    );
    out.gauge(
        "baton_node_last_seen_seconds",
        "Time since a node's last beat.",
        beats().map(|(node, beat)| (&node.labels, beat.seen_s)),
    );
    out.gauge(
        "baton_node_info",
        "Always 1; the labels are what a node says about itself.",
        beats().map(|(_, beat)| (&beat.info, 1)),
    );
}
